#include "models/pooling.h"

#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "models/model.h"
#include "vm/base/error.h"
#include "vm/base/json_fields.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Mode {
  const char* flag;  // a field of the Pooling module's config.json
  const char* name;  // the value of its newer field "pooling_mode"
  std::optional<Pooling> pooling;
};
constexpr Mode kModes[] = {{"pooling_mode_lasttoken", "lasttoken", Pooling::kLast},
                           {"pooling_mode_mean_tokens", "mean", Pooling::kMean},
                           {"pooling_mode_cls_token", "cls", Pooling::kCls},
                           {"pooling_mode_max_tokens", "max", {}},
                           {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", {}},
                           {"pooling_mode_weightedmean_tokens", "weightedmean", {}}};
constexpr const char* kSupported = "supported: lasttoken, mean and cls";

Pooling read_named_mode(const JsonFields& fields) {
  const std::string name = fields.text_or("pooling_mode", "");
  for (const Mode& mode : kModes) {
    if (mode.pooling && name == mode.name) return *mode.pooling;
  }
  fields.fail("pooling_mode", fmt::format("found {}; {}", shown(name), kSupported));
}

Pooling read_mode(const fs::path& file) {
  const json document = parse_json_file(file, ConfigLimits::kMaxFileBytes);
  const JsonFields fields(document, file.string());
  if (fields.has("pooling_mode")) return read_named_mode(fields);
  std::vector<const Mode*> set;
  for (const Mode& mode : kModes) {
    if (fields.boolean_or(mode.flag, false)) set.push_back(&mode);
  }
  if (set.empty()) fields.fail("pooling_mode", fmt::format("missing; {}", kSupported));
  if (set.size() > 1)
    fields.fail(set[1]->flag, fmt::format("true, as is {}; supported: one of them", set[0]->flag));
  if (!set[0]->pooling) fields.fail(set[0]->flag, fmt::format("true; {}", kSupported));
  return *set[0]->pooling;
}

// Paths in modules.json stay inside of the directory.
fs::path module_directory(const fs::path& model_dir, const JsonFields& module) {
  const fs::path path = module.text_or("path", "");
  for (const fs::path& part : path) {
    if (part == ".." || path.is_absolute())
      module.fail("path", fmt::format("found {}; expected a directory of the model", shown(path.string())));
  }
  return model_dir / path;
}

}  // namespace

std::optional<PoolingConfig> read_sentence_transformers(const fs::path& model_dir) {
  const fs::path file = model_dir / "modules.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  // A list at the top, which JsonFields reads as the member of an object.
  const json document = {{"modules", parse_json_file(file, ConfigLimits::kMaxFileBytes)}};
  const JsonFields fields(document, file.string());
  const json* modules = fields.find("modules");
  if (modules == nullptr || !modules->is_array()) fields.fail("modules", "expected a list");
  std::optional<Pooling> pooling;
  bool normalize = false;
  for (size_t i = 0; i < modules->size(); ++i) {
    const JsonFields module = fields.element("modules", i);
    const std::string type = module.text_or("type", "");
    const std::string_view name = std::string_view(type).substr(type.rfind('.') + 1);
    if (name == "Pooling") {
      pooling = read_mode(module_directory(model_dir, module) / "config.json");
    } else if (name == "Normalize") {
      normalize = true;
    } else if (name != "Transformer") {
      module.fail("type",
                  fmt::format("found {}; supported: Transformer, Pooling and Normalize", shown(type)));
    }
  }
  if (!pooling) return std::nullopt;
  return PoolingConfig{*pooling, normalize};
}

}  // namespace serval

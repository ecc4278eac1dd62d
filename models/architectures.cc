#include "models/architectures.h"

#include <system_error>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "models/architecture.h"
#include "models/checkpoint/quantised/quantisation.h"
#include "models/checkpoint/tied_weights.h"
#include "models/generation_config.h"
#include "models/llama/config.h"
#include "vm/base/json_fields.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

using nlohmann::json;

// Add one line for each family.
std::vector<Architecture> architectures() {
  std::vector<Architecture> all;
  for (const Architecture& llama : llama_architectures()) all.push_back(llama);
  return all;
}

// "supported: X, Y", where X, Y are text(architecture).
template <class Text>
std::string supported(Text&& text) {
  std::vector<std::string> texts;
  for (const Architecture& architecture : architectures()) texts.push_back(text(architecture));
  return fmt::format("supported: {}", fmt::join(texts, ", "));
}

std::string type_text(const Architecture& architecture) {
  return fmt::format("\"{}\"", architecture.model_type);
}

std::string class_text(const Architecture& architecture) {
  return fmt::format("[\"{}\"]", architecture.class_name);
}

// transformers' class of the same model without its LM head: "Qwen3Model" for "Qwen3ForCausalLM".
std::string headless_class(const Architecture& architecture) {
  std::string name = architecture.class_name;
  return name.substr(0, name.find("ForCausalLM")) + "Model";
}

bool is_class_of(const Architecture& architecture, const json& class_names) {
  return class_names == json::array({architecture.class_name}) ||
         class_names == json::array({headless_class(architecture)});
}

// Either field may be missing. If both exist, they must name the same architecture.
Architecture find_architecture(const JsonFields& fields) {
  const json* class_names = fields.find("architectures");
  const json* model_type = fields.find("model_type");
  if (class_names == nullptr && model_type == nullptr)
    fields.fail("architectures", "missing; " + supported(class_text));
  bool type_is_known = false;
  for (const Architecture& architecture : architectures()) {
    if (model_type != nullptr && *model_type != architecture.model_type) continue;
    type_is_known = true;
    if (class_names == nullptr || is_class_of(architecture, *class_names)) return architecture;
  }
  if (!type_is_known)
    fields.fail("model_type", fmt::format("found {}; {}", shown(*model_type), supported(type_text)));
  fields.fail("architectures", fmt::format("found {}; {}", shown(*class_names), supported(class_text)));
}

std::unique_ptr<Model> read_named(const json& document, const std::string& source, std::string name) {
  const JsonFields fields(document, source);
  std::unique_ptr<Model> model = find_architecture(fields).read(fields);
  (void)read_quantisation(fields);  // refuses what loading the weights would refuse
  model->name = std::move(name);
  return model;
}

// True for a dangling symbolic link too, so that reading it reports the error.
bool has_entry(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

std::string directory_name(const std::filesystem::path& dir) {
  const std::filesystem::path path = std::filesystem::absolute(dir).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

std::shared_ptr<const Model> read_model(const std::filesystem::path& model_dir) {
  const std::filesystem::path config = model_dir / "config.json";
  std::unique_ptr<Model> model = read_named(parse_json_file(config, ConfigLimits::kMaxFileBytes),
                                            config.string(), directory_name(model_dir));
  const std::filesystem::path generation = model_dir / "generation_config.json";
  if (has_entry(generation)) {
    const json document = parse_json_file(generation, ConfigLimits::kMaxFileBytes);
    read_generation_config(JsonFields(document, generation.string()), *model);
  }
  (void)read_quantisation(model_dir);  // also in the files beside config.json
  untie_differing_weights(model_dir, *model);
  return model;
}

std::shared_ptr<const Model> parse_model(std::string_view json_text, const std::string& name) {
  return read_named(parse_json_text(json_text, name), name, name);
}

std::shared_ptr<const Model> parse_model_tree(const json& config, const std::string& source,
                                              const std::string& name) {
  return read_named(config, source, name);
}

}  // namespace serval

#include "models/checkpoint/quantised/quantisation.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <system_error>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "models/checkpoint/quantised/methods.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

using nlohmann::json;
using Limits = QuantisationLimits;

struct Method {
  const char* name;  // "quant_method"
  Quantisation (*read)(const JsonFields& fields);
};
constexpr Method kMethods[] = {
    {"awq", read_awq},
    {"compressed-tensors", read_compressed_tensors},
    {"fbgemm_fp8", read_fbgemm_fp8},
    {"fp8", read_fp8},
    {"gptq", read_gptq},
    {"modelopt", read_modelopt},
};

// A file beside config.json, from times before "quantization_config", and the method that it means unless it
// says otherwise.
struct OtherFile {
  const char* name;
  const char* method;
};
constexpr OtherFile kOtherFiles[] = {
    {"hf_quant_config.json", "modelopt"}, {"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}};

constexpr const char* kMethodKey = "quant_method";

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

Quantisation read_method(const JsonFields& fields, const std::string& name) {
  for (const Method& method : kMethods) {
    if (name != method.name) continue;
    Quantisation quantisation = method.read(fields);
    quantisation.method = name;
    return quantisation;
  }
  std::vector<const char*> names;
  for (const Method& method : kMethods) names.push_back(method.name);
  fields.fail(kMethodKey, name.empty()
                              ? "missing"
                              : fmt::format("found {}; supported: {}", shown(name), fmt::join(names, ", ")));
}

bool is_embedding(std::string_view module) {
  return module.ends_with("embed_tokens");
}

bool has_entry(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

bool is_empty(const json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  return (value.is_array() || value.is_object()) && value.empty();
}

}  // namespace

const WeightScheme* Quantisation::scheme_of(std::string_view module) const {
  const char* class_name = is_embedding(module) ? "Embedding" : "Linear";
  if (ignored.matches(module) || ignored.names(class_name)) return nullptr;
  for (const Group& group : groups)
    if (!group.has_targets || group.targets.names(module)) return &group.scheme;
  const WeightScheme* found = nullptr;
  const std::string* first_pattern = nullptr;
  for (const Group& group : groups) {
    const std::string* pattern = group.targets.regex_that_matches(module);
    if (pattern == nullptr || (first_pattern != nullptr && *first_pattern <= *pattern)) continue;
    first_pattern = pattern;
    found = &group.scheme;
  }
  for (const Group& group : groups)
    if (found == nullptr && group.targets.names(class_name)) found = &group.scheme;
  return found;
}

std::string Quantisation::text() const {
  std::vector<std::string> texts;
  for (const Group& group : groups) {
    std::string text = scheme_text(group.scheme);
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
  }
  return fmt::format("{}: {}", method, fmt::join(texts, ", "));
}

std::optional<Quantisation> read_quantisation(const JsonFields& config) {
  const bool legacy = config.has("compression_config");
  if (legacy && config.has("quantization_config"))
    config.fail("compression_config", "set either this or quantization_config, not both");
  const char* key = legacy ? "compression_config" : "quantization_config";
  if (!config.has(key)) return std::nullopt;
  const JsonFields fields = config.object(key);
  return read_method(fields, fields.text_or(kMethodKey, legacy ? "compressed-tensors" : ""));
}

std::optional<Quantisation> read_quantisation(const std::filesystem::path& model_dir) {
  const std::filesystem::path config = model_dir / "config.json";
  if (!has_entry(config)) return std::nullopt;
  const json document = parse_json_file(config, Limits::kMaxFileBytes);
  if (auto found = read_quantisation(JsonFields(document, config.string()))) return found;
  for (const OtherFile& other : kOtherFiles) {
    const std::filesystem::path file = model_dir / other.name;
    if (!has_entry(file)) continue;
    const json tree = parse_json_file(file, Limits::kMaxFileBytes);
    const JsonFields fields(tree, file.string());
    return read_method(fields, fields.text_or(kMethodKey, other.method));
  }
  return std::nullopt;
}

void refuse_unless_empty(const JsonFields& fields, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const json* value = fields.find(key);
    if (value != nullptr && !is_empty(*value))
      fields.fail(key, fmt::format("found {}; supported: null", shown(*value)));
  }
}

std::string one_of(const JsonFields& fields, const char* key, const std::string& fallback,
                   std::initializer_list<const char*> supported) {
  const std::string found = fields.text_or(key, fallback);
  const std::string text = lower_case(found);
  if (std::ranges::find(supported, text) == supported.end())
    fields.fail(key, fmt::format("{}; supported: {}", found.empty() ? "missing" : "found " + shown(found),
                                 fmt::join(supported, ", ")));
  return text;
}

void read_kv_cache_scheme(const JsonFields& fields, const char* key, Quantisation& quantisation) {
  const json* value = fields.find(key);
  if (value == nullptr || is_empty(*value)) return;
  if (value->is_object()) {
    const JsonFields scheme = fields.object(key);
    scheme.integer_or("num_bits", 8, 8, 8);
    one_of(scheme, "type", "float", {"float"});
  } else {
    one_of(fields, key, "", {"fp8", "static", "dynamic"});
  }
  quantisation.notices.push_back(
      fmt::format("{}: keys and values stay in bf16, not in 8 bits", fields.where(key)));
}

void read_group_size(const JsonFields& fields, const char* key, WeightScheme& scheme) {
  const int64_t size = fields.integer(key, -1, Limits::kMaxBlock);
  if (size == 0) fields.fail(key, fmt::format("found 0, expected -1 or 1 to {}", Limits::kMaxBlock));
  scheme.granularity = size < 0 ? Granularity::kRow : Granularity::kGroup;
  scheme.block_rows = 1;
  scheme.block_cols = size < 0 ? 0 : size;
}

void read_block_size(const JsonFields& fields, const char* key, const json& size, WeightScheme& scheme) {
  const auto is_size = [](const json& number) {
    return number.is_number_integer() && number >= 1 && number <= Limits::kMaxBlock;
  };
  if (!size.is_array() || size.size() != 2 || !is_size(size[0]) || !is_size(size[1]))
    fields.fail(key,
                fmt::format("found {}, expected two integers from 1 to {}", shown(size), Limits::kMaxBlock));
  scheme.granularity = Granularity::kBlock;
  scheme.block_rows = size[0].get<int64_t>();
  scheme.block_cols = size[1].get<int64_t>();
}

}  // namespace serval

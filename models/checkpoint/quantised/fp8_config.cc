#include "fmt/format.h"

#include "models/checkpoint/quantised/methods.h"

namespace serval {
namespace {

Quantisation e4m3_quantisation(const WeightScheme& scheme, ModulePatterns ignored) {
  Quantisation quantisation;
  quantisation.groups.push_back({.has_targets = false, .targets = {}, .scheme = scheme});
  quantisation.ignored = std::move(ignored);
  quantisation.e4m3_inputs = true;
  return quantisation;
}

// Scales of activations that a checkpoint has are not used.
void add_scales_notice(const JsonFields& fields, const char* key, Quantisation& quantisation) {
  quantisation.notices.push_back(
      fmt::format("{}: activations in 8 bits have a scale for each row, not the checkpoint's static ones",
                  fields.where(key)));
}

}  // namespace

Quantisation read_fp8(const JsonFields& fields) {
  one_of(fields, "fmt", "e4m3", {"e4m3", "float8_e4m3fn"});
  one_of(fields, "scale_fmt", "float", {"float", "ue8m0"});
  one_of(fields, "weight_scale_semantics", "inverse", {"inverse"});
  const std::string activations = one_of(fields, "activation_scheme", "dynamic", {"dynamic", "static"});
  WeightScheme scheme{.layout = WeightLayout::kScaled, .granularity = Granularity::kTensorOrRow};
  if (const nlohmann::json* size = fields.find("weight_block_size"))
    read_block_size(fields, "weight_block_size", *size, scheme);
  // AutoFP8, and so vLLM, call the list "ignored_layers".
  const char* list = fields.has("modules_to_not_convert") ? "modules_to_not_convert" : "ignored_layers";
  Quantisation quantisation = e4m3_quantisation(scheme, ModulePatterns(fields, list, PatternSyntax::kPart));
  if (activations == "static") add_scales_notice(fields, "activation_scheme", quantisation);
  read_kv_cache_scheme(fields, "kv_cache_scheme", quantisation);
  return quantisation;
}

Quantisation read_fbgemm_fp8(const JsonFields& fields) {
  return e4m3_quantisation({.layout = WeightLayout::kScaled, .granularity = Granularity::kRow},
                           ModulePatterns(fields, "modules_to_not_convert", PatternSyntax::kPart));
}

Quantisation read_modelopt(const JsonFields& fields) {
  const bool nested = fields.has("quantization");
  const JsonFields object = nested ? fields.object("quantization") : fields;
  const std::string algorithm = one_of(object, "quant_algo", "", {"fp8", "fp8_per_channel_per_token"});
  WeightScheme scheme{.layout = WeightLayout::kScaled, .granularity = Granularity::kTensor};
  if (algorithm != "fp8") scheme.granularity = Granularity::kRow;
  Quantisation quantisation = e4m3_quantisation(
      scheme, ModulePatterns(object, nested ? "exclude_modules" : "ignore", PatternSyntax::kGlob));
  if (algorithm == "fp8") add_scales_notice(object, "quant_algo", quantisation);
  for (const char* key : {"kv_cache_quant_algo", "kv_cache_scheme"})
    read_kv_cache_scheme(object, key, quantisation);
  return quantisation;
}

}  // namespace serval

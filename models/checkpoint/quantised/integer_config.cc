#include "fmt/format.h"

#include "models/checkpoint/quantised/methods.h"

namespace serval {
namespace {

// Both packages read the same values under these pairs of keys.
const char* present(const JsonFields& fields, const char* key, const char* other) {
  return !fields.has(key) && fields.has(other) ? other : key;
}

Quantisation quantisation_of(const WeightScheme& scheme, ModulePatterns ignored) {
  Quantisation quantisation;
  quantisation.groups.push_back({.has_targets = false, .targets = {}, .scheme = scheme});
  quantisation.ignored = std::move(ignored);
  return quantisation;
}

// GPTQModel subtracts 1 from whole words of zero points, and adds it to whole words; AutoGPTQ does so for
// each zero point. They differ where the subtraction borrows, from a zero point of 0.
bool is_written_by_gptqmodel(const JsonFields& fields) {
  if (!fields.has("meta")) return false;
  const nlohmann::json* quantizer = fields.object("meta").find("quantizer");
  if (quantizer == nullptr) return false;
  const auto is_gptqmodel = [](const nlohmann::json& name) {
    return name.is_string() && name.get_ref<const std::string&>().starts_with("gptqmodel");
  };
  if (!quantizer->is_array()) return is_gptqmodel(*quantizer);
  return !quantizer->empty() && is_gptqmodel(quantizer->front());
}

}  // namespace

Quantisation read_gptq(const JsonFields& fields) {
  const int64_t bits = fields.integer("bits", 1, 32);
  if (bits != 4 && bits != 8) fields.fail("bits", fmt::format("found {}; supported: 4 and 8", bits));
  const std::string format =
      one_of(fields, present(fields, "checkpoint_format", "format"), "gptq", {"gptq", "gptq_v2"});
  one_of(fields, "pack_dtype", "int32", {"int32"});
  refuse_unless_empty(fields, {"is_marlin_format", "dynamic", "adapter", "rotation"});
  WeightScheme scheme{.layout = WeightLayout::kGptq,
                      .type = bits == 4 ? CodeType::kUint4 : CodeType::kUint8,
                      .has_zero_points = true,
                      .zeros_less_one = format == "gptq",
                      .zeros_borrow = format == "gptq" && is_written_by_gptqmodel(fields),
                      .needs_g_idx = fields.boolean_or("desc_act", false)};
  read_group_size(fields, "group_size", scheme);
  return quantisation_of(scheme, ModulePatterns(fields, "modules_to_not_convert", PatternSyntax::kPart));
}

Quantisation read_awq(const JsonFields& fields) {
  const char* bits = present(fields, "bits", "w_bit");
  if (fields.integer_or(bits, 4, 1, 32) != 4) fields.fail(bits, "supported: 4");
  one_of(fields, present(fields, "version", "format"), "gemm", {"gemm"});
  if (!fields.boolean_or("zero_point", true)) fields.fail("zero_point", "found false; supported: true");
  WeightScheme scheme{.layout = WeightLayout::kAwq, .type = CodeType::kUint4, .has_zero_points = true};
  read_group_size(fields, present(fields, "group_size", "q_group_size"), scheme);
  return quantisation_of(scheme, ModulePatterns(fields, "modules_to_not_convert", PatternSyntax::kPart));
}

}  // namespace serval

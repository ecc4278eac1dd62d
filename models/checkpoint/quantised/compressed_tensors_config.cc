#include <algorithm>
#include <utility>

#include "fmt/format.h"

#include "models/checkpoint/quantised/methods.h"

namespace serval {
namespace {

using nlohmann::json;
using Limits = QuantisationLimits;

// A list [rows, columns], or in old files the text "ROWSxCOLUMNS".
void read_block_structure(const JsonFields& weights, WeightScheme& scheme) {
  constexpr const char* kKey = "block_structure";
  json size = weights.has(kKey) ? *weights.find(kKey) : json();
  if (size.is_string()) {
    std::string list = '[' + size.get<std::string>() + ']';
    std::ranges::replace(list, 'x', ',');
    if (json parsed = json::parse(list, nullptr, /*allow_exceptions=*/false); !parsed.is_discarded())
      size = std::move(parsed);
  }
  read_block_size(weights, kKey, size, scheme);
}

void read_granularity(const JsonFields& weights, WeightScheme& scheme) {
  // Without a strategy, the group size decides.
  const char* fallback = "tensor";
  if (weights.has("group_size"))
    fallback = weights.integer("group_size", -1, Limits::kMaxBlock) < 0 ? "channel" : "group";
  const std::string strategy = one_of(weights, "strategy", fallback, {"tensor", "channel", "group", "block"});
  if (strategy == "group") return read_group_size(weights, "group_size", scheme);
  if (strategy == "block") return read_block_structure(weights, scheme);
  scheme.granularity = strategy == "channel" ? Granularity::kRow : Granularity::kTensor;
}

// The element type of the weights that a format stores.
CodeType read_type(const JsonFields& weights, const std::string& format) {
  if (format == "pack-quantized") {
    one_of(weights, "type", "int", {"int"});
    const int64_t bits = weights.integer_or("num_bits", 8, 1, 32);
    if (bits != 4 && bits != 8) weights.fail("num_bits", fmt::format("found {}; supported: 4 and 8", bits));
    return bits == 4 ? CodeType::kUint4 : CodeType::kUint8;
  }
  const std::string type = format == "int-quantized"     ? one_of(weights, "type", "int", {"int"})
                           : format == "float-quantized" ? one_of(weights, "type", "int", {"float"})
                                                         : one_of(weights, "type", "int", {"int", "float"});
  weights.integer_or("num_bits", 8, 8, 8);
  return type == "float" ? CodeType::kE4M3 : CodeType::kInt8;
}

WeightScheme read_scheme(const JsonFields& weights, const std::string& format) {
  WeightScheme scheme;
  scheme.layout = format == "pack-quantized" ? WeightLayout::kPacked : WeightLayout::kScaled;
  scheme.type = read_type(weights, format);
  read_granularity(weights, scheme);
  refuse_unless_empty(weights, {"dynamic"});
  scheme.has_zero_points = !weights.boolean_or("symmetric", true);
  const bool packs_zeros =
      scheme.granularity == Granularity::kRow || scheme.granularity == Granularity::kGroup;
  if (scheme.has_zero_points &&
      (scheme.type == CodeType::kE4M3 || (scheme.layout == WeightLayout::kPacked && !packs_zeros)))
    weights.fail("symmetric", "found false; supported: true for this type and strategy");
  return scheme;
}

void read_activations(const JsonFields& group, Quantisation& quantisation) {
  const json* activations = group.find("input_activations");
  if (activations == nullptr || activations->empty() || !quantisation.notices.empty()) return;
  const JsonFields fields = group.object("input_activations");
  if (fields.text_or("type", "int") == "float" && fields.integer_or("num_bits", 8, 1, 32) == 8) {
    quantisation.e4m3_inputs = true;
    return;
  }
  quantisation.notices.push_back(fmt::format("{}: activations stay in bf16, not in {} bits",
                                             group.where("input_activations"),
                                             fields.integer_or("num_bits", 8, 1, 32)));
}

// Other formats of the package: 2:4 sparsity, NVFP4, MXFP4 and more.
std::string read_format(const JsonFields& fields, const std::string& fallback) {
  return one_of(fields, "format", fallback,
                {"pack-quantized", "int-quantized", "float-quantized", "naive-quantized"});
}

}  // namespace

Quantisation read_compressed_tensors(const JsonFields& fields) {
  Quantisation quantisation;
  quantisation.targets_are_complete = true;
  one_of(fields, "quantization_status", "compressed", {"compressed"});
  refuse_unless_empty(fields, {"transform_config"});
  if (fields.has("sparsity_config") && !fields.find("sparsity_config")->empty())
    one_of(fields.object("sparsity_config"), "format", "dense", {"dense"});
  const JsonFields groups = fields.object("config_groups");
  const json& list = *fields.find("config_groups");
  if (list.empty() || list.size() > Limits::kMaxGroups)
    fields.fail("config_groups",
                fmt::format("found {} groups; limit: 1 to {}", list.size(), Limits::kMaxGroups));
  // Groups of several formats have one each.
  const bool mixed = fields.text_or("format", "") == "mixed-precision";
  for (const auto& [name, value] : list.items()) {
    const JsonFields group = groups.object(name.c_str());
    if (!group.has("weights")) group.fail("weights", "missing, or null");
    const std::string format =
        mixed || group.has("format") ? read_format(group, "") : read_format(fields, "");
    refuse_unless_empty(group, {"output_activations"});
    read_activations(group, quantisation);
    quantisation.groups.push_back({.has_targets = true,
                                   .targets = ModulePatterns(group, "targets", PatternSyntax::kNameOrRegex),
                                   .scheme = read_scheme(group.object("weights"), format)});
  }
  read_kv_cache_scheme(fields, "kv_cache_scheme", quantisation);
  quantisation.ignored = ModulePatterns(fields, "ignore", PatternSyntax::kNameOrRegex);
  return quantisation;
}

}  // namespace serval

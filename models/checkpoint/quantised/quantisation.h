// What a model directory says about its quantised weights: "quantization_config" of config.json, or one of
// the files hf_quant_config.json, quantize_config.json and quant_config.json.
//
// A key that changes how weights are computed is obeyed, or refused by name. Keys and values stay 16 bits
// wide, and so do activations that the model has in integers; a notice says so.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/quantised/module_patterns.h"
#include "models/checkpoint/quantised/weight_scheme.h"
#include "vm/base/json_fields.h"

namespace serval {

// Limits of values in these configurations.
struct QuantisationLimits {
  static constexpr int64_t kMaxBlock = int64_t{1} << 20;  // rows or columns that share a scale
  static constexpr size_t kMaxGroups = 1 << 10;           // "config_groups"
  static constexpr int64_t kMaxFileBytes = 1 << 22;
};

// Immutable and thread-safe.
struct Quantisation {
  struct Group {
    bool has_targets = false;  // false: all matrices
    ModulePatterns targets;
    WeightScheme scheme;
  };

  std::string method;         // as in "quant_method"
  std::vector<Group> groups;  // at least one
  ModulePatterns ignored;
  // True if each matrix that a group targets must be stored quantised. Otherwise one that is stored in BF16,
  // F16 or F32 is used as it is.
  bool targets_are_complete = false;
  bool e4m3_inputs = false;          // the model's activations are e4m3, too
  std::vector<std::string> notices;  // each one line: a setting that is not applied

  // How a module's weight, such as "model.layers.0.mlp.up_proj", is stored; null: not quantised.
  const WeightScheme* scheme_of(std::string_view module) const;
  // "gptq: 4-bit integers in groups of 128".
  std::string text() const;
};

// Reads a parsed config.json. nullopt if it has no such object. Throws Error(kRuntime) with file and field
// for a method, a format or a value that is not supported.
std::optional<Quantisation> read_quantisation(const JsonFields& config);

// As above, for a directory, with the files beside config.json if that has no such object. nullopt if the
// directory has no config.json.
std::optional<Quantisation> read_quantisation(const std::filesystem::path& model_dir);

}  // namespace serval

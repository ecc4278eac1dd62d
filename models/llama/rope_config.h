// Reads RoPE's fields in config.json: "rope_theta" and "rope_scaling" (transformers 4), or "rope_parameters",
// which holds both (transformers 5). Formulas and defaults: transformers 5.23, modeling_rope_utils.py.
#pragma once

#include <map>
#include <string>

#include "models/llama/config.h"
#include "vm/base/json_fields.h"

namespace serval {

// Sets all RoPE members of `config`. Its max_position and head_dim must be set.
//
// If the file has both objects, "rope_scaling" is used, as in transformers, and "rope_parameters" must agree
// with it or not scale. rope_theta may be in either object or beside them. "linear" and "yarn" extend
// max_position to the scaled context. "dynamic" equals "default": transformers scales only beyond
// max_position_embeddings, which this model does not exceed.
//
// Throws Error(kRuntime) for fields that disagree, for an unknown type or key, and for a key that the type
// does not use.
void read_rope(const JsonFields& fields, LlamaConfig& config);

// Adds RoPE's entries of Model::parameters(): "rope_theta"; if they apply, "rope_scaling.factor" and the
// other numbers of the scaling under config.json's names, "rope_scaling.attention_factor", and
// "rope_freqs.0", … for the divisors of frequencies.
void add_rope_parameters(const LlamaConfig& config, std::map<std::string, double>& parameters);

}  // namespace serval

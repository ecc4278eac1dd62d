// What config.json says of RoPE: "rope_theta" beside "rope_scaling" (transformers 4), and "rope_parameters"
// (transformers 5), which has both in one object. The formulas and defaults are those of transformers 5.23,
// modeling_rope_utils.py.
#pragma once

#include <map>
#include <string>

#include "models/llama/config.h"
#include "vm/base/json_fields.h"

namespace serval {

// Fills in everything of RoPE; `config` has max_position and head_dim already.
//
// Where the file has both objects, "rope_scaling" says how to scale, as in transformers, provided that
// "rope_parameters" says the same or does not scale. A rope_theta may stand in either and beside them.
// "linear" and "yarn" extend max_position to the stretched context. "dynamic" computes what "default" does:
// transformers stretches only beyond max_position_embeddings, where this model ends.
//
// Throws Error(kRuntime) for statements that disagree, for a type or a key that is not known, and for a key
// that the type does not use.
void read_rope(const JsonFields& fields, LlamaConfig& config);

// What Model::parameters() says of it: "rope_theta", and as far as they apply "rope_scaling.factor" and the
// other numbers of a scaling under config.json's names, "rope_scaling.attention_factor", and "rope_freqs.0"
// and so on for what divides the frequencies.
void add_rope_parameters(const LlamaConfig& config, std::map<std::string, double>& parameters);

}  // namespace serval

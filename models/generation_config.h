// What the files of all models say in the same way: the tokens that begin and end a text, and how to sample.
#pragma once

#include <string>
#include <string_view>

#include "models/model.h"
#include "vm/base/json_fields.h"

namespace serval {

// "bos_token_id" and "eos_token_id", which is one id or a list of them; model.vocab_size is their limit.
// Leaves alone what the fields do not name.
void read_special_tokens(const JsonFields& fields, ModelShape& model);

// generation_config.json: recommended sampling, and token ids, which win over those of config.json.
void read_generation_config(const JsonFields& fields, ModelShape& model);

// The same for the file's text; `source` starts error lines.
void apply_generation_config(std::string_view json_text, const std::string& source, ModelShape& model);

}  // namespace serval

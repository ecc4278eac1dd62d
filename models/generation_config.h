// Fields that all architectures share: BOS and EOS tokens, and recommended sampling.
#pragma once

#include <string>
#include <string_view>

#include "models/model.h"
#include "vm/base/json_fields.h"

namespace serval {

// Reads "bos_token_id" and "eos_token_id" (one id or a list). Ids must be below model.vocab_size. A missing
// field leaves the model's value unchanged.
void read_special_tokens(const JsonFields& fields, ModelShape& model);

// Reads generation_config.json: recommended sampling, and token ids, which replace those of config.json.
void read_generation_config(const JsonFields& fields, ModelShape& model);

// As read_generation_config(), for the file's text. Error lines start with `source`.
void apply_generation_config(std::string_view json_text, const std::string& source, ModelShape& model);

}  // namespace serval

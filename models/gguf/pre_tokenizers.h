// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre, written as in tokenizer.json.
#pragma once

#include <string>
#include <string_view>

namespace serval {

struct GgufPreTokenizer {
  std::string_view name;
  std::string_view json;  // tokenizer.json's "pre_tokenizer" of the models that use it
  bool ignore_merges;     // a word that is in the vocabulary becomes one token without merges
  bool adds_bos;          // default of tokenizer.ggml.add_bos_token
  bool nfc;               // the text is normalised to NFC first
};

// Null if the name is unknown. Several names may mean the same pre-tokenizer.
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);

std::string gguf_pre_tokenizer_names();  // "llama-bpe, …"

}  // namespace serval

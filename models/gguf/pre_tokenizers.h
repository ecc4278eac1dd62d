// The pre-tokenizers that GGUF files name (tokenizer.ggml.pre), in the words of tokenizer.json.
#pragma once

#include <string>
#include <string_view>

namespace serval {

struct GgufPreTokenizer {
  std::string_view name;
  std::string_view json;  // `pre_tokenizer` of the models that use it
  bool ignore_merges;     // a word that is a token is that token
  bool adds_bos;          // where the file does not say
  bool nfc;               // text is normalised first
};

// Null where there is none of that name. Several names may stand for one.
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);

std::string gguf_pre_tokenizer_names();  // "llama-bpe, …"

}  // namespace serval

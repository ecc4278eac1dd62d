// Added tokens that a model's directory lists beside its tokenizer: `added_tokens_decoder` and the named
// tokens of tokenizer_config.json, added_tokens.json, and special_tokens_map.json. They are read as
// transformers 5.23 reads them (PreTrainedTokenizerBase._from_pretrained, TokenizersBackend.__init__); its
// order of precedence is that of merge_added_tokens().
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace serval {

// What the directory has beside the tokenizer; null where a file is missing.
struct AddedTokenFiles {
  std::filesystem::path directory;
  nlohmann::json config;        // tokenizer_config.json
  nlohmann::json added_tokens;  // added_tokens.json: {content: id}
  nlohmann::json special;       // special_tokens_map.json: {"bos_token": content or object, …}

  // Throws Error(kRuntime) for a file that cannot be read or is not JSON.
  static AddedTokenFiles read(const std::filesystem::path& directory);
};

// Puts what the files say into a tokenizer.json's tree and into `files.config`:
// 1. `added_tokens_decoder` adds tokens, and its flags win over those of the tree; a token is special if one
//    of them says so. Where there is a decoder, added_tokens.json and special_tokens_map.json are not used.
// 2. Without it, added_tokens.json adds tokens, and special_tokens_map.json's named tokens replace the
//    configuration's, which is warned of where they differ.
// 3. Named tokens (bos_token, eos_token, …, additional_special_tokens) that the vocabulary has become special
//    added tokens, unless they are added tokens already.
//
// Throws Error(kRuntime) with one line that names the file and the field, also where two files give a token
// different ids.
void merge_added_tokens(nlohmann::json& tokenizer, AddedTokenFiles& files);

}  // namespace serval

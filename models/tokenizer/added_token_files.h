// Added tokens in the files beside the tokenizer: `added_tokens_decoder` and the named tokens of
// tokenizer_config.json, added_tokens.json, and special_tokens_map.json. Follows transformers 5.23
// (PreTrainedTokenizerBase._from_pretrained, TokenizersBackend.__init__).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace serval {

// The files beside the tokenizer; null if a file is missing.
struct AddedTokenFiles {
  std::filesystem::path directory;
  nlohmann::json config;        // tokenizer_config.json
  nlohmann::json added_tokens;  // added_tokens.json: {content: id}
  nlohmann::json special;       // special_tokens_map.json: {"bos_token": content or object, …}

  // Throws Error(kRuntime) for a file that cannot be read or is not JSON.
  static AddedTokenFiles read(const std::filesystem::path& directory);
};

// Merges the files into a tokenizer.json's tree and `files.config`, in transformers' order of precedence:
// 1. `added_tokens_decoder` adds tokens, and its flags replace those of the tree; a token is special if one
// of
//    them says so. If it exists, added_tokens.json and special_tokens_map.json are not used.
// 2. Without it, added_tokens.json adds tokens, and the named tokens of special_tokens_map.json replace those
//    of the configuration, with a warning if they differ.
// 3. Named tokens (bos_token, eos_token, …, additional_special_tokens) that are in the vocabulary become
//    special added tokens, unless they are added tokens already.
//
// Throws Error(kRuntime) with one line that names the file and the field, for example if two files give a
// token different ids.
void merge_added_tokens(nlohmann::json& tokenizer, AddedTokenFiles& files);

}  // namespace serval

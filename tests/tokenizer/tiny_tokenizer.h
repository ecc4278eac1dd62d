// A small valid tokenizer.json that tests modify: the 256 bytes, "ab", "abc" and two added tokens.
#pragma once

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>

#include "models/tokenizer/byte_level.h"
#include "models/tokenizer/tokenizer.h"
#include "vm/base/error.h"

namespace serval::tiny {

inline constexpr int kAb = 256, kAbc = 257, kEnd = 258, kTool = 259;

inline nlohmann::json tokenizer_json() {
  nlohmann::json vocab = {{"ab", kAb}, {"abc", kAbc}};
  for (int byte = 0; byte < 256; ++byte)
    vocab[byte_level_encode(std::string(1, static_cast<char>(byte)))] = byte;
  return {{"normalizer", nullptr},
          {"added_tokens",
           {{{"id", kEnd}, {"content", "<end>"}, {"special", true}, {"normalized", false}},
            {{"id", kTool}, {"content", "<tool>"}, {"special", false}, {"normalized", false}}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"post_processor", nullptr},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "ab c"}}}}};
}

inline Tokenizer load(const nlohmann::json& tokenizer) {
  return Tokenizer::from_json(tokenizer.dump());
}

// Runs `action` and returns the message of its Error. Checks its kind, and that the message is one line.
inline std::string error_of(const std::function<void()>& action, ErrorKind kind = ErrorKind::kRuntime) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no Error";
  return "";
}

}  // namespace serval::tiny

// Goldens made by tools/gguf_goldens.py: for each family, hashes of the token ids of the strings in
// tests/data/tokenizer/strings.json.
#pragma once

#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "models/tokenizer/tokenizer.h"
#include "vm/base/json_file.h"

namespace serval {

inline std::filesystem::path gguf_data() {
  return std::filesystem::path(SERVAL_TEST_DATA) / "gguf";
}

// 32-bit FNV-1a of the ids in little-endian order.
inline std::uint32_t hash_of(std::span<const std::int32_t> ids) {
  std::uint32_t hash = 0x811C9DC5;
  for (const std::byte byte : std::as_bytes(ids))
    hash = (hash ^ std::to_integer<std::uint32_t>(byte)) * 0x01000193;
  return hash;
}

inline std::vector<std::string> golden_strings() {
  return parse_json_file(gguf_data().parent_path() / "tokenizer" / "strings.json", kMaxTokenizerFileBytes);
}

inline void expect_golden_tokens(const Tokenizer& tokenizer, const std::string& family) {
  const nlohmann::json goldens = parse_json_file(gguf_data() / "goldens.json", kMaxTokenizerFileBytes);
  const std::vector<std::uint32_t> hashes = goldens["ids"][family];
  const std::vector<std::string> strings = golden_strings();
  ASSERT_GE(strings.size(), 2000U);
  ASSERT_EQ(hashes.size(), strings.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::vector<std::int32_t> ids = tokenizer.encode(strings[i], /*add_special_tokens=*/false);
    EXPECT_EQ(hash_of(ids), hashes[i])
        << i << ": " << nlohmann::json(strings[i]) << " became " << nlohmann::json(ids);
  }
}

}  // namespace serval

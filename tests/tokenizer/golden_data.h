// Goldens made by tools/tokenizer_goldens.py.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/tokenizer/tokenizer.h"
#include "vm/base/json_file.h"

namespace serval::golden {

inline const std::vector<std::string> kNames = {"llama3", "gpt2", "odd"};

inline std::filesystem::path folder() {
  return std::filesystem::path(SERVAL_TEST_DATA) / "tokenizer";
}

inline nlohmann::json read(const std::filesystem::path& name) {
  return parse_json_file(folder() / name, kMaxTokenizerFileBytes);
}

inline Tokenizer tokenizer(const std::string& name) {
  return Tokenizer::load(folder() / name);
}

}  // namespace serval::golden

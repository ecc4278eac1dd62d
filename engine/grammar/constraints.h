// A cache of an engine's constraints, by format.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "engine/grammar/constraint.h"
#include "engine/grammar/format.h"
#include "engine/grammar/token_trie.h"

namespace serval::grammar {

// Keeps the 16 most recently used constraints. Thread-safe.
class Constraints {
 public:
  // Parameters of TokenTrie. Calls `bytes_of` on the thread of the first of_format().
  Constraints(uint32_t vocab, std::function<std::optional<std::string>(int32_t)> bytes_of)
      : vocab_(vocab), bytes_of_(std::move(bytes_of)) {}

  // The constraint to texts of a format. Throws as compile_format() does, and if the tokens of the model
  // cannot spell any of the texts.
  std::shared_ptr<Constraint> of_format(const Format& format);

 private:
  static constexpr size_t kMaxKept = 16;

  std::shared_ptr<const TokenTrie> trie();

  const uint32_t vocab_;
  const std::function<std::optional<std::string>(int32_t)> bytes_of_;
  std::mutex trie_mutex_, mutex_;
  std::shared_ptr<const TokenTrie> trie_;
  std::list<std::pair<std::string, std::shared_ptr<Constraint>>> kept_;  // most recently used first
};

}  // namespace serval::grammar

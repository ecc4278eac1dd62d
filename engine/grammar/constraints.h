// The constraints that requests of one engine ask for.
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
#include "engine/grammar/token_trie.h"

namespace serval::grammar {

// Compiles a schema once, as long as it is among those that were asked for last. Thread-safe.
class Constraints {
 public:
  // As TokenTrie's; called once something is asked for, on that thread.
  Constraints(uint32_t vocab, std::function<std::optional<std::string>(int32_t)> bytes_of)
      : vocab_(vocab), bytes_of_(std::move(bytes_of)) {}

  // Of values that are valid under a schema; an empty one: of any JSON object. Throws as
  // compile_json_schema().
  std::shared_ptr<Constraint> of_schema(const std::string& schema);

 private:
  static constexpr size_t kMaxKept = 16;

  std::shared_ptr<const TokenTrie> trie();

  const uint32_t vocab_;
  const std::function<std::optional<std::string>(int32_t)> bytes_of_;
  std::mutex trie_mutex_, mutex_;
  std::shared_ptr<const TokenTrie> trie_;
  std::list<std::pair<std::string, std::shared_ptr<Constraint>>> kept_;  // asked for last: first
};

}  // namespace serval::grammar

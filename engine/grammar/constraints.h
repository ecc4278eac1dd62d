// A cache of an engine's constraints.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "engine/grammar/answer_grammar.h"
#include "engine/grammar/constraint.h"
#include "engine/grammar/markers.h"
#include "engine/grammar/token_trie.h"

namespace serval::grammar {

// Keeps the 16 most recently used constraints. Thread-safe.
class Constraints {
 public:
  using BytesOf = std::function<std::optional<std::string>(int32_t)>;

  // Parameters of TokenTrie. Calls `bytes_of` on the thread of the first of_schema() or of_answer().
  Constraints(uint32_t vocab, BytesOf bytes_of, const MarkerTokens& markers = {})
      : vocab_(vocab), bytes_of_(std::move(bytes_of)), markers_(markers) {}

  // The constraint to valid values of `schema`; to any JSON object if `schema` is empty. Throws as
  // compile_json_schema() does.
  std::shared_ptr<Constraint> of_schema(const std::string& schema);

  // An answer without calls and reasoning: a key that differs for different grammars, and the grammar.
  struct Content {
    std::string key;
    std::function<Grammar()> grammar;
  };
  static Content content_of_schema(const std::string& schema);
  // The constraint to answers of these rules, whose markers are set here. Without `content`, what is no call
  // may be any text. Throws as answer_grammar() and `content` do.
  std::shared_ptr<Constraint> of_answer(AnswerRules rules, const std::optional<Content>& content);
  const MarkerTokens& markers() const { return markers_; }

 private:
  static constexpr size_t kMaxKept = 16;

  // A trie in which markers that are tokens have bytes of their own (markers.h), or not.
  std::shared_ptr<const TokenTrie> trie(bool with_markers);
  std::optional<std::string> bytes_with_markers(int32_t token) const;
  std::shared_ptr<Constraint> find_or_make(const std::string& key, bool with_markers,
                                           const std::function<Grammar()>& grammar);

  const uint32_t vocab_;
  const BytesOf bytes_of_;
  const MarkerTokens markers_;
  std::mutex trie_mutex_, mutex_;
  std::shared_ptr<const TokenTrie> trie_, marker_trie_;
  std::list<std::pair<std::string, std::shared_ptr<Constraint>>> kept_;  // most recently used first
};

}  // namespace serval::grammar

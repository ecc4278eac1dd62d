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
#include "engine/grammar/format.h"
#include "engine/grammar/markers.h"
#include "engine/grammar/token_trie.h"

namespace serval::grammar {

// Keeps the 16 most recently used constraints. Thread-safe.
class Constraints {
 public:
  using BytesOf = std::function<std::optional<std::string>(int32_t)>;

  // Parameters of TokenTrie. Calls `bytes_of` on the thread of the first of_format() or of_answer().
  Constraints(uint32_t vocab, BytesOf bytes_of, const MarkerTokens& markers = {})
      : vocab_(vocab), bytes_of_(std::move(bytes_of)), markers_(markers) {}

  // The constraint to texts of a format. Throws as compile_format() does, and if the tokens of the model
  // cannot spell any of the texts.
  std::shared_ptr<Constraint> of_format(const Format& format);

  // The constraint to answers of these rules, whose markers are set here. Without `content`, what is no call
  // may be any text. Throws as answer_grammar() and compile_format() do.
  std::shared_ptr<Constraint> of_answer(AnswerRules rules, const std::optional<Format>& content);
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

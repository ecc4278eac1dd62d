// Rules for text of any kind that certain markers end.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar.h"
#include "engine/grammar/markers.h"

namespace serval::grammar {

// Text up to the first occurrence of a marker, which is part of it, spelled or as a token. Markers that are
// other tokens are not in the text. Deterministic, so that nothing else may follow once the marker is
// complete.
class FreeText {
 public:
  // `after`: the state after the marker. `may_end`: the rule may end in the text.
  FreeText(Grammar& grammar, std::string_view marker, const MarkerTokens& markers, StateId after,
           bool may_end);

  StateId start() const { return states_.front(); }
  // Adds edges from `state` for all bytes that are not in `others`, which continue as from start().
  void continue_from(StateId state, const std::map<uint8_t, StateId>& others);

 private:
  size_t matched_after(size_t matched, uint8_t byte) const;
  void add_edges(StateId from, size_t matched, const std::map<uint8_t, StateId>& others);

  Grammar& grammar_;
  const std::string_view marker_;
  const std::optional<uint8_t> token_byte_;
  const StateId after_;
  std::vector<StateId> states_;  // states_[i]: the text ends with the first i bytes of the marker
};

// Beginnings of a text that lead to a state of their own. Any other text continues as a free text.
class Openings {
 public:
  Openings(Grammar& grammar, FreeText& text) : grammar_(grammar), text_(text), root_(add()) {}

  StateId root() const { return root_; }
  // Adds states that read `word` after spaces; returns the state after it. Words from one state share the
  // states of their common prefix.
  StateId read(StateId from, std::string_view word);
  // Adds a last state of a beginning, which is not part of the free text.
  StateId end(StateId from, std::string_view word);
  // Call once, after all beginnings are added.
  void finish();

 private:
  StateId add();
  StateId step(StateId from, uint8_t byte);

  Grammar& grammar_;
  FreeText& text_;
  std::map<StateId, std::map<uint8_t, StateId>> edges_;
  StateId root_;
};

}  // namespace serval::grammar

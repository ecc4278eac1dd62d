#include "engine/grammar/free_text.h"

#include <string>

namespace serval::grammar {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

}  // namespace

FreeText::FreeText(Grammar& grammar, std::string_view marker, const MarkerTokens& markers, StateId after,
                   bool may_end)
    : grammar_(grammar), marker_(marker), token_byte_(markers.byte_of(marker)), after_(after) {
  for (size_t i = 0; i < marker.size(); ++i) {
    states_.push_back(grammar.add_state());
    if (may_end) grammar.accept(states_.back());
  }
  for (size_t i = 0; i < marker.size(); ++i) add_edges(states_[i], i, {});
}

// Length of the longest beginning of the marker with which the text ends, after `matched` bytes of it and
// `byte`.
size_t FreeText::matched_after(size_t matched, uint8_t byte) const {
  const std::string text = std::string(marker_.substr(0, matched)) + static_cast<char>(byte);
  size_t length = text.size();
  while (!text.ends_with(marker_.substr(0, length))) --length;
  return length;
}

void FreeText::add_edges(StateId from, size_t matched, const std::map<uint8_t, StateId>& others) {
  std::map<uint8_t, StateId> own = others;
  for (const char c : marker_) {
    const auto byte = static_cast<uint8_t>(c);
    const size_t next = matched_after(matched, byte);
    if (next > 0) own.emplace(byte, next == marker_.size() ? after_ : states_[next]);
  }
  for (const auto& [byte, to] : own) grammar_.byte(from, byte, byte, to);
  uint32_t first = 0;
  for (const auto& [byte, to] : own) {
    if (first < byte)
      grammar_.byte(from, static_cast<uint8_t>(first), static_cast<uint8_t>(byte - 1), start());
    first = byte + 1U;
  }
  if (first < kFirstMarkerByte)
    grammar_.byte(from, static_cast<uint8_t>(first), kFirstMarkerByte - 1, start());
  if (token_byte_) grammar_.byte(from, *token_byte_, *token_byte_, after_);
}

void FreeText::continue_from(StateId state, const std::map<uint8_t, StateId>& others) {
  constexpr size_t kNothingMatched = 0;
  add_edges(state, kNothingMatched, others);
}

StateId Openings::add() {
  const StateId state = grammar_.add_end();
  edges_[state];
  return state;
}

StateId Openings::step(StateId from, uint8_t byte) {
  const auto [edge, is_new] = edges_[from].try_emplace(byte, StateId{});
  if (is_new) {
    const StateId next = add();
    edges_[from][byte] = next;
    return next;
  }
  return edge->second;
}

StateId Openings::read(StateId from, std::string_view word) {
  for (const char space : kSpaces) edges_[from].try_emplace(static_cast<uint8_t>(space), from);
  for (const char c : word) from = step(from, static_cast<uint8_t>(c));
  return from;
}

StateId Openings::end(StateId from, std::string_view word) {
  const StateId before = read(from, word.substr(0, word.size() - 1));
  const auto [edge, is_new] = edges_[before].try_emplace(static_cast<uint8_t>(word.back()), StateId{});
  if (is_new) edge->second = grammar_.add_state();
  return edge->second;
}

void Openings::finish() {
  for (const auto& [state, others] : edges_) text_.continue_from(state, others);
}

}  // namespace serval::grammar

#include "engine/grammar/token_trie.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "engine/grammar/utf8_ranges.h"
#include "vm/state/masks.h"

namespace serval::grammar {
namespace {

constexpr size_t kMostTokenBytes = 1024;  // longer tokens are left out

// The UTF-8 state after a byte inside a JSON string; kInvalid for bytes that need an escape.
Utf8State plain_step(Utf8State state, uint8_t byte) {
  constexpr uint8_t kFirstPrintable = 0x20;
  const bool stands_for_itself = byte >= kFirstPrintable && byte != '"' && byte != '\\';
  return stands_for_itself ? utf8_step(state, byte) : Utf8State::kInvalid;
}

// For a node's subtree and each UTF-8 state before it: the largest number of characters that begin in it, or
// kNotPlain if some descendant cannot be read inside a JSON string.
using PlainCharacters = std::array<uint16_t, kUtf8States>;
constexpr uint16_t kNotPlain = std::numeric_limits<uint16_t>::max();

uint16_t plain_characters(std::span<const TokenTrie::Node> nodes, uint32_t node, Utf8State before,
                          const std::vector<PlainCharacters>& below) {
  const Utf8State state = plain_step(before, nodes[node].byte);
  if (state == Utf8State::kInvalid) return kNotPlain;
  uint16_t most = 0;
  for (uint32_t child = node + 1; child < nodes[node].subtree_end; child = nodes[child].subtree_end) {
    const uint16_t of_child = below[child][static_cast<size_t>(state)];
    if (of_child == kNotPlain) return kNotPlain;
    most = std::max(most, of_child);
  }
  return static_cast<uint16_t>(most + (before == Utf8State::kBoundary ? 1 : 0));
}

void mark_plain_nodes(std::vector<TokenTrie::Node>& nodes) {
  std::vector<PlainCharacters> plain(nodes.size());
  for (auto node = static_cast<uint32_t>(nodes.size()); node-- > 0;) {
    for (size_t state = 0; state < kUtf8States; ++state)
      plain[node][state] = plain_characters(nodes, node, static_cast<Utf8State>(state), plain);
    const uint16_t at_boundary = plain[node][static_cast<size_t>(Utf8State::kBoundary)];
    nodes[node].plain_characters = at_boundary == kNotPlain ? 0 : at_boundary;
  }
  std::vector<Utf8State> path = {Utf8State::kBoundary};  // path[i]: the state after i bytes
  for (TokenTrie::Node& node : nodes) {
    path.resize(node.depth);
    node.follows_plain = path.back() == Utf8State::kBoundary;
    path.push_back(plain_step(path.back(), node.byte));
  }
}

}  // namespace

TokenTrie::TokenTrie(uint32_t vocab, const std::function<std::optional<std::string>(int32_t)>& bytes_of)
    : texts_(vocab), plain_tokens_(mask_words(vocab)) {
  std::vector<int32_t> sorted;
  for (uint32_t id = 0; id < vocab; ++id) {
    const auto token = static_cast<int32_t>(id);
    std::optional<std::string> text = bytes_of(token);
    if (!text || text->empty() || text->size() > kMostTokenBytes) continue;
    if (text->size() == 1) bytes_.set(static_cast<uint8_t>(text->front()));
    longest_ = std::max(longest_, static_cast<uint32_t>(text->size()));
    texts_[id] = std::move(*text);
    sorted.push_back(token);
  }
  std::ranges::stable_sort(sorted, {}, [&](int32_t id) -> const std::string& { return text_of(id); });
  add_nodes(sorted);
  mark_plain_nodes(nodes_);
  find_plain_tokens();
}

void TokenTrie::add_nodes(const std::vector<int32_t>& sorted) {
  std::vector<uint32_t> path;  // nodes of the previous text
  std::string before;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes_[path.back()].subtree_end = static_cast<uint32_t>(nodes_.size());
  };
  for (const int32_t token : sorted) {
    const std::string& text = text_of(token);
    const auto [ours, theirs] = std::ranges::mismatch(text, before);
    close(static_cast<size_t>(ours - text.begin()));
    while (path.size() < text.size()) {
      const auto byte = static_cast<uint8_t>(text[path.size()]);
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({.byte = byte,
                        .depth = static_cast<uint16_t>(path.size()),
                        .subtree_end = 0,
                        .first_token = static_cast<uint32_t>(tokens_.size()),
                        .plain_characters = 0,
                        .follows_plain = false});
    }
    tokens_.push_back(token);
    before = text;
  }
  close(0);
}

void TokenTrie::find_plain_tokens() {
  for (const int32_t token : tokens_) {
    Utf8State state = Utf8State::kBoundary;
    uint32_t characters = 0;
    for (const char c : text_of(token)) {
      characters += state == Utf8State::kBoundary ? 1 : 0;
      state = plain_step(state, static_cast<uint8_t>(c));
    }
    if (state == Utf8State::kInvalid) continue;
    most_plain_ = std::max(most_plain_, characters);
    const auto id = static_cast<uint32_t>(token);
    plain_tokens_[id / kTokensOfMaskWord] |= 1U << id % kTokensOfMaskWord;
  }
}

}  // namespace serval::grammar

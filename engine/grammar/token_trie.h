// The texts of a vocabulary as a tree of bytes, for finding all tokens that an automaton can read without
// looking at each.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace serval::grammar {

// Immutable.
class TokenTrie {
 public:
  // `bytes_of(id)`: what token `id` stands for, [0, vocab); none: it is never a part of a text. Tokens
  // without bytes are left out, too.
  TokenTrie(uint32_t vocab, const std::function<std::optional<std::string>(int32_t)>& bytes_of);

  // A node stands for a byte after those of the nodes above. Nodes lie in the order of a walk, each before
  // those below it, and so do their tokens.
  struct Node {
    uint8_t byte;
    uint16_t depth;        // bytes up to here, this one included
    uint32_t behind;       // the first node that is not below this one
    uint32_t first_token;  // of tokens(): its own begin here
    // Where all that lies below, with this byte, can be read inside a JSON string where a character may
    // begin: the most characters that begin in it. 0: where not.
    uint16_t plain_characters;
    // What comes before it can be read inside a JSON string, and a character ends there.
    bool follows_plain;
  };
  std::span<const Node> nodes() const { return nodes_; }
  // Ids of the tokens that end at a node, or also at those below it.
  std::span<const int32_t> tokens_at(uint32_t node) const { return tokens(node, node + 1); }
  std::span<const int32_t> tokens_below(uint32_t node) const { return tokens(node, nodes_[node].behind); }

  // What a token stands for; empty where it is never a part of a text.
  const std::string& text_of(int32_t token) const { return texts_[static_cast<size_t>(token)]; }
  // Tokens that can be read inside a JSON string, a bit each (vm/state/masks.h), and the most characters of
  // one.
  std::span<const uint32_t> plain_tokens() const { return plain_tokens_; }
  // Whether a token is this byte alone.
  bool has_byte(uint8_t byte) const { return bytes_[byte]; }
  uint32_t most_plain_characters() const { return most_plain_; }
  uint32_t longest_token() const { return longest_; }
  uint32_t vocab() const { return static_cast<uint32_t>(texts_.size()); }

 private:
  std::span<const int32_t> tokens(uint32_t first_node, uint32_t last_node) const {
    const uint32_t first = nodes_[first_node].first_token;
    const size_t end = last_node < nodes_.size() ? nodes_[last_node].first_token : tokens_.size();
    return std::span(tokens_).subspan(first, end - first);
  }
  void add_nodes(const std::vector<int32_t>& sorted);
  void find_plain_tokens();

  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;
  std::vector<std::string> texts_;  // of each token
  std::vector<uint32_t> plain_tokens_;
  std::bitset<256> bytes_;
  uint32_t most_plain_ = 0, longest_ = 0;
};

}  // namespace serval::grammar

// A trie of the tokens' bytes, to find all tokens that an automaton can read without testing each one.
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
  // `bytes_of(id)`: the bytes of token `id` in [0, vocab). Tokens with nullopt or without bytes are left out.
  TokenTrie(uint32_t vocab, const std::function<std::optional<std::string>(int32_t)>& bytes_of);

  // A node is a byte after the bytes of its ancestors. Nodes, and their tokens, are in depth-first order.
  struct Node {
    uint8_t byte;
    uint16_t depth;        // number of bytes from the root, including this one
    uint32_t subtree_end;  // index after the last node of the subtree
    uint32_t first_token;  // index in tokens_ of the first token that ends at this node
    // If the bytes from this node to every descendant can be read inside a JSON string at a character
    // boundary: the largest number of characters that begin in them. Else 0.
    uint16_t plain_characters;
    // True if the bytes before this node can be read inside a JSON string and end at a character boundary.
    bool follows_plain;
  };
  std::span<const Node> nodes() const { return nodes_; }
  // Ids of the tokens that end at the node, or anywhere in its subtree.
  std::span<const int32_t> tokens_at(uint32_t node) const { return tokens(node, node + 1); }
  std::span<const int32_t> tokens_below(uint32_t node) const {
    return tokens(node, nodes_[node].subtree_end);
  }

  // A token's bytes; empty if the token was left out.
  const std::string& text_of(int32_t token) const { return texts_[static_cast<size_t>(token)]; }
  // Mask (vm/state/masks.h) of the tokens that can be read inside a JSON string.
  std::span<const uint32_t> plain_tokens() const { return plain_tokens_; }
  // True if some token consists of this byte only.
  bool has_byte(uint8_t byte) const { return bytes_[byte]; }
  // Largest number of characters of one of plain_tokens().
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
  std::vector<std::string> texts_;  // bytes of each token
  std::vector<uint32_t> plain_tokens_;
  std::bitset<256> bytes_;
  uint32_t most_plain_ = 0, longest_ = 0;
};

}  // namespace serval::grammar

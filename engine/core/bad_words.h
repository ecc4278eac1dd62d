// Words that an answer must not contain, as sequences of token ids.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace serval {

// Immutable.
class BadWords {
 public:
  // No sequence may be empty, and every id must be in the vocabulary.
  explicit BadWords(std::vector<std::vector<int32_t>> words) : words_(std::move(words)) {}

  bool empty() const { return words_.empty(); }
  // Clears the bit (vm/state/masks.h) of each token that would complete one of the words after the answer's
  // tokens `generated`, which `pending` follows if it is set.
  void forbid(std::span<uint32_t> mask, std::span<const int32_t> generated,
              std::optional<int32_t> pending) const;

 private:
  std::vector<std::vector<int32_t>> words_;
};

}  // namespace serval

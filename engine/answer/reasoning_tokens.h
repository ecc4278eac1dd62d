// Counts the tokens of an answer's reasoning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/include/serval/chat.h"

namespace serval {

// Follows the text of an answer token by token. Reasoning has the tokens before the one with which </think>
// begins, including those of a <think> that the model writes. Not thread-safe.
class ReasoningTokens {
 public:
  explicit ReasoningTokens(Reasoning reasoning);

  // `text`: the bytes of one token, markers included.
  void add(std::string_view text);
  // True in reasoning that is not closed.
  bool is_open() const { return place_ == Place::kInside; }
  uint32_t count() const { return count_; }

 private:
  enum class Place : uint8_t { kBefore, kInside, kAfter };

  void look_for_begin(std::string_view text);
  void look_for_end();

  Place place_;
  uint32_t count_ = 0;
  std::string tail_;            // the end of the text, as far as a marker may have begun in it
  std::vector<size_t> starts_;  // offsets in `tail_` at which tokens begin
};

}  // namespace serval

// Finds added tokens in text, which is the first step of encoding.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/tokenizer/vocabulary.h"

namespace serval {

// A stretch of the text: an added token, or text between them.
struct TextSegment {
  std::string_view text;
  std::optional<std::int32_t> token;
};

// Immutable, thread-safe. Views the tokens of the vocabulary it was made from, which must outlive it.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(const std::vector<AddedToken>& tokens);

  // Cuts valid UTF-8. Tokens that the filter refuses are left in the text between.
  std::vector<TextSegment> segment(std::string_view text, const TokenFilter& filter) const;

 private:
  // One set of tokens, sorted by content. Where several match, the leftmost begins first and the longest
  // wins.
  class Set {
   public:
    void add(const AddedToken& token) { tokens_.push_back(&token); }
    void sort();
    void segment(std::string_view text, const TokenFilter& filter, std::vector<TextSegment>* out) const;

   private:
    const AddedToken* longest_at(std::string_view rest) const;
    std::vector<const AddedToken*> tokens_;
  };

  Set raw_;         // looked for first, in the text as it is
  Set normalized_;  // looked for in the rest, which would be normalized if there were a normalizer
};

}  // namespace serval

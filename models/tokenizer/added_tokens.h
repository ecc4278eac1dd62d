// Finds added tokens in text, which is the first step of encoding.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "models/tokenizer/text_span.h"
#include "models/tokenizer/vocabulary.h"

namespace serval {

// A stretch of the text: an added token, or text between them.
struct TextSegment {
  std::string_view text;
  std::optional<std::int32_t> token;
};

// Stretches of a text, in order, none empty, in which the filter does not hold: those that only the model's
// template wrote. A token that lies partly in one of them is left in the text.
class TrustedText {
 public:
  TrustedText(std::string_view text, std::span<const TextSpan> spans) : text_(text), spans_(spans) {}

  enum class Share { kNone, kPart, kAll };
  Share share_of(std::string_view piece) const;  // which views the text

 private:
  std::string_view text_;
  std::span<const TextSpan> spans_;
};

// Immutable, thread-safe. Views the tokens of the vocabulary it was made from, which must outlive it.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(const std::vector<AddedToken>& tokens);

  // Cuts valid UTF-8. Tokens that the filter refuses are left in the text between.
  std::vector<TextSegment> segment(std::string_view text, const TokenFilter& filter,
                                   const TrustedText& trusted = {{}, {}}) const;

 private:
  // One set of tokens, sorted by content. Where several match, the leftmost begins first and the longest
  // wins.
  class Set {
   public:
    void add(const AddedToken& token) { tokens_.push_back(&token); }
    void sort();
    void segment(std::string_view text, const TokenFilter& filter, const TrustedText& trusted,
                 std::vector<TextSegment>* out) const;

   private:
    const AddedToken* longest_at(std::string_view rest) const;
    std::vector<const AddedToken*> tokens_;
  };

  Set raw_;         // looked for first, in the text as it is
  Set normalized_;  // looked for in the rest, which would be normalized if there were a normalizer
};

}  // namespace serval

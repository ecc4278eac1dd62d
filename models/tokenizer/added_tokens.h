// Finds added tokens in a text: the first step of encoding.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "models/tokenizer/text_span.h"
#include "models/tokenizer/vocabulary.h"

namespace serval {

// An added token in the text, or the text between two.
struct TextSegment {
  std::string_view text;
  std::optional<std::int32_t> token;
};

// Spans of a text that the model's template wrote, in order, none empty. The token filter does not apply in
// them. A token that overlaps a span only partly is not recognised.
class TrustedText {
 public:
  TrustedText(std::string_view text, std::span<const TextSpan> spans) : text_(text), spans_(spans) {}

  enum class Overlap { kNone, kPart, kAll };
  Overlap overlap_with(std::string_view piece) const;  // `piece` must be a view of the text

 private:
  std::string_view text_;
  std::span<const TextSpan> spans_;
};

// Immutable and thread-safe. `tokens` must outlive it.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(const std::vector<AddedToken>& tokens);

  // Splits valid UTF-8. Tokens that the filter refuses remain text.
  std::vector<TextSegment> segment(std::string_view text, const TokenFilter& filter,
                                   const TrustedText& trusted = {{}, {}}) const;

 private:
  // Tokens sorted by content. The leftmost match wins; of several at one place, the longest.
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

  Set raw_;         // searched first, in the original text
  Set normalized_;  // searched in the rest; `normalized` tokens are refused beside a normalizer
};

}  // namespace serval

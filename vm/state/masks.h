// Which tokens a sequence may draw, a part of the state block, for slots that ask for it (SlotExtra,
// vm/state/slots.h): a bit for each token of the vocabulary, and the position of the token that they are for.
// The host writes it before that token is drawn, also while the pass runs that draws it: `sample` waits. What
// slots have that do not ask is never read.
#pragma once

#include <cstdint>
#include <span>

namespace serval {

inline constexpr uint32_t kTokensOfMaskWord = 32;
inline constexpr uint32_t kAnyPosition = ~0U;  // a mask for whatever is drawn next, and behind it

// Words of one sequence. Bit t % 32 of word t / 32 is 1 if token t may be drawn.
constexpr uint32_t mask_words(uint32_t vocab) {
  return vocab / kTokensOfMaskWord + (vocab % kTokensOfMaskWord != 0 ? 1 : 0);
}

// Words from one slot's mask to the next one's: the position's word follows the bits, and whole lines of 128
// bytes are what a GPU reads fastest.
constexpr uint32_t mask_pitch(uint32_t vocab) {
  constexpr uint32_t kLineWords = 32;
  return (mask_words(vocab) + 1 + kLineWords - 1) / kLineWords * kLineWords;
}

// `token` is in the vocabulary.
constexpr bool mask_allows(std::span<const uint32_t> mask, uint32_t token) {
  return (mask[token / kTokensOfMaskWord] >> token % kTokensOfMaskWord & 1) != 0;
}

// Whether a mask with this position is the one for the token at `position`.
constexpr bool mask_is_for(uint32_t of_mask, uint32_t position) {
  return of_mask == position || of_mask == kAnyPosition;
}

}  // namespace serval

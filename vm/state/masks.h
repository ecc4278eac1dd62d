// Token masks, a part of the state block: which tokens a sequence may draw, for slots with kMasksTokens
// (SlotExtra, vm/state/slots.h). One bit for each token of the vocabulary, and the position of the token that
// the bits are for. The host writes a mask before its token is drawn, possibly while that pass runs: `sample`
// waits. Masks of other slots are never read.
#pragma once

#include <cstdint>
#include <span>

namespace serval {

inline constexpr uint32_t kTokensOfMaskWord = 32;
inline constexpr uint32_t kAnyPosition = ~0U;  // a mask for the next token and all later ones

// Words of one sequence's mask. Bit t % 32 of word t / 32 is 1 if token t may be drawn.
constexpr uint32_t mask_words(uint32_t vocab) {
  return vocab / kTokensOfMaskWord + (vocab % kTokensOfMaskWord != 0 ? 1 : 0);
}

// Words from one slot's mask to the next one's. The position's word follows the bits; the total is a multiple
// of 128 bytes, a GPU's cache line.
constexpr uint32_t mask_pitch(uint32_t vocab) {
  constexpr uint32_t kLineWords = 32;
  return (mask_words(vocab) + 1 + kLineWords - 1) / kLineWords * kLineWords;
}

// `token` must be in the vocabulary.
constexpr bool mask_allows(std::span<const uint32_t> mask, uint32_t token) {
  return (mask[token / kTokensOfMaskWord] >> token % kTokensOfMaskWord & 1) != 0;
}

// True if a mask with position `of_mask` is for the token at `position`.
constexpr bool mask_is_for(uint32_t of_mask, uint32_t position) {
  return of_mask == position || of_mask == kAnyPosition;
}

}  // namespace serval

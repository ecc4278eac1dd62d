// Which tokens a sequence may draw, a part of the state block: a bit for each token of the vocabulary. The
// host fills it in, before each pass, for slots that ask for it (SlotExtra, vm/state/slots.h); the rest is
// never read.
#pragma once

#include <cstdint>
#include <span>

namespace serval {

inline constexpr uint32_t kTokensOfMaskWord = 32;

// Words of one sequence. Bit t % 32 of word t / 32 is 1 if token t may be drawn.
constexpr uint32_t mask_words(uint32_t vocab) {
  return vocab / kTokensOfMaskWord + (vocab % kTokensOfMaskWord != 0 ? 1 : 0);
}

// `token` is in the vocabulary.
constexpr bool mask_allows(std::span<const uint32_t> mask, uint32_t token) {
  return (mask[token / kTokensOfMaskWord] >> token % kTokensOfMaskWord & 1) != 0;
}

}  // namespace serval

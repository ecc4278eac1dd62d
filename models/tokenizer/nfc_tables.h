// Unicode data for NFC. tools/nfc_tables.py generates the definitions.
#pragma once

#include <cstdint>
#include <span>

namespace serval {

struct CanonicalDecomposition {
  std::uint32_t code, first, second;  // second: 0 if `code` decomposes into one character
  bool composes;                      // first and second compose to `code`
};

struct CombiningRange {
  std::uint32_t first, last;  // both inclusive
  std::uint8_t combining_class;
};

// Sorted by code, without Hangul syllables, which are composed by formula.
std::span<const CanonicalDecomposition> canonical_decompositions();
// Sorted. Other characters have class 0.
std::span<const CombiningRange> combining_ranges();

}  // namespace serval

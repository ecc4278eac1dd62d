// The Unicode data that NFC needs; tools/nfc_tables.py writes the definitions.
#pragma once

#include <cstdint>
#include <span>

namespace serval {

struct CanonicalDecomposition {
  std::uint32_t code, first, second;  // second: 0 where there is none
  bool composes;                      // first and second become the code again
};

struct CombiningRange {
  std::uint32_t first, last;  // both inclusive
  std::uint8_t combining_class;
};

// By code; Hangul syllables, which follow a rule, are not among them.
std::span<const CanonicalDecomposition> canonical_decompositions();
// In order. What is in none of them is of class 0.
std::span<const CombiningRange> combining_ranges();

}  // namespace serval

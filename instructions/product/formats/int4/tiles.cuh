// Weights in 4-bit integers or in e4m3, in tiles. Both meet activations in fp16, and share the code of their
// products: ptxas gives the operands of each loop of products registers of their own, of which there are not
// enough for one more loop (C7512).
//
// A lane widens 4-bit codes to the values that they stand for, rounded once to fp16 (int4::value_in_fp16()),
// since the sums of a tile leave no registers for sums of groups. A page has two slabs: a block of codes of
// each unit, then the words of their groups. A slab has 32 columns of each half of a panel, which belong to
// one group, so a page has four boxes of words: of the first slab's two halves, then of the second's, each a
// group's 8 words of each unit. Two boxes may have the same words.
#pragma once

#include <cstdint>

#include "instructions/product/formats/e4m3/operands.cuh"
#include "instructions/product/formats/format_set.cuh"
#include "instructions/product/formats/int4/zero_point.cuh"
#include "vm/layout/int4_image.h"
#include "vm/layout/units.h"
#include "vm/ptx/convert.cuh"
#include "vm/ptx/memory.cuh"

namespace serval::device::formats {

struct CodesOfTiles {
  uint32_t number;  // 0: e4m3; otherwise 4-bit integers in groups of 32, 64 or 128 columns

  __device__ __forceinline__ bool has_groups() const { return number != 0; }
  // The logarithm of a group's columns / 32, and these columns.
  __device__ __forceinline__ uint32_t group_index() const { return number - 1; }
  __device__ __forceinline__ uint32_t group() const { return int4_image::kSmallestGroup << group_index(); }

  static constexpr uint32_t kPieceBytes = int4_image::kBlockBytes;
  static_assert(kPieceBytes == E4M3::kPieceBytes);
  static constexpr uint32_t kHighTerms = E4M3::kHighTerms;  // of e4m3
  static constexpr bool kHasScales = true;
  static constexpr uint32_t kSlabsOfStep = 1;
  static constexpr bool kMayHaveGroups = true;
  static constexpr Operands kOperands = Operands::kFp16;

  // Words in a page: the offset of the first box, bytes of a box, and of a page with its codes.
  static constexpr uint32_t kBoxes = 4;
  static constexpr uint32_t kWordBoxBytes = kTileUnits * int4_image::kGroupBytes;
  static constexpr uint32_t kWordsOffset = kTileUnits * kPieceBytes;
  static constexpr uint32_t kBytesOfUnit = kPieceBytes + kBoxes * int4_image::kGroupBytes;
  // Bytes between the words of two units whose codes are `codes` bytes apart.
  static constexpr __device__ __forceinline__ uint32_t word_bytes(uint32_t codes) {
    return codes / (kPieceBytes / int4_image::kGroupBytes);
  }

  // The offset of the scale of row `row` of a unit.
  __device__ __forceinline__ uint64_t scale_offset(uint32_t cols, uint32_t unit, uint32_t row) const {
    if (!has_groups()) return E4M3::scale_offset(cols, unit, row);
    return int4_image::part_offset(cols, group(), unit, 0) + int4_image::scale_in_part(cols, group(), 0, row);
  }

  using Terms = uint32_t[2][4];
  static __device__ __forceinline__ void load_terms(Terms& terms, uint32_t address, uint32_t second) {
    E4M3::load_terms(terms, address, second);
  }
  // A lane's 4-bit codes of a slab: of the first unit and of the other, a word of each half; and their
  // groups.
  struct Slab {
    uint2 codes[2];
    uint32_t groups[2][2];  // [unit][half]

    // `codes`, `words`: shared addresses of the first unit's; `second`: bytes from its codes to the other's.
    __device__ __forceinline__ Slab(uint32_t codes_at, uint32_t words_at, uint32_t second) {
#pragma unroll
      for (uint32_t unit = 0; unit < 2; ++unit) {
        codes[unit] = ptx::shared_load_two_words(codes_at + unit * second);
#pragma unroll
        for (uint32_t half = 0; half < 2; ++half)
          groups[unit][half] =
              ptx::shared_load_word(words_at + unit * word_bytes(second) + half * kWordBoxBytes);
      }
    }
    // The operands of a step's first two products, or of the others.
    template <bool kHigh>
    __device__ __forceinline__ void widen(Terms& terms) const {
#pragma unroll
      for (uint32_t unit = 0; unit < 2; ++unit) {
        const Values first(groups[unit][0]), second(groups[unit][1]);
        first.widen<kHigh>(codes[unit].x, terms[0][unit], terms[0][2 + unit]);
        second.widen<kHigh>(codes[unit].y, terms[1][unit], terms[1][2 + unit]);
      }
    }
    __device__ __forceinline__ void widen(Terms& low, Terms& high) const {
#pragma unroll
      for (uint32_t unit = 0; unit < 2; ++unit) {
        const Values first(groups[unit][0]), second(groups[unit][1]);
        first.widen<false>(codes[unit].x, low[0][unit], low[0][2 + unit]);
        second.widen<false>(codes[unit].y, low[1][unit], low[1][2 + unit]);
        first.widen<true>(codes[unit].x, high[0][unit], high[0][2 + unit]);
        second.widen<true>(codes[unit].y, high[1][unit], high[1][2 + unit]);
      }
    }
  };

 private:
  // What the word of a group says, in pairs of fp16.
  struct Values {
    ZeroPoint zero;
    uint32_t scale, minimum;  // the minimum is 0 if the group has a zero point

    __device__ __forceinline__ explicit Values(uint32_t word)
        : zero(word),
          scale(ptx::both_low(word)),
          minimum(int4::has_zero_point(word) ? 0 : ptx::both_high(word)) {}
    // The values of columns 0 and 1, and 2 and 3, of the 8 in a word of codes; if kHigh, of 4 to 7.
    template <bool kHigh>
    __device__ __forceinline__ void widen(uint32_t codes, uint32_t& a, uint32_t& b) const {
      const uint32_t four = kHigh ? codes >> 8 : codes;
      a = ptx::fma_fp16_in_order(zero.low(four), scale, minimum);
      b = ptx::fma_fp16_in_order(zero.high(four), scale, minimum);
    }
  };
};

}  // namespace serval::device::formats

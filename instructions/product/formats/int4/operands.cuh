// 4-bit weights in the registers of the tensor cores: a lane widens its codes to the fp16 that
// vm/base/int4.h defines, and multiplies them with activations in fp16. A page has some parts of an image
// (vm/layout/int4_image.h), of whose panels a warp has one in registers at a time.
#pragma once

#include <cstdint>

#include "instructions/product/formats/format_set.cuh"
#include "vm/base/int4.h"
#include "vm/layout/int4_image.h"
#include "vm/layout/page_image.h"
#include "vm/ptx/convert.cuh"
#include "vm/ptx/memory.cuh"
#include "vm/ptx/mma.cuh"

namespace serval::device::formats {

// kPanels: panels in a page, 2 or 4.
template <uint32_t kPanels>
struct Int4 {
  uint32_t group_index;  // groups of 32, 64 or 128 columns

  static constexpr uint32_t kProducts = page_image::kHalfCols / page_image::kProductCols;  // of a panel
  // A lane's part of a whole panel, widened.
  using Page = uint4[kProducts];

  static constexpr uint32_t kPanelsOfPage = kPanels;
  static constexpr uint32_t kPartsOfPage = kPanels / int4_image::kPanelsOfPart;
  static_assert(kPanels % int4_image::kPanelsOfPart == 0);
  static __device__ __forceinline__ uint32_t reader_shift(uint32_t panels) {
    return panels == 1 ? 0 : panels == 2 || kPanels == 2 ? 1 : 2;
  }
  __device__ __forceinline__ uint32_t group() const { return int4_image::kSmallestGroup << group_index; }
  __device__ __forceinline__ uint32_t whole_page_bytes() const {
    return kPartsOfPage * int4_image::whole_part_bytes(group());
  }
  __device__ __forceinline__ uint32_t page_bytes(uint32_t cols, uint32_t page) const {
    const uint32_t last = int4_image::parts(page_image::panels(cols)) - 1, first = page * kPartsOfPage;
    if (first + kPartsOfPage <= last) return whole_page_bytes();
    return (last - first) * int4_image::whole_part_bytes(group()) +
           int4_image::part_bytes(cols, last, group());
  }
  __device__ __forceinline__ uint64_t unit_offset(uint32_t cols, uint32_t unit) const {
    return int4_image::part_offset(cols, group(), unit, 0);
  }

  struct Place {
    uint32_t codes;  // shared address of the lane's first codes
    uint32_t words;  // shared address of the first group's word of the lane's row
    uint32_t half_cols;
  };
  __device__ __forceinline__ Place place(const PanelOfPage& panel, uint32_t lane) const {
    const Part part = part_of(panel);
    const uint32_t in_part = panel.index % int4_image::kPanelsOfPart;
    return {part.address + in_part * int4_image::kPanelBytes + lane * static_cast<uint32_t>(sizeof(uint4)),
            part.words + in_part * panel_word_bytes() + lane / 4 * kWordBytes, panel.half_cols};
  }
  // The scale of row lane / 4 of the unit, the row of the lane's sums.
  __device__ __forceinline__ float scale(const PanelOfPage& panel, uint32_t lane) const {
    return ptx::shared_load_float(part_of(panel).scales + lane / 4 * static_cast<uint32_t>(sizeof(float)));
  }

  // Widens at once, so that a panel which waits for its activations has been widened before. The size of
  // groups is a constant of each of three loops: without branches, loads of groups overlap.
  __device__ __forceinline__ void load(Page& words, const Place& place) const {
    switch (group_index) {
      case 0:
        return load_groups<0>(words, place);
      case 1:
        return load_groups<1>(words, place);
      default:
        return load_groups<2>(words, place);
    }
  }
  // Product j of a panel of any size, from shared memory.
  __device__ __forceinline__ uint4 load_product(const Place& place, uint32_t j) const {
    const uint32_t pair = j / 2, col = pair * page_image::kPairCols;
    const uint2 codes =
        ptx::shared_load_two_words(place.codes + pair / int4_image::kPairsOfBlock * int4_image::kBlockBytes +
                                   pair % int4_image::kPairsOfBlock * static_cast<uint32_t>(sizeof(uint2)));
    uint4 even, odd;
    group_of_col(place, col).widen(codes.x, even.x, even.z, odd.x, odd.z);
    group_of_col(place, place.half_cols + col).widen(codes.y, even.y, even.w, odd.y, odd.w);
    return j % 2 == 0 ? even : odd;
  }
  static __device__ __forceinline__ const uint4& operand(const uint4& words) { return words; }
  static __device__ __forceinline__ void multiply(float (&d)[4], const uint4& a, uint32_t b0, uint32_t b1) {
    ptx::mma_16x8x16_fp16_in_order(d, a, b0, b1);
  }

  static constexpr bool kHasScales = true;
  static constexpr Operands kOperands = Operands::kFp16;

 private:
  static constexpr uint32_t kWordBytes = sizeof(uint32_t);

  // A group's word, expanded to pairs of fp16.
  struct Group {
    uint32_t scale, minimum;         // the minimum is -0 if there is a zero point z
    uint32_t zero_of_low;            // 1024 + z
    uint32_t negative_zero_of_high;  // -(64 + z)

    // Eight codes to four pairs of neighbouring columns.
    __device__ __forceinline__ void widen(uint32_t codes, uint32_t& a, uint32_t& b, uint32_t& c,
                                          uint32_t& d) const {
      const uint32_t further = codes >> 8;
      a = ptx::fma_fp16(ptx::subtract_fp16(ptx::low_nibbles_plus_1024(codes), zero_of_low), scale, minimum);
      b = ptx::fma_fp16(high(codes), scale, minimum);
      c = ptx::fma_fp16(ptx::subtract_fp16(ptx::low_nibbles_plus_1024(further), zero_of_low), scale, minimum);
      d = ptx::fma_fp16(high(further), scale, minimum);
    }
    // Codes less z out of the higher nibbles: (1024 + 16 q) / 16 - (64 + z), which is exact.
    __device__ __forceinline__ uint32_t high(uint32_t codes) const {
      constexpr uint32_t kSixteenth = 0x2C002C00;
      return ptx::fma_fp16(ptx::high_nibbles_plus_1024(codes), kSixteenth, negative_zero_of_high);
    }
  };
  static __device__ __forceinline__ Group group_at(uint32_t address) {
    constexpr uint32_t kBoth = 0x00010001, kNegativeZeros = 0x80008000;
    constexpr uint32_t k1024 = 0x6400, kNegative64 = 0xD400,
                       kOneFrom64 = 16;  // fp16 bits, and those of a step
    const uint32_t word = ptx::shared_load_word(address);
    const bool has_zero = int4::has_zero_point(word);
    const uint32_t zero = has_zero ? int4::zero_point_of(word) : 0;
    return {.scale = ptx::twice_low_half(word),
            .minimum = has_zero ? kNegativeZeros : ptx::twice_high_half(word),
            .zero_of_low = (k1024 + zero) * kBoth,
            .negative_zero_of_high = (kNegative64 + kOneFrom64 * zero) * kBoth};
  }
  template <uint32_t kGroupIndex>
  static __device__ __forceinline__ void load_groups(Page& words, const Place& place) {
    constexpr uint32_t kPairsOfGroup = 1 << kGroupIndex, kPairs = kProducts / 2;
    constexpr uint32_t kHighWords = kPairs / kPairsOfGroup * int4_image::kGroupBytes;
    Group first, second;  // of the lane's columns in each half
#pragma unroll
    for (uint32_t pair = 0; pair < kPairs; pair += int4_image::kPairsOfBlock) {
      const uint4 codes =
          ptx::shared_load(place.codes + pair / int4_image::kPairsOfBlock * int4_image::kBlockBytes);
#pragma unroll
      for (uint32_t i = 0; i < int4_image::kPairsOfBlock; ++i) {
        if ((pair + i) % kPairsOfGroup == 0) {
          const uint32_t at = place.words + (pair + i) / kPairsOfGroup * int4_image::kGroupBytes;
          first = group_at(at);
          second = group_at(at + kHighWords);
        }
        uint4& even = words[(pair + i) * 2];
        uint4& odd = words[(pair + i) * 2 + 1];
        first.widen(i == 0 ? codes.x : codes.z, even.x, even.z, odd.x, odd.z);
        second.widen(i == 0 ? codes.y : codes.w, even.y, even.w, odd.y, odd.w);
      }
    }
  }
  __device__ __forceinline__ Group group_of_col(const Place& place, uint32_t col) const {
    return group_at(place.words + (col / page_image::kPairCols >> group_index) * int4_image::kGroupBytes);
  }
  __device__ __forceinline__ uint32_t panel_word_bytes() const {
    return int4_image::panel_word_bytes(group());
  }

  // Shared addresses of the part that has the panel: its codes, words and scales.
  struct Part {
    uint32_t address, words, scales;
  };
  __device__ __forceinline__ Part part_of(const PanelOfPage& panel) const {
    const uint32_t number = panel.index / int4_image::kPanelsOfPart,
                   first = number * int4_image::kPanelsOfPart;
    const uint32_t address = panel.page + number * int4_image::whole_part_bytes(group());
    const bool is_last = first + int4_image::kPanelsOfPart >= panel.panels;
    const uint32_t before = is_last ? panel.panels - 1 - first : int4_image::kPanelsOfPart - 1;
    const uint32_t half = is_last ? panel.last_half : page_image::kHalfCols;
    const uint32_t words = address + before * int4_image::kPanelBytes + int4_image::code_bytes_of_half(half);
    return {address, words,
            words + before * panel_word_bytes() + int4_image::word_bytes_of_half(half, group())};
  }
};

}  // namespace serval::device::formats

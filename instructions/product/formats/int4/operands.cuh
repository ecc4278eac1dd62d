// 4-bit weights in the registers of the tensor cores: a lane widens its codes, less their zero points, to
// fp16, which is exact, and multiplies them with activations in fp16. Sums of a group are multiplied by the
// group's scale (instructions/product/orders/vector_stream/group_products.cuh). A page has some parts of an
// image (vm/layout/int4_image.h), of whose panels a warp multiplies one at a time.
#pragma once

#include <cstdint>

#include "instructions/product/formats/format_set.cuh"
#include "instructions/product/formats/int4/zero_point.cuh"
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

  static constexpr bool kHasScales = true;
  static constexpr Operands kOperands = Operands::kFp16;
  static constexpr bool kScalesGroups = true;

  // A group's word, in the row of the lane's sums.
  struct Group {
    uint32_t word;

    __device__ __forceinline__ float scale() const { return ptx::fp16_low(word); }
    __device__ __forceinline__ bool has_minimum() const { return !int4::has_zero_point(word); }
    // 0 if the group has a zero point.
    __device__ __forceinline__ float minimum() const { return has_minimum() ? ptx::fp16_high(word) : 0; }
  };
  // Some pairs of products of a panel that are multiplied together: a lane's codes, and the words of
  // kPairs / kPairsOfGroup groups in each half. With one pair a group, of which the panel's groups may have
  // several, a panel may have any number of columns; otherwise it is a whole one.
  template <uint32_t kPairsOf, uint32_t kPairsOfGroup>
  struct Step {
    static constexpr uint32_t kPairs = kPairsOf;
    static constexpr uint32_t kGroups = kPairs / kPairsOfGroup;
    static constexpr bool kOfWholePanel = kPairs > 1;
    static constexpr uint32_t kStepsOfPanel = page_image::kHalfCols / page_image::kPairCols / kPairs;
    uint2 codes[kPairs];  // a word of each half
    Group groups[2][kGroups];

    // Loads step `index`.
    __device__ __forceinline__ void load(const Int4& format, const Place& place, uint32_t index) {
      if constexpr (kOfWholePanel) {
        constexpr uint32_t kBlocks = kPairs / int4_image::kPairsOfBlock;
        constexpr uint32_t kHighWords = kStepsOfPanel * kGroups * int4_image::kGroupBytes;
#pragma unroll
        for (uint32_t i = 0; i < kBlocks; ++i) {
          const uint4 two = ptx::shared_load(place.codes + (index * kBlocks + i) * int4_image::kBlockBytes);
          codes[2 * i] = {two.x, two.y}, codes[2 * i + 1] = {two.z, two.w};
        }
#pragma unroll
        for (uint32_t i = 0; i < kGroups; ++i) {
          const uint32_t at = place.words + (index * kGroups + i) * int4_image::kGroupBytes;
          groups[0][i] = {ptx::shared_load_word(at)};
          groups[1][i] = {ptx::shared_load_word(at + kHighWords)};
        }
      } else {
        const uint32_t col = index * page_image::kPairCols;
        codes[0] = ptx::shared_load_two_words(
            place.codes + index / int4_image::kPairsOfBlock * int4_image::kBlockBytes +
            index % int4_image::kPairsOfBlock * static_cast<uint32_t>(sizeof(uint2)));
        groups[0][0] = format.group_of_col(place, col);
        groups[1][0] = format.group_of_col(place, place.half_cols + col);
      }
    }
    __device__ __forceinline__ bool has_minimum() const {
      bool any = false;
#pragma unroll
      for (uint32_t i = 0; i < kGroups; ++i)
        any = any || groups[0][i].has_minimum() || groups[1][i].has_minimum();
      return any;
    }
    // The codes less their zero points, as operands of the even and the odd product of each pair.
    __device__ __forceinline__ void widen(uint4 (&even)[kPairs], uint4 (&odd)[kPairs]) const {
#pragma unroll
      for (uint32_t i = 0; i < kPairs; ++i) {
        const ZeroPoint first(groups[0][i / kPairsOfGroup].word), second(groups[1][i / kPairsOfGroup].word);
        first.widen(codes[i].x, even[i].x, even[i].z, odd[i].x, odd[i].z);
        second.widen(codes[i].y, even[i].y, even[i].w, odd[i].y, odd[i].w);
      }
    }
  };
  static __device__ __forceinline__ void multiply(float (&d)[4], const uint4& a, uint32_t b0, uint32_t b1) {
    ptx::mma_16x8x16_fp16_in_order(d, a, b0, b1);
  }
  static __device__ __forceinline__ void begin(float (&d)[4], const uint4& a, uint32_t b0, uint32_t b1) {
    ptx::mma_16x8x16_fp16_from_zero_in_order(d, a, b0, b1);
  }
  // The operand with which products are sums of activations.
  static __device__ __forceinline__ uint4 ones() {
    constexpr uint32_t kOnes = 0x3C003C00;
    return {kOnes, kOnes, kOnes, kOnes};
  }

 private:
  static constexpr uint32_t kWordBytes = sizeof(uint32_t);

  __device__ __forceinline__ Group group_of_col(const Place& place, uint32_t col) const {
    return {ptx::shared_load_word(place.words +
                                  (col / page_image::kPairCols >> group_index) * int4_image::kGroupBytes)};
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

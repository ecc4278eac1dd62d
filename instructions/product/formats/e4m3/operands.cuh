// e4m3 weights in the registers of the tensor cores: a lane widens its codes to fp16, which is exact, and
// multiplies them with activations in fp16. A page has two panels (vm/layout/e4m3_image.h), of which a warp
// has one in registers at a time.
#pragma once

#include <cstdint>

#include "instructions/product/formats/format_set.cuh"
#include "vm/layout/e4m3_image.h"
#include "vm/layout/page_image.h"
#include "vm/ptx/convert.cuh"
#include "vm/ptx/memory.cuh"
#include "vm/ptx/mma.cuh"

namespace serval::device::formats {

struct E4M3 {
  static constexpr uint32_t kProducts = page_image::kHalfCols / page_image::kProductCols;  // of a panel
  // A lane's part of a whole panel, widened.
  using Page = uint4[kProducts];

  static constexpr uint32_t kPanelsOfPage = e4m3_image::kPanelsOfPage;
  static __device__ __forceinline__ uint32_t reader_shift(uint32_t /*panels*/) { return 1; }
  static __device__ __forceinline__ uint32_t whole_page_bytes() { return e4m3_image::kPageBytes; }
  static __device__ __forceinline__ uint32_t page_bytes(uint32_t cols, uint32_t page) {
    return e4m3_image::code_bytes(cols, page) + e4m3_image::kScaleBytes;
  }
  static __device__ __forceinline__ uint64_t unit_offset(uint32_t cols, uint32_t unit) {
    return e4m3_image::panel_offset(cols, unit, 0);
  }

  using Place = uint32_t;
  static __device__ __forceinline__ Place place(const PanelOfPage& panel, uint32_t lane) {
    return panel.page + lane * static_cast<uint32_t>(sizeof(uint4)) + panel.index * e4m3_image::kPanelBytes;
  }
  // Widens at once, so that a panel which waits for its activations has been widened before.
  static __device__ __forceinline__ void load(Page& words, Place place) {
#pragma unroll
    for (uint32_t j = 0; j < kProducts; j += 2) {
      const uint4 codes = ptx::shared_load(place + j / 2 * e4m3_image::kPairBytes);
      words[j] = widen(codes.x, codes.y);
      words[j + 1] = widen(codes.z, codes.w);
    }
  }
  // Product j of a panel of any size, from shared memory.
  static __device__ __forceinline__ uint4 load_product(Place place, uint32_t j) {
    const uint4 codes = ptx::shared_load(place + j / 2 * e4m3_image::kPairBytes);
    return j % 2 == 0 ? widen(codes.x, codes.y) : widen(codes.z, codes.w);
  }
  static __device__ __forceinline__ const uint4& operand(const uint4& words) {
    return words;
  }
  static __device__ __forceinline__ void multiply(float (&d)[4], const uint4& a, uint32_t b0, uint32_t b1) {
    ptx::mma_16x8x16_fp16_in_order(d, a, b0, b1);
  }
  // The scale of row lane / 4 of the unit, the row of the lane's sums.
  static __device__ __forceinline__ float scale(const PanelOfPage& panel, uint32_t lane) {
    const uint32_t code_bytes =
        (panel.panels - 1) * e4m3_image::kPanelBytes + e4m3_image::bytes_of_half(panel.last_half);
    return ptx::shared_load_float(panel.page + code_bytes + lane / 4 * static_cast<uint32_t>(sizeof(float)));
  }

  static constexpr bool kScalesGroups = false;  // groups of columns have scales

  // Tiles: as in formats::Bf16, with half as many bytes.
  static constexpr uint32_t kPieceBytes = e4m3_image::kPairBytes;
  static constexpr uint32_t kHighTerms = sizeof(uint2);
  static constexpr bool kHasScales = true;
  static constexpr uint32_t kSlabsOfStep = 1;
  static constexpr bool kMayHaveGroups = false;  // groups of columns have scales, in tiles
  static constexpr Operands kOperands = Operands::kFp16;
  // The scales after a page's two panels are left out.
  static __device__ __forceinline__ uint32_t word_of_slab(uint32_t slab) {
    return e4m3_image::slab_offset(slab) / sizeof(uint32_t);
  }
  // The offset of the scale of row `row` of a unit.
  static __device__ __forceinline__ uint64_t scale_offset(uint32_t cols, uint32_t unit, uint32_t row) {
    return e4m3_image::scale_offset(cols, unit, 0, row);
  }
  using Terms = uint32_t[2][4];
  static __device__ __forceinline__ void load_terms(Terms& terms, uint32_t address, uint32_t second) {
    const uint2 a = ptx::shared_load_two_words(address), b = ptx::shared_load_two_words(address + second);
    ptx::widen_e4m3(a.x, terms[0][0], terms[1][0]);
    ptx::widen_e4m3(b.x, terms[0][1], terms[1][1]);
    ptx::widen_e4m3(a.y, terms[0][2], terms[1][2]);
    ptx::widen_e4m3(b.y, terms[0][3], terms[1][3]);
  }

 private:
  static __device__ __forceinline__ uint4 widen(uint32_t low, uint32_t high) {
    uint4 words;
    ptx::widen_e4m3(low, words.x, words.y);
    ptx::widen_e4m3(high, words.z, words.w);
    return words;
  }
};

}  // namespace serval::device::formats

// bf16 weights in the registers of the tensor cores. A page image (vm/layout/page_image.h) holds the
// registers of the 16-row operand as they are: rows 0-7 of a product are a unit's 8 rows at 16 columns of the
// first half of the panel, rows 8-15 the same rows at 16 columns of the second half.
#pragma once

#include <cstdint>

#include "instructions/product/formats/format_set.cuh"
#include "vm/layout/page_image.h"
#include "vm/ptx/memory.cuh"
#include "vm/ptx/mma.cuh"

namespace serval::device::formats {

struct Bf16 {
  // Products of 16 columns of each half in a whole page.
  static constexpr uint32_t kProducts = page_image::kHalfCols / page_image::kProductCols;
  // A lane's part of a whole page.
  using Page = uint4[kProducts];

  // Pages of an image: panels in one, the logarithm of the number of warps that share a page of a matrix with
  // `panels` panels, a page's bytes if its panels are whole, the bytes of page `page` of a unit, and the
  // offset of a unit.
  static constexpr uint32_t kPanelsOfPage = 1;
  static __device__ __forceinline__ uint32_t reader_shift(uint32_t /*panels*/) { return 0; }
  static __device__ __forceinline__ uint32_t whole_page_bytes() { return kPageBytes; }
  static __device__ __forceinline__ uint32_t page_bytes(uint32_t cols, uint32_t page) {
    return page_image::page_bytes(cols, page);
  }
  static __device__ __forceinline__ uint64_t unit_offset(uint32_t cols, uint32_t unit) {
    return page_image::page_offset(cols, unit, 0);
  }

  // The lane's first address in a page at shared address `page`.
  static __device__ __forceinline__ uint32_t lane_address(uint32_t page, uint32_t lane) {
    return page + lane * static_cast<uint32_t>(sizeof(uint4));
  }
  // A lane's place of a panel.
  using Place = uint32_t;
  static __device__ __forceinline__ Place place(const PanelOfPage& panel, uint32_t lane) {
    return lane_address(panel.page, lane);
  }
  static __device__ __forceinline__ void load(Page& words, uint32_t lane_address) {
#pragma unroll
    for (uint32_t j = 0; j < kProducts; ++j)
      words[j] = ptx::shared_load(lane_address + j * page_image::kProductBytes);
  }
  // Product j of a page of any size, from shared memory.
  static __device__ __forceinline__ uint4 load_product(uint32_t lane_address, uint32_t j) {
    return ptx::shared_load(lane_address + j * page_image::kProductBytes);
  }
  // d += a × b, a page's product with a column of activations in bf16.
  static __device__ __forceinline__ void multiply(float (&d)[4], const uint4& a, uint32_t b0, uint32_t b1) {
    ptx::mma_16x8x16_in_order(d, a, b0, b1);
  }
  // The operand of product j: 16 rows.
  static __device__ __forceinline__ const uint4& operand(const Page& words, uint32_t j) {
    return words[j];
  }
  // The operand of product j: 16 rows.
  static __device__ __forceinline__ const uint4& operand(const uint4& words) {
    return words;
  }
  // The operand of a product whose upper 8 rows are the unit's rows at the second half's columns. The lower 8
  // rows repeat them.
  static __device__ __forceinline__ uint4 second_half(const uint4& words) {
    return {words.y, words.y, words.w, words.w};
  }

  static constexpr bool kScalesGroups = false;  // groups of columns have scales

  // Tiles: a unit's part of a slab, the offset of a step's second half, the slabs of a step, the first word
  // of a slab in a unit, and whether sums have a scale for each row of weights.
  static constexpr uint32_t kPieceBytes = 2 * page_image::kProductBytes;
  static constexpr uint32_t kHighTerms = page_image::kProductBytes;
  static constexpr bool kHasScales = false;
  static constexpr uint32_t kSlabsOfStep = 1;
  static constexpr bool kMayHaveGroups = false;  // groups of columns have scales, in tiles
  static constexpr Operands kOperands = Operands::kBf16;
  static __device__ __forceinline__ uint32_t word_of_slab(uint32_t slab) {
    return slab * (kPieceBytes / sizeof(uint32_t));
  }
  // A warp's operands of a tile's product: 16 rows, of two units, for two products of 16 columns. Loads half
  // of each unit's piece, beginning at `address`: terms[0] for columns in the slab's first 16, terms[1] for
  // those 32 further on. `second`: bytes from the first unit's piece to the other's.
  using Terms = uint32_t[2][4];
  static __device__ __forceinline__ void load_terms(Terms& terms, uint32_t address, uint32_t second) {
    const uint4 a = ptx::shared_load(address), b = ptx::shared_load(address + second);
    terms[0][0] = a.x, terms[0][1] = b.x, terms[0][2] = a.z, terms[0][3] = b.z;
    terms[1][0] = a.y, terms[1][1] = b.y, terms[1][2] = a.w, terms[1][3] = b.w;
  }
};

}  // namespace serval::device::formats

// e4m3 weights that meet e4m3 activations: codes go to the tensor cores as they are. For tiles only.
#pragma once

#include <cstdint>

#include "instructions/product/formats/format_set.cuh"
#include "vm/layout/e4m3_image.h"
#include "vm/layout/e4m3_slab_image.h"
#include "vm/layout/units.h"
#include "vm/ptx/memory.cuh"

namespace serval::device::formats {

struct W8A8 {
  static constexpr uint32_t kPieceBytes = e4m3_image::kPairBytes;
  static constexpr uint32_t kSlabsOfStep = e4m3_slab_image::kSlabsOfSlab;
  static constexpr uint32_t kHighTerms = kTileUnits * kPieceBytes;  // the second half is the second slab
  static constexpr bool kHasScales = true;
  static constexpr bool kMayHaveGroups = false;  // groups of columns have scales, in tiles
  static constexpr Operands kOperands = Operands::kE4M3;
  static __device__ __forceinline__ uint32_t word_of_slab(uint32_t slab) {
    return e4m3_image::slab_offset(slab) / sizeof(uint32_t);
  }
  // The offset of the scale of row `row` of a unit.
  static __device__ __forceinline__ uint64_t scale_offset(uint32_t cols, uint32_t unit, uint32_t row) {
    return e4m3_image::scale_offset(cols, unit, 0, row);
  }
  // A warp's operands of a slab: 16 rows, of two units, for two products of 32 columns. A word has two codes
  // of a column of the slab's first half and the next, then two of its second half: activations have the same
  // order (vm/layout/e4m3_slab_image.h).
  using Terms = uint32_t[2][4];
  static __device__ __forceinline__ void load_terms(Terms& terms, uint32_t address, uint32_t second) {
    const uint4 a = ptx::shared_load(address), b = ptx::shared_load(address + second);
    terms[0][0] = a.x, terms[0][1] = b.x, terms[0][2] = a.y, terms[0][3] = b.y;
    terms[1][0] = a.z, terms[1][1] = b.z, terms[1][2] = a.w, terms[1][3] = b.w;
  }
};

}  // namespace serval::device::formats

// Writes the residual stream on the GPU, and what its next readers need (instructions/common/residual.h).
#pragma once

#include <cstdint>

#include "instructions/common/residual.h"
#include "vm/device/group.cuh"
#include "vm/device/typed_address.cuh"
#include "vm/layout/activation_image.h"
#include "vm/layout/slab_image.h"
#include "vm/ptx/ptx.cuh"

namespace serval::device::residual {

// Sums of groups of kLanes consecutive lanes, neighbours first: every lane gets its group's sum.
template <uint32_t kLanes>
__device__ __forceinline__ float add_neighbours(float value, uint32_t mask) {
#pragma unroll
  for (uint32_t step = 1; step < kLanes; step *= 2) value += __shfl_xor_sync(mask, value, step);
  return value;
}
__device__ __forceinline__ float warp_sum(float value) {
  return add_neighbours<kWarpThreads>(value, ~0u);
}

// Destination of rows of the residual.
struct Place {
  float* residual;      // [rows, cols]
  std::byte* weighted;  // an image of [rows, cols], with its type (vm/device/typed_address.h)
  float* squares;       // [rows, cols / 8]
  uint32_t cols;
  uint32_t slab_rows = 0;  // rows of the image if it is a slab image; 0: an activation image

  // Byte offset of an element in the image.
  __device__ __forceinline__ uint64_t offset(uint32_t row, uint32_t col) const {
    return slab_rows > 0 ? slab_image::offset(slab_rows, cols, row, col)
                         : activation_image::offset(kTableRows, cols, row, col);
  }
};

// Input of the next product, from a unit of the residual.
struct NextInput {
  float weighted, neighbour;  // of the lane's column, and of the other column of its pair
  float squares;              // of the unit
};
// Each of the 8 consecutive lanes in `mask` has one value of a unit.
__device__ __forceinline__ NextInput next_input(float value, uint16_t norm, uint32_t mask) {
  const float weighted = value * ptx::bf16_low(norm);
  const float neighbour = __shfl_xor_sync(mask, weighted, 1);
  return {weighted, neighbour, add_neighbours<kUnitRows>(__fmul_rn(value, value), mask)};
}
// Stores column `col` of row `row`.
__device__ __forceinline__ void store_next_input(const Place& to, uint32_t row, uint32_t col,
                                                 const NextInput& values) {
  if (col % 2 == 0) {
    store_pair(to.weighted + to.offset(row, col), values.weighted, values.neighbour);
  }
  if (col % kUnitRows == 0) {
    ptx::store_relaxed(to.squares + size_t{row} * (to.cols / kUnitRows) + col / kUnitRows, values.squares);
  }
}

// Each of the 8 consecutive lanes in `mask` has one value of a unit: column `col` of row `row`. If `wanted`
// is false, which must be uniform in the 8 lanes, nothing is stored.
__device__ __forceinline__ void store(const Place& to, uint32_t row, uint32_t col, float value, uint16_t norm,
                                      bool wanted, uint32_t mask) {
  const NextInput values = next_input(value, norm, mask);
  if (!wanted) return;
  ptx::store_relaxed(to.residual + size_t{row} * to.cols + col, value);
  store_next_input(to, row, col, values);
}

}  // namespace serval::device::residual

// Helpers of device code that read the operands of any instruction.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/device/isa.h"
#include "vm/device/launch.h"
#include "vm/instruction.h"
#include "vm/program_shape.h"
#include "vm/ptx/memory.cuh"
#include "vm/state/rows.h"

namespace serval::device {

inline constexpr uint32_t kMapBytes = 128;

// The tensor map of a tensor that the copy engine loads in boxes; with `second`, its second map
// (vm/device/isa.h).
__device__ __forceinline__ const std::byte* tensor_map(const BoundProgram& program, TensorId tensor,
                                                       bool second = false) {
  return program.tensor_maps + (size_t{tensor.index} * kMapsOfTensor + (second ? 1 : 0)) * kMapBytes;
}

// True if units [first, first + count) are at least one, at most `most`, and within `all`.
__device__ __forceinline__ bool units_in_range(uint32_t first, uint32_t count, uint32_t most, uint32_t all) {
  return count > 0 && count <= most && first < all && count <= all - first;
}
template <class Op>
__device__ __forceinline__ bool rows_in_range(const Op& op, const ProgramShape& program) {
  return op.first_row < program.limits.rows && op.num_rows <= program.limits.rows - op.first_row;
}

// True if the row is active and, with logits_only, wants logits.
__device__ __forceinline__ bool row_is_computed(const PassRow& row, uint32_t logits_only) {
  const uint4 begin = ptx::load_relaxed(reinterpret_cast<const uint4*>(&row));  // active, wants_logits, …
  return begin.x != 0 && (logits_only == 0 || begin.y != 0);
}

}  // namespace serval::device

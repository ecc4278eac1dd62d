#pragma once

#include "instructions/common/residual.cuh"
#include "instructions/embed/op.h"
#include "vm/device/op.cuh"
#include "vm/device/page_image.h"

namespace serval::device {

template <>
struct DeviceOp<Embed> : GroupOp {
  static __device__ bool in_range(const Embed& op) {
    const uint32_t units = op.hidden / kUnitRows;
    return op.first_unit < units && op.num_units <= units - op.first_unit;
  }

  // Eight neighbouring threads have a unit of a row. The table is a page image, too, since it may also be the
  // LM head's weights.
  static __device__ void run(const Embed& op, const Group& group) {
    const residual::Place to{group.tensor<&Embed::residual, float>(),
                             group.tensor<&Embed::weighted, std::byte>(),
                             group.tensor<&Embed::squares, float>(), op.hidden};
    const auto* norm = group.tensor<&Embed::norm, const uint16_t>();
    const uint32_t unit_lanes = ((1u << kUnitRows) - 1) << (group.lane & ~(kUnitRows - 1));
    const uint32_t cols = op.num_units * kUnitRows;
#pragma unroll 1
    for (uint32_t n = group.thread; n < kMaxRows * cols; n += kGroupThreads) {
      const uint32_t r = n / cols, col = op.first_unit * kUnitRows + n % cols;
      const PassRow& row = group.rows[r];
      if (!row_is_active(row)) continue;
      residual::store(to, r, col, element(op, group, static_cast<uint32_t>(row.token), col),
                      __ldg(norm + col), true, unit_lanes);
    }
  }

 private:
  static __device__ __forceinline__ float element(const Embed& op, const Group& group, uint32_t token,
                                                  uint32_t col) {
    const uint32_t chunk = col / page_image::kChunkCols;
    const auto* from = reinterpret_cast<const uint16_t*>(
        group.tensor<&Embed::table, const std::byte>() +
        page_image::page_offset(op.hidden, token / kUnitRows, chunk) +
        page_image::element_offset(page_image::half_cols(op.hidden, chunk), token % kUnitRows,
                                   col % page_image::kChunkCols));
    return ptx::bf16_low(__ldg(from));
  }
};

}  // namespace serval::device

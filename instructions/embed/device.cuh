#pragma once

#include "instructions/embed/op.h"
#include "vm/device/op.cuh"
#include "vm/device/page_image.h"

namespace serval::device {

template <>
struct DeviceOp<Embed> : GroupOp {
  static __device__ bool in_range(const Embed& op) {
    return op.first_col < op.hidden && op.num_cols <= op.hidden - op.first_col;
  }

  // The table is a page image, too, since it may also be the LM head's weights.
  static __device__ void run(const Embed& op, const Group& group) {
    const auto* image = group.tensor<&Embed::table, const std::byte>();
    auto* residual = group.tensor<&Embed::residual, float>();
    for (uint32_t n = group.thread; n < kMaxRows * op.num_cols; n += kGroupThreads) {
      const uint32_t r = n / op.num_cols, col = op.first_col + n % op.num_cols;
      const PassRow& row = group.rows[r];
      if (!row_is_active(row)) continue;
      const auto token = static_cast<uint32_t>(row.token);
      const uint32_t chunk = col / page_image::kChunkCols;
      const auto* from = reinterpret_cast<const uint16_t*>(
          image + page_image::page_offset(op.hidden, token / kUnitRows, chunk) +
          page_image::element_offset(page_image::half_cols(op.hidden, chunk), token % kUnitRows,
                                     col % page_image::kChunkCols));
      ptx::store_relaxed(residual + size_t{r} * op.hidden + col, ptx::bf16_low(__ldg(from)));
    }
  }
};

}  // namespace serval::device

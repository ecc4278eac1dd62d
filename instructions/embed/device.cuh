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
    const uint32_t pairs = op.num_cols / 2;
    for (uint32_t n = group.thread; n < kMaxRows * pairs; n += kGroupThreads) {
      const uint32_t r = n / pairs, col = op.first_col + n % pairs * 2;
      const PassRow& row = group.rows[r];
      if (!row_is_active(row)) continue;
      const auto token = static_cast<uint32_t>(row.token);
      const uint32_t chunk = col / page_image::kChunkCols;
      const auto* from = reinterpret_cast<const uint32_t*>(
          image + page_image::page_offset(op.hidden, token / kUnitRows, chunk) +
          page_image::element_offset(page_image::half_cols(op.hidden, chunk), token % kUnitRows,
                                     col % page_image::kChunkCols));
      const uint32_t two = __ldg(from);
      float* to = residual + size_t{r} * op.hidden + col;
      ptx::store_relaxed(to, ptx::bf16_low(two));
      ptx::store_relaxed(to + 1, ptx::bf16_high(two));
    }
  }
};

}  // namespace serval::device

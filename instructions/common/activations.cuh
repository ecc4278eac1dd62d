// How the preparers bring a pass's activations into shared memory, as bf16 in the consumers' layout
// (vm/device/activation_image.h). What runs between the end of a wait and the last store to shared memory is
// on the critical path of every layer: it is kept short, and what can be done before the wait is.
#pragma once

#include "instructions/common/matvec.cuh"

namespace serval::device {

namespace activations {

inline constexpr uint32_t kVector = 4;  // fp32 values in one load
inline constexpr uint32_t kSweepCols = kPreparerThreads * kVector;
static_assert(kSweepCols == page_image::kHalfCols, "a sweep is half a chunk");

// Calls write(chunk, end) for the chunks in the order in which the consumers use them: all at once if they
// are resident, else one at a time, once for every block of units.
template <class Write>
__device__ __forceinline__ void in_order(PreparerRole& role, const matvec::Plan& plan, Write&& write) {
  const uint32_t at_once = plan.resident ? plan.chunks : 1;
  const uint32_t total = plan.activation_chunks();
  uint32_t chunk = 0;
#pragma unroll 1
  for (uint32_t n = 0; n < total; n += at_once) {
    role.acquire_chunks(at_once);
    write(chunk, chunk + at_once);
    role.publish_chunks(at_once, !plan.resident);
    chunk = chunk + at_once < plan.chunks ? chunk + at_once : 0;
  }
}

// Where column `col` of row `row` goes in Shared::activations; the chunks being written begin with
// `first_chunk`.
__device__ __forceinline__ uint32_t place(const PreparerRole& role, const matvec::Plan& plan,
                                          uint32_t first_chunk, uint32_t row, uint32_t col) {
  const uint32_t chunk = col / page_image::kChunkCols;
  return activation_slot(role.launch, role.next_chunk + chunk - first_chunk) + row * kActivationRowBytes +
         activation_image::offset_in_row(plan.half_cols(chunk), col % page_image::kChunkCols);
}

// Columns beyond the matrix's last that its page image has.
__device__ __forceinline__ uint32_t padded_cols(const matvec::Plan& plan) {
  const uint32_t last = plan.chunks - 1;
  return last * page_image::kChunkCols + 2 * plan.half_cols(last);
}

// --- bf16(residual × norm / rms(residual))
//
// The squares of a row are summed as if by kPreparerThreads threads: each takes four columns of every sweep
// in order, then the threads of a warp are summed as a tree, then the warps. It is the same for every row,
// however many there are and whoever does it.

__device__ __forceinline__ float4 load_residual(const float* row, uint32_t col, uint32_t cols) {
  if (col >= cols) return {0, 0, 0, 0};
  return ptx::load_relaxed(reinterpret_cast<const float4*>(row + col));
}
__device__ __forceinline__ uint2 load_norm(const uint16_t* norm, uint32_t col, uint32_t cols) {
  if (col >= cols) return {0, 0};
  return ptx::load_constant(reinterpret_cast<const uint2*>(norm + col));
}
__device__ __forceinline__ float add_squares(const float4& x, float sum) {
  sum += x.x * x.x;
  sum += x.y * x.y;
  sum += x.z * x.z;
  return sum + x.w * x.w;
}
__device__ __forceinline__ float warp_sum(float sum) {
#pragma unroll
  for (uint32_t step = kWarpThreads / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  return sum;
}
__device__ __forceinline__ float scale_of(const float (&sums)[kPreparerWarps], float inverse_cols,
                                          float epsilon) {
  return rsqrtf(((sums[0] + sums[1]) + (sums[2] + sums[3])) * inverse_cols + epsilon);
}
__device__ __forceinline__ void write_scaled(std::byte* to, const float4& x, float scale, uint2 norm) {
  *reinterpret_cast<uint2*>(to) = {
      ptx::pack_bf16(x.x * scale * ptx::bf16_low(norm.x), x.y * scale * ptx::bf16_high(norm.x)),
      ptx::pack_bf16(x.z * scale * ptx::bf16_low(norm.y), x.w * scale * ptx::bf16_high(norm.y))};
}

// One row by all preparers: what decides a single sequence's latency. The row is read once, and the weights
// of the norm are fetched before the wait.
inline constexpr uint32_t kKept = 4;  // fp32 vectors that a thread keeps in registers
__device__ __forceinline__ bool fits_registers(const Launch& launch, const matvec::Plan& plan) {
  return plan.resident && launch.row_bound == 1 && plan.cols <= kKept * kSweepCols;
}
__device__ __forceinline__ void prepare_one_row(PreparerRole& role, const matvec::Plan& plan) {
  const uint32_t first_col = role.thread * kVector;
  uint2 norm[kKept];
#pragma unroll
  for (uint32_t k = 0; k < kKept; ++k) {
    norm[k] = load_norm(plan.input.norm, k * kSweepCols + first_col, plan.cols);
  }
  role.acquire_chunks(plan.chunks);
  role.wait_inputs();
  float4 x[kKept];
#pragma unroll
  for (uint32_t k = 0; k < kKept; ++k) {
    x[k] = load_residual(plan.input.residual, k * kSweepCols + first_col, plan.cols);
  }
  float sum = 0;
#pragma unroll
  for (uint32_t k = 0; k < kKept; ++k) sum = add_squares(x[k], sum);
  sum = warp_sum(sum);
  float(&sums)[kPreparerWarps] = role.s.preparer_sums[role.record % 2];
  if (role.lane == 0) sums[role.warp] = sum;
  role.sync();
  const float scale = scale_of(sums, 1.0F / static_cast<float>(plan.cols), plan.input.epsilon);
  const uint32_t end_col = padded_cols(plan);
#pragma unroll
  for (uint32_t k = 0; k < kKept; ++k) {
    const uint32_t col = k * kSweepCols + first_col;
    if (col < end_col) {
      write_scaled(role.s.activations + place(role, plan, 0, 0, col), x[k], scale, norm[k]);
    }
  }
  role.publish_chunks(plan.chunks, false);
}

// One row of any length by all preparers, several sweeps at a time. Up to kLongKept sweeps it is read once.
inline constexpr uint32_t kLongKept = 8;
struct LongPart {
  float4 x[kLongKept];

  __device__ __forceinline__ void load(const PreparerRole& role, const matvec::Plan& plan,
                                       uint32_t first_col) {
#pragma unroll
    for (uint32_t k = 0; k < kLongKept; ++k) {
      x[k] =
          load_residual(plan.input.residual, first_col + k * kSweepCols + role.thread * kVector, plan.cols);
    }
  }
};
__device__ __forceinline__ void prepare_long_row(PreparerRole& role, const matvec::Plan& plan) {
  constexpr uint32_t kPartCols = kLongKept * kSweepCols;
  role.acquire_chunks(plan.chunks);
  role.wait_inputs();
  if (!plan.input.wants(role.s.rows[0])) {
    role.publish_chunks(plan.chunks, false);
    return;
  }
  LongPart part;
  float sum = 0;
#pragma unroll 1
  for (uint32_t begin = 0; begin < plan.cols; begin += kPartCols) {
    part.load(role, plan, begin);
#pragma unroll
    for (const float4& x : part.x) sum = add_squares(x, sum);
  }
  sum = warp_sum(sum);
  float(&sums)[kPreparerWarps] = role.s.preparer_sums[role.record % 2];
  if (role.lane == 0) sums[role.warp] = sum;
  role.sync();
  const float scale = scale_of(sums, 1.0F / static_cast<float>(plan.cols), plan.input.epsilon);
  const uint32_t end_col = padded_cols(plan);
#pragma unroll 1
  for (uint32_t begin = 0; begin < plan.cols; begin += kPartCols) {
    if (plan.cols > kPartCols) part.load(role, plan, begin);
#pragma unroll
    for (uint32_t k = 0; k < kLongKept; ++k) {
      const uint32_t col = begin + k * kSweepCols + role.thread * kVector;
      if (col >= end_col) continue;
      write_scaled(role.s.activations + place(role, plan, 0, 0, col), part.x[k], scale,
                   load_norm(plan.input.norm, col, plan.cols));
    }
  }
  role.publish_chunks(plan.chunks, false);
}

// A row by one warp, whose lanes stand for four threads each.
struct WarpRow {
  static constexpr uint32_t kSweeps = 1;  // that are kept in registers
  float4 x[kSweeps][kPreparerWarps];

  static __device__ __forceinline__ uint32_t col(const PreparerRole& role, uint32_t sweep, uint32_t v) {
    return sweep * kSweepCols + (v * kWarpThreads + role.lane) * kVector;
  }
  __device__ __forceinline__ void load(const PreparerRole& role, const float* row, uint32_t first_sweep,
                                       uint32_t cols) {
#pragma unroll
    for (uint32_t k = 0; k < kSweeps; ++k) {
#pragma unroll
      for (uint32_t v = 0; v < kPreparerWarps; ++v) {
        x[k][v] = load_residual(row, col(role, first_sweep + k, v), cols);
      }
    }
  }
  __device__ __forceinline__ void add(float (&sums)[kPreparerWarps]) const {
#pragma unroll
    for (uint32_t k = 0; k < kSweeps; ++k) {
#pragma unroll
      for (uint32_t v = 0; v < kPreparerWarps; ++v) sums[v] = add_squares(x[k][v], sums[v]);
    }
  }
};

// The scale of each of this warp's rows, left in shared memory where the row does not fit registers.
__device__ __forceinline__ void prepare_warp_rows(PreparerRole& role, const matvec::Plan& plan) {
  constexpr uint32_t kRowCols = WarpRow::kSweeps * kSweepCols;
  const float inverse_cols = 1.0F / static_cast<float>(plan.cols);
  const uint32_t end_col = padded_cols(plan);
#pragma unroll 1
  for (uint32_t r = role.warp; r < role.launch.row_bound; r += kPreparerWarps) {
    if (!plan.input.wants(role.s.rows[r])) continue;
    const float* row = plan.input.residual + size_t{r} * plan.cols;
    float sums[kPreparerWarps] = {};
    WarpRow part;
#pragma unroll 1
    for (uint32_t begin = 0; begin < plan.cols; begin += kRowCols) {
      part.load(role, row, begin / kSweepCols, plan.cols);
      part.add(sums);
    }
#pragma unroll
    for (float& sum : sums) sum = warp_sum(sum);
    const float scale = scale_of(sums, inverse_cols, plan.input.epsilon);
    if (!plan.resident || plan.cols > kRowCols) {
      if (role.lane == 0) role.s.row_scale[r] = scale;
      continue;
    }
#pragma unroll
    for (uint32_t k = 0; k < WarpRow::kSweeps; ++k) {
#pragma unroll
      for (uint32_t v = 0; v < kPreparerWarps; ++v) {
        const uint32_t col = WarpRow::col(role, k, v);
        if (col < end_col) {
          write_scaled(role.s.activations + place(role, plan, 0, r, col), part.x[k][v], scale,
                       load_norm(plan.input.norm, col, plan.cols));
        }
      }
      __syncwarp();  // keeps the compiler from having all weights of the norm in registers at once
    }
  }
}

// Chunks [chunk, end) of all rows whose scales are in shared memory, by all preparers.
__device__ __forceinline__ void write_rows(PreparerRole& role, const matvec::Plan& plan, uint32_t chunk,
                                           uint32_t end) {
  const uint32_t end_col = min(end * page_image::kChunkCols, padded_cols(plan));
#pragma unroll 1
  for (uint32_t r = 0; r < role.launch.row_bound; ++r) {
    if (!plan.input.wants(role.s.rows[r])) continue;
    const float* from = plan.input.residual + size_t{r} * plan.cols;
    const float scale = role.s.row_scale[r];
#pragma unroll 4
    for (uint32_t col = chunk * page_image::kChunkCols + role.thread * kVector; col < end_col;
         col += kSweepCols) {
      write_scaled(role.s.activations + place(role, plan, chunk, r, col), load_residual(from, col, plan.cols),
                   scale, load_norm(plan.input.norm, col, plan.cols));
    }
  }
}

__device__ __forceinline__ void prepare_rows(PreparerRole& role, const matvec::Plan& plan) {
  const bool at_once = plan.resident && plan.cols <= WarpRow::kSweeps * kSweepCols;
  if (at_once) role.acquire_chunks(plan.chunks);
  role.wait_inputs();
  prepare_warp_rows(role, plan);
  if (at_once) {
    role.publish_chunks(plan.chunks, false);
    return;
  }
  role.sync();
  in_order(role, plan, [&](uint32_t chunk, uint32_t end) { write_rows(role, plan, chunk, end); });
  role.sync();  // the scales may be written again
}

// --- a bf16 tensor as it is: bulk copies of its image, a chunk at a time, issued by one thread

__device__ __forceinline__ void copy_chunks(PreparerRole& role, const matvec::Plan& plan) {
  const uint32_t bytes = role.launch.row_bound * kActivationRowBytes;
  if (plan.resident) role.acquire_chunks(plan.chunks);
  role.wait_inputs();
  if (role.thread == 0) ptx::fence_proxy_async_global();
  in_order(role, plan, [&](uint32_t chunk, uint32_t end) {
    if (role.thread != 0) return;
    uint64_t* landed = plan.resident ? role.prepared() : role.streamed_chunk();
    ptx::mbarrier_expect_bytes(landed, (end - chunk) * bytes);
    for (uint32_t c = chunk; c < end; ++c) {
      ptx::bulk_load(role.s.activations + activation_slot(role.launch, role.next_chunk + c - chunk),
                     plan.input.plain + size_t{c} * activation_image::kChunkBytes, bytes, landed);
    }
  });
}

}  // namespace activations

__device__ __forceinline__ void matvec::Stream::prepare(PreparerRole& role, const Plan& plan) {
  if (plan.units == 0) {
    role.wait_inputs();
  } else if (plan.input.plain != nullptr) {
    activations::copy_chunks(role, plan);
  } else if (activations::fits_registers(role.launch, plan)) {
    activations::prepare_one_row(role, plan);
  } else if (role.launch.row_bound == 1 && plan.resident) {
    activations::prepare_long_row(role, plan);
  } else {
    activations::prepare_rows(role, plan);
  }
}

}  // namespace serval::device

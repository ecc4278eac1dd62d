// How the preparers bring a pass's activations into shared memory, as bf16 in the consumers' layout.
#pragma once

#include "instructions/common/footprint.h"
#include "instructions/common/matvec.cuh"

namespace serval::device {

namespace activations {

inline constexpr uint32_t kVector = 4;  // fp32 values in one load
inline constexpr uint32_t kSweepCols = kPreparerThreads * kVector;

__device__ __forceinline__ uint32_t col_of(const PreparerRole& role, uint32_t sweep) {
  return sweep * kSweepCols + role.thread * kVector;
}

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
    role.publish_chunks(at_once);
    chunk = chunk + at_once < plan.chunks ? chunk + at_once : 0;
  }
}

// Where columns [col, col + 4) or [col, col + 8) of row `row` go in Shared::activations; the chunks being
// written begin with `first_chunk`.
__device__ __forceinline__ uint32_t place(const PreparerRole& role, const matvec::Plan& plan,
                                          uint32_t first_chunk, uint32_t row, uint32_t col) {
  const uint32_t chunk = col / page_image::kChunkCols;
  return activation_slot(role.launch, role.next_chunk + chunk - first_chunk) + row * kActivationRowBytes +
         matvec::activation_offset(page_image::half_cols(plan.cols, chunk), col % page_image::kChunkCols);
}

// Columns beyond the matrix's last that its page image has.
__device__ __forceinline__ uint32_t padded_cols(const matvec::Plan& plan) {
  const uint32_t last = plan.chunks - 1;
  return last * page_image::kChunkCols + 2 * page_image::half_cols(plan.cols, last);
}

// --- bf16(residual × norm / rms(residual))

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
__device__ __forceinline__ void write_scaled(std::byte* to, const float4& x, float scale, uint2 norm) {
  *reinterpret_cast<uint2*>(to) = {
      ptx::pack_bf16(x.x * scale * ptx::bf16_low(norm.x), x.y * scale * ptx::bf16_high(norm.x)),
      ptx::pack_bf16(x.z * scale * ptx::bf16_low(norm.y), x.w * scale * ptx::bf16_high(norm.y))};
}

// A thread's squares are summed in order of columns, then those of a warp's lanes as a tree, then the warps':
// the same for every row, however many there are.
__device__ __forceinline__ void put_sum(PreparerRole& role, uint32_t row, float sum) {
#pragma unroll
  for (uint32_t step = kWarpThreads / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (role.lane == 0) role.s.preparer_sums[role.record % 2][row][role.warp] = sum;
}
__device__ __forceinline__ float scale_of(const PreparerRole& role, const matvec::Plan& plan, uint32_t row) {
  const float* sums = role.s.preparer_sums[role.record % 2][row];
  const float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return 1.0F / sqrtf(sum / static_cast<float>(plan.cols) + plan.input.epsilon);
}

// The row that decides a single sequence's latency: read once, weights of the norm fetched before the wait.
inline constexpr uint32_t kKept = 4;  // fp32 vectors that a thread keeps in registers
__device__ __forceinline__ bool fits_registers(const Launch& launch, const matvec::Plan& plan) {
  return plan.resident && launch.row_bound == 1 && plan.cols <= kKept * kSweepCols;
}
struct NormVectors {
  uint2 of[kKept];
  __device__ __forceinline__ void load(const PreparerRole& role, const matvec::Plan& plan) {
#pragma unroll
    for (uint32_t k = 0; k < kKept; ++k) of[k] = load_norm(plan.input.norm, col_of(role, k), plan.cols);
  }
};
__device__ __forceinline__ void prepare_one_row(PreparerRole& role, const matvec::Plan& plan,
                                                const NormVectors& norm) {
  float4 x[kKept];
#pragma unroll
  for (uint32_t k = 0; k < kKept; ++k) x[k] = load_residual(plan.input.residual, col_of(role, k), plan.cols);
  role.acquire_chunks(plan.chunks);
  float sum = 0;
#pragma unroll
  for (uint32_t k = 0; k < kKept; ++k) sum = add_squares(x[k], sum);
  put_sum(role, 0, sum);
  role.sync();
  const float scale = scale_of(role, plan, 0);
  const uint32_t end_col = padded_cols(plan);
#pragma unroll
  for (uint32_t k = 0; k < kKept; ++k) {
    const uint32_t col = col_of(role, k);
    if (col < end_col) {
      write_scaled(role.s.activations + place(role, plan, 0, 0, col), x[k], scale, norm.of[k]);
    }
  }
  role.publish_chunks(plan.chunks);
}

__device__ __forceinline__ void sum_rows(PreparerRole& role, const matvec::Plan& plan) {
  for (uint32_t r = 0; r < role.launch.row_bound; ++r) {
    if (!plan.input.wants(role.s.rows[r])) continue;
    const float* row = plan.input.residual + size_t{r} * plan.cols;
    float sum = 0;
#pragma unroll 4
    for (uint32_t col = role.thread * kVector; col < plan.cols; col += kSweepCols) {
      sum = add_squares(load_residual(row, col, plan.cols), sum);
    }
    put_sum(role, r, sum);
  }
  role.sync();
}

__device__ __forceinline__ void normalise_row(PreparerRole& role, const matvec::Plan& plan, uint32_t row,
                                              uint32_t first_chunk, uint32_t end_col) {
  const float* from = plan.input.residual + size_t{row} * plan.cols;
  const float scale = scale_of(role, plan, row);
#pragma unroll 4
  for (uint32_t col = first_chunk * page_image::kChunkCols + role.thread * kVector; col < end_col;
       col += kSweepCols) {
    write_scaled(role.s.activations + place(role, plan, first_chunk, row, col),
                 load_residual(from, col, plan.cols), scale, load_norm(plan.input.norm, col, plan.cols));
  }
}

// --- a bf16 tensor as it is

// Several loads are under way before the first store to shared memory.
__device__ __forceinline__ void copy_row(PreparerRole& role, const matvec::Plan& plan, uint32_t row,
                                         uint32_t first_chunk, uint32_t end_col) {
  constexpr uint32_t kValues = 8;  // bf16 values in one load
  constexpr uint32_t kBatch = 8;
  constexpr uint32_t kStep = kPreparerThreads * kValues;
  const uint16_t* from = plan.input.plain + size_t{row} * plan.cols;
  for (uint32_t base = first_chunk * page_image::kChunkCols + role.thread * kValues; base < end_col;
       base += kBatch * kStep) {
    uint4 x[kBatch];
#pragma unroll
    for (uint32_t k = 0; k < kBatch; ++k) {
      const uint32_t col = base + k * kStep;
      x[k] = col < plan.cols ? ptx::load_relaxed(reinterpret_cast<const uint4*>(from + col)) : uint4{};
    }
#pragma unroll
    for (uint32_t k = 0; k < kBatch; ++k) {
      const uint32_t col = base + k * kStep;
      if (col < end_col)
        *reinterpret_cast<uint4*>(role.s.activations + place(role, plan, first_chunk, row, col)) = x[k];
    }
  }
}

}  // namespace activations

__device__ __forceinline__ void matvec::Stream::prepare(PreparerRole& role, const Plan& plan) {
  const bool normalise = plan.input.plain == nullptr;
  const bool one_row = normalise && activations::fits_registers(role.launch, plan);
  activations::NormVectors norm{};
  if (one_row) norm.load(role, plan);
  role.wait_inputs();
  if (plan.units == 0) return;
  if (one_row) {
    activations::prepare_one_row(role, plan, norm);
    return;
  }
  if (normalise) activations::sum_rows(role, plan);
  activations::in_order(role, plan, [&](uint32_t chunk, uint32_t end) {
    const uint32_t end_col = min(end * page_image::kChunkCols, activations::padded_cols(plan));
#pragma unroll 1
    for (uint32_t r = 0; r < role.launch.row_bound; ++r) {
      if (!plan.input.wants(role.s.rows[r])) continue;
      if (normalise) {
        activations::normalise_row(role, plan, r, chunk, end_col);
      } else {
        activations::copy_row(role, plan, r, chunk, end_col);
      }
    }
  });
}

}  // namespace serval::device

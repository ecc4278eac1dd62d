#pragma once

#include "instructions/common/operands.cuh"
#include "instructions/common/residual.cuh"
#include "instructions/common/tile_shape.h"
#include "instructions/rope_parts/op.h"
#include "vm/device/op.cuh"
#include "vm/layout/kv_cache.h"
#include "vm/ptx/copy.cuh"

namespace serval::device {

// 8 lanes have 8 neighbouring units of a row, which belong to one head; a warp has four rows at a time. It
// iterates over neighbouring rows of the instance; each lane has looked up one of them. Sums are loaded by
// asynchronous copies, because there are not enough registers for several rows: each lane copies what it
// reads itself.
template <>
struct DeviceOp<RopeParts> : GroupOp {
  using Op = RopeParts;
  static constexpr bool kStartsEarly = true;  // to find the rows and destinations

  static __device__ bool in_range(const Op& op, const ProgramShape& program) {
    return op.parts >= 1 && op.parts <= kMaxColumnParts && op.hidden % kProjectedColsMultiple == 0 &&
           op.hidden <= kMostProjectedCols && op.first_unit % kLanes == 0 && op.num_units % kLanes == 0 &&
           units_in_range(op.first_unit, op.num_units, qkv_units(program.heads), qkv_units(program.heads)) &&
           rows_in_range(op, program) && op.num_rows <= kConsumerWarps * kWarpThreads;
  }

  template <class Config>
  static __device__ __forceinline__ void run(const Op& op, const Group& group) {
    static_assert(kConsumerWarps * sizeof(Copies) <= Config::kScratchBytes);
    const uint32_t of_warp = (op.num_rows + kConsumerWarps * kRows - 1) / (kConsumerWarps * kRows) * kRows;
    const uint32_t begin = op.first_row + group.warp * of_warp;
    const uint32_t end = min(begin + of_warp, op.first_row + op.num_rows);
    const Row of_lane(op, group, begin + group.lane, end);
    Copies& copies = reinterpret_cast<Copies*>(group.scratch)[group.warp];
    const auto row_of = [&](uint32_t row) { return of_lane.from_lane(row - begin + group.lane / kLanes); };
    bool waited = false;
#pragma unroll 1
    for (uint32_t first = op.first_unit; first < op.first_unit + op.num_units; first += kLanes) {
      const Unit unit(op, group, first + group.lane % kLanes);
      if (!waited) group.wait_inputs();
      waited = true;
      const auto row_or_none = [&](uint32_t row) { return row < end ? row_of(row) : Row{}; };
      Squares squares(op, group, row_or_none(begin));
      unit.copy(row_or_none(begin), copies[0]);
#pragma unroll 1
      for (uint32_t row = begin, n = 0; row < end; row += kRows, ++n) {
        const float scale = squares.scale(op);
        squares = Squares(op, group, row_or_none(row + kRows));
        unit.copy(row_or_none(row + kRows), copies[(n + 1) % kCopies]);
        ptx::wait_copies<1>();
        unit.finish(row_of(row), copies[n % kCopies], scale);
      }
      ptx::wait_copies<0>();
    }
  }

 private:
  static constexpr uint32_t kRows = kRowsAddedTogether;     // rows of a warp at a time
  static constexpr uint32_t kLanes = kWarpThreads / kRows;  // lanes of a row
  static constexpr uint32_t kPairs = kUnitRows / 2;
  static constexpr uint32_t kCopies = 2;
  // For each part two pieces of a lane's unit, then cosines and sines.
  static constexpr uint32_t kPieces = 2 * kMaxColumnParts + 2;
  using Copy = float4[kPieces][kWarpThreads];
  using Copies = Copy[kCopies];
  // A row's lanes load its squares four neighbours at a time: columns of one such load, and loads of a lane.
  static constexpr uint32_t kColsOfFours = 4 * kSquareColsOfTiles;
  static constexpr uint32_t kMostFours = kMostProjectedCols / (kLanes * kColsOfFours);
  static_assert(kColsOfFours == kProjectedColsMultiple);

  // A row of the pass and the destination of its results, counted in heads: for q the row of its first head,
  // for the caches the row of KV head 0.
  struct Row {
    uint32_t index = 0, position = 0, query_row = 0, cache_row = 0;
    bool exists = false;

    Row() = default;
    __device__ __forceinline__ Row(const Op& op, const Group& group, uint32_t row, uint32_t end)
        : index(row),
          query_row(row * group.shape.heads.q_heads),
          exists(row < end && row_is_active(group.rows[row])) {
      if (!exists) return;
      const auto* table = group.tensor<&Op::block_table, const uint32_t>();
      position = group.rows[row].position;
      const uint32_t block = ptx::load_relaxed(
          table + size_t{group.rows[row].slot} * blocks_for_tokens(group.shape.limits.max_context) +
          position / kKvBlockTokens);
      cache_row = block * group.shape.heads.kv_heads * kKvBlockTokens + position % kKvBlockTokens;
    }
    __device__ __forceinline__ Row from_lane(uint32_t lane) const {
      Row row;
      row.index = __shfl_sync(kAllLanes, index, lane);
      row.position = __shfl_sync(kAllLanes, position, lane);
      row.query_row = __shfl_sync(kAllLanes, query_row, lane);
      row.cache_row = __shfl_sync(kAllLanes, cache_row, lane);
      row.exists = __shfl_sync(kAllLanes, exists ? 1 : 0, lane) != 0;
      return row;
    }
  };

  // An eighth of a row's squares.
  class Squares {
   public:
    // Reads inputs, so they must be ready.
    __device__ __forceinline__ Squares(const Op& op, const Group& group, const Row& row) : fours_{} {
      if (!row.exists) return;
      const uint32_t count = op.hidden / kColsOfFours;
      const auto* from = reinterpret_cast<const float4*>(group.tensor<&Op::squares, const float>()) +
                         size_t{row.index} * count;
#pragma unroll
      for (uint32_t i = 0; i < kMostFours; ++i) {
        const uint32_t at = i * kLanes + group.lane % kLanes;
        if (at < count) fours_[i] = ptx::load_relaxed(from + at);
      }
    }
    // Scale of the row; all of its lanes get it.
    __device__ __forceinline__ float scale(const Op& op) const {
      float sum = 0;
#pragma unroll
      for (const float4& four : fours_)
        sum = __fadd_rn(sum, __fadd_rn(__fadd_rn(four.x, four.y), __fadd_rn(four.z, four.w)));
      sum = residual::add_neighbours<kLanes>(sum, kAllLanes);
      return rsqrtf(sum / static_cast<float>(op.hidden) + op.epsilon);
    }

   private:
    float4 fours_[kMostFours];
  };

  // A lane's unit: values that are the same in all rows.
  class Unit {
   public:
    __device__ __forceinline__ Unit(const Op& op, const Group& group, uint32_t unit)
        : parts_(op.parts),
          cols_(qkv_cols(group.shape.heads)),
          head_dim_(group.shape.heads.head_dim),
          lane_(group.lane),
          from_(group.tensor<&Op::sums, const float>() + unit * kUnitRows) {
      const QkvUnit is = qkv_unit(group.shape.heads, unit);
      turns_ = is.part != QkvPart::kV;
      in_cache_ = is.part != QkvPart::kQ;
      const uint32_t low = is.index * (turns_ ? kPairs : kUnitRows);
      next_ = turns_ ? group.shape.heads.head_dim / 2 : kPairs;
      to_ = (is.part == QkvPart::kQ   ? group.tensor<&Op::q, uint16_t>()
             : is.part == QkvPart::kK ? group.tensor<&Op::k_cache, uint16_t>()
                                      : group.tensor<&Op::v_cache, uint16_t>()) +
            is.head * (in_cache_ ? kKvBlockTokens : 1) * group.shape.heads.head_dim + low;
      angles_ = group.tensor<&Op::rope, const float>() + low;
      biases_ = nullptr;
      if (!has_biases(op)) return;
      biases_ = (is.part == QkvPart::kQ   ? group.tensor<&Op::q_bias, const uint16_t>()
                 : is.part == QkvPart::kK ? group.tensor<&Op::k_bias, const uint16_t>()
                                          : group.tensor<&Op::v_bias, const uint16_t>()) +
                is.head * group.shape.heads.head_dim + low;
    }

    // Starts the copies of finish()'s inputs, which must be ready; always commits one group.
    __device__ __forceinline__ void copy(const Row& row, Copy& to) const {
      if (row.exists) {
        const float* from = from_ + size_t{row.index} * parts_ * cols_;
#pragma unroll 1
        for (uint32_t p = 0; p < parts_; ++p, from += cols_) {
          ptx::copy_async_16(&to[2 * p][lane_], from, sizeof(float4));
          ptx::copy_async_16(&to[2 * p + 1][lane_], from + kPairs, sizeof(float4));
        }
        if (turns_) {
          const float* angles = angles_ + size_t{row.position} * head_dim_;
          ptx::copy_async_16(&to[kPieces - 2][lane_], angles, sizeof(float4));
          ptx::copy_async_16(&to[kPieces - 1][lane_], angles + head_dim_ / 2, sizeof(float4));
        }
      }
      ptx::commit_copies();
    }
    __device__ __forceinline__ void finish(const Row& row, const Copy& sums, float scale) const {
      if (!row.exists) return;
      float4 low = sums[0][lane_], high = sums[1][lane_];
#pragma unroll 1
      for (uint32_t p = 1; p < parts_; ++p) {
        add(low, sums[2 * p][lane_]);
        add(high, sums[2 * p + 1][lane_]);
      }
      multiply(low, scale);
      multiply(high, scale);
      if (biases_ != nullptr) {
        add_biases(low, biases_);
        add_biases(high, biases_ + next_);
      }
      if (turns_) {
        const float4 cosines = sums[kPieces - 2][lane_], sines = sums[kPieces - 1][lane_];
        turn(low.x, high.x, cosines.x, sines.x);
        turn(low.y, high.y, cosines.y, sines.y);
        turn(low.z, high.z, cosines.z, sines.z);
        turn(low.w, high.w, cosines.w, sines.w);
      }
      uint16_t* to = to_ + size_t{in_cache_ ? row.cache_row : row.query_row} * head_dim_;
      *reinterpret_cast<uint2*>(to) = {ptx::pack_bf16(low.x, low.y), ptx::pack_bf16(low.z, low.w)};
      *reinterpret_cast<uint2*>(to + next_) = {ptx::pack_bf16(high.x, high.y),
                                               ptx::pack_bf16(high.z, high.w)};
    }

   private:
    static __device__ __forceinline__ void add(float4& sum, const float4& values) {
      sum.x = __fadd_rn(sum.x, values.x);
      sum.y = __fadd_rn(sum.y, values.y);
      sum.z = __fadd_rn(sum.z, values.z);
      sum.w = __fadd_rn(sum.w, values.w);
    }
    static __device__ __forceinline__ void multiply(float4& sum, float scale) {
      sum.x = __fmul_rn(sum.x, scale);
      sum.y = __fmul_rn(sum.y, scale);
      sum.z = __fmul_rn(sum.z, scale);
      sum.w = __fmul_rn(sum.w, scale);
    }
    static __device__ __forceinline__ void add_biases(float4& sum, const uint16_t* biases) {
      add(sum,
          {ptx::bf16_low(ptx::load_constant(biases)), ptx::bf16_low(ptx::load_constant(biases + 1)),
           ptx::bf16_low(ptx::load_constant(biases + 2)), ptx::bf16_low(ptx::load_constant(biases + 3))});
    }
    // The host rounds each product and the sum, so no fused multiply-add.
    static __device__ __forceinline__ void turn(float& first, float& second, float cosine, float sine) {
      const float a = first, b = second;
      first = __fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine));
      second = __fadd_rn(__fmul_rn(b, cosine), __fmul_rn(a, sine));
    }

    uint32_t parts_;
    uint32_t cols_;  // columns of a part's sums
    uint32_t head_dim_;
    uint32_t lane_;
    const float* from_;    // the unit's sums of part 0 and row 0
    uint16_t* to_;         // its first four channels, in row 0 of q or of the cache
    uint32_t next_;        // distance from these to the other four
    const float* angles_;  // cosines of its pairs at position 0
    const uint16_t* biases_;
    bool turns_, in_cache_;
  };
};

}  // namespace serval::device

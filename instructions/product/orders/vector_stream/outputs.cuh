// Outputs of a vector stream: which ones a storer finishes, and from which sums
// (instructions/product/orders/vector_stream.cuh).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "instructions/common/residual.cuh"
#include "instructions/common/residual.h"
#include "instructions/product/orders/vector_stream/plan.cuh"
#include "vm/device/architecture.cuh"
#include "vm/ptx/math.cuh"
#include "vm/ptx/memory.cuh"

namespace serval::device::vector_stream {

// A storer finishes a tile of outputs at a time: for one row, as many units as a warp has lanes for; for more
// rows, one unit for some of the rows.
template <class Config>
struct TileOfRows {
  static constexpr uint32_t kAtOnce = kWarpThreads / kUnitRows;
  static constexpr uint32_t kRows = Config::kRows < kAtOnce ? Config::kRows : kAtOnce;
  static constexpr uint32_t kUnits = kAtOnce / kRows;
};

// The output that a lane of a storer finishes.
struct Output {
  uint32_t unit;         // index from the instruction's first_unit
  uint32_t row_of_unit;  // 0 to 7
  uint32_t row;          // of the pass
  bool exists;           // the instruction has this unit
  bool wanted;           // the pass has this row, too, and wants the result
};

// A storer waits for all units of a tile, so their partial results must fit at the same time.
template <class Config>
inline constexpr bool kTilesHaveRoom = kPartialBytes >= TileOfRows<Config>::kUnits * 2 *
                                                            Config::kActivationRowBuffers* kUnitRows *
                                                            sizeof(float);

// Tiles of a unit: a power of two, so that all tiles of a storer have the same rows.
template <class Config>
inline constexpr uint32_t kTilesOfUnit = Config::kRows / TileOfRows<Config>::kRows;

// The tiles of an instruction; its storers take turns at them.
template <class Config>
class TileWalk {
  using Tile = TileOfRows<Config>;
  static_assert(kTilesOfUnit<Config> <= kStorerWarps, "a storer steps by whole units");

 public:
  __device__ __forceinline__ explicit TileWalk(const StorerRole<Config>& role)
      : unit_(role.storer_rank / kTilesOfUnit<Config> * Tile::kUnits),
        first_row_(role.storer_rank % kTilesOfUnit<Config> * Tile::kRows) {}

  __device__ __forceinline__ uint32_t unit() const { return unit_; }  // the tile's first
  __device__ __forceinline__ uint32_t first_row() const { return first_row_; }
  __device__ __forceinline__ void next() { unit_ += kStorerWarps / kTilesOfUnit<Config> * Tile::kUnits; }
  __device__ __forceinline__ Output output(const StorerRole<Config>& role, const Plan& plan) const {
    const uint32_t n = role.lane / kUnitRows;
    const uint32_t unit = unit_ + n / Tile::kRows, row = first_row_ + n % Tile::kRows;
    const bool exists = unit < plan.units;
    return {.unit = unit,
            .row_of_unit = role.lane % kUnitRows,
            .row = row,
            .exists = exists,
            .wanted = exists && row < row_bound<Config>(role.launch) && plan.input.wants(role.s.rows[row])};
  }

 private:
  uint32_t unit_;
  uint32_t first_row_;
};

// Number of terms that storers add at once; missing last ones count as 0. Straight-line code is prefetched,
// and a storer seldom runs the same instruction twice in a row.
inline constexpr uint32_t kTermsAtOnce = 4;

// The sum over a unit's panels, in order.
template <class Config>
__device__ __forceinline__ float sum_parts(const StorerRole<Config>& role, const Plan& plan,
                                           const Output& out, uint32_t matrix) {
  const uint32_t buffer = out.unit & (plan.buffers - 1);
  constexpr uint32_t kPartFloats = Config::kRows * kUnitRows;
  const uint32_t row = min(out.row, row_bound<Config>(role.launch) - 1);
  const float* from = role.s.partials + (buffer * plan.matrices + matrix) * plan.parts * kPartFloats +
                      row * kUnitRows + out.row_of_unit;
  const uint32_t parts = plan.parts;
  float sum = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < parts; first += kTermsAtOnce) {
    float terms[kTermsAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kTermsAtOnce; ++i) terms[i] = from[min(first + i, parts - 1) * kPartFloats];
#pragma unroll
    for (uint32_t i = 0; i < kTermsAtOnce; ++i) sum += first + i < parts ? terms[i] : 0.0F;
  }
  return sum;
}

// Adds up the squares of a tile's rows: each lane its own pairs, in order. Missing rows of the pass repeat
// the last one.
template <class Config, uint32_t kRows>
__device__ __forceinline__ void add_squares(const StorerRole<Config>& role, const Plan& plan,
                                            uint32_t first_row, float (&sums)[kRows]) {
  const uint32_t pairs = plan.cols / kUnitRows / 2, last_row = row_bound<Config>(role.launch) - 1;
  const auto* squares = reinterpret_cast<const float2*>(plan.input.squares);
#pragma unroll 1
  for (uint32_t first = role.lane; first < pairs; first += kTermsAtOnce * kWarpThreads) {
    float2 terms[kTermsAtOnce][kRows];
#pragma unroll
    for (uint32_t t = 0; t < kTermsAtOnce; ++t) {
      const uint32_t pair = min(first + t * kWarpThreads, pairs - 1);
#pragma unroll
      for (uint32_t i = 0; i < kRows; ++i)
        terms[t][i] = ptx::load_relaxed(squares + size_t{min(first_row + i, last_row)} * pairs + pair);
    }
#pragma unroll
    for (uint32_t t = 0; t < kTermsAtOnce; ++t) {
      const bool in_range = first + t * kWarpThreads < pairs;
#pragma unroll
      for (uint32_t i = 0; i < kRows; ++i) sums[i] += in_range ? terms[t][i].x + terms[t][i].y : 0.0F;
    }
  }
}

// The scale of the only row as tile streams compute it: squares of 64 columns, added first to last.
template <class Config>
__device__ __forceinline__ float scale_in_tile_order(const StorerRole<Config>& role, const Plan& plan) {
  static_assert(Config::kRows == 1 && kSquareColsOfTiles == 8 * kUnitRows);
  const auto* squares = reinterpret_cast<const uint4*>(plan.input.squares);
  const uint32_t groups = plan.cols / kSquareColsOfTiles;
  float sum = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < groups; first += kTermsAtOnce * kWarpThreads) {
    float terms[kTermsAtOnce];
#pragma unroll
    for (uint32_t t = 0; t < kTermsAtOnce; ++t) {
      const uint32_t group = min(first + t * kWarpThreads + role.lane, groups - 1);
      const uint4 low = ptx::load_relaxed(squares + group * 2),
                  high = ptx::load_relaxed(squares + group * 2 + 1);
      const auto add_four = [](const uint4& four) {
        return (__uint_as_float(four.x) + __uint_as_float(four.y)) +
               (__uint_as_float(four.z) + __uint_as_float(four.w));
      };
      terms[t] = add_four(low) + add_four(high);
    }
#pragma unroll
    for (uint32_t t = 0; t < kTermsAtOnce; ++t) {
      const uint32_t left = groups - min(first + t * kWarpThreads, groups);
      if (left == 0) break;
#pragma unroll 8
      for (uint32_t lane = 0; lane < kWarpThreads; ++lane) {
        const float term = __shfl_sync(kAllLanes, terms[t], lane);
        sum += lane < left ? term : 0.0F;
      }
    }
  }
  return rsqrtf(sum / static_cast<float>(plan.cols) + plan.input.epsilon);
}

// The factor for the sums of the lane's row: 1 / RMS, or 1 for inputs that are not normalised.
template <class Config>
__device__ __forceinline__ float scale_of(const StorerRole<Config>& role, const Plan& plan,
                                          const TileWalk<Config>& at) {
  constexpr uint32_t kRows = TileOfRows<Config>::kRows;
  if (plan.input.squares == nullptr || plan.units == 0) return 1;
  if constexpr (Config::kTileOrder) return scale_in_tile_order(role, plan);
  float sums[kRows] = {};
  add_squares(role, plan, at.first_row(), sums);
  const float inverse_cols = 1.0F / static_cast<float>(plan.cols);
  float mine = 0;
#pragma unroll
  for (uint32_t i = 0; i < kRows; ++i) {
    const float scale = rsqrtf(residual::warp_sum(sums[i]) * inverse_cols + plan.input.epsilon);
    mine = role.lane / kUnitRows % kRows == i ? scale : mine;
  }
  return mine;
}

// The sums of an output, one for each matrix; in tile order one for each K split, of which there may be four.
struct Sums {
  float first;
  float second;
  float third = 0;
  float fourth = 0;
};
// In tile order each sum is complete and is read from shared memory unchanged.
template <class Config>
__device__ __forceinline__ Sums sums_in_tile_order(const StorerRole<Config>& role, const Plan& plan,
                                                   const Output& out, float scale) {
  constexpr uint32_t kPartFloats = Config::kRows * kUnitRows;
  const float* from = role.s.partials + (out.unit & (plan.buffers - 1)) * plan.matrices * kPartFloats +
                      out.row * kUnitRows + out.row_of_unit;
  const auto sum = [&](uint32_t n) { return from[min(n, plan.matrices - 1) * kPartFloats] * scale; };
  return {sum(0), sum(1), sum(2), sum(3)};
}
// value + the sums of `parts` K splits, first to last, as tile streams add them: subnormal numbers are
// flushed to 0 except in the last split (add_parts).
__device__ __forceinline__ float add_in_order(float value, const Sums& sums, uint32_t parts) {
  if (parts == 1) return value + sums.first;
  value = ptx::add_flushed(value, sums.first);
  if (parts == 2) return value + sums.second;
  value = ptx::add_flushed(value, sums.second);
  if (parts == 3) return value + sums.third;
  return ptx::add_flushed(value, sums.third) + sums.fourth;
}
template <class Config>
__device__ __forceinline__ Sums sums_of(const StorerRole<Config>& role, const Plan& plan, const Output& out,
                                        float scale) {
  if constexpr (Config::kTileOrder) return sums_in_tile_order(role, plan, out, scale);
  const float first = sum_parts(role, plan, out, 0) * scale;
  return {first, plan.matrices == 1 ? 0.0F : sum_parts(role, plan, out, 1) * scale};
}

// Values that storing an output needs besides its sums, fetched before the sums are complete: the epilogue's
// Fetched, stored as words, because one copy of the storer's loop serves all instructions.
class Fetched {
 public:
  template <class T>
  __device__ __forceinline__ void set(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(words_));
    memcpy(words_, &value, sizeof(T));
  }
  template <class T>
  __device__ __forceinline__ T as() const {
    T value;
    memcpy(&value, words_, sizeof(T));
    return value;
  }

 private:
  uint64_t words_[3] = {};
};
struct NothingFetched {};

}  // namespace serval::device::vector_stream

// Logits, and for each unit of 8 tokens the summary that `sample` reads first
// (instructions/common/unit_softmax.h).
#pragma once

#include <cstdint>

#include "instructions/common/residual.cuh"
#include "instructions/common/unit_softmax.h"
#include "instructions/product/orders/tile_stream/shape.cuh"
#include "instructions/product/orders/tile_stream/staging.cuh"
#include "instructions/product/orders/vector_stream/outputs.cuh"
#include "vm/ptx/math.cuh"
#include "vm/ptx/ptx.cuh"

namespace serval::device::epilogues {

using tile_stream::WarpTile;

// A unit's logits in a row, one in each of 8 neighbouring lanes.
struct UnitInLanes {
  float value;     // the lane's logit; after the vocabulary's end, that of a row of zeros
  uint32_t index;  // index of the lane's logit in the unit
  uint32_t lane;

  // All 8 lanes get it.
  __device__ __forceinline__ UnitSoftmax softmax(uint32_t count) const {
    const float logit = index < count ? value : -INFINITY;
    float largest = fmaxf(logit, -INFINITY);  // never NaN
#pragma unroll
    for (uint32_t step = 1; step < kUnitRows; step *= 2)
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    const uint32_t unit_lanes = __ballot_sync(~0u, logit == largest) >> (lane & ~(kUnitRows - 1));
    const float share = share_if_finite(value, ptx::exp(logit));
    const float sum = residual::add_neighbours<kUnitRows>(share, ~0u);
    const auto first = static_cast<uint32_t>(__ffs(static_cast<int>(unit_lanes))) - 1;
    return {largest, __uint_as_float(bits_with_first(__float_as_uint(sum), first))};
  }
  __device__ __forceinline__ bool is_first() const {
    return index == 0;
  }
  __device__ __forceinline__ void store(float* to, uint32_t count, uint32_t) const {
    if (index < count) ptx::store_relaxed(to + index, value);
  }
};

// A unit's logits in one thread.
struct UnitInThread {
  const float (&values)[kUnitRows];

  __device__ __forceinline__ UnitSoftmax softmax(uint32_t count) const {
    float largest = -INFINITY, sums[kUnitRows];
    uint32_t first = 0;
#pragma unroll
    for (uint32_t i = 0; i < kUnitRows; ++i) {
      const bool exists = i < count;
      sums[i] = exists ? share_if_finite(values[i], ptx::exp(values[i])) : 0;
      if (exists && values[i] > largest) largest = values[i], first = i;
    }
#pragma unroll
    for (uint32_t step = 1; step < kUnitRows; step *= 2) {
#pragma unroll
      for (uint32_t i = 0; i < kUnitRows; i += 2 * step) sums[i] += sums[i + step];
    }
    return {largest, __uint_as_float(bits_with_first(__float_as_uint(sums[0]), first))};
  }
  __device__ __forceinline__ bool is_first() const {
    return true;
  }
  __device__ __forceinline__ void store(float* to, uint32_t count, uint32_t row_floats) const {
    if (count == kUnitRows && row_floats % 4 == 0) {
      reinterpret_cast<float4*>(to)[0] = {values[0], values[1], values[2], values[3]};
      reinterpret_cast<float4*>(to)[1] = {values[4], values[5], values[6], values[7]};
      return;
    }
#pragma unroll
    for (uint32_t i = 0; i < kUnitRows; ++i) {
      if (i < count) ptx::store_relaxed(to + i, values[i]);
    }
  }
};

struct Logits {
  float* logits;         // [rows, vocab]
  float2* unit_softmax;  // [rows, units]
  uint32_t vocab;
  uint32_t first_unit;  // the record's
  uint32_t num_units;

  using Fetched = vector_stream::NothingFetched;
  template <class Role>
  __device__ __forceinline__ Fetched fetch_constant(const Role&, const vector_stream::Output&) const {
    return {};
  }
  template <class Role>
  __device__ __forceinline__ void store(const Role& role, const vector_stream::Output& out,
                                        const vector_stream::Sums& sums, const Fetched&) const {
    store_unit(UnitInLanes{sums.first, out.row_of_unit, role.lane}, out.row, first_unit + out.unit,
               out.wanted);
  }

  template <class Role, uint32_t kValues>
  __device__ __forceinline__ void finish_tile(Role& role, const WarpTile& tile, float (&d)[kValues]) const {
    tile_stream::for_scaled_units(role, tile, d, num_units,
                                  [&](uint32_t row, uint32_t unit, const float(&values)[kUnitRows]) {
                                    store_unit(UnitInThread{values}, row, first_unit + unit, true);
                                  });
  }

 private:
  // Unit `unit` of the vocabulary. All lanes call it, whether the unit is wanted or not.
  template <class Unit>
  __device__ __forceinline__ void store_unit(const Unit& values, size_t row, uint32_t unit,
                                             bool wanted) const {
    const uint32_t first = unit * kUnitRows, count = min(kUnitRows, vocab - first);
    const UnitSoftmax softmax = values.softmax(count);
    if (!wanted) return;
    values.store(logits + row * vocab + first, count, vocab);
    if (values.is_first())
      ptx::store_relaxed(unit_softmax + row * vocabulary_units(vocab) + unit,
                         float2{softmax.largest, softmax.sum});
  }
};

}  // namespace serval::device::epilogues

// lm_head in programs that multiply tiles of rows.
#pragma once

#include "instructions/common/gemm.cuh"
#include "instructions/common/unit_softmax.h"
#include "instructions/lm_head/op.h"
#include "vm/ptx/math.cuh"

namespace serval::device {

template <>
struct GemmOp<LmHead> {
  static __device__ bool in_range(const LmHead& op) {
    return gemm::units_in_range(op.first_unit, op.num_units, gemm::kTileUnits,
                                static_cast<uint32_t>(vocabulary_units(op.vocab))) &&
           gemm::rows_in_range(op);
  }
  static __device__ gemm::Shape shape(const RecordBuffer& buffer, const LmHead& op) {
    return {.activations = tensor<&LmHead::weighted, const std::byte>(buffer),
            .squares = tensor<&LmHead::squares, const float>(buffer),
            .epsilon = op.epsilon,
            .image_rows = op.max_rows,
            .first_row = op.first_row,
            .end_row = op.first_row + op.num_rows,
            .units = gemm::neighbours(op.num_units),
            .cols = op.hidden,
            .logits_only = 1,
            .adds = 0,
            .block_table = nullptr,
            .blocks_of_sequence = 0};
  }
  static __device__ gemm::Pages pages_of(const BoundProgram& program, const LmHead& op, uint32_t) {
    gemm::Pages pages = gemm::weight_pages(program, op);
    pages.unit -= op.weights_unit;
    return pages;
  }
  // Each thread finishes a unit's logits of a token at a time.
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const LmHead& op, const gemm::WarpTile& tile,
                                                     float (&d)[kValues]) {
    if (!gemm::has_units(tile, op.num_units)) return;
    const auto finish = [&](uint32_t block, const float* staged, const gemm::UnitOfToken& mine, bool exists) {
      // Units behind the record's are another rank's, which has their weights.
      const uint32_t of_tile = mine.warpgroup * gemm::kWarpgroupUnits + mine.unit;
      if (!exists || of_tile >= op.num_units) return;
      const uint32_t unit = op.first_unit + of_tile, first = unit * kUnitRows;
      const uint32_t count = min(kUnitRows, op.vocab - first);
      const uint32_t token = block * gemm::kStagedTokens + mine.token;
      const size_t row = tile.first_token + token;
      float values[kUnitRows];
      gemm::load_unit(values, staged, mine.token, mine.unit);
      const float scale = gemm::workspace(role.s).scales[tile.buffer][token];
#pragma unroll
      for (float& value : values) value *= scale;
      float* logits = tensor<&LmHead::logits, float>(*role.buffer) + first;
      auto* softmax = tensor<&LmHead::unit_softmax, float2>(*role.buffer) + unit;
      store_logits(logits + row * op.vocab, values, count, op.vocab % 4 == 0);
      ptx::store_relaxed(softmax + row * vocabulary_units(op.vocab), softmax_of(values, count));
    };
    gemm::for_staged<gemm::UnitOfToken>(role, tile, d, finish);
  }

 private:
  static __device__ __forceinline__ void store_logits(float* to, const float (&values)[kUnitRows],
                                                      uint32_t count, bool aligned) {
    if (count == kUnitRows && aligned) {
      reinterpret_cast<float4*>(to)[0] = {values[0], values[1], values[2], values[3]};
      reinterpret_cast<float4*>(to)[1] = {values[4], values[5], values[6], values[7]};
      return;
    }
#pragma unroll
    for (uint32_t i = 0; i < kUnitRows; ++i) {
      if (i < count) ptx::store_relaxed(to + i, values[i]);
    }
  }
  // As common/unit_softmax.h has it.
  static __device__ __forceinline__ float2 softmax_of(const float (&values)[kUnitRows], uint32_t count) {
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
};

}  // namespace serval::device

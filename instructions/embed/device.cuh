#pragma once

#include "instructions/common/residual.cuh"
#include "instructions/common/token_table.cuh"
#include "instructions/embed/op.h"
#include "vm/device/op.cuh"
#include "vm/layout/slab_image.h"

namespace serval::device {

template <>
struct DeviceOp<Embed> : GroupOp {
  static constexpr bool kStartsBeforeGate = true;  // to compute addresses and load the norm

  static __device__ bool in_range(const Embed& op, const ProgramShape&) {
    const uint32_t units = op.hidden / kUnitRows;
    return op.first_unit < units && op.num_units <= units - op.first_unit;
  }

  template <class Config>
  static __device__ __forceinline__ void run(const Embed& op, const Group& group) {
    if constexpr (Config::kMultipliesTiles)
      run_rows<Config>(op, group);
    else
      run_columns<Config>(op, group);
  }

 private:
  // Each thread has a column; eight neighbouring threads have a unit.
  template <class Config>
  static __device__ __forceinline__ void run_columns(const Embed& op, const Group& group) {
    const residual::Place to{
        group.tensor<&Embed::residual, float>(), group.tensor<&Embed::weighted, std::byte>(),
        group.tensor<&Embed::squares, float>(), op.hidden, Config::kTileOrder ? group.shape.limits.rows : 0};
    const auto* norms = group.tensor<&Embed::norm, const uint16_t>();
    const uint32_t unit_lanes = ((1u << kUnitRows) - 1) << (group.lane & ~(kUnitRows - 1));
    const uint32_t end = (op.first_unit + op.num_units) * kUnitRows;
    uint32_t col = op.first_unit * kUnitRows + group.thread;
    // Threads without a column repeat the last one.
    TableColumn column = column_at(op, group, min(col, end - 1));
    uint16_t norm = __ldg(norms + min(col, end - 1));
    group.wait_inputs();
    const uint32_t active =
        __ballot_sync(~0u, group.lane < kTableRows && row_is_active(group.rows[group.lane % kTableRows]));
#pragma unroll 1
    while (col < end) {
      store_rows(to, group.rows, active, column, col, norm, unit_lanes);
      col += kGroupThreads;
      if (col >= end) break;
      column = column_at(op, group, col);
      norm = __ldg(norms + col);
    }
  }

  // A warp processes the columns of a sum of squares, two columns a lane, for several rows at a time.
  template <class Config>
  static __device__ __forceinline__ void run_rows(const Embed& op, const Group& group) {
    static_assert(kSquareColsOfTiles == 2 * kWarpThreads);
    const uint32_t groups = op.num_units * kUnitRows / kSquareColsOfTiles;
    const auto* norms = group.tensor<&Embed::norm, const uint16_t>();
    group.wait_inputs();
    const uint32_t tasks = groups * op.num_rows;
#pragma unroll 1
    for (uint32_t task = group.warp * kRowsAtOnce; task < tasks; task += kConsumerWarps * kRowsAtOnce) {
      uint32_t values[kRowsAtOnce];
#pragma unroll
      for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
        const uint32_t row = op.first_row + (task + i) % op.num_rows;
        values[i] = 0;
        if (task + i < tasks && row_is_active(group.rows[row]))
          values[i] = column_at(op, group, column_of(op, group, task + i))
                          .load_pair(static_cast<uint32_t>(group.rows[row].token));
      }
#pragma unroll
      for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
        const uint32_t row = op.first_row + (task + i) % op.num_rows;
        if (task + i >= tasks || !row_is_active(group.rows[row])) continue;
        const uint32_t col = column_of(op, group, task + i);
        const uint32_t norm = __ldg(reinterpret_cast<const uint32_t*>(norms + col));
        store_pair<Config>(op, group, row, col, values[i], norm);
      }
    }
  }
  static __device__ __forceinline__ uint32_t column_of(const Embed& op, const Group& group, uint32_t task) {
    return op.first_unit * kUnitRows + task / op.num_rows * kSquareColsOfTiles + group.lane * 2;
  }
  template <class Config>
  static __device__ __forceinline__ void store_pair(const Embed& op, const Group& group, uint32_t row,
                                                    uint32_t col, uint32_t values, uint32_t norm) {
    const float2 value{ptx::bf16_low(values), ptx::bf16_high(values)};
    const float squares = residual::warp_sum(__fmul_rn(value.x, value.x) + __fmul_rn(value.y, value.y));
    float* to = group.tensor<&Embed::residual, float>() + size_t{row} * op.hidden + col;
    ptx::store_relaxed(reinterpret_cast<float2*>(to), value);
    std::byte* weighted = group.tensor<&Embed::weighted, std::byte>();
    const uint32_t pair =
        pack_for<Config>(weighted, value.x * ptx::bf16_low(norm), value.y * ptx::bf16_high(norm));
    ptx::store_relaxed(
        reinterpret_cast<uint32_t*>(without_type(weighted) +
                                    slab_image::offset(group.shape.limits.rows, op.hidden, row, col)),
        pair);
    if (group.lane == 0)
      ptx::store_relaxed(group.tensor<&Embed::squares, float>() +
                             size_t{row} * (op.hidden / kSquareColsOfTiles) + col / kSquareColsOfTiles,
                         squares);
  }
  // Rows whose loads are in flight at the same time.
  static constexpr uint32_t kRowsAtOnce = 4;

  static __device__ __forceinline__ TableColumn column_at(const Embed& op, const Group& group, uint32_t col) {
    return {group.tensor<&Embed::table, const std::byte>(), op.hidden, col};
  }

  // Stores the column for all rows in the mask `active`.
  static __device__ __forceinline__ void store_rows(const residual::Place& to, const PassRow* rows,
                                                    uint32_t active, const TableColumn& column, uint32_t col,
                                                    uint16_t norm, uint32_t unit_lanes) {
#pragma unroll 1
    while (active != 0) {
      uint32_t row[kRowsAtOnce];
      uint16_t value[kRowsAtOnce];
#pragma unroll
      for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
        row[i] = kTableRows;  // none
        value[i] = 0;
        if (active == 0) continue;
        row[i] = static_cast<uint32_t>(__ffs(static_cast<int>(active))) - 1;
        value[i] = column.load(static_cast<uint32_t>(rows[row[i]].token));
        active &= active - 1;
      }
#pragma unroll
      for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
        if (row[i] == kTableRows) break;
        residual::store(to, row[i], col, ptx::bf16_low(value[i]), norm, true, unit_lanes);
      }
    }
  }
};

}  // namespace serval::device

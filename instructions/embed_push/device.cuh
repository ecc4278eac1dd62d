#pragma once

#include "instructions/common/operands.cuh"
#include "instructions/common/token_table.cuh"
#include "instructions/embed_push/op.h"
#include "vm/device/op.cuh"
#include "vm/ptx/ptx.cuh"
#include "vm/state/limits.h"

namespace serval::device {

// In kernels with a table of rows, a thread has one column of all rows. In kernels of tiles, a warp has 64
// columns of a row, two neighbouring ones a lane.
template <>
struct DeviceOp<EmbedPush> : GroupOp {
  using Op = EmbedPush;
  static constexpr bool kStartsBeforeGate = true;  // to find its columns and their destinations

  template <class Config>
  static __device__ bool in_range(const Op& op, const ProgramShape& program) {
    const uint32_t units = op.out_cols / kUnitRows;
    const bool good = op.ranks != 0 && op.ranks <= kMaxDevices && op.rank < op.ranks &&
                      op.out_cols % op.ranks == 0 && op.first_unit < units && op.num_units > 0 &&
                      op.num_units <= units - op.first_unit;
    if constexpr (Config::kMultipliesTiles) {
      // Pairs of columns must belong to one slice.
      return good && op.out_cols / op.ranks % 2 == 0 && op.num_units % kWarpUnits == 0 &&
             rows_in_range(op, program) && op.num_rows <= kLargestRows;
    }
    return good && program.limits.rows <= kTableRows;
  }

  template <class Config>
  static __device__ __forceinline__ void run(const Op& op, const Group& group) {
    if constexpr (Config::kMultipliesTiles)
      run_rows(op, group);
    else
      run_columns(op, group);
  }

 private:
  static constexpr uint32_t kWarpCols = 2 * kWarpThreads, kWarpUnits = kWarpCols / kUnitRows;
  // Rows (or tasks) whose loads are in flight at the same time.
  static constexpr uint32_t kRowsAtOnce = 4, kTasksAtOnce = 8;
  static constexpr uint32_t kNoRow = ~0u;

  static __device__ __forceinline__ TableColumn column_at(const Op& op, const Group& group, uint32_t col) {
    return {group.tensor<&Op::table, const std::byte>(), op.out_cols, col};
  }
  // Address of this rank's share of an owner's columns, in row 0.
  template <class Sum>
  static __device__ __forceinline__ Sum* partial_at(const Op& op, const Group& group, uint32_t owner) {
    return group.tensor_on<Sum>(op.partial, owner) + op.rank * (op.out_cols / op.ranks);
  }
  // Address of one column of it.
  static __device__ __forceinline__ float* place_of(const Op& op, const Group& group, uint32_t col) {
    const uint32_t width = op.out_cols / op.ranks, owner = col / width;
    return partial_at<float>(op, group, owner) + (col - owner * width);
  }
  // The token's row in this rank's table; at least num_tokens if another rank has the token.
  static __device__ __forceinline__ uint32_t row_of_table(const Op& op, uint32_t token) {
    return token - op.first_token;
  }

  static __device__ __forceinline__ void run_columns(const Op& op, const Group& group) {
    const uint32_t end = (op.first_unit + op.num_units) * kUnitRows;
    uint32_t col = op.first_unit * kUnitRows + group.thread;
    // Threads without a column repeat the last one.
    TableColumn column = column_at(op, group, min(col, end - 1));
    float* to = place_of(op, group, min(col, end - 1));
    group.wait_inputs();
    const bool of_instance = group.lane - op.first_row < op.num_rows && group.lane < kTableRows;
    const uint32_t active =
        __ballot_sync(~0u, of_instance && row_is_active(group.rows[group.lane % kTableRows]));
#pragma unroll 1
    while (col < end) {
      store_rows(op, group, active, column, to);
      col += kGroupThreads;
      if (col >= end) break;
      column = column_at(op, group, col);
      to = place_of(op, group, col);
    }
  }
  // Stores the column for all rows in the mask `active`.
  static __device__ __forceinline__ void store_rows(const Op& op, const Group& group, uint32_t active,
                                                    const TableColumn& column, float* to) {
#pragma unroll 1
    while (active != 0) {
      uint32_t row[kRowsAtOnce];
      uint16_t value[kRowsAtOnce];
#pragma unroll
      for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
        row[i] = kNoRow;
        value[i] = 0;
        if (active == 0) continue;
        row[i] = static_cast<uint32_t>(__ffs(static_cast<int>(active))) - 1;
        const uint32_t at = row_of_table(op, static_cast<uint32_t>(group.rows[row[i]].token));
        if (at < op.num_tokens) value[i] = column.load(at);
        active &= active - 1;
      }
#pragma unroll
      for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
        if (row[i] == kNoRow) break;
        ptx::store_relaxed(to + size_t{row[i]} * op.out_cols, ptx::bf16_low(value[i]));
      }
    }
  }

  // Values in scratch memory that are looked up once: an access to L2 for each 64 columns would take most of
  // the time.
  struct LookedUp {
    uint16_t* partial[kMaxDevices];  // by rank
    uint32_t at[kLargestRows];  // by row of the instance: row of the table; num_tokens: another rank has it;
                                // kNoRow
  };
  static_assert(sizeof(LookedUp) <= kScratchBytes);

  // The warps take turns at 64 columns of a row.
  static __device__ __forceinline__ void run_rows(const Op& op, const Group& group) {
    auto& looked_up = *reinterpret_cast<LookedUp*>(group.scratch);
    if (group.thread < op.ranks)
      looked_up.partial[group.thread] = partial_at<uint16_t>(op, group, group.thread);
    group.wait_inputs();
    for (uint32_t row = group.thread; row < op.num_rows; row += kGroupThreads) {
      const PassRow& of_pass = group.rows[op.first_row + row];
      const uint32_t at = row_of_table(op, static_cast<uint32_t>(of_pass.token));
      looked_up.at[row] = row_is_active(of_pass) ? min(at, op.num_tokens) : kNoRow;
    }
    group.sync();
    const uint32_t tasks = op.num_units / kWarpUnits * op.num_rows;
#pragma unroll 1
    for (uint32_t task = group.warp; task < tasks; task += kConsumerWarps * kTasksAtOnce) {
      uint32_t values[kTasksAtOnce];
#pragma unroll
      for (uint32_t i = 0; i < kTasksAtOnce; ++i) {
        const Task mine(op, group, task + i * kConsumerWarps);
        values[i] = 0;
        if (task + i * kConsumerWarps < tasks && looked_up.at[mine.row] < op.num_tokens)
          values[i] = column_at(op, group, mine.col).load_pair(looked_up.at[mine.row]);
      }
#pragma unroll
      for (uint32_t i = 0; i < kTasksAtOnce; ++i) {
        const Task mine(op, group, task + i * kConsumerWarps);
        if (task + i * kConsumerWarps >= tasks || looked_up.at[mine.row] == kNoRow) continue;
        const uint32_t width = op.out_cols / op.ranks, owner = mine.col / width;
        uint16_t* to = looked_up.partial[owner] + (mine.col - owner * width) +
                       size_t{op.first_row + mine.row} * op.out_cols;
        ptx::store_relaxed(reinterpret_cast<uint32_t*>(to), values[i]);
      }
    }
  }
  // A row of the instance, and the first of a lane's two columns.
  struct Task {
    uint32_t row, col;

    __device__ __forceinline__ Task(const Op& op, const Group& group, uint32_t task)
        : row(task % op.num_rows),
          col(op.first_unit * kUnitRows + task / op.num_rows * kWarpCols + group.lane * 2) {}
  };
};

}  // namespace serval::device

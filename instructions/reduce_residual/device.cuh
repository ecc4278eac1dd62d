#pragma once

#include "instructions/common/operands.cuh"
#include "instructions/common/residual.cuh"
#include "instructions/common/residual_piece.cuh"
#include "instructions/common/tile_shape.h"
#include "instructions/reduce_residual/op.h"
#include "vm/device/op.cuh"
#include "vm/ptx/memory.cuh"
#include "vm/state/limits.h"

namespace serval::device {

// In kernels with a table of rows, a thread has a column of a row, eight neighbouring threads a unit. In
// kernels of tiles, 8 lanes have 64 columns of a row, a warp four rows, as in add_parts. There, the squares
// of a row's columns are pushed together: across the link, 4 bytes take as long as 128.
template <>
struct DeviceOp<ReduceResidual> : GroupOp {
  using Op = ReduceResidual;
  static constexpr bool kStartsEarly = true;  // to find the destinations and the computed rows

  template <class Config>
  static __device__ bool in_range(const Op& op, const ProgramShape& program) {
    const uint32_t units = op.out_cols / kUnitRows;
    const bool good = op.ranks != 0 && op.ranks <= kMaxDevices && op.rank < op.ranks &&
                      op.first_unit < units && op.num_units <= units - op.first_unit;
    if constexpr (Config::kMultipliesTiles) {
      return good && op.num_units > 0 && op.num_units % kGroupUnits == 0 &&
             kMostUnitsReduced % op.num_units == 0 && op.first_unit % op.num_units == 0 &&
             units % op.num_units == 0 && rows_in_range(op, program) && op.num_rows <= kMostRows;
    }
    return good && program.limits.rows <= kTableRows;
  }

  template <class Config>
  static __device__ __forceinline__ void run(const Op& op, const Group& group) {
    if constexpr (Config::kMultipliesTiles)
      run_pieces(op, group);
    else
      run_columns(op, group);
  }

 private:
  static __device__ __forceinline__ void run_columns(const Op& op, const Group& group) {
    const Places to(op, group);
    const uint32_t cols = op.num_units * kUnitRows;
    const uint32_t unit_lanes = ((1u << kUnitRows) - 1) << (group.lane & ~(kUnitRows - 1));
    const PassRow& row = group.rows[group.lane % kTableRows];
    const bool of_instance = group.lane - op.first_row < op.num_rows && group.lane < kTableRows;
    const uint32_t computed =
        __ballot_sync(~0u, of_instance && contains(computed_rows(op.logits_only != 0), row));
    // The norm of a thread's first column, which is its only one in most instances.
    const uint16_t first_norm = to.norm_of(group.thread % cols);
    group.wait_inputs();
    const uint32_t items = (kWarpThreads - __clz(static_cast<int>(computed))) * cols;
#pragma unroll 1
    for (uint32_t item = group.thread; item < items; item += kGroupThreads) {
      const uint32_t r = item / cols, at = item - r * cols;
      const uint16_t norm = item == group.thread ? first_norm : to.norm_of(at);
      if ((computed >> r & 1) != 0) add(op, to, r, at, norm, unit_lanes);
    }
  }

  // Addresses for the instance's columns.
  struct Places {
    const float* partial;
    const uint16_t* norm;
    float* residual;
    std::byte* weighted[kMaxDevices];  // on each rank
    float* squares[kMaxDevices];

    __device__ __forceinline__ Places(const Op& op, const Group& group)
        : partial(group.tensor<&Op::partial, const float>() + partial_col(op, 0)),
          norm(group.tensor<&Op::norm, const uint16_t>() + op.first_unit * kUnitRows),
          residual(group.tensor<&Op::residual, float>()) {
#pragma unroll
      for (uint32_t k = 0; k < kMaxDevices; ++k) {
        if (k >= op.ranks) continue;
        weighted[k] = group.tensor_on<std::byte>(op.weighted, k);
        squares[k] = group.tensor_on<float>(op.squares, k);
      }
    }
    __device__ __forceinline__ uint16_t norm_of(uint32_t col) const {
      return __ldg(norm + col);
    }
  };

  // Column `at` of the instance, in row `row`.
  static __device__ __forceinline__ void add(const Op& op, const Places& to, uint32_t row, uint32_t at,
                                             uint16_t norm, uint32_t unit_lanes) {
    const uint32_t width = op.out_cols / op.ranks, col = op.first_unit * kUnitRows + at;
    const float* partial = to.partial + size_t{row} * op.out_cols + at;
    float* residual = to.residual + size_t{row} * op.out_cols + col;
    const float before = op.begins != 0 ? 0.0F : ptx::load_relaxed(residual);
    float terms[kMaxDevices];
#pragma unroll
    for (uint32_t k = 0; k < kMaxDevices; ++k) {
      if (k < op.ranks) terms[k] = ptx::load_relaxed(partial + k * width);
    }
    float sum = terms[0];
#pragma unroll
    for (uint32_t k = 1; k < kMaxDevices; ++k) {
      if (k < op.ranks) sum += terms[k];
    }
    const float value = sum + before;
    const residual::NextInput values = residual::next_input(value, norm, unit_lanes);
#pragma unroll
    for (uint32_t k = 0; k < kMaxDevices; ++k) {
      if (k < op.ranks)
        residual::store_next_input({nullptr, to.weighted[k], to.squares[k], op.out_cols}, row, col, values);
    }
    ptx::store_relaxed(residual, value);
  }

  using Values = residual::Piece::Values;
  // Ranks whose sums, and rows per lane, whose loads are in flight at the same time.
  static constexpr uint32_t kRanksAtOnce = 4, kRowsAtOnce = 2;
  static constexpr uint32_t kWarpRows = kWarpThreads / residual::kPieceLanes;
  // Limits of an instance: groups of 64 columns, and rows.
  static constexpr uint32_t kGroupUnits = kSquareColsOfTiles / kUnitRows,
                            kMostGroups = kMostUnitsReduced / kGroupUnits, kMostRows = 256;

  // Values in scratch memory, looked up before the inputs are ready: an access to L2 for each row and rank
  // would take most of the time.
  struct LookedUp {
    // Distances in bytes from this rank's tensors to each rank's.
    int64_t weighted[kMaxDevices], squares[kMaxDevices];
    bool exists[kMostRows];  // by row of the instance
    // Sums of squares of their columns.
    alignas(sizeof(float4)) float squares_of[kMostRows][kMostGroups];
  };
  static_assert(sizeof(LookedUp) <= kScratchBytes);

  // A warp has the same 64 columns in all of its rows.
  static __device__ __forceinline__ void run_pieces(const Op& op, const Group& group) {
    auto& looked_up = *reinterpret_cast<LookedUp*>(group.scratch);
    const residual::TilePlace place = look_up(op, group, looked_up);
    const uint32_t groups = op.num_units * kUnitRows / kSquareColsOfTiles;
    const uint32_t step = kConsumerWarps / groups * kWarpRows;  // distance between a lane's rows
    const uint32_t begin = group.warp / groups * kWarpRows, of_warp = group.lane / residual::kPieceLanes;
    const uint32_t col = op.first_unit * kUnitRows + group.warp % groups * kSquareColsOfTiles +
                         residual::piece_col(group.lane);
    residual::Piece to(place, op.first_row + begin + of_warp, col, group.lane % slab_image::kPiecesOfHalf);
    group.wait_inputs();
    group.sync();
#pragma unroll 1
    for (uint32_t first = begin; first < op.num_rows; first += kRowsAtOnce * step) {
      bool exists[kRowsAtOnce];
#pragma unroll
      for (uint32_t r = 0; r < kRowsAtOnce; ++r) {
        const uint32_t row = first + r * step + of_warp;
        exists[r] = row < op.num_rows && looked_up.exists[row];
      }
      Values sums[kRowsAtOnce] = {};
      add_up(op, group, op.first_row + first + of_warp, step, col, exists, sums);
#pragma unroll
      for (uint32_t r = 0; r < kRowsAtOnce; ++r) {
        const float squares = push(op, to, sums[r], exists[r], looked_up);
        if (exists[r] && group.lane % residual::kPieceLanes == 0)
          looked_up.squares_of[first + r * step + of_warp][group.warp % groups] = squares;
        to.advance(step);
      }
    }
    group.sync();
    push_squares(op, group, place.squares, groups, looked_up);
  }
  // Returns this rank's own destination.
  static __device__ __forceinline__ residual::TilePlace look_up(const Op& op, const Group& group,
                                                                LookedUp& to) {
    const residual::TilePlace own{.residual = group.tensor<&Op::residual, float>(),
                                  .norm = group.tensor<&Op::norm, const uint16_t>(),
                                  .weighted = group.tensor_on<std::byte>(op.weighted, op.rank),
                                  .squares = group.tensor_on<float>(op.squares, op.rank),
                                  .image_rows = group.shape.limits.rows,
                                  .cols = op.out_cols};
    const auto byte_offset = [](const void* tensor, const void* of_own) {
      return reinterpret_cast<int64_t>(tensor) - reinterpret_cast<int64_t>(of_own);
    };
    if (const uint32_t rank = group.thread; rank < op.ranks) {
      to.weighted[rank] = byte_offset(group.tensor_on<void>(op.weighted, rank), own.weighted);
      to.squares[rank] = byte_offset(group.tensor_on<void>(op.squares, rank), own.squares);
    }
    for (uint32_t row = group.thread; row < op.num_rows; row += kGroupThreads)
      to.exists[row] = row_is_computed(group.rows[op.first_row + row], op.logits_only);
    return own;
  }

  // Adds the ranks' sums in their order, then the residual, for rows `row`, row + step, …
  static __device__ __forceinline__ void add_up(const Op& op, const Group& group, uint32_t row, uint32_t step,
                                                uint32_t col, const bool (&exists)[kRowsAtOnce],
                                                Values (&sums)[kRowsAtOnce]) {
    // Kept in registers: values in shared memory would be read again for each load.
    const uint32_t cols = op.out_cols, ranks = op.ranks, width = cols / ranks;
    const size_t next = size_t{step} * cols, first_of_row = size_t{row} * cols;
    const float* const residual = group.tensor<&Op::residual, const float>() + first_of_row + col;
    const uint16_t* const partial = group.tensor<&Op::partial, const uint16_t>() + first_of_row + col % width;
    Values before[kRowsAtOnce] = {};
    const bool begins = op.begins != 0;
#pragma unroll
    for (uint32_t r = 0; r < kRowsAtOnce; ++r) {
      if (exists[r] && !begins) residual::load_piece(residual + r * next, before[r]);
    }
#pragma unroll 1
    for (uint32_t first = 0; first < ranks; first += kRanksAtOnce) {
      Pairs terms[kRowsAtOnce][kRanksAtOnce] = {};
#pragma unroll
      for (uint32_t r = 0; r < kRowsAtOnce; ++r) {
#pragma unroll
        for (uint32_t k = 0; k < kRanksAtOnce; ++k) {
          if (exists[r] && first + k < ranks)
            load_sums(partial + r * next + (first + k) * width, terms[r][k]);
        }
      }
#pragma unroll
      for (uint32_t r = 0; r < kRowsAtOnce; ++r) {
#pragma unroll
        for (uint32_t k = 0; k < kRanksAtOnce; ++k) {
          if (first + k < ranks) add_term(terms[r][k], first + k == 0, sums[r]);
        }
      }
    }
#pragma unroll
    for (uint32_t r = 0; r < kRowsAtOnce; ++r) residual::add_piece(before[r], sums[r]);
  }
  // A rank's sums of a piece, two columns in a word.
  using Pairs = uint32_t[residual::Piece::kUnits];
  static __device__ __forceinline__ void load_sums(const uint16_t* from, Pairs& sums) {
#pragma unroll
    for (uint32_t u = 0; u < residual::Piece::kUnits; ++u)
      sums[u] = ptx::load_relaxed(reinterpret_cast<const uint32_t*>(from + u * kUnitRows));
  }
  static __device__ __forceinline__ void add_term(const Pairs& term, bool is_first, Values& sums) {
#pragma unroll
    for (uint32_t u = 0; u < residual::Piece::kUnits; ++u) {
      const float low = ptx::bf16_low(term[u]), high = ptx::bf16_high(term[u]);
      sums[u].x = is_first ? low : sums[u].x + low;
      sums[u].y = is_first ? high : sums[u].y + high;
    }
  }

  // Calls to(rank) for all ranks, beginning with the next one, so that the ranks do not all push to the same
  // rank at a time.
  template <class To>
  static __device__ __forceinline__ void for_ranks(const Op& op, To&& to) {
    const uint32_t ranks = op.ranks, own = op.rank;
    uint32_t k = own;
#pragma unroll 1
    do {
      k = k + 1 < ranks ? k + 1 : 0;
      to(k);
    } while (k != own);
  }
  // Pushes the piece to all ranks, except for the residual, which is stored here. Returns the squares of the
  // 64 columns. Called by all lanes of the warp together.
  static __device__ __forceinline__ float push(const Op& op, const residual::Piece& to, const Values& sums,
                                               bool exists, const LookedUp& looked_up) {
    const residual::Piece::NextInput next = to.next_input(sums);
    if (exists) {
      to.store_residual(sums);
      for_ranks(op, [&](uint32_t k) { to.store_words(next, looked_up.weighted[k]); });
    }
    return next.squares;
  }
  // A thread pushes the squares of one row. `own`: this rank's tensor.
  static __device__ __forceinline__ void push_squares(const Op& op, const Group& group, float* own,
                                                      uint32_t groups, const LookedUp& looked_up) {
    const uint32_t sums_of_row = op.out_cols / kSquareColsOfTiles,
                   first = op.first_unit * kUnitRows / kSquareColsOfTiles;
#pragma unroll 1
    for (uint32_t row = group.thread; row < op.num_rows; row += kGroupThreads) {
      if (!looked_up.exists[row]) continue;
      float* const at = own + size_t{op.first_row + row} * sums_of_row + first;
      const float4 squares = *reinterpret_cast<const float4*>(looked_up.squares_of[row]);
      for_ranks(op, [&](uint32_t k) {
        auto* const to = reinterpret_cast<std::byte*>(at) + looked_up.squares[k];
        if (groups == kMostGroups)
          *reinterpret_cast<float4*>(to) = squares;
        else if (groups == 2)
          *reinterpret_cast<float2*>(to) = {squares.x, squares.y};
        else
          *reinterpret_cast<float*>(to) = squares.x;
      });
    }
  }
};

}  // namespace serval::device

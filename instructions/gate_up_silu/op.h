// The MLP's first half: x = rms_norm(residual) as weighted rows and a scale
// (common/residual.h), output[r, j] = silu(gate[j] · x) × (up[j] · x).
#pragma once

#include <array>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/residual.h"
#include "instructions/product/product.h"
#include "vm/layout/units.h"

namespace serval {

struct GateUpSilu {
  TensorId weighted;
  TensorId squares;
  TensorId gate;
  TensorId up;
  TensorId rows;
  TensorId output;
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t hidden;
  uint32_t intermediate;
  float epsilon;
  uint32_t logits_only = 0;
  uint32_t first_row = 0;
  uint32_t num_rows;

  static constexpr std::array kWeights = {&GateUpSilu::gate, &GateUpSilu::up};
  static constexpr uint32_t kMatrices = 2;
  static constexpr auto kInput = &GateUpSilu::weighted;
  static constexpr auto kInputSquares = &GateUpSilu::squares;

  static constexpr std::array kWindows = {&GateUpSilu::first_unit, &GateUpSilu::num_units,
                                          &GateUpSilu::first_row, &GateUpSilu::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&GateUpSilu::weighted, "weighted",
      "in [max_rows, hidden] bf16 or f16, or e4m3 with scales: residual * norm");
    v(&GateUpSilu::squares, "squares", "in [max_rows, hidden / square_cols] f32: of the residual");
    v(&GateUpSilu::gate, "gate", "in [intermediate, hidden] bf16 or codes");
    v(&GateUpSilu::up, "up", "in [intermediate, hidden] bf16 or codes");
    v(&GateUpSilu::rows, "rows", "in: the pass's rows");
    v(&GateUpSilu::output, "output", "out [max_rows, intermediate] bf16 or f16");
    v(&GateUpSilu::first_unit, "first_unit", "units of 8 rows of gate and 8 of up");
    v(&GateUpSilu::num_units, "num_units", "units of 8 rows of gate and 8 of up");
    v(&GateUpSilu::hidden, "hidden", "columns");
    v(&GateUpSilu::intermediate, "intermediate", "columns");
    v(&GateUpSilu::epsilon, "epsilon", "of the RMS norm");
    v(&GateUpSilu::logits_only, "logits_only", "1: only rows of which logits are wanted; 0: all");
    v(&GateUpSilu::first_row, "first_row", "rows of the pass");
    v(&GateUpSilu::num_rows, "num_rows", "rows of the pass");
  }
};

constexpr Product product(const GateUpSilu& op, const ProgramShape&) {
  return whole_product(op.intermediate / kUnitRows, op.hidden, op.logits_only != 0);
}

inline void footprint(const GateUpSilu& op, const StateView*, FootprintBuilder<GateUpSilu>& f) {
  const RowSet rows = computed_rows(op.logits_only != 0);
  const uint64_t begin = uint64_t{op.first_unit} * kUnitRows,
                 end = begin + uint64_t{op.num_units} * kUnitRows;
  f.read_rows<&GateUpSilu::weighted>(rows, 0, op.hidden);
  f.read_rows<&GateUpSilu::squares>(rows, 0, op.hidden / square_cols(f.shape().order));
  f.read<&GateUpSilu::gate>({begin, end, 0, op.hidden});
  f.read<&GateUpSilu::up>({begin, end, 0, op.hidden});
  f.pass_rows<&GateUpSilu::rows>();
  f.write_rows<&GateUpSilu::output>(rows, begin, end);
}

// In programs of tiles, an instance is a tile: of 8 units of gate and 8 of up, or twice as many if the sums
// of a pass's rows leave enough registers (instructions/product/orders/sm90/tile_stream.cuh).
inline constexpr uint32_t kUnitsOfPairTile = 8;
inline constexpr uint32_t kUnitsOfWidePairTile = 2 * kUnitsOfPairTile;

inline void check_tile(const GateUpSilu& op, OperandCheck& c) {
  c.require(op.num_units <= kUnitsOfWidePairTile, "num_units", op.num_units, "up to 16 in a tile");
  c.require(op.num_units <= kUnitsOfPairTile || c.shape().limits.rows <= kMostWideTileRows, "num_units",
            op.num_units, "up to 8 in a tile of passes of more than 64 rows");
}

inline void check(const GateUpSilu& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.rows_of_pass(op.first_row, op.num_rows);
  c.require(op.logits_only <= 1, "logits_only", op.logits_only, "0 or 1");
  c.dimension("hidden", op.hidden, kTileDim);
  c.factor("epsilon", op.epsilon);
  c.dimension("intermediate", op.intermediate, kTileDim);
  c.range("first_unit", op.first_unit, op.num_units, op.intermediate / kUnitRows);
  c.weighted_input(op.weighted, op.squares, op.hidden);
  c.weights("gate", op.gate, op.intermediate, op.hidden);
  c.weights("up", op.up, op.intermediate, op.hidden);
  c.product_input("output", op.output, op.intermediate);
  if (c.shape().order == Order::kTile) check_tile(op, c);
}

}  // namespace serval

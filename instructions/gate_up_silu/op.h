// The MLP's first half: x = rms_norm(residual), output[r, j] = silu(gate[j] · x) × (up[j] · x).
#pragma once

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "vm/units.h"

namespace serval {

struct GateUpSilu {
  TensorId residual;
  TensorId norm;
  TensorId gate;
  TensorId up;
  TensorId rows;
  TensorId output;
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t hidden;
  uint32_t intermediate;
  float epsilon;

  template <class V>
  static constexpr void fields(V&& v) {
    v(&GateUpSilu::residual, "residual", "in [16, hidden] f32");
    v(&GateUpSilu::norm, "norm", "in [1, hidden] bf16");
    v(&GateUpSilu::gate, "gate", "in [intermediate, hidden] bf16");
    v(&GateUpSilu::up, "up", "in [intermediate, hidden] bf16");
    v(&GateUpSilu::rows, "rows", "in: the pass's rows");
    v(&GateUpSilu::output, "output", "out [16, intermediate] bf16");
    v(&GateUpSilu::first_unit, "first_unit", "units of 8 rows of gate and 8 of up");
    v(&GateUpSilu::num_units, "num_units", "units of 8 rows of gate and 8 of up");
    v(&GateUpSilu::hidden, "hidden", "columns");
    v(&GateUpSilu::intermediate, "intermediate", "columns");
    v(&GateUpSilu::epsilon, "epsilon", "of the RMS norm");
  }
};

inline void footprint(const GateUpSilu& op, const StateView*, FootprintBuilder<GateUpSilu>& f) {
  const uint64_t begin = uint64_t{op.first_unit} * kUnitRows,
                 end = begin + uint64_t{op.num_units} * kUnitRows;
  f.active_rows<&GateUpSilu::residual>(Access::kRead, 0, op.hidden);
  f.read<&GateUpSilu::norm>({0, 1, 0, op.hidden});
  f.read<&GateUpSilu::gate>({begin, end, 0, op.hidden});
  f.read<&GateUpSilu::up>({begin, end, 0, op.hidden});
  f.pass_rows<&GateUpSilu::rows>();
  f.active_rows<&GateUpSilu::output>(Access::kWrite, begin, end);
}

inline Cost cost(const GateUpSilu& op, const CostContext& c) {
  const uint64_t weights = 2 * uint64_t{op.num_units} * kUnitRows * op.hidden;
  return {.bytes = weights * size_of(DType::kBF16) + uint64_t{c.rows} * op.hidden * size_of(DType::kF32),
          .operations = 2 * weights * c.rows};
}

inline PageNeed pages(const GateUpSilu&) {
  return {.pinned = 0, .streaming = 2};
}  // a page of the gate and one of up at a time

inline void check(const GateUpSilu& op, OperandCheck& c) {
  c.dimension("hidden", op.hidden, kTileDim);
  c.factor("epsilon", op.epsilon);
  c.dimension("intermediate", op.intermediate, kTileDim);
  c.range("first_unit", op.first_unit, op.num_units, op.intermediate / kUnitRows);
  c.tensor("residual", op.residual, DType::kF32, TensorKind::kActivation, kMaxRows, op.hidden);
  c.tensor("norm", op.norm, DType::kBF16, TensorKind::kWeight, 1, op.hidden);
  c.tensor("gate", op.gate, DType::kBF16, TensorKind::kWeight, op.intermediate, op.hidden);
  c.tensor("up", op.up, DType::kBF16, TensorKind::kWeight, op.intermediate, op.hidden);
  c.tensor("rows", op.rows, DType::kBytes, TensorKind::kState, kMaxRows, sizeof(PassRow));
  c.tensor("output", op.output, DType::kBF16, TensorKind::kActivation, kMaxRows, op.intermediate);
}

}  // namespace serval

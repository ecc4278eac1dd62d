// Pushes the results of `advance` to another rank: the rows of the next pass, and whether one follows.
// Nothing else of the state block that a rank reads changes within a launch.
#pragma once

#include <array>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "vm/state/control.h"
#include "vm/state/rows.h"

namespace serval {

struct PushState {
  TensorId rows;
  TensorId control;
  TensorId peer_rows;
  TensorId peer_control;

  static constexpr std::array kPushed = {&PushState::peer_rows, &PushState::peer_control};
  static constexpr KernelSet kKernels = {.one_device = false};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&PushState::rows, "rows", "in: rows, after the pass");
    v(&PushState::control, "control", "in: the decision");
    v(&PushState::peer_rows, "peer_rows", "out, on another rank: its rows");
    v(&PushState::peer_control, "peer_control", "out, on that rank: its copy of the decision");
  }
};

inline void footprint(const PushState&, const StateView*, FootprintBuilder<PushState>& f) {
  const StateLimits& limits = f.shape().limits;
  f.pass_rows<&PushState::rows>();
  f.read<&PushState::control>({0, 1, 0, sizeof(PassControl)});
  f.write<&PushState::peer_rows>({0, limits.rows, 0, sizeof(PassRow)});
  f.write<&PushState::peer_control>({0, 1, 0, sizeof(PassControl)});
}

inline Cost cost(const PushState&, const CostView& c) {
  return {.cached_bytes = c.pass.rows * sizeof(PassRow), .operations = 0};
}

inline PageNeed pages(const PushState&) {
  return {.pinned = 0, .streaming = 0};
}  // a few words

inline void check(const PushState& op, OperandCheck& c) {
  const StateLimits& limits = c.shape().limits;
  c.pass_rows(op.rows);
  c.tensor("control", op.control, DType::kBytes, TensorKind::kState, 1, sizeof(PassControl));
  c.tensor("peer_rows", op.peer_rows, DType::kBytes, TensorKind::kState, limits.rows, sizeof(PassRow));
  c.tensor("peer_control", op.peer_control, DType::kBytes, TensorKind::kState, 1, sizeof(PassControl));
  c.another("peer_rows", op.peer_rows, op.rows);
  c.another("peer_control", op.peer_control, op.control);
  c.same_rank("peer_control", op.peer_control, op.peer_rows);
}

}  // namespace serval

#include <cmath>

#include "instructions/common/host_op.h"
#include "instructions/common/multiply_weights.h"
#include "instructions/common/pass_rows.h"
#include "instructions/common/residual.h"
#include "instructions/gate_up_silu/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> x;         // [rows, hidden], weighted
  std::vector<float> scales;    // [rows]
  std::vector<float> gate, up;  // [rows, num_units × 8]
};

void load(const GateUpSilu& op, const HostMemory& m, Local& l) {
  select_rows(op, m, computed_rows(op.logits_only != 0), l.rows);
  load_weighted_rows(m, op, l.rows, l.x, l.scales);
}

void compute(const GateUpSilu& op, const HostMemory& m, Local& l) {
  const size_t outputs = size_t{op.num_units} * kUnitRows;
  const size_t first = size_t{op.first_unit} * kUnitRows;
  l.gate.resize(l.rows.size() * outputs);
  l.up.resize(l.rows.size() * outputs);
  multiply_weights(m, all_columns(op.gate, first, outputs, op.hidden), l.x.data(), l.rows.size(),
                   l.gate.data(), outputs);
  multiply_weights(m, all_columns(op.up, first, outputs, op.hidden), l.x.data(), l.rows.size(), l.up.data(),
                   outputs);
  scale_rows(l.scales, l.gate);
  scale_rows(l.scales, l.up);
  for (size_t i = 0; i < l.gate.size(); ++i) l.gate[i] = l.gate[i] / (1.0F + std::exp(-l.gate[i])) * l.up[i];
}

void store(const GateUpSilu& op, const HostMemory& m, Local& l) {
  const size_t outputs = size_t{op.num_units} * kUnitRows;
  for (size_t r = 0; r < l.rows.size(); ++r) {
    uint16_t* to = m.data<uint16_t>(op.output) + size_t{l.rows[r].index} * op.intermediate +
                   size_t{op.first_unit} * kUnitRows;
    for (size_t j = 0; j < outputs; ++j) to[j] = to_16_bits(m.dtype(op.output), l.gate[r * outputs + j]);
  }
}

}  // namespace

SERVAL_HOST_OP(GateUpSilu)

}  // namespace serval

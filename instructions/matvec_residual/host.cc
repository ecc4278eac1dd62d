#include "instructions/common/host_op.h"
#include "instructions/common/matvec.h"
#include "instructions/common/pass_rows.h"
#include "instructions/common/residual.h"
#include "instructions/matvec_residual/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> x;  // [rows, in_cols]
  std::vector<float> y;  // [rows, num_units × 8]
};

void load(const MatvecResidual& op, const HostMemory& m, Local& l) {
  select_rows(op, m, computed_rows(op.logits_only != 0), l.rows);
  load_bf16_rows(m, op.input, l.rows, op.in_cols, 0, op.in_cols, l.x);
}

void compute(const MatvecResidual& op, const HostMemory& m, Local& l) {
  const size_t outputs = size_t{op.num_units} * kUnitRows;
  l.y.resize(l.rows.size() * outputs);
  matvec(m.data<const uint16_t>(op.weights) + size_t{op.first_unit} * kUnitRows * op.in_cols, outputs,
         op.in_cols, l.x.data(), l.rows.size(), l.y.data(), outputs);
}

void store(const MatvecResidual& op, const HostMemory& m, Local& l) {
  const size_t outputs = size_t{op.num_units} * kUnitRows;
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const size_t first = size_t{op.first_unit} * kUnitRows;
    const float* old = m.data<const float>(op.residual) + size_t{l.rows[r].index} * op.out_cols + first;
    float* sum = l.y.data() + r * outputs;
    for (size_t j = 0; j < outputs; ++j) sum[j] += old[j];
    store_residual(op, m, l.rows[r].index, op.out_cols, first, sum, outputs);
  }
}

}  // namespace

SERVAL_HOST_OP(MatvecResidual)

}  // namespace serval

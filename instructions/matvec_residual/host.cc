#include "instructions/common/host_op.h"
#include "instructions/common/multiply_weights.h"
#include "instructions/common/pass_rows.h"
#include "instructions/common/residual.h"
#include "instructions/matvec_residual/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> x[kMaxColumnParts];  // of each part: [rows, its columns]
  std::vector<float> y[kMaxColumnParts];  // of each part: [rows, num_units × 8]
  std::vector<float> scales;              // of the rows, if the input has scales
  std::vector<float> sums;                // of one row: [num_units × 8]
};

void load(const MatvecResidual& op, const HostMemory& m, Local& l) {
  select_rows(op, m, computed_rows(op.logits_only != 0), l.rows);
  for (uint32_t p = 0; p < op.parts; ++p) {
    const ColumnRange cols = columns_of_part(op.in_cols, p, op.parts);
    load_rows(m, op.input, l.rows, op.in_cols, cols.begin, cols.count(), l.x[p]);
  }
  load_input_scales(m, op.input, l.rows, op.in_cols, l.scales);
}

void compute(const MatvecResidual& op, const HostMemory& m, Local& l) {
  const size_t outputs = size_t{op.num_units} * kUnitRows;
  const size_t first = size_t{op.first_unit} * kUnitRows;
  for (uint32_t p = 0; p < op.parts; ++p) {
    const ColumnRange cols = columns_of_part(op.in_cols, p, op.parts);
    l.y[p].resize(l.rows.size() * outputs);
    multiply_weights(m, {op.weights, first, outputs, op.in_cols, cols.begin, cols.count()}, l.x[p].data(),
                     l.rows.size(), l.y[p].data(), outputs);
    scale_rows(l.scales, l.y[p]);
  }
}

void store(const MatvecResidual& op, const HostMemory& m, Local& l) {
  const size_t outputs = size_t{op.num_units} * kUnitRows;
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const size_t first = size_t{op.first_unit} * kUnitRows;
    const size_t at = size_t{l.rows[r].index} * op.out_cols + first;
    const float* old = m.data<const float>(op.residual) + at;
    std::vector<float>& sums = l.sums;
    sums.assign(old, old + outputs);
    for (uint32_t p = 0; p < op.parts; ++p) {
      for (size_t j = 0; j < outputs; ++j) sums[j] += l.y[p][r * outputs + j];
    }
    store_residual(op, m, l.rows[r].index, op.out_cols, first, sums.data(), outputs);
  }
}

}  // namespace

SERVAL_HOST_OP(MatvecResidual)

}  // namespace serval

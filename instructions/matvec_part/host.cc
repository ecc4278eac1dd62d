#include "instructions/common/host_op.h"
#include "instructions/common/multiply_weights.h"
#include "instructions/common/pass_rows.h"
#include "instructions/matvec_part/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> x;       // [rows, num_cols]
  std::vector<float> y;       // [rows, num_units × 8]
  std::vector<float> scales;  // of the rows, if the input has scales
};

void load(const MatvecPart& op, const HostMemory& m, Local& l) {
  select_rows(op, m, computed_rows(op.logits_only != 0), l.rows);
  load_rows(m, op.input, l.rows, op.in_cols, op.first_col, op.num_cols, l.x);
  load_input_scales(m, op.input, l.rows, op.in_cols, l.scales);
}

void compute(const MatvecPart& op, const HostMemory& m, Local& l) {
  const size_t outputs = size_t{op.num_units} * kUnitRows, first = size_t{op.first_unit} * kUnitRows;
  l.y.resize(l.rows.size() * outputs);
  multiply_weights(m, {op.weights, first, outputs, op.in_cols, op.first_col, op.num_cols}, l.x.data(),
                   l.rows.size(), l.y.data(), outputs);
  scale_rows(l.scales, l.y);
}

void store(const MatvecPart& op, const HostMemory& m, Local& l) {
  const size_t outputs = size_t{op.num_units} * kUnitRows, first = size_t{op.first_unit} * kUnitRows;
  for (size_t r = 0; r < l.rows.size(); ++r) {
    std::copy_n(l.y.data() + r * outputs, outputs,
                m.data<float>(op.sums) + size_t{l.rows[r].index} * op.out_cols + first);
  }
}

}  // namespace

SERVAL_HOST_OP(MatvecPart)

}  // namespace serval

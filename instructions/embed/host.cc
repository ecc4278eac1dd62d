#include "instructions/common/host_op.h"
#include "instructions/common/pass_rows.h"
#include "instructions/embed/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> x;  // [rows, num_cols]
};

void load(const Embed& op, const HostMemory& m, Local& l) {
  select_rows(m, op.rows, row_is_active, l.rows);
}

void compute(const Embed& op, const HostMemory& m, Local& l) {
  l.x.resize(l.rows.size() * op.num_cols);
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const uint16_t* from = m.data<const uint16_t>(op.table) +
                           static_cast<size_t>(l.rows[r].row.token) * op.hidden + op.first_col;
    for (size_t c = 0; c < op.num_cols; ++c) l.x[r * op.num_cols + c] = bf16_to_float(from[c]);
  }
}

void store(const Embed& op, const HostMemory& m, Local& l) {
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const float* from = l.x.data() + r * op.num_cols;
    std::copy(from, from + op.num_cols,
              m.data<float>(op.residual) + l.rows[r].index * op.hidden + op.first_col);
  }
}

}  // namespace

SERVAL_HOST_OP(Embed)

}  // namespace serval

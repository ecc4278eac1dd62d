#include "instructions/common/host_op.h"
#include "instructions/common/pass_rows.h"
#include "instructions/common/residual.h"
#include "instructions/embed/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> x;  // [rows, num_units × 8]
};

void load(const Embed& op, const HostMemory& m, Local& l) {
  select_rows(op, m, RowSet::kActive, l.rows);
}

void compute(const Embed& op, const HostMemory& m, Local& l) {
  l.x.resize(l.rows.size() * num_cols(op));
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const uint16_t* from = m.data<const uint16_t>(op.table) +
                           static_cast<size_t>(l.rows[r].row.token) * op.hidden + first_col(op);
    for (size_t c = 0; c < num_cols(op); ++c) l.x[r * num_cols(op) + c] = bf16_to_float(from[c]);
  }
}

void store(const Embed& op, const HostMemory& m, Local& l) {
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const float* from = l.x.data() + r * num_cols(op);
    store_residual(op, m, l.rows[r].index, op.hidden, first_col(op), from, num_cols(op));
  }
}

}  // namespace

SERVAL_HOST_OP(Embed)

}  // namespace serval

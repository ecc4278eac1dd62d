#include <vector>

#include "instructions/common/host_op.h"
#include "instructions/common/multiply_weights.h"
#include "instructions/common/partial_sums.h"
#include "instructions/common/pass_rows.h"
#include "instructions/matvec_push/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> x;  // [rows, in_cols]
  std::vector<float> y;  // [rows, num_units × 8]
};

void load(const MatvecPush& op, const HostMemory& m, Local& l) {
  select_rows(op, m, computed_rows(op.logits_only != 0), l.rows);
  load_rows(m, op.input, l.rows, op.in_cols, 0, op.in_cols, l.x);
}

void compute(const MatvecPush& op, const HostMemory& m, Local& l) {
  const size_t outputs = num_cols(op);
  l.y.resize(l.rows.size() * outputs);
  multiply_weights(m, all_columns(op.weights, first_col(op), outputs, op.in_cols), l.x.data(), l.rows.size(),
                   l.y.data(), outputs);
}

void store(const MatvecPush& op, const HostMemory& m, Local& l) {
  push_partial_sums(op, m, l.rows, l.y);
}

}  // namespace

SERVAL_HOST_OP(MatvecPush)

}  // namespace serval

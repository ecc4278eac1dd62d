#include <vector>

#include "instructions/common/host_op.h"
#include "instructions/common/partial_sums.h"
#include "instructions/common/pass_rows.h"
#include "instructions/common/residual.h"
#include "instructions/reduce_residual/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> parts;  // [ranks, rows, num_units × 8]
  std::vector<float> x;      // [rows, num_units × 8]: the new residual
};

void load(const ReduceResidual& op, const HostMemory& m, Local& l) {
  select_rows(op, m, computed_rows(op.logits_only != 0), l.rows);
  l.parts.clear();
  for (uint32_t k = 0; k < op.ranks; ++k) {
    for (const SelectedRow& r : l.rows) {
      append_partial_sums(m, op.partial, size_t{r.index} * op.out_cols + partial_col(op, k), num_cols(op),
                          l.parts);
    }
  }
  l.x.clear();
  if (op.begins != 0) {
    l.x.assign(l.rows.size() * num_cols(op), 0.0F);
    return;
  }
  for (const SelectedRow& r : l.rows) {
    const float* from = m.data<const float>(op.residual) + size_t{r.index} * op.out_cols + first_col(op);
    l.x.insert(l.x.end(), from, from + num_cols(op));
  }
}

// The residual is added last, as when one rank has all columns.
void compute(const ReduceResidual& op, const HostMemory&, Local& l) {
  for (size_t i = 0; i < l.x.size(); ++i) {
    float sum = l.parts[i];
    for (uint32_t k = 1; k < op.ranks; ++k) sum += l.parts[k * l.x.size() + i];
    l.x[i] = sum + l.x[i];
  }
}

void store(const ReduceResidual& op, const HostMemory& m, Local& l) {
  const size_t cols = num_cols(op), first = first_col(op), of_square = square_cols(m.shape().order);
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const float* from = l.x.data() + r * cols;
    const size_t row = l.rows[r].index;
    std::copy(from, from + cols, m.data<float>(op.residual) + row * op.out_cols + first);
    for (uint32_t k = 0; k < op.ranks; ++k) {
      apply_norm(from, m.data<const uint16_t>(op.norm) + first, cols, of_square,
                 m.data<uint16_t>(op.weighted.on(k)) + row * op.out_cols + first,
                 m.data<float>(op.squares.on(k)) + (row * op.out_cols + first) / of_square);
    }
  }
}

}  // namespace

SERVAL_HOST_OP(ReduceResidual)

}  // namespace serval

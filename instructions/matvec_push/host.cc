#include <vector>

#include "instructions/common/host_op.h"
#include "instructions/common/matvec.h"
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
  load_bf16_rows(m, op.input, l.rows, op.in_cols, 0, op.in_cols, l.x);
}

void compute(const MatvecPush& op, const HostMemory& m, Local& l) {
  const size_t outputs = size_t{op.num_units} * kUnitRows;
  l.y.resize(l.rows.size() * outputs);
  matvec(m.data<const uint16_t>(op.weights) + size_t{op.first_unit} * kUnitRows * op.in_cols, outputs,
         op.in_cols, l.x.data(), l.rows.size(), l.y.data(), outputs);
}

void store(const MatvecPush& op, const HostMemory& m, Local& l) {
  const size_t outputs = size_t{op.num_units} * kUnitRows, first = size_t{op.first_unit} * kUnitRows;
  for_slices(slices_of(op), first, first + outputs, [&](const SlicePart& part) {
    for (size_t r = 0; r < l.rows.size(); ++r) {
      const float* from = l.y.data() + r * outputs + (part.first_col - first);
      store_partial_sums(m, op.partial.on(part.owner), op.square_cols,
                         size_t{l.rows[r].index} * op.out_cols + part.partial_col, from, part.cols);
    }
  });
}

}  // namespace

SERVAL_HOST_OP(MatvecPush)

}  // namespace serval

#include "instructions/common/host_op.h"
#include "instructions/common/qkv_outputs.h"
#include "instructions/project_part/op.h"

namespace serval {
namespace {

struct Local final : HostLocal, QkvOutputs {
  std::vector<float> x;  // [rows, columns of the part]
};

void load(const ProjectPart& op, const HostMemory& m, Local& l) {
  const ColumnRange cols = columns_of(op);
  select_rows(op, m, RowSet::kActive, l.rows);
  load_rows(m, op.weighted, l.rows, op.hidden, cols.begin, cols.count(), l.x);
}

void compute(const ProjectPart& op, const HostMemory& m, Local& l) {
  const ColumnRange cols = columns_of(op);
  multiply_units(op, m, l.x, cols.begin, cols.count(), l);
}

void store(const ProjectPart& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  const size_t outputs = num_cols(op), first = size_t{op.part} * qkv_cols(heads) + first_col(op);
  for (size_t r = 0; r < l.rows.size(); ++r) {
    std::copy_n(l.y.data() + r * outputs, outputs,
                m.data<float>(op.sums) + size_t{l.rows[r].index} * op.parts * qkv_cols(heads) + first);
  }
}

}  // namespace

SERVAL_HOST_OP(ProjectPart)

}  // namespace serval

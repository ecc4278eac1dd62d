#include "instructions/common/host_op.h"
#include "instructions/common/qkv_outputs.h"
#include "instructions/qkv_rope/op.h"

namespace serval {
namespace {

struct Local final : HostLocal, QkvOutputs {
  std::vector<float> x;  // [rows, hidden], weighted
};

void load(const QkvRope& op, const HostMemory& m, Local& l) {
  select_rows(op, m, RowSet::kActive, l.rows);
  load_weighted_rows(m, op, l.rows, l.x, l.scales);
  blocks_of_rows(op, m, l.rows, l.blocks);
}

void compute(const QkvRope& op, const HostMemory& m, Local& l) {
  multiply_units(op, m, l.x, 0, op.hidden, l);
  finish_outputs(op, m, l);
}

void store(const QkvRope& op, const HostMemory& m, Local& l) {
  store_outputs(op, m, l);
}

}  // namespace

SERVAL_HOST_OP(QkvRope)

}  // namespace serval

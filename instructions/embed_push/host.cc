#include <algorithm>

#include "instructions/common/host_op.h"
#include "instructions/common/partial_sums.h"
#include "instructions/common/pass_rows.h"
#include "instructions/embed_push/op.h"
#include "vm/base/bf16.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> x;  // [rows, num_units × 8]
};

void load(const EmbedPush& op, const HostMemory& m, Local& l) {
  select_rows(op, m, RowSet::kActive, l.rows);
}

void compute(const EmbedPush& op, const HostMemory& m, Local& l) {
  l.x.assign(l.rows.size() * num_cols(op), 0.0F);
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const uint32_t token = static_cast<uint32_t>(l.rows[r].row.token) - op.first_token;
    if (token >= op.num_tokens) continue;  // another rank has it
    const uint16_t* from = m.data<const uint16_t>(op.table) + size_t{token} * op.out_cols + first_col(op);
    std::transform(from, from + num_cols(op), l.x.data() + r * num_cols(op), bf16_to_float);
  }
}

void store(const EmbedPush& op, const HostMemory& m, Local& l) {
  push_partial_sums(op, m, l.rows, l.x);
}

}  // namespace

SERVAL_HOST_OP(EmbedPush)

}  // namespace serval

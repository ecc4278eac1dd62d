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
    if (token >= op.num_tokens) continue;  // another rank's
    const uint16_t* from = m.data<const uint16_t>(op.table) + size_t{token} * op.out_cols + first_col(op);
    std::transform(from, from + num_cols(op), l.x.data() + r * num_cols(op), bf16_to_float);
  }
}

void store(const EmbedPush& op, const HostMemory& m, Local& l) {
  const size_t first = first_col(op);
  for_slices(slices_of(op), first, first + num_cols(op), [&](const SlicePart& part) {
    for (size_t r = 0; r < l.rows.size(); ++r) {
      const float* from = l.x.data() + r * num_cols(op) + (part.first_col - first);
      store_partial_sums(m, op.partial.on(part.owner), op.square_cols,
                         size_t{l.rows[r].index} * op.out_cols + part.partial_col, from, part.cols);
    }
  });
}

}  // namespace

SERVAL_HOST_OP(EmbedPush)

}  // namespace serval

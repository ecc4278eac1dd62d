#include "instructions/common/host_op.h"
#include "instructions/common/qkv_outputs.h"
#include "instructions/rope_parts/op.h"

namespace serval {
namespace {

struct Local final : HostLocal, QkvOutputs {
  std::vector<float> parts;  // [rows, parts, num_units × 8]
};

void load(const RopeParts& op, const HostMemory& m, Local& l) {
  const HeadShape& heads = m.shape().heads;
  select_rows(op, m, RowSet::kActive, l.rows);
  load_scales(m, op, l.rows, l.scales);
  blocks_of_rows(op, m, l.rows, l.blocks);
  l.parts.clear();
  for (const SelectedRow& r : l.rows) {
    for (size_t part = 0; part < op.parts; ++part) {
      const float* from =
          m.data<const float>(op.sums) + (r.index * op.parts + part) * qkv_cols(heads) + first_col(op);
      l.parts.insert(l.parts.end(), from, from + num_cols(op));
    }
  }
}

void compute(const RopeParts& op, const HostMemory& m, Local& l) {
  const size_t outputs = num_cols(op);
  l.y.assign(l.rows.size() * outputs, 0);
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const float* of_row = l.parts.data() + r * op.parts * outputs;
    for (size_t i = 0; i < outputs; ++i) {
      float sum = of_row[i];
      for (size_t part = 1; part < op.parts; ++part) sum += of_row[part * outputs + i];
      l.y[r * outputs + i] = sum;
    }
  }
  finish_outputs(op, m, l);
}

void store(const RopeParts& op, const HostMemory& m, Local& l) {
  store_outputs(op, m, l);
}

}  // namespace

SERVAL_HOST_OP(RopeParts)

}  // namespace serval

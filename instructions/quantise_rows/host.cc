#include <algorithm>
#include <cmath>

#include "instructions/common/host_op.h"
#include "instructions/common/pass_rows.h"
#include "instructions/quantise_rows/op.h"
#include "vm/base/e4m3.h"
#include "vm/layout/e4m3_rows.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> x;  // [rows, cols]
};

void load(const QuantiseRows& op, const HostMemory& m, Local& l) {
  select_rows(op, m, computed_rows(op.logits_only != 0), l.rows);
  l.x.resize(l.rows.size() * op.cols);
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const uint16_t* from = m.data<const uint16_t>(op.input) + size_t{l.rows[r].index} * op.cols;
    std::transform(from, from + op.cols, l.x.data() + r * op.cols, fp16_to_float);
  }
}

void compute(const QuantiseRows&, const HostMemory&, Local&) {}

void store(const QuantiseRows& op, const HostMemory& m, Local& l) {
  const uint64_t row_bytes = e4m3_rows::row_bytes(op.cols);
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const float* x = l.x.data() + r * op.cols;
    float largest = 0;  // NaNs are left out
    for (size_t c = 0; c < op.cols; ++c) largest = std::fmax(largest, std::fabs(x[c]));
    const float scale = e4m3_scale(largest), inverse = 1 / scale;
    uint8_t* to = m.data<uint8_t>(op.output) + l.rows[r].index * row_bytes;
    for (size_t c = 0; c < op.cols; ++c) to[c] = float_to_e4m3(x[c] * inverse);
    e4m3_rows::set_scale(to, op.cols, scale);
  }
}

}  // namespace

SERVAL_HOST_OP(QuantiseRows)

}  // namespace serval

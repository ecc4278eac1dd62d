#include "instructions/common/host_op.h"
#include "instructions/common/multiply_weights.h"
#include "instructions/common/pass_rows.h"
#include "instructions/common/residual.h"
#include "instructions/common/unit_softmax.h"
#include "instructions/lm_head/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> x;       // [rows, hidden], weighted
  std::vector<float> scales;  // [rows]
  std::vector<float> y;       // [rows, tokens of this instance]
};

size_t num_tokens(const LmHead& op) {
  const size_t first = size_t{op.first_unit} * kUnitRows;
  return std::min<size_t>(op.vocab, first + size_t{op.num_units} * kUnitRows) - first;
}

void load(const LmHead& op, const HostMemory& m, Local& l) {
  select_rows(op, m, RowSet::kWantLogits, l.rows);
  load_weighted_rows(m, op, l.rows, l.x, l.scales);
}

void compute(const LmHead& op, const HostMemory& m, Local& l) {
  l.y.resize(l.rows.size() * num_tokens(op));
  if (l.rows.empty()) return;
  const size_t first = size_t{op.first_unit - op.weights_unit} * kUnitRows;
  multiply_weights(m, all_columns(op.weights, first, num_tokens(op), op.hidden), l.x.data(), l.rows.size(),
                   l.y.data(), num_tokens(op));
  scale_rows(l.scales, l.y);
}

void store(const LmHead& op, const HostMemory& m, Local& l) {
  const size_t count = num_tokens(op), units = vocabulary_units(op.vocab);
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const float* from = l.y.data() + r * count;
    UnitSoftmax* to = m.data<UnitSoftmax>(op.unit_softmax) + l.rows[r].index * units + op.first_unit;
    for (size_t i = 0; i < count; i += kUnitRows) {
      *to++ = unit_softmax({from + i, std::min<size_t>(kUnitRows, count - i)});
    }
    std::copy(
        from, from + count,
        m.data<float>(op.logits) + size_t{l.rows[r].index} * op.vocab + size_t{op.first_unit} * kUnitRows);
  }
}

}  // namespace

SERVAL_HOST_OP(LmHead)

}  // namespace serval

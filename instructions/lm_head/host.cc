#include "instructions/common/host_op.h"
#include "instructions/common/matvec.h"
#include "instructions/common/pass_rows.h"
#include "instructions/common/rms_norm.h"
#include "instructions/lm_head/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> residual;  // [rows, hidden]
  std::vector<float> x;         // [rows, hidden], normalised
  std::vector<float> y;         // [rows, tokens of this instance]
};

size_t num_tokens(const LmHead& op) {
  const size_t first = size_t{op.first_unit} * kUnitRows;
  return std::min<size_t>(op.vocab, first + size_t{op.num_units} * kUnitRows) - first;
}

void load(const LmHead& op, const HostMemory& m, Local& l) {
  select_rows(m, op.rows, row_wants_logits, l.rows);
  load_f32_rows(m, op.residual, l.rows, op.hidden, l.residual);
}

void compute(const LmHead& op, const HostMemory& m, Local& l) {
  l.x.resize(l.residual.size());
  l.y.resize(l.rows.size() * num_tokens(op));
  rms_norm_rows(l.residual.data(), m.data<const uint16_t>(op.norm), l.rows.size(), op.hidden, op.epsilon,
                l.x.data());
  if (l.rows.empty()) return;
  matvec(m.data<const uint16_t>(op.weights) + size_t{op.first_unit} * kUnitRows * op.hidden, num_tokens(op),
         op.hidden, l.x.data(), l.rows.size(), l.y.data(), num_tokens(op));
}

void store(const LmHead& op, const HostMemory& m, Local& l) {
  const size_t count = num_tokens(op);
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const float* from = l.y.data() + r * count;
    std::copy(
        from, from + count,
        m.data<float>(op.logits) + size_t{l.rows[r].index} * op.vocab + size_t{op.first_unit} * kUnitRows);
  }
}

}  // namespace

SERVAL_HOST_OP(LmHead)

}  // namespace serval

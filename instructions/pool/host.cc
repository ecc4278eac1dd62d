#include <algorithm>
#include <vector>

#include "instructions/common/host_op.h"
#include "instructions/common/pass_rows.h"
#include "instructions/pool/op.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<SelectedRow> rows;
  std::vector<float> scales;       // [rows]
  std::vector<float> x;            // [rows, columns of the record]: the residual
  std::vector<uint32_t> slots;     // those of the rows, each once
  std::vector<size_t> sum_of_row;  // [rows] index among `slots`
  std::vector<float> sums;         // [slots, columns of the record]
};

size_t num_cols(const Pool& op) {
  return columns_of(op).end - columns_of(op).begin;
}

// The record's columns of a slot.
float* pooled_of(const Pool& op, const HostMemory& m, uint32_t slot) {
  return m.data<float>(op.pooled) + size_t{slot} * op.hidden + columns_of(op).begin;
}

// The rows of a sequence are usually neighbours, so its slot is among the last.
size_t sum_of_slot(uint32_t slot, std::vector<uint32_t>& slots) {
  const auto found = std::find(slots.rbegin(), slots.rend(), slot);
  if (found != slots.rend()) return static_cast<size_t>(slots.rend() - found) - 1;
  slots.push_back(slot);
  return slots.size() - 1;
}

void load(const Pool& op, const HostMemory& m, Local& l) {
  select_rows(m, op.rows, {0, logit_rows(m.shape().limits)}, RowSet::kWantLogits, l.rows);
  load_scales(m, op, l.rows, l.scales);
  l.x.clear();
  l.slots.clear();
  l.sum_of_row.clear();
  for (const SelectedRow& row : l.rows) {
    const float* from = m.data<const float>(op.residual) + size_t{row.index} * op.hidden;
    l.x.insert(l.x.end(), from + columns_of(op).begin, from + columns_of(op).end);
    l.sum_of_row.push_back(sum_of_slot(row.row.slot, l.slots));
  }
  l.sums.clear();
  for (const uint32_t slot : l.slots) {
    const float* from = pooled_of(op, m, slot);
    l.sums.insert(l.sums.end(), from, from + num_cols(op));
  }
}

void compute(const Pool& op, const HostMemory& m, Local& l) {
  const uint16_t* norm = m.data<const uint16_t>(op.norm) + columns_of(op).begin;
  const size_t cols = num_cols(op);
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const float* x = l.x.data() + r * cols;
    float* sum = l.sums.data() + l.sum_of_row[r] * cols;
    for (size_t c = 0; c < cols; ++c) {
      const float hidden = x[c] * l.scales[r] * bf16_to_float(norm[c]);
      sum[c] = l.rows[r].row.adds != 0 ? sum[c] + hidden : hidden;
    }
  }
}

void store(const Pool& op, const HostMemory& m, Local& l) {
  const PoolShare own = rows_of(op, m.shape().limits);
  for (size_t r = 0; r < l.rows.size(); ++r) {
    const uint32_t row = l.rows[r].index;
    if (row >= own.begin && row < own.end)
      m.data<SampledToken>(op.sampled)[row] = pooled_token(l.rows[r].row.token, l.scales[r]);
  }
  for (size_t i = 0; i < l.slots.size(); ++i)
    std::copy_n(l.sums.data() + i * num_cols(op), num_cols(op), pooled_of(op, m, l.slots[i]));
}

}  // namespace

SERVAL_HOST_OP(Pool)

}  // namespace serval

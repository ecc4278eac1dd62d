#include <algorithm>
#include <atomic>

#include "instructions/advance/op.h"
#include "instructions/common/host_op.h"
#include "vm/state.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  PassRow rows[kMaxRows];
  SampledToken sampled[kMaxRows];
  PassControl control;
  bool host_stop = false;
  OutputToken output[kMaxRows];
  // What changes in the slots: a token for the history of those that sampled one.
  bool sampled_row[kMaxRows];
};

void load(const Advance& op, const HostMemory& m, Local& l) {
  std::copy_n(m.data<const PassRow>(op.rows), kMaxRows, l.rows);
  for (int r = 0; r < kMaxRows; ++r) {
    if (row_wants_logits(l.rows[r])) l.sampled[r] = m.data<const SampledToken>(op.sampled)[r];
  }
  PassControl& control = *m.data<PassControl>(op.control);
  l.control = {control.passes_done, control.passes_wanted, kKeepRunning, control.stopped_by_host};
  l.host_stop = std::atomic_ref(*m.data<uint32_t>(op.host_stop)).load(std::memory_order_acquire) != 0;
}

FinishReason finish_of(const SequenceSlot& slot, int32_t token, uint32_t position) {
  const int32_t* end = slot.stop_tokens + std::min<uint32_t>(slot.num_stop_tokens, kMaxStopTokens);
  if (std::find(slot.stop_tokens, end, token) != end) return FinishReason::kStopToken;
  return position >= slot.end_position ? FinishReason::kLength : FinishReason::kNone;
}

void compute(const Advance& op, const HostMemory& m, Local& l) {
  bool any_active = false;
  for (int r = 0; r < kMaxRows; ++r) {
    PassRow& row = l.rows[r];
    l.output[r] = {};
    l.sampled_row[r] = row_wants_logits(row);
    if (!l.sampled_row[r]) {
      row.active = 0;
      continue;
    }
    const int32_t token = l.sampled[r].token;
    const uint32_t position = row.position + 1;
    const FinishReason finish = finish_of(m.data<const SequenceSlot>(op.slots)[row.slot], token, position);
    l.output[r] = {1, row.slot, token, l.sampled[r].log_probability, position, finish};
    row.token = token;
    row.position = position;
    row.active = finish == FinishReason::kNone ? 1 : 0;
    any_active = any_active || row.active != 0;
  }
  const uint32_t pass = l.control.passes_done++;
  if (l.host_stop) l.control.stopped_by_host = 1;
  if (l.host_stop || !any_active || l.control.passes_done >= l.control.passes_wanted)
    l.control.last_pass = pass;
}

void store(const Advance& op, const HostMemory& m, Local& l) {
  std::copy_n(l.output, kMaxRows,
              m.data<OutputToken>(op.output) + size_t{l.control.passes_done - 1} * kMaxRows);
  for (int r = 0; r < kMaxRows; ++r) {
    if (!l.sampled_row[r]) continue;
    SequenceSlot& slot = m.data<SequenceSlot>(op.slots)[l.rows[r].slot];
    slot.history[slot.history_length % kHistoryTokens] = l.sampled[r].token;
    ++slot.history_length;
  }
  std::copy_n(l.rows, kMaxRows, m.data<PassRow>(op.rows));
  PassControl& control = *m.data<PassControl>(op.control);
  control.passes_done = l.control.passes_done;
  control.stopped_by_host = l.control.stopped_by_host;
  // SMs may still be reading the gate of the pass before.
  if (l.control.last_pass != kKeepRunning) {
    std::atomic_ref(control.last_pass).store(l.control.last_pass, std::memory_order_release);
  }
}

}  // namespace

SERVAL_HOST_OP(Advance)

}  // namespace serval

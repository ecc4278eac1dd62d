#include <algorithm>
#include <atomic>

#include "instructions/advance/op.h"
#include "instructions/advance/rule.h"
#include "instructions/common/host_op.h"
#include "vm/state.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  PassRow rows[kMaxRows];
  SampledToken sampled[kMaxRows];
  SequenceSlot slots[kMaxSlots];  // those of the rows that sampled
  PassControl control;
  bool host_stop = false;
  OutputToken output[kMaxRows];
};

void load(const Advance& op, const HostMemory& m, Local& l) {
  std::copy_n(m.data<const PassRow>(op.rows), kMaxRows, l.rows);
  for (int r = 0; r < kMaxRows; ++r) {
    if (!row_wants_logits(l.rows[r])) continue;
    l.sampled[r] = m.data<const SampledToken>(op.sampled)[r];
    const uint32_t slot = l.rows[r].slot;
    l.slots[slot] = m.data<const SequenceSlot>(op.slots)[slot];
  }
  PassControl& control = *m.data<PassControl>(op.control);
  l.control = {control.passes_done, control.passes_wanted, kKeepRunning, control.stopped_by_host};
  l.host_stop = std::atomic_ref(*m.data<uint32_t>(op.host_stop)).load(std::memory_order_acquire) != 0;
}

void compute(const Advance&, const HostMemory&, Local& l) {
  const bool any_active = advance_rows(l.rows, l.sampled, l.slots, l.output);
  advance_control(l.control, any_active, l.host_stop);
}

void store(const Advance& op, const HostMemory& m, Local& l) {
  std::copy_n(l.output, kMaxRows,
              m.data<OutputToken>(op.output) + size_t{l.control.passes_done - 1} * kMaxRows);
  append_to_history(l.output, m.data<SequenceSlot>(op.slots));
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

#include <algorithm>
#include <atomic>
#include <vector>

#include "instructions/advance/op.h"
#include "instructions/advance/rule.h"
#include "instructions/common/host_op.h"
#include "vm/state/control.h"
#include "vm/state/output.h"
#include "vm/state/rows.h"
#include "vm/state/slots.h"

namespace serval {
namespace {

struct Local final : HostLocal {
  std::vector<PassRow> rows;
  std::vector<SampledToken> sampled;
  std::vector<SequenceSlot> slots;  // [max_sequences]; only those of the rows that sampled are filled in
  PassControl control;
  bool host_stop = false;
  std::vector<OutputToken> output;
};

void load(const Advance& op, const HostMemory& m, Local& l) {
  const StateLimits& limits = m.shape().limits;
  const PassRow* rows = m.data<const PassRow>(op.rows);
  l.rows.assign(rows, rows + limits.rows);
  l.sampled.resize(limits.rows);
  l.slots.resize(limits.sequences);
  l.output.resize(limits.rows);
  for (size_t r = 0; r < l.rows.size(); ++r) {
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
  const bool any_active = advance_rows(l.rows, l.sampled.data(), l.slots.data(), l.output.data());
  advance_control(l.control, any_active, l.host_stop);
}

void store(const Advance& op, const HostMemory& m, Local& l) {
  const StateLimits& limits = m.shape().limits;
  const OutputTable output{m.data<OutputToken>(op.output), limits.rows};
  std::ranges::copy(l.output, output[l.control.passes_done - 1].begin());
  SequenceSlot* slots = m.data<SequenceSlot>(op.slots);
  const AdjustmentTable<std::byte> adjustments{m.data<std::byte>(op.adjustments), limits.max_context};
  append_to_history(l.output, slots, adjustments);
  draft_next(l.rows, l.output.data(), slots, adjustments);
  std::ranges::copy(l.rows, m.data<PassRow>(op.rows));
  PassControl& control = *m.data<PassControl>(op.control);
  control.passes_done = l.control.passes_done;
  control.stopped_by_host = l.control.stopped_by_host;
  // SMs may still be reading it at the previous pass's gate.
  if (l.control.last_pass != kKeepRunning) {
    std::atomic_ref(control.last_pass).store(l.control.last_pass, std::memory_order_release);
  }
}

}  // namespace

SERVAL_HOST_OP(Advance)

}  // namespace serval

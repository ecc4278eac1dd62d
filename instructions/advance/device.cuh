#pragma once

#include "instructions/advance/op.h"
#include "instructions/advance/rule.h"
#include "vm/device/op.cuh"

namespace serval::device {

// One lane a row: the same rule as instructions/advance/rule.h, whose parts it calls.
template <>
struct DeviceOp<Advance> : GroupOp {
  static __device__ void run(const Advance& op, const Group& group) {
    if (group.warp != 0) return;
    const uint32_t r = group.lane;
    PassControl* control = group.tensor<&Advance::control, PassControl>();
    PassControl now = *control;
    const bool stop = ptx::load_acquire(group.tensor<&Advance::host_stop, const uint32_t>()) != 0;
    PassRow row = group.rows[r % kMaxRows];
    const bool samples = r < kMaxRows && row_wants_logits(row);
    OutputToken out{};
    row.active = 0;
    if (samples) out = finish_row(group, row);
    if (r < kMaxRows) {
      group.tensor<&Advance::output, OutputToken>()[size_t{now.passes_done} * kMaxRows + r] = out;
      group.tensor<&Advance::rows, PassRow>()[r] = row;
    }
    append_to_history(group, out);
    const bool any_active = __any_sync(~0u, row.active != 0);
    now.last_pass = kKeepRunning;
    advance_control(now, any_active, stop);
    if (r == 0) store_control(*control, now);
  }

 private:
  static __device__ OutputToken finish_row(const Group& group, PassRow& row) {
    const SequenceSlot& slot = group.tensor<&Advance::slots, const SequenceSlot>()[row.slot];
    const SampledToken sampled = group.tensor<&Advance::sampled, const SampledToken>()[group.lane];
    const uint32_t position = row.position + 1;
    const FinishReason finish = finish_of(slot, sampled.token, position);
    row.token = sampled.token;
    row.position = position;
    row.active = finish == FinishReason::kNone ? 1 : 0;
    return {1, row.slot, sampled.token, sampled.log_probability, position, finish};
  }

  // Rows of one sequence append in their order.
  static __device__ void append_to_history(const Group& group, const OutputToken& out) {
    const uint32_t mine = out.valid != 0 ? out.slot : kMaxSlots + group.lane;
    const uint32_t same = __match_any_sync(~0u, mine);
    if (out.valid == 0) return;
    SequenceSlot& slot = group.tensor<&Advance::slots, SequenceSlot>()[out.slot];
    const auto before = static_cast<uint32_t>(__popc(same & ((1u << group.lane) - 1)));
    const uint32_t length = slot.history_length;
    slot.history[(length + before) % kHistoryTokens] = out.token;
    __syncwarp(same);
    if (before == 0) slot.history_length = length + static_cast<uint32_t>(__popc(same));
  }

  // SMs may still be reading the gate of the pass before: last_pass is written once a launch.
  static __device__ void store_control(PassControl& to, const PassControl& now) {
    to.passes_done = now.passes_done;
    to.stopped_by_host = now.stopped_by_host;
    if (now.last_pass != kKeepRunning) ptx::store_relaxed(&to.last_pass, now.last_pass);
  }
};

}  // namespace serval::device

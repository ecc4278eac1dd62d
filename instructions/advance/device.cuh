#pragma once

#include "instructions/advance/op.h"
#include "instructions/advance/rule.h"
#include "vm/device/op.cuh"

namespace serval::device {

// Calls the rule of instructions/advance/rule.h row by row; in kernels with a table of rows, one lane a row.
// Only `sampled` is written by other instructions of the pass: everything else may be read before the inputs
// are ready.
template <>
struct DeviceOp<Advance> : GroupOp {
  static constexpr bool kStartsEarly = true;

  template <class Config>
  static __device__ bool in_range(const Advance&, const ProgramShape& program) {
    return Config::kMultipliesTiles || program.limits.rows <= kTableRows;
  }

  template <class Config>
  static __device__ __forceinline__ void run(const Advance& op, const Group& group) {
    if constexpr (Config::kMultipliesTiles)
      advance_many(op, group);
    else
      advance_table(op, group);
  }

 private:
  static __device__ __forceinline__ void advance_table(const Advance& op, const Group& group) {
    if (group.warp != 0) return;
    const uint32_t r = group.lane;
    PassControl* control = group.tensor<&Advance::control, PassControl>();
    PassControl now = *control;
    const bool stop = ptx::load_relaxed(group.tensor<&Advance::host_stop, const uint32_t>()) != 0;
    PassRow row = group.rows[r % kTableRows];
    const bool samples = r < kTableRows && row_wants_logits(row);
    SequenceSlot* slots = group.tensor<&Advance::slots, SequenceSlot>();
    const EndRule rule = samples ? end_rule_of(slots[row.slot]) : EndRule{};
    const History history(slots, row.slot, samples, r,
                          {group.tensor<&Advance::adjustments, std::byte>(), group.shape.limits.max_context});
    auto* out =
        group.tensor<&Advance::output, OutputToken>() + size_t{now.passes_done} * group.shape.limits.rows + r;
    now.last_pass = kKeepRunning;

    group.wait_inputs();
    OutputToken token{};
    row.active = 0;
    if (samples) token = finish_row(rule, group.tensor<&Advance::sampled, const SampledToken>()[r], row);
    if (r < group.shape.limits.rows) {
      group.tensor<&Advance::rows, PassRow>()[r] = row;
      *out = token;
    }
    if (samples) history.append(token.token);
    const bool any_active = __any_sync(~0u, row.active != 0);
    advance_control(now, any_active, stop);
    if (r == 0) store_control(*control, now);
  }

  // Values that the threads of a group share.
  struct Scratch {
    uint32_t any_active;
    uint32_t samples_of_slot[kLargestSequences];
  };

  // A thread processes every kGroupThreads-th row. What it reads before wait_inputs() is not written by any
  // other instruction of the pass.
  static __device__ __forceinline__ void advance_many(const Advance& op, const Group& group) {
    auto& scratch = *reinterpret_cast<Scratch*>(group.scratch);
    PassControl* control = group.tensor<&Advance::control, PassControl>();
    PassControl now = *control;
    now.last_pass = kKeepRunning;
    const bool stop = ptx::load_relaxed(group.tensor<&Advance::host_stop, const uint32_t>()) != 0;
    if (group.thread == 0) scratch.any_active = 0;
    for (uint32_t s = group.thread; s < group.shape.limits.sequences; s += kGroupThreads)
      scratch.samples_of_slot[s] = 0;
    group.sync();
    for (uint32_t r = group.thread; r < logit_rows(group.shape.limits); r += kGroupThreads) {
      if (row_wants_logits(group.rows[r])) atomicAdd(&scratch.samples_of_slot[group.rows[r].slot], 1U);
    }
    group.wait_inputs();
    group.sync();
    for (uint32_t r = group.thread; r < logit_rows(group.shape.limits); r += kGroupThreads)
      append(op, group, scratch, r);
    group.sync();  // all rows and all lengths of histories have been read
    auto* out =
        group.tensor<&Advance::output, OutputToken>() + size_t{now.passes_done} * group.shape.limits.rows;
    for (uint32_t r = group.thread; r < group.shape.limits.rows; r += kGroupThreads) {
      PassRow& row = group.tensor<&Advance::rows, PassRow>()[r];
      PassRow moved = row;
      OutputToken token{};
      moved.active = 0;
      if (row_wants_logits(row)) {
        SequenceSlot& slot = group.tensor<&Advance::slots, SequenceSlot>()[row.slot];
        token =
            finish_row(end_rule_of(slot), group.tensor<&Advance::sampled, const SampledToken>()[r], moved);
        atomicAdd(&slot.history_length, 1U);
      }
      if (moved.active != 0) scratch.any_active = 1;
      row = moved;
      out[r] = token;
    }
    group.sync();
    if (group.thread != 0) return;
    advance_control(now, scratch.any_active != 0, stop);
    store_control(*control, now);
  }
  // Appends the row's token to its sequence's history, after those of earlier rows.
  static __device__ __forceinline__ void append(const Advance& op, const Group& group, const Scratch& scratch,
                                                uint32_t r) {
    const PassRow& row = group.rows[r];
    if (!row_wants_logits(row)) return;
    const SequenceSlot& slot = group.tensor<&Advance::slots, const SequenceSlot>()[row.slot];
    if ((slot.extras & kKeepsHistory) == 0) return;
    const uint32_t all = scratch.samples_of_slot[row.slot];
    uint32_t before = 0;
    for (uint32_t other = 0; all > 1 && other < r; ++other)
      before += row_wants_logits(group.rows[other]) && group.rows[other].slot == row.slot ? 1 : 0;
    const uint32_t at = slot.history_length + before;
    if (!keeps_token(slot.extras, at, group.shape.limits.max_context)) return;
    const AdjustmentTable<std::byte> table{group.tensor<&Advance::adjustments, std::byte>(),
                                           group.shape.limits.max_context};
    history_of(table, row.slot)[at] = group.tensor<&Advance::sampled, const SampledToken>()[r].token;
  }

  static __device__ __forceinline__ OutputToken finish_row(const EndRule& rule, const SampledToken& sampled,
                                                           PassRow& row) {
    const uint32_t position = row.position + 1;
    const FinishReason finish = finish_of(rule, sampled, position);
    row.token = sampled.token;
    row.position = position;
    row.active = finish == FinishReason::kNone ? 1 : 0;
    return {1, row.slot, sampled.token, sampled.log_probability, position, finish};
  }

  static __device__ __forceinline__ int32_t* history_of(AdjustmentTable<std::byte> table, uint32_t slot) {
    return reinterpret_cast<int32_t*>(table.of(slot) + kHistoryOffset);
  }

  // Position of a row's token in its sequence's history. Rows of one sequence append in row order.
  class History {
   public:
    __device__ __forceinline__ History(SequenceSlot* slots, uint32_t slot, bool samples, uint32_t lane,
                                       AdjustmentTable<std::byte> adjustments)
        : slot_(slots + slot) {
      const uint32_t same = __match_any_sync(~0u, samples ? slot : kLargestSequences + lane);
      const auto before = static_cast<uint32_t>(__popc(same & ((1u << lane) - 1)));
      const uint32_t length = samples ? slot_->history_length : 0;
      const uint32_t at = length + before;
      const bool keeps = samples && keeps_token(slot_->extras, at, adjustments.max_context);
      token_ = keeps ? history_of(adjustments, slot) + at : nullptr;
      new_length_ = length + static_cast<uint32_t>(__popc(same));
      first_ = before == 0;
    }
    __device__ __forceinline__ void append(int32_t token) const {
      if (token_ != nullptr) *token_ = token;
      if (first_) slot_->history_length = new_length_;
    }

   private:
    SequenceSlot* slot_;
    int32_t* token_;  // null if the sequence keeps no history
    uint32_t new_length_;
    bool first_;  // the first row of its sequence
  };

  // last_pass is written once a launch, because SMs may still be reading it at the previous pass's gate.
  static __device__ __forceinline__ void store_control(PassControl& to, const PassControl& now) {
    to.passes_done = now.passes_done;
    to.stopped_by_host = now.stopped_by_host;
    if (now.last_pass != kKeepRunning) ptx::store_relaxed(&to.last_pass, now.last_pass);
  }
};

}  // namespace serval::device

#pragma once

#include "instructions/advance/find_ngram.cuh"
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
      advance_table<Config>(op, group);
  }

 private:
  template <class Config>
  static __device__ __forceinline__ void advance_table(const Advance& op, const Group& group) {
    if constexpr (Config::kRows > 1) {
      const PassRow& own = group.rows[group.lane % kTableRows];
      const bool drafts = group.lane < kTableRows && own.drafts > 0 && row_wants_logits(own);
      if (const uint32_t drafting = __ballot_sync(~0u, drafts); drafting != 0) [[unlikely]]
        return advance_drafts(op, group, drafting);
    }
    advance_lanes(op, group);
  }

  static __device__ __forceinline__ void advance_lanes(const Advance& op, const Group& group) {
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

  // Values that the threads of a group share, for each row that has rows for drafts.
  struct DraftScratch {
    PassRow last[kTableRows];     // the sequence's last token
    uint32_t length[kTableRows];  // tokens
    uint32_t room[kTableRows];    // limit of drafts
    NgramScratch search;
  };

  // As advance_lanes(), with rows for drafts after the rows in `drafting`. Loads one thing after the other,
  // which takes few registers.
  static __device__ __forceinline__ void advance_drafts(const Advance& op, const Group& group,
                                                        uint32_t drafting) {
    auto& scratch = *reinterpret_cast<DraftScratch*>(group.scratch);
    if (group.warp == 0) keep_right_drafts(op, group, drafting, scratch);
    group.sync();
#pragma unroll 1
    for (uint32_t rows = drafting; rows != 0; rows &= rows - 1)
      draft(op, group, static_cast<uint32_t>(__ffs(static_cast<int>(rows)) - 1), scratch);
  }

  // Lane r advances row r.
  static __device__ __forceinline__ void keep_right_drafts(const Advance& op, const Group& group,
                                                           uint32_t drafting, DraftScratch& scratch) {
    const uint32_t r = group.lane, max_context = group.shape.limits.max_context;
    SequenceSlot* slots = group.tensor<&Advance::slots, SequenceSlot>();
    group.wait_inputs();
    PassRow row = group.rows[r % kTableRows];
    const bool samples = r < kTableRows && row_wants_logits(row);
    OutputToken token{};
    const int32_t tried = row.token;  // by a draft
    row.active = 0;
    if (samples)
      token = finish_row(end_rule_of(slots[row.slot]),
                         group.tensor<&Advance::sampled, const SampledToken>()[r], row);
    DraftLanes drafts(drafting, group);
    drafts.finish(slots, tried, samples, token, row);
    const History history(slots, row.slot, token.valid != 0, r,
                          {group.tensor<&Advance::adjustments, std::byte>(), max_context});
    if (token.valid != 0) history.append(token.token);
    __syncwarp();
    PassControl* control = group.tensor<&Advance::control, PassControl>();
    PassControl now = *control;
    now.last_pass = kKeepRunning;
    if (r < group.shape.limits.rows) {
      group.tensor<&Advance::rows, PassRow>()[r] = row;
      group.tensor<&Advance::output, OutputToken>()[size_t{now.passes_done} * group.shape.limits.rows + r] =
          token;
    }
    if ((drafting >> r & 1) != 0) {
      SequenceSlot& slot = slots[row.slot];
      count_drafts(slot.drafts, token.drafts, drafts.right());
      scratch.last[r] = row;
      scratch.length[r] = min(slot.history_length, max_context);
      scratch.room[r] = row.active != 0 ? room_for_drafts(slot, row) : 0;
    }
    const bool stop = ptx::load_relaxed(group.tensor<&Advance::host_stop, const uint32_t>()) != 0;
    advance_control(now, __any_sync(~0u, row.active != 0), stop);
    if (r == 0) store_control(*control, now);
  }

  // Fills the draft rows after row r. Called by all threads.
  static __device__ __forceinline__ void draft(const Advance& op, const Group& group, uint32_t r,
                                               DraftScratch& scratch) {
    const uint32_t room = scratch.room[r], length = scratch.length[r];
    if (room == 0) return;
    const PassRow& last = scratch.last[r];
    const DraftRule& rule = group.tensor<&Advance::slots, const SequenceSlot>()[last.slot].drafts;
    const AdjustmentTable<std::byte> table{group.tensor<&Advance::adjustments, std::byte>(),
                                           group.shape.limits.max_context};
    const auto* tokens = reinterpret_cast<const uint32_t*>(history_of(table, last.slot));
    const Ngram ngram = chosen_ngram(rule, length, find_ngram(group, scratch.search, tokens, length, rule));
    if (ngram.length == 0 || group.thread >= room) return;
    const uint32_t i = group.thread;
    PassRow& row = group.tensor<&Advance::rows, PassRow>()[r + 1 + i];
    row.token = static_cast<int32_t>(ptx::load_relaxed(tokens + draft_source(ngram, length, i)));
    row.active = 1;
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
    return {1, 0, row.slot, sampled.token, sampled.log_probability, position, finish};
  }

  static __device__ __forceinline__ int32_t* history_of(AdjustmentTable<std::byte> table, uint32_t slot) {
    return reinterpret_cast<int32_t*>(table.of(slot) + kHistoryOffset);
  }

  // Draft rows follow the row with their sequence's last token: which of them are right, one lane a row.
  class DraftLanes {
   public:
    __device__ __forceinline__ DraftLanes(uint32_t drafting, const Group& group) : lane_(group.lane) {
      const uint32_t up_to = drafting & ((2u << lane_) - 1);
      const uint32_t first = up_to == 0 ? 0 : 31 - static_cast<uint32_t>(__clz(static_cast<int>(up_to)));
      const uint32_t drafts = group.rows[first].drafts;
      if (up_to == 0 || lane_ - first > drafts) return;
      first_ = first;
      rows_ = drafts + 1;
    }

    // `row` had the token `tried` in this pass and is advanced as if it were alone, and `token` is what it
    // has sampled. Keeps or drops the token, and advances the sequence's first row to the last kept token.
    // All lanes call it.
    __device__ __forceinline__ void finish(const SequenceSlot* slots, int32_t tried, bool samples,
                                           OutputToken& token, PassRow& row) {
      const bool is_draft = rows_ > 0 && lane_ != first_;
      const int32_t drawn = __shfl_up_sync(~0u, token.token, 1);
      const uint32_t ended = __shfl_up_sync(~0u, static_cast<uint32_t>(token.finish), 1);
      const bool goes_on = ended == static_cast<uint32_t>(FinishReason::kNone);
      bool is_right = is_draft && samples && goes_on;
      if (is_right) is_right = draft_is_right(draft_test_of(slots[row.slot]), row.position - 1, tried, drawn);
      const uint32_t right = __ballot_sync(~0u, is_right);
      const uint32_t drafted = __ballot_sync(~0u, is_draft && samples);
      right_ = rows_ > 0 ? static_cast<uint32_t>(__ffs(static_cast<int>(~(right >> first_ >> 1)))) - 1 : 0;
      const bool keeps = samples && (!is_draft || lane_ - first_ <= right_);
      const uint32_t last = rows_ > 0 ? first_ + right_ : lane_;
      const int32_t last_token = __shfl_sync(~0u, row.token, static_cast<int>(last));
      const uint32_t position = __shfl_sync(~0u, row.position, static_cast<int>(last));
      const uint32_t active = __shfl_sync(~0u, row.active, static_cast<int>(last));
      if (rows_ > 0 && !is_draft) {
        token.drafts = static_cast<uint16_t>(__popc(drafted >> first_ & ((1u << rows_) - 1)));
        row.token = last_token;
        row.position = position;
        row.active = active;
      }
      // A draft row that no pass has used yet may name any slot.
      const uint32_t slot = __shfl_sync(~0u, row.slot, static_cast<int>(first_));
      if (is_draft) row = PassRow{.wants_logits = 1, .slot = slot, .position = position + lane_ - first_};
      if (!keeps) token = OutputToken{};
    }
    // Right drafts of the lane's sequence.
    __device__ __forceinline__ uint32_t right() const { return right_; }

   private:
    uint32_t lane_;
    uint32_t first_ = 0;  // lane with the sequence's last token
    uint32_t rows_ = 0;   // its rows; 0: a row without drafts
    uint32_t right_ = 0;
  };

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

// `sample` on the GPU, by the rules of sampler.h. A token drawn here differs from the host's only if the draw
// falls on a boundary between two tokens, because sums are rounded differently.
#pragma once

#include <cstdint>

#include "instructions/sample/draw/adjustments.cuh"
#include "instructions/sample/draw/candidates.cuh"
#include "instructions/sample/draw/draw.cuh"
#include "instructions/sample/draw/parameters.cuh"
#include "instructions/sample/draw/scratch.cuh"
#include "instructions/sample/draw/softmax.cuh"
#include "instructions/sample/draw/token_mask.cuh"
#include "instructions/sample/op.h"
#include "instructions/sample/random.h"
#include "instructions/sample/row/logits_row.cuh"
#include "instructions/sample/row/unit_logits.cuh"
#include "vm/device/group.cuh"
#include "vm/device/op.cuh"
#include "vm/ptx/ptx.cuh"

namespace serval::device {

template <>
struct DeviceOp<Sample> : GroupOp {
  static constexpr bool kStartsEarly = true;  // parameters are ready before the logits

  template <class Config>
  static __device__ bool in_range(const Sample& op, const ProgramShape& program) {
    const bool rows = Config::kMultipliesTiles ? op.first_row < program.limits.rows &&
                                                     op.num_rows <= program.limits.rows - op.first_row
                                               : op.first_row < kTableRows && op.num_rows == 1;
    return rows && op.record < op.records && op.vocab > 0 && op.vocab <= sample::kLastToken + 1;
  }

  template <class Config>
  static __device__ __forceinline__ void run(const Sample& op, const Group& group) {
    if constexpr (Config::kMultipliesTiles) {
#pragma unroll 1
      for (uint32_t row = op.first_row; row < op.first_row + op.num_rows; ++row) {
        draw_row(op, group, row);
        group.sync();  // the next row uses the same scratch memory
      }
    } else {
      draw_row(op, group, op.first_row);
    }
  }

 private:
  static __device__ __forceinline__ void draw_row(const Sample& record, const Group& group, uint32_t row) {
    if (!row_wants_logits(group.rows[row])) return;
    auto& scratch = *reinterpret_cast<sample::Scratch*>(group.scratch);
    const sample::UnitLogits units(group.tensor<&Sample::unit_softmax, UnitSoftmax>(), row, record.vocab);
    scratch.asked = {sample::Parameters::load(slot_of(group, row)), row, &record};

    group.wait_inputs();
    const sample::Softmax s =
        sample::softmax(group, scratch, units, [&] { return logits_of(group, scratch.asked); });
    draw_from(group, scratch, s);
  }

  static __device__ __forceinline__ sample::UnitLogits units_of(const Group& group,
                                                                const sample::Scratch::Asked& asked) {
    return {group.tensor<&Sample::unit_softmax, UnitSoftmax>(), asked.row, asked.op->vocab};
  }
  static __device__ __forceinline__ sample::LogitsRow logits_of(const Group& group,
                                                                const sample::Scratch::Asked& asked) {
    return {group.tensor<&Sample::logits, float>(), asked.row, asked.op->vocab};
  }

  static __device__ __forceinline__ void draw_from(const Group& group, sample::Scratch& scratch,
                                                   const sample::Softmax& s) {
    const sample::Parameters p = scratch.asked.parameters;
    const uint32_t index = scratch.asked.row;
    const Sample& op = *scratch.asked.op;
    const float largest = sample::logit_of(s.first), log_sum = logf(s.sum);
    const int32_t target = group.rows[index].target;
    const bool has_target = target != kNoTarget;
    sample::RankKey drawn = s.first;
    float logit = largest;
    const uint32_t listed = num_listed(op, group, index, p);
    // The likeliest token alone, as scores of texts ask for, needs no list of candidates.
    if (has_target && listed == 1) list(op, group, index, 0, s.first, largest, log_sum);
    if (has_target ? listed > 1 : p.temperature > 0 || (p.extras & ~uint32_t{kKeepsHistory}) != 0) {
      const bool adjusts = !has_target && (p.extras & kAdjustsLogits) != 0;
      const uint32_t position = group.rows[index].position + 1;
      const sample::LogitsRow row = logits_of(group, scratch.asked);
      const sample::UnitLogits units = units_of(group, scratch.asked);
      sample::Candidates candidates(group, scratch, row, units);
      float thread_largest = s.thread_largest;
      uint32_t adjusted = 0;
      // Each turn lists the next candidate of the original row; the last turn draws one, unless there is a
      // target.
      const uint32_t turns = has_target ? listed : listed + 1;
#pragma unroll 1
      for (uint32_t turn = 0; turn < turns; ++turn) {
        const bool draws = turn == listed;
        if (draws && adjusts) {
          adjusted = adjustments_of(op, group, row, units)
                         .apply(*reinterpret_cast<sample::AdjustScratch*>(group.scratch),
                                source_of(op, group, index));
          thread_largest = units.largest_of(group.thread);
        }
        uint32_t wanted = draws ? p.wanted() : listed;
        if (draws && (p.extras & kMasksTokens) != 0) {
          const sample::TokenMask mask(group, row, units, mask_of(op, group, index));
          mask.wait_for(position);
          mask.apply();
          thread_largest = units.largest_of(group.thread);
          // Threads without an allowed token have no candidate.
          const bool has_one = thread_largest > sample::kMinusInfinity;
          wanted =
              min(wanted, max(static_cast<uint32_t>(sample::sum_all(group, scratch, uint64_t{has_one})), 1U));
        }
        if (draws || turn == 0) candidates.find(thread_largest, wanted);
        const sample::Aim aim = {draws ? p.top_k : static_cast<int32_t>(turn) + 1, draws};
        drawn = sample::draw(candidates, p, aim, uniform(p.seed, p.sequence, position), op.vocab);
        if (!draws) list(op, group, index, turn, drawn, largest, log_sum);
      }
      logit = sample::logit_of(drawn);
      if (adjusts) {
        adjustments_of(op, group, row, units).undo(adjusted);
        logit = sample::clean(row.logit(sample::token_of(drawn)));
      }
    }
    uint32_t token = sample::token_of(drawn);
    if (has_target) {
      token = static_cast<uint32_t>(target);
      logit = sample::clean(logits_of(group, scratch.asked).logit(token));
    }
    const float log_probability = sample::shortfall(logit, largest) - log_sum;
    if (group.thread == 0)
      store(group.tensor<&Sample::sampled, SampledToken>() + index, token, log_probability);
  }

  static __device__ __forceinline__ void store(SampledToken* to, uint32_t token, float log_probability) {
    ptx::store_relaxed(reinterpret_cast<uint32_t*>(&to->token), token);
    ptx::store_relaxed(&to->log_probability, log_probability);
  }

  static __device__ __forceinline__ sample::Adjustments adjustments_of(const Sample& op, const Group& group,
                                                                       const sample::LogitsRow& row,
                                                                       const sample::UnitLogits& units) {
    float* saved = group.tensor<&Sample::saved, float>() +
                   op.record * saved_cols(op.vocab, group.shape.limits.max_context);
    return {group, row, units, reinterpret_cast<float2*>(saved)};
  }
  static __device__ __forceinline__ const SequenceSlot* slot_of(const Group& group, uint32_t index) {
    return group.tensor<&Sample::slots, const SequenceSlot>() + group.rows[index].slot;
  }
  static __device__ __forceinline__ sample::AdjustmentSource source_of(const Sample& op, const Group& group,
                                                                       uint32_t index) {
    const PassRow row = group.rows[index];
    const AdjustmentTable<const std::byte> table{group.tensor<&Sample::adjustments, const std::byte>(),
                                                 group.shape.limits.max_context};
    return {slot_of(group, index), table.of(row.slot), group.shape.limits.max_context, row.position + 1};
  }

  static __device__ __forceinline__ const uint32_t* mask_of(const Sample& op, const Group& group,
                                                            uint32_t index) {
    return group.tensor<&Sample::masks, const uint32_t>() +
           size_t{group.rows[index].slot} * mask_pitch(op.vocab);
  }

  // Number of likeliest tokens that the row's sequence wants, at most the vocabulary.
  static __device__ __forceinline__ uint32_t num_listed(const Sample& op, const Group& group, uint32_t index,
                                                        const sample::Parameters& p) {
    if ((p.extras & kListsTop) == 0) return 0;
    return min(min(ptx::load_relaxed(&slot_of(group, index)->num_top), kMaxTopTokens), op.vocab);
  }
  static __device__ __forceinline__ void list(const Sample& op, const Group& group, uint32_t index,
                                              uint32_t at, sample::RankKey key, float largest,
                                              float log_sum) {
    if (group.thread != 0) return;
    SampledToken* to = group.tensor<&Sample::top, TopTokens>()[index].token + at;
    store(to, sample::token_of(key), sample::shortfall(sample::logit_of(key), largest) - log_sum);
  }
};

}  // namespace serval::device

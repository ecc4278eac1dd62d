// What `sample` does on the GPU. The rules are sampler.h's; the host's draw and this one differ only where it
// falls on a boundary between two tokens, as sums are rounded differently.
#pragma once

#include <cstdint>

#include "instructions/sample/draw/candidates.cuh"
#include "instructions/sample/draw/draw.cuh"
#include "instructions/sample/draw/parameters.cuh"
#include "instructions/sample/draw/scratch.cuh"
#include "instructions/sample/draw/softmax.cuh"
#include "instructions/sample/op.h"
#include "instructions/sample/random.h"
#include "instructions/sample/row/logits_row.cuh"
#include "instructions/sample/row/penalties.cuh"
#include "instructions/sample/row/unit_logits.cuh"
#include "vm/device/group.cuh"
#include "vm/device/op.cuh"
#include "vm/ptx/ptx.cuh"

namespace serval::device {

template <>
struct DeviceOp<Sample> : GroupOp {
  static constexpr bool kStartsEarly = true;  // its parameters are there before the logits

  template <class Config>
  static __device__ bool in_range(const Sample& op) {
    const bool rows = Config::kMultipliesTiles
                          ? op.first_row < op.max_rows && op.num_rows <= op.max_rows - op.first_row
                          : op.first_row < kTableRows && op.num_rows == 1;
    return rows && op.vocab > 0 && op.vocab <= sample::kLastToken + 1;
  }

  template <class Config>
  static __device__ __forceinline__ void run(const Sample& op, const Group& group) {
    if constexpr (Config::kMultipliesTiles) {
#pragma unroll 1
      for (uint32_t row = op.first_row; row < op.first_row + op.num_rows; ++row) {
        draw_row(op, group, row);
        group.sync();  // the next row takes the same scratch memory
      }
    } else {
      draw_row(op, group, op.first_row);
    }
  }

 private:
  static __device__ __forceinline__ void draw_row(const Sample& op, const Group& group, uint32_t index) {
    const PassRow pass_row = group.rows[index];
    if (!row_wants_logits(pass_row)) return;
    auto& scratch = *reinterpret_cast<sample::Scratch*>(group.scratch);
    const sample::LogitsRow row(group.tensor<&Sample::logits, const float>(), index, op.vocab);
    const SequenceSlot* slot = group.tensor<&Sample::slots, const SequenceSlot>() + pass_row.slot;
    const sample::UnitLogits units(group.tensor<&Sample::unit_softmax, const UnitSoftmax>(), index, op.vocab);
    const auto p = sample::Parameters::load(slot);

    group.wait_inputs();
    const sample::Softmax s = sample::softmax(group, scratch, row, units);
    sample::RankKey drawn = s.first;
    float logit = sample::logit_of(drawn);
    if (p.temperature > 0 || p.repetition_penalty != 1) {
      const sample::Penalties penalties(group, row, slot, p.repetition_penalty, scratch.penalised);
      const sample::Candidates candidates(group, scratch, row, units, penalties, s.thread_largest,
                                          p.wanted());
      drawn = sample::draw(candidates, p, uniform(p.seed, p.sequence, pass_row.position + 1), op.vocab);
      logit = penalties.any() ? sample::clean(row.logit(sample::token_of(drawn))) : sample::logit_of(drawn);
    }
    const float log_probability = sample::shortfall(logit, sample::logit_of(s.first)) - logf(s.sum);
    if (group.thread == 0) {
      SampledToken* out = group.tensor<&Sample::sampled, SampledToken>() + index;
      ptx::store_relaxed(reinterpret_cast<uint32_t*>(&out->token), sample::token_of(drawn));
      ptx::store_relaxed(&out->log_probability, log_probability);
    }
  }
};

}  // namespace serval::device

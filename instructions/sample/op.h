// Draws the next tokens of some rows from their logits, with their slots' parameters (rules: sampler.h). For
// a row with a target (PassRow) it draws none and gives the target's log-probability. GPU kernels process one
// row an instance, except those of tiles.
#pragma once

#include <algorithm>
#include <array>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "instructions/common/unit_softmax.h"
#include "vm/state/adjustments.h"
#include "vm/state/masks.h"
#include "vm/state/output.h"
#include "vm/state/slots.h"

namespace serval {

// Columns of a record's scratch tensor: token and logit of each token whose logit may be adjusted in a row.
constexpr uint64_t saved_cols(uint32_t vocab, uint32_t max_context) {
  const uint64_t tokens = uint64_t{max_context} + kMaxLogitBiases + kMaxStopTokens;
  return 2 * std::min<uint64_t>(vocab, tokens);
}

// Rows of sequences with kAdjustsLogits (SlotExtra) are drawn from adjusted logits; a GPU adjusts them in
// place and restores them. Rows with a mask draw only allowed tokens; a GPU leaves the other tokens' logits
// at -infinity, except for those that it restores.
struct Sample {
  TensorId logits;
  TensorId unit_softmax;
  TensorId rows;
  TensorId slots;
  TensorId adjustments;
  TensorId masks;
  TensorId sampled;
  TensorId top;
  TensorId saved;
  uint32_t record;
  uint32_t records;
  uint32_t first_row;
  uint32_t num_rows;
  uint32_t vocab;

  static constexpr KernelSet kKernels = {.pools = false};

  static constexpr std::array kWindows = {&Sample::record, &Sample::first_row, &Sample::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&Sample::logits, "logits", "in [logit_rows, vocab] f32; adjusted for a time, masked for good");
    v(&Sample::unit_softmax, "unit_softmax",
      "in [logit_rows, units × 2] f32: of each unit of 8 tokens a UnitSoftmax (common/unit_softmax.h); "
      "adjusted for a time, masked for good");
    v(&Sample::rows, "rows", "in: the pass's rows");
    v(&Sample::slots, "slots", "in: sampling parameters of the sequences");
    v(&Sample::adjustments, "adjustments", "in: biases and tokens of sequences that ask for them");
    v(&Sample::masks, "masks",
      "in: tokens that sequences may draw, of those that ask for it; the host's, waited for");
    v(&Sample::sampled, "sampled",
      "out [max_rows]: tokens, drawn or the rows' targets, with log-probabilities");
    v(&Sample::top, "top", "out [logit_rows]: likeliest tokens of sequences that ask for them");
    v(&Sample::saved, "saved", "scratch [records, saved_cols()] f32: logits that were adjusted");
    v(&Sample::record, "record", "which row of saved");
    v(&Sample::records, "records", "rows of saved");
    v(&Sample::first_row, "first_row", "rows of the pass");
    v(&Sample::num_rows, "num_rows", "rows of the pass");
    v(&Sample::vocab, "vocab", "tokens");
  }
};

inline void footprint(const Sample& op, const StateView* state, FootprintBuilder<Sample>& f) {
  const StateLimits& limits = f.shape().limits;
  const uint64_t unit_cols = vocabulary_units(op.vocab) * kUnitSoftmaxCols;
  const uint64_t begin = op.first_row, end = begin + op.num_rows;
  f.pass_rows<&Sample::rows>();
  const auto write_saved = [&] {
    f.may_write<&Sample::saved>(
        {op.record, uint64_t{op.record} + 1, 0, saved_cols(op.vocab, limits.max_context)});
  };
  const auto read_slots = [&](uint64_t first, uint64_t last) {
    f.read<&Sample::slots>({first, last, 0, sizeof(SequenceSlot)});
    f.read<&Sample::adjustments>({first, last, 0, adjustment_bytes(limits.max_context)});
    f.read<&Sample::masks>({first, last, 0, mask_pitch(op.vocab)});
  };
  if (state == nullptr) read_slots(0, limits.sequences);
  const auto touch = [&](uint64_t first, uint64_t last) {
    f.read<&Sample::logits>({first, last, 0, op.vocab}, Part::kLogitsRows);
    f.read<&Sample::unit_softmax>({first, last, 0, unit_cols}, Part::kLogitsRows);
    f.may_write<&Sample::logits>({first, last, 0, op.vocab});
    f.may_write<&Sample::unit_softmax>({first, last, 0, unit_cols});
    f.may_write<&Sample::top>({first, last, 0, sizeof(TopTokens)});
    f.write<&Sample::sampled>({first, last, 0, sizeof(SampledToken)}, Part::kLogitsRows);
  };
  if (state == nullptr) {
    write_saved();
    return touch(begin, end);
  }
  bool is_first = true;
  for (uint64_t row = begin; row < end; ++row) {
    if (!row_wants_logits(state->rows[row])) continue;
    if (is_first) write_saved();
    is_first = false;
    const uint64_t slot = state->rows[row].slot;
    read_slots(slot, slot + 1);
    touch(row, row + 1);
  }
}

inline Cost cost(const Sample& op, const CostView& c) {
  const uint64_t units = c.rows(op.first_row, op.num_rows) * vocabulary_units(op.vocab);
  return {.cached_bytes = units * sizeof(UnitSoftmax), .operations = units * kUnitSoftmaxCols};
}

inline PageNeed pages(const Sample&) {
  return {.pinned = 0, .streaming = 1};
}  // a page of logits at a time

inline void check(const Sample& op, OperandCheck& c) {
  const StateLimits& limits = c.shape().limits;
  c.pass_rows(op.rows);
  c.limit("vocab", op.vocab, &StateLimits::vocab);
  c.rows_of_logits(op.first_row, op.num_rows);
  c.logits("logits", op.logits, op.vocab);
  c.logits("unit_softmax", op.unit_softmax, vocabulary_units(op.vocab) * kUnitSoftmaxCols);
  c.slots(op.slots);
  c.adjustments(op.adjustments);
  c.masks(op.masks);
  c.records_of_logits(op.record, op.records);
  c.tensor("saved", op.saved, DType::kF32, TensorKind::kActivation, op.records,
           saved_cols(op.vocab, limits.max_context));
  c.top_tokens("top", op.top);
  c.tensor("sampled", op.sampled, DType::kBytes, TensorKind::kState, limits.rows, sizeof(SampledToken));
}

}  // namespace serval

#include <algorithm>
#include <atomic>
#include <span>
#include <vector>

#include "instructions/common/host_op.h"
#include "instructions/common/pass_rows.h"
#include "instructions/sample/op.h"
#include "instructions/sample/sampler.h"

namespace serval {
namespace {

// A row for which a token is drawn.
struct Draw {
  uint32_t row;
  uint32_t position;  // of the token to be drawn
  int32_t target;     // PassRow::target
  SequenceSlot slot;
  std::vector<float> logits;
  std::vector<TokenBias> biases;
  std::vector<int32_t> history;  // tokens that its penalties consider
  std::vector<uint32_t> mask;
  SampledToken token;
  TopTokens top;
  uint32_t listed;
};

struct Local final : HostLocal {
  std::vector<Draw> draws;  // the first `count` are this instance's; kept for their memory
  size_t count = 0;
  std::vector<Candidate> candidates;
};

void load_adjustments(const Sample& op, const HostMemory& m, uint32_t slot_index, Draw& draw) {
  const StateLimits& limits = m.shape().limits;
  const SequenceSlot& slot = draw.slot;
  const std::byte* table =
      AdjustmentTable<const std::byte>{m.data<const std::byte>(op.adjustments), limits.max_context}.of(
          slot_index);
  const auto* biases = reinterpret_cast<const TokenBias*>(table);
  draw.biases.assign(biases, biases + std::min(slot.num_biases, kMaxLogitBiases));
  const auto* history = reinterpret_cast<const int32_t*>(table + kHistoryOffset);
  const uint32_t end = std::min(slot.history_length, limits.max_context);
  const uint32_t begin = std::min({repetition_begin(slot), generation_begin(slot), end});
  draw.history.assign(history + begin, history + end);
}

uint32_t* mask_of(const Sample& op, const HostMemory& m, uint32_t slot_index) {
  return m.data<uint32_t>(op.masks) + size_t{slot_index} * mask_pitch(op.vocab);
}

void load_mask(const Sample& op, const HostMemory& m, uint32_t slot_index, Draw& draw) {
  const uint32_t* mask = mask_of(op, m, slot_index);
  draw.mask.assign(mask, mask + mask_words(op.vocab));
}

// The caller may write the mask's position while a launch runs.
bool has_mask(const Sample& op, const HostMemory& m, const PassRow& row) {
  if (row_has_target(row) || (m.data<const SequenceSlot>(op.slots)[row.slot].extras & kMasksTokens) == 0)
    return true;
  const std::atomic_ref position(mask_of(op, m, row.slot)[mask_words(op.vocab)]);
  return mask_is_for(position.load(std::memory_order_acquire), row.position + 1);
}

void load(const Sample& op, const HostMemory& m, Local& l) {
  l.count = 0;
  for (uint32_t r = op.first_row; r < op.first_row + op.num_rows; ++r) {
    const PassRow row = m.data<const PassRow>(op.rows)[r];
    if (!row_wants_logits(row)) continue;
    if (l.count == l.draws.size()) l.draws.emplace_back();
    Draw& draw = l.draws[l.count++];
    draw.row = r;
    draw.position = row.position + 1;
    draw.target = row.target;
    draw.slot = m.data<const SequenceSlot>(op.slots)[row.slot];
    draw.biases.clear();
    draw.history.clear();
    const uint32_t extras = row_has_target(row) ? 0 : draw.slot.extras;
    if ((extras & kAdjustsLogits) != 0) load_adjustments(op, m, row.slot, draw);
    if ((extras & kMasksTokens) != 0) load_mask(op, m, row.slot, draw);
    const float* logits = m.data<const float>(op.logits) + size_t{r} * op.vocab;
    draw.logits.assign(logits, logits + op.vocab);
  }
}

void compute(const Sample&, const HostMemory&, Local& l) {
  for (Draw& draw : std::span(l.draws).first(l.count)) {
    draw.token = draw.target != kNoTarget ? score_token(draw.logits, draw.target)
                                          : sample_token(draw.logits, draw.slot, draw.position, l.candidates,
                                                         {draw.biases, draw.history, draw.mask});
    const bool lists = (draw.slot.extras & kListsTop) != 0;
    draw.listed = lists ? list_top(draw.logits, draw.slot.num_top, l.candidates, draw.top) : 0;
  }
}

void store(const Sample& op, const HostMemory& m, Local& l) {
  for (const Draw& draw : std::span(l.draws).first(l.count)) {
    m.data<SampledToken>(op.sampled)[draw.row] = draw.token;
    if (draw.listed > 0) std::copy_n(draw.top.token, draw.listed, m.data<TopTokens>(op.top)[draw.row].token);
  }
}

struct SampleHandler final : HostOp<Sample, Local, load, compute, store> {
  bool has_input_of_caller(const Instruction& i, const HostMemory& m) const override {
    const auto op = i.as<Sample>();
    const auto rows = std::span(m.data<const PassRow>(op.rows) + op.first_row, op.num_rows);
    return std::ranges::all_of(
        rows, [&](const PassRow& row) { return !row_wants_logits(row) || has_mask(op, m, row); });
  }
};

}  // namespace

const HostHandler& host_handler(const Sample*) {
  static const SampleHandler handler;
  return handler;
}

}  // namespace serval

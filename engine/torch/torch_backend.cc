#include "engine/torch/torch_backend.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <tuple>
#include <vector>

#include "fmt/format.h"

#include "engine/backend/prepare_state.h"
#include "engine/backend/state_copy.h"
#include "instructions/advance/rule.h"
#include "instructions/common/footprint.h"
#include "instructions/sample/sampler.h"
#include "vm/base/error.h"
#include "vm/layout/kv_cache.h"
#include "vm/state/block.h"

namespace serval {
namespace {

// Indices of a pass's rows that are consecutive positions of one slot, in order.
using SequenceRows = std::vector<uint32_t>;

std::vector<SequenceRows> rows_by_sequence(std::span<const PassRow> rows) {
  SequenceRows order;
  for (uint32_t r = 0; r < rows.size(); ++r) {
    if (rows[r].active != 0) order.push_back(r);
  }
  const auto place = [&](uint32_t r) { return std::tuple(rows[r].slot, rows[r].position); };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return place(a) < place(b); });
  std::vector<SequenceRows> groups;
  for (const uint32_t r : order) {
    const bool follows = !groups.empty() && rows[groups.back().back()].slot == rows[r].slot &&
                         rows[groups.back().back()].position + 1 == rows[r].position;
    if (!follows) groups.emplace_back();
    groups.back().push_back(r);
  }
  return groups;
}

class TorchBackend final : public Backend {
 public:
  TorchBackend(Program program, Oracle oracle);

  std::string name() const override { return "torch"; }
  const Program& program() const override { return program_; }
  StateBlock& state() override { return state_; }
  void run(const Launch& launch, const std::function<void(uint32_t)>& on_pass,
           const std::function<void()>& on_begun) override;
  void request_stop() noexcept override { stop_.store(true, std::memory_order_release); }
  std::span<const float> logits(int row) override { return row_logits(static_cast<uint32_t>(row)); }

 private:
  std::span<float> row_logits(uint32_t row);
  std::vector<int64_t> cells_of(uint32_t slot, uint32_t positions) const;
  void evaluate(const SequenceRows& group);
  void sample_rows();

  const Program program_;
  Oracle oracle_;
  StateBlock state_;
  StateBlock own_;                   // state of the current launch, without output, top and masks
  std::vector<float> logits_;        // [rows of the program, vocab]
  std::vector<float> group_logits_;  // scratch
  std::vector<Candidate> candidates_;
  std::atomic<bool> stop_{false};
};

TorchBackend::TorchBackend(Program program, Oracle oracle)
    : program_(std::move(program)),
      oracle_(std::move(oracle)),
      state_(program_.limits),
      own_(program_.limits),
      logits_(size_t{program_.limits.rows} * program_.limits.vocab) {}

std::span<float> TorchBackend::row_logits(uint32_t row) {
  const size_t vocab = program_.limits.vocab;
  return std::span(logits_).subspan(row * vocab, vocab);
}

std::vector<int64_t> TorchBackend::cells_of(uint32_t slot, uint32_t positions) const {
  const std::span<const int32_t> blocks = own_.blocks_of(slot);
  std::vector<int64_t> cells(positions);
  for (uint32_t p = 0; p < positions; ++p) {
    cells[p] = int64_t{blocks[p / kKvBlockTokens]} * kKvBlockTokens + p % kKvBlockTokens;
  }
  return cells;
}

void TorchBackend::evaluate(const SequenceRows& group) {
  const std::span<const PassRow> rows = own_.rows;
  std::vector<int32_t> tokens;
  for (const uint32_t r : group) tokens.push_back(rows[r].token);
  const auto wanted = [&](uint32_t r) { return row_wants_logits(rows[r]); };
  const auto first = static_cast<size_t>(std::find_if(group.begin(), group.end(), wanted) - group.begin());
  const size_t num_logits = group.size() - first, vocab = program_.limits.vocab;
  group_logits_.resize(num_logits * vocab);
  const std::vector<int64_t> cells = cells_of(rows[group.back()].slot, rows[group.back()].position + 1);
  oracle_.forward({tokens, cells, num_logits}, group_logits_);
  for (size_t i = 0; i < num_logits; ++i) {
    std::copy_n(group_logits_.begin() + static_cast<ptrdiff_t>(i * vocab), vocab,
                row_logits(group[first + i]).begin());
  }
}

void TorchBackend::sample_rows() {
  for (uint32_t r = 0; r < own_.rows.size(); ++r) {
    const PassRow& row = own_.rows[r];
    if (!row_wants_logits(row)) continue;
    const SequenceSlot& slot = own_.slots[row.slot];
    if (slot.num_top > 0) list_top(row_logits(r), slot.num_top, candidates_, state_.top[r]);
    if (row_has_target(row)) {
      own_.sampled[r] = score_token(row_logits(r), row.target);
      continue;
    }
    if ((slot.extras & kMasksTokens) != 0 && !state_.has_mask(row.slot, row.position + 1))
      throw Error(ErrorKind::kRuntime,
                  fmt::format("torch: row {}: the token at position {} has no mask", r, row.position + 1));
    const SlotAdjustments adjustments{
        own_.biases_of(row.slot).first(slot.num_biases),
        own_.history_of(row.slot).first(std::min(slot.history_length, own_.limits.max_context)),
        state_.mask_of(row.slot)};
    own_.sampled[r] = sample_token(row_logits(r), slot, row.position + 1, candidates_, adjustments);
  }
}

void TorchBackend::run(const Launch& launch, const std::function<void(uint32_t)>& on_pass,
                       const std::function<void()>& on_begun) {
  prepare_state(program_, {}, launch.passes, state_);
  copy_launch(state_, own_);
  if (on_begun) on_begun();
  while (own_.control.last_pass == kKeepRunning) {
    const uint32_t pass = own_.control.passes_done;
    for (const SequenceRows& group : rows_by_sequence(own_.rows)) evaluate(group);
    sample_rows();
    const bool any_active =
        advance_rows(own_.rows, own_.sampled.data(), own_.slots.data(), state_.output[pass].data());
    append_to_history(state_.output[pass], own_.slots.data(),
                      {own_.adjustments.data(), own_.limits.max_context});
    advance_control(own_.control, any_active, stop_.load(std::memory_order_acquire));
    if (on_pass) on_pass(pass);
  }
  stop_.store(false, std::memory_order_release);
  if (!on_begun) copy_result(own_, state_);
}

}  // namespace

std::unique_ptr<Backend> make_torch_backend(const Model& model, std::shared_ptr<const ModelWeights> weights,
                                            const BackendOptions& options, const TorchOptions& torch) {
  Program program;
  program.machine.name = "LibTorch";
  program.limits = {.vocab = static_cast<uint32_t>(model.vocab_size),
                    .max_context = options.limits.context,
                    .kv_blocks = options.limits.kv_blocks(),
                    .rows = options.limits.pass_rows(),
                    .sequences = options.limits.slots()};
  const int64_t cells = int64_t{program.limits.kv_blocks} * kKvBlockTokens;
  Oracle oracle(model, std::move(weights), {torch.dtype, torch.device, cells, options.threads});
  return std::make_unique<TorchBackend>(std::move(program), std::move(oracle));
}

}  // namespace serval

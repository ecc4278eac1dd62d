// A backend for unit tests: the semantics of a pass (vm/state, instructions/advance) with a toy model instead
// of tensors. Its top tokens are the one that was drawn, or the row's target, and those after it. Its KV
// cache holds tokens and is addressed through the block table like the real one, so a wrong block, position
// or history changes the generated tokens. Once a launch has begun, it overwrites everything that a launch
// may write, except the output.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"

namespace serval::testing {

// The token that follows `tokens` with the sampling parameters of `slot`.
using ToyModel = std::function<SampledToken(const SequenceSlot& slot, std::span<const int32_t> tokens)>;

// Returns a hash of everything on which a token may depend: the tokens before it and, unless greedy, seed and
// stream. Token `eos` comes once in `eos_period` tokens; 0: never.
ToyModel hashing_model(int32_t vocab_size, int32_t eos = 0, uint32_t eos_period = 0);
// The log-probability that the fake backend gives `target` after `tokens`.
float toy_log_probability(std::span<const int32_t> tokens, int32_t target);
// The hidden state that the fake backend gives the last of `tokens`.
std::vector<float> toy_hidden_state(std::span<const int32_t> tokens, uint32_t cols);
// Repeats `script` forever, for any prompt of `prompt_length` tokens.
ToyModel scripted_model(size_t prompt_length, std::vector<int32_t> script);

struct FakeBackendOptions {
  uint32_t context = 256;
  uint32_t kv_blocks = 64;
  uint32_t rows = kDefaultRows;
  uint32_t sequences = kDefaultSequences;
  bool check = true;          // checks each pass: positions, sharing of blocks, histories
  uint32_t stop_latency = 0;  // passes that still run after the one during which a stop was requested
  uint32_t vocab = 300;
  uint32_t pooled_cols = 0;  // > 0: pools toy_hidden_state() instead of drawing tokens
};

class FakeBackend final : public Backend {
 public:
  FakeBackend(ToyModel model, const FakeBackendOptions& options);

  std::string name() const override { return "fake"; }
  const Program& program() const override { return program_; }
  StateBlock& state() override { return state_; }
  void prepare(const Launch& launch) override;
  void run(const Launch& launch, const std::function<void(uint32_t)>& on_pass,
           const std::function<void()>& on_begun) override;
  void request_stop() noexcept override { stop_ = true; }
  std::span<const float> logits(int) override { return {}; }

  uint64_t passes_run() const { return passes_run_; }
  uint64_t launches() const { return launches_; }
  size_t most_sequences() const { return most_sequences_; }  // with rows in one pass
  // run() throws in this pass what a device backend throws for such an error: a device fault, except for out
  // of memory.
  void fail_at_pass(uint64_t pass, ErrorKind kind = ErrorKind::kDeviceFault) {
    fail_as_ = kind;
    fail_at_pass_ = pass;
  }
  void fail_before_launch(uint64_t launch) {
    fail_before_launch_ = launch;
  }  // likewise, before the launch has begun
  // Targets and hidden states after this position are not finite.
  void spoil_scores_after(uint32_t position) { spoilt_after_ = position; }
  void before_each_pass(std::function<void()> call) { before_pass_ = std::move(call); }
  // Called on the loop's thread when a launch returns.
  void after_each_launch(std::function<void()> call) { after_launch_ = std::move(call); }
  uint64_t launches_prepared() const { return launches_prepared_; }  // launches that ran as prepared
  bool is_prepared() const {
    return prepared_.has_value();
  }  // a launch was prepared since the last one began

 private:
  // The state at prepare().
  struct Prepared {
    Launch launch;
    std::vector<PassRow> rows;
    std::vector<SequenceSlot> slots;
    std::vector<int32_t> block_table;
  };
  void check_prepared(const Launch& launch) const;
  void forget_launch();
  void run_pass(uint32_t pass);
  void check_rows();
  int32_t& kv(const PassRow& row, uint32_t position);
  std::vector<int32_t> tokens_before(const PassRow& row);
  void check_history(const PassRow& row, std::span<const int32_t> tokens) const;
  int32_t next_allowed(const PassRow& row, int32_t token);
  SampledToken result_of(const PassRow& row);
  SampledToken pool(const PassRow& row);
  void advance(uint32_t pass, size_t r);

  ToyModel model_;
  FakeBackendOptions options_;
  Program program_;
  StateBlock state_;
  StateBlock own_;  // state of the current launch, without output, top and masks
  std::optional<Prepared> prepared_;
  std::vector<int32_t> kv_;
  std::atomic<bool> stop_{false};
  uint32_t spoilt_after_ = ~0U;
  std::function<void()> before_pass_, after_launch_;
  // Written by the thread that runs passes.
  std::atomic<uint64_t> passes_run_ = 0;
  std::atomic<uint64_t> launches_ = 0;
  std::atomic<uint64_t> launches_prepared_ = 0;
  std::atomic<size_t> most_sequences_ = 0;
  std::atomic<ErrorKind> fail_as_ = ErrorKind::kDeviceFault;
  std::atomic<uint64_t> fail_at_pass_ = ~uint64_t{0}, fail_before_launch_ = ~uint64_t{0};
};

}  // namespace serval::testing

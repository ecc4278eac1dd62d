// --backend torch behaves like the host interpreter, with LibTorch's logits.
#include "engine/torch/torch_backend.h"

#include <algorithm>
#include <numeric>

#include "engine/torch/teacher_forcing.h"
#include "serval/engine.h"
#include "tests/llama/masked_passes.h"
#include "tests/oracle/oracle_support.h"
#include "vm/base/error.h"
#include "vm/layout/kv_cache.h"

namespace serval::testing {
namespace {

constexpr uint32_t kContext = 128;
constexpr uint32_t kSequences = 2;

class TorchBackendTest : public WithTorch {
 protected:
  void SetUp() override {
    WithTorch::SetUp();
    if (!IsSkipped()) model = golden_models().front();
  }
  std::unique_ptr<Backend> torch(uint32_t rows = kDefaultRows) const {
    BackendOptions options;
    options.limits = {.context = kContext, .sequences = kSequences, .rows = rows};
    return make_torch_backend(model.config, model.weights, options, {.device = OracleDevice::kCpu});
  }
  std::unique_ptr<Backend> host() const { return host_backend(model, kContext, kSequences); }

  GoldenModel model;
};

// Slot 0 reads a prompt of five tokens, slot 1 a prompt of one token, whose row comes first.
void write_two_sequences(Backend& backend) {
  StateBlock& state = backend.state();
  std::fill(std::begin(state.rows), std::end(state.rows), PassRow{});
  const auto row = [&](size_t r, uint32_t slot, int32_t token, uint32_t position, bool wants) {
    state.rows[r].active = 1;
    state.rows[r].wants_logits = wants ? 1 : 0;
    state.rows[r].slot = slot;
    state.rows[r].token = token;
    state.rows[r].position = position;
  };
  row(0, 1, 42, 0, true);
  for (uint32_t p = 0; p < 5; ++p) row(2 + p, 0, static_cast<int32_t>(100 + p), p, p == 4);
  for (uint32_t s = 0; s < kSequences; ++s) {
    state.slots[s] = {};
    state.slots[s].end_position = kContext;
    state.slots[s].frequency_penalty = 0.5F;
    state.slots[s].extras = extras_of(state.slots[s]);
    const std::span<int32_t> blocks = backend.state().block_table.subspan(
        size_t{s} * backend.blocks_per_sequence(), backend.blocks_per_sequence());
    std::iota(blocks.begin(), blocks.end(), static_cast<int32_t>(s * backend.blocks_per_sequence()));
  }
}

std::vector<OutputToken> run(Backend& backend, uint32_t passes) {
  std::vector<OutputToken> tokens;
  backend.run({.passes = passes}, [&](uint32_t pass) {
    for (const OutputToken& token : backend.state().output[pass]) tokens.push_back(token);
  });
  return tokens;
}

TEST_F(TorchBackendTest, DrawsWhatAMaskAllows) {
  for (const std::unique_ptr<Backend>& backend : {host(), torch()}) {
    write_two_sequences(*backend);
    StateBlock& state = backend->state();
    state.slots[0].masked = 1;
    state.slots[0].extras = extras_of(state.slots[0]);
    std::ranges::fill(state.mask_of(0), 0);
    state.mask_of(0)[2] = 1U << 5;
    state.publish_mask(0, kAnyPosition);
    EXPECT_EQ(run(*backend, 1)[6].token, 69) << backend->name();
  }
}

TEST_F(TorchBackendTest, TakesMasksWhileALaunchRuns) {
  expect_launches_to_wait_for_masks(*torch(), 10);
  expect_a_mask_for_any_position_to_stay(*torch(), 5);
}

TEST_F(TorchBackendTest, LeavesTheStateThatTheHostInterpreterLeaves) {
  constexpr uint32_t kPasses = 6;
  const std::unique_ptr<Backend> ours = host(), theirs = torch();
  for (Backend* backend : {ours.get(), theirs.get()}) {
    write_two_sequences(*backend);
    backend->state().slots[0].end_position = 8;
  }
  const std::vector<OutputToken> expected = run(*ours, kPasses), found = run(*theirs, kPasses);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].valid, expected[i].valid) << i;
    EXPECT_EQ(found[i].slot, expected[i].slot) << i;
    EXPECT_EQ(found[i].token, expected[i].token) << i;
    EXPECT_EQ(found[i].position, expected[i].position) << i;
    EXPECT_EQ(found[i].finish, expected[i].finish) << i;
    EXPECT_NEAR(found[i].log_probability, expected[i].log_probability, 0.05) << i;
  }
  for (uint32_t s = 0; s < kSequences; ++s) {
    EXPECT_EQ(ours->state().slots[s].history_length, theirs->state().slots[s].history_length);
    EXPECT_TRUE(std::ranges::equal(ours->state().history_of(s), theirs->state().history_of(s)));
  }
  EXPECT_EQ(theirs->state().control.passes_done, kPasses);
  EXPECT_EQ(theirs->state().control.last_pass, kPasses - 1);
}

TEST_F(TorchBackendTest, EvaluatesPassesOfAnyNumberOfRows) {
  const std::unique_ptr<Backend> sixteen = torch();
  write_two_sequences(*sixteen);
  const std::vector<OutputToken> expected = run(*sixteen, 3);
  for (const uint32_t rows : {7U, 48U, 256U}) {
    const std::unique_ptr<Backend> backend = torch(rows);
    write_two_sequences(*backend);
    const std::vector<OutputToken> found = run(*backend, 3);
    ASSERT_EQ(found.size(), size_t{3} * rows);
    for (size_t pass = 0; pass < 3; ++pass) {
      for (size_t r = 0; r < 7; ++r) {
        EXPECT_EQ(found[pass * rows + r].token, expected[pass * kDefaultRows + r].token) << rows;
      }
    }
  }
  const std::unique_ptr<Backend> one = torch(1);
  StateBlock& state = one->state();
  state.rows[0] = {.active = 1, .wants_logits = 1, .slot = 0, .token = 42, .position = 0};
  state.slots[0].end_position = kContext;
  EXPECT_EQ(run(*one, 3)[0].token, expected[0].token);
}

TEST_F(TorchBackendTest, StopsAfterThePassInFlight) {
  const std::unique_ptr<Backend> backend = torch();
  write_two_sequences(*backend);
  uint32_t passes = 0;
  backend->run({.passes = 10}, [&](uint32_t) {
    if (++passes == 2) backend->request_stop();
  });
  EXPECT_EQ(passes, 3U);
  EXPECT_EQ(backend->state().control.stopped_by_host, 1U);
  write_two_sequences(*backend);
  EXPECT_EQ(run(*backend, 2).size(), size_t{2} * backend->state().rows.size());
}

TEST_F(TorchBackendTest, KvBlocksMayLieAnywhere) {
  const std::unique_ptr<Backend> backend = torch();
  write_two_sequences(*backend);
  const std::vector<OutputToken> expected = run(*backend, 4);
  write_two_sequences(*backend);
  std::reverse(backend->state().block_table.begin(),
               backend->state().block_table.begin() + kSequences * backend->blocks_per_sequence());
  const std::vector<OutputToken> found = run(*backend, 4);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].token, expected[i].token);
}

TEST_F(TorchBackendTest, ChecksTheStateBeforeItRuns) {
  const std::unique_ptr<Backend> backend = torch();
  write_two_sequences(*backend);
  backend->state().rows[0].token = model.config.vocab_size;
  EXPECT_THROW(backend->run({.passes = 1}, {}), Error);
}

// The margins of these goldens are larger than the difference between two fp32 forward passes.
TEST_F(TorchBackendTest, GeneratesWhatTransformersGenerate) {
  EngineOptions options;
  options.backend = "torch";
  options.context = 256;
  options.max_sequences = 1;
  Engine engine = Engine::load(options);
  EXPECT_EQ(engine.info().backend, "torch");
  for (const nlohmann::json& prompt : read_goldens("stories/goldens.json", "prompts")) {
    const auto greedy = prompt["greedy"].get<std::vector<int32_t>>();
    Request request{.prompt_ids = prompt["ids"].get<std::vector<int32_t>>(),
                    .max_tokens = static_cast<int>(greedy.size()),
                    .ignore_eos = true};
    request.sampling.temperature = 0;
    EXPECT_EQ(engine.generate(request).tokens, greedy);
  }
}

}  // namespace
}  // namespace serval::testing

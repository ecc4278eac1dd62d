// The GPU as a backend: its logits are close to the host's, and their bits do not depend on how they are
// computed.
#include "engine/backend/device_backend.h"

#include <fmt/format.h>
#include <numeric>

#include "gtest/gtest.h"

#include "engine/device/gpu.h"
#include "tests/device/nearness.h"
#include "tests/llama/decoder.h"
#include "tests/llama/masked_passes.h"
#include "tests/llama/spoilt_model.h"
#include "tests/llama/stop.h"
#include "tests/llama/tiny_model.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

constexpr uint32_t kContext = 320;  // two attention leaves
constexpr uint64_t kSeed = 3;

BackendOptions device_options(uint32_t sms = 0) {
  BackendOptions options;
  options.limits.context = kContext;
  options.sms = sms;
  options.stall_timeout_s = 5;
  return options;
}

std::unique_ptr<Backend> make_device(const LlamaConfig& config, const BackendOptions& options) {
  return make_device_backend(config, *make_random_weights(config, kSeed), options);
}
Decoder make_decoder(const BackendOptions& options) {
  return Decoder(make_device(tiny_config(), options));
}

Sequence sequence(size_t prompt, uint32_t num_tokens, uint32_t id = 0) {
  return {random_tokens(tiny_config(), prompt, id + 1), num_tokens, id % 2 == 0 ? 0.9F : 0.0F,
          id % 3 == 0 ? 1.2F : 1.0F, id};
}

// One prompt crosses the end of a block, the other the end of a leaf.
const std::vector<Sequence>& two_sequences() {
  static const std::vector<Sequence> made = {sequence(57, 14), sequence(250, 14, 1)};
  return made;
}

const std::vector<Answer>& expected() {
  static const std::vector<Answer> made = make_decoder(device_options()).answer(two_sequences());
  return made;
}

void expect_near(const std::vector<std::vector<float>>& found, const std::vector<std::vector<float>>& host) {
  ASSERT_EQ(found.size(), host.size());
  Nearness nearness;
  for (size_t p = 0; p < host.size(); ++p) nearness.add(found[p], host[p]);
  nearness.judge();
}

TEST(DeviceBackend, HasTheHostsLogits) {
  LlamaConfig with_norms = tiny_untied_config(), with_biases = tiny_config();
  with_norms.num_heads = 6;
  with_norms.qk_norm = true;
  with_biases.qkv_bias = true;
  for (const LlamaConfig& config : {tiny_config(), tiny_untied_config(), with_norms, with_biases}) {
    SCOPED_TRACE(fmt::format("{} heads, biases {}", config.num_heads, config.qkv_bias));
    const std::vector<int32_t> tokens = random_tokens(config, 300, 9);
    Decoder device(make_device(config, device_options()));
    Decoder host(config, std::make_shared<const ModelWeights>(ModelWeights::random(config, kSeed)),
                 host_options(kContext, 4, 2));
    expect_near(device.force(tokens), host.force(tokens));
  }
}

// In models of whole and partial panels, an odd number of panels, and heads of both sizes.
LlamaConfig config_in_codes(DType layers, int hidden, int intermediate, int head_dim, DType lm_head) {
  LlamaConfig config = tiny_config();
  config.hidden_size = hidden;
  config.intermediate_size = intermediate;
  config.head_dim = head_dim;
  config.num_layers = 2;
  config.formats = {.layers = layers, .lm_head = lm_head};
  return config;
}
std::vector<LlamaConfig> configs_in_codes() {
  constexpr DType kE4M3 = DType::kE4M3, kBF16 = DType::kBF16;
  constexpr DType k32 = DType::kInt4G32, k64 = DType::kInt4G64, k128 = DType::kInt4G128;
  std::vector<LlamaConfig> configs = {
      config_in_codes(kE4M3, 96, 176, 64, kE4M3),     config_in_codes(kE4M3, 1024, 3072, 64, kBF16),
      config_in_codes(kE4M3, 2112, 5136, 128, kE4M3), config_in_codes(kE4M3, 3072, 8192, 128, kE4M3),
      config_in_codes(k32, 96, 192, 64, k32),         config_in_codes(k32, 2080, 5152, 128, kBF16),
      config_in_codes(k64, 2112, 5184, 128, kE4M3),   config_in_codes(k128, 1024, 3072, 64, kBF16),
      config_in_codes(k128, 2176, 5504, 128, k64),    config_in_codes(k128, 4096, 14336, 128, k128)};
  for (const DType layers : {kE4M3, k128}) {
    configs.push_back(config_in_codes(layers, 256, 2048, 128, kBF16));
    configs.back().qk_norm = true;
  }
  return configs;
}
std::string name_of(const LlamaConfig& config) {
  return fmt::format("{}: {} and {} columns", serval::name_of(config.formats.layers), config.hidden_size,
                     config.intermediate_size);
}
std::shared_ptr<const ModelWeights> host_weights(const LlamaConfig& config) {
  LlamaConfig in_bf16 = config;
  in_bf16.formats = {};
  return std::make_shared<const ModelWeights>(ModelWeights::random(in_bf16, kSeed));
}

TEST(DeviceBackend, HasTheHostsLogitsWithWeightsInCodes) {
  for (const LlamaConfig& config : configs_in_codes()) {
    SCOPED_TRACE(name_of(config));
    const std::vector<int32_t> tokens = random_tokens(config, 70, 9);
    Decoder device(make_device(config, device_options()));
    Decoder host(config, host_weights(config), host_options(kContext, 4, 2));
    expect_near(device.force(tokens), host.force(tokens));
  }
}

// In the kernels for 1, 4, 8 and 16 rows.
TEST(DeviceBackend, NeighboursChunksAndSmsDoNotShowWithWeightsInCodes) {
  for (const LlamaConfig& config : configs_in_codes()) {
    SCOPED_TRACE(name_of(config));
    std::vector<Sequence> many;
    for (uint32_t i = 0; i < 13; ++i)
      many.push_back({random_tokens(config, 1 + 11 * i, i + 1), 4, 0.9F, 1.0F, i});
    Decoder decoder(make_device(config, device_options()));
    const std::vector<Answer> together = decoder.answer(many);
    EXPECT_EQ(Decoder(make_device(config, device_options(7))).answer(many), together);
    EXPECT_EQ(decoder.answer(many, {.chunk = 5}), together);
    for (const size_t count : {1, 3, 7}) {
      const std::vector<Sequence> some(many.begin(), many.begin() + static_cast<ptrdiff_t>(count));
      EXPECT_EQ(decoder.answer(some),
                std::vector(together.begin(), together.begin() + static_cast<ptrdiff_t>(count)))
          << count;
    }
  }
}

TEST(DeviceBackend, RoundsToCodesAsTheHostDoes) {
  for (const DType dtype : {DType::kE4M3, DType::kInt4G32}) {
    const LlamaConfig config = config_in_codes(dtype, 96, 192, 64, dtype);
    Decoder device(make_device(config, device_options()));
    Decoder host(config, host_weights(config), host_options(kContext, 4, 2));
    const std::vector<Sequence> greedy = {{random_tokens(config, 20, 3), 30}};
    EXPECT_EQ(device.answer(greedy)[0].tokens, host.answer(greedy)[0].tokens) << name_of(config);
  }
}

TEST(DeviceBackend, NeighboursAndSmsDoNotShowInModelsWithNormsOfHeads) {
  LlamaConfig config = tiny_untied_config();
  config.qk_norm = true;
  std::vector<Sequence> eight;
  for (uint32_t i = 0; i < 8; ++i)
    eight.push_back({random_tokens(config, 1 + 31 * i, i + 1), 5, 0.9F, 1.0F, i});
  const std::vector<Answer> together = Decoder(make_device(config, device_options())).answer(eight);
  EXPECT_EQ(Decoder(make_device(config, device_options(7))).answer(eight), together);
  Decoder decoder(make_device(config, device_options()));
  for (size_t i = 0; i < eight.size(); ++i)
    EXPECT_EQ(decoder.answer({eight[i]}), std::vector{together[i]}) << i;
}

TEST(DeviceBackend, SmsPolicyAndQueuesDoNotShow) {
  std::vector<BackendOptions> ways = {device_options(1), device_options(7), device_options(64)};
  for (const Policy policy : kPolicies) {
    ways.push_back(device_options());
    ways.back().schedule.policy = policy;
  }
  ways.push_back(device_options());
  ways.back().schedule.queue_kind = QueueKind::kGlobal;
  for (const BackendOptions& way : ways) {
    SCOPED_TRACE(fmt::format("{} SMs, {}", way.sms,
                             way.schedule.policy ? name_of(*way.schedule.policy) : "no policy"));
    EXPECT_EQ(make_decoder(way).answer(two_sequences()), expected());
  }
}

TEST(DeviceBackend, ChunksOfAPromptDoNotShow) {
  Decoder decoder = make_decoder(device_options());
  for (const uint32_t chunk : {1U, 5U, 16U}) {
    EXPECT_EQ(decoder.answer(two_sequences(), {.chunk = chunk}), expected()) << chunk;
  }
}

TEST(DeviceBackend, LaunchesOfManyPassesAreLikeManyLaunches) {
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    BackendOptions options = device_options();
    options.schedule.queue_kind = kind;
    Decoder decoder = make_decoder(options);
    for (const uint32_t passes : {2U, 5U, 13U, 100U}) {
      const std::vector<Answer> found = decoder.answer(two_sequences(), {.passes = passes});
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].tokens, expected()[i].tokens) << passes;
        EXPECT_EQ(found[i].log_probabilities, expected()[i].log_probabilities) << passes;
      }
    }
  }
}

TEST(DeviceBackend, LetsTheNextStateBeWrittenWhileALaunchRuns) {
  Decoder decoder = make_decoder(device_options());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(decoder.answer_ahead(two_sequences()), expected());
}

// In the kernels for few rows and in those that multiply tiles of rows.
TEST(DeviceBackend, WaitsForMasksWhileALaunchRuns) {
  LlamaConfig config = tiny_config();
  config.hidden_size = 128;
  config.intermediate_size = 192;
  for (const bool tiles : {false, true}) {
    BackendOptions options = device_options();
    options.limits.batch_invariant = tiles;
    const auto backend = make_device(config, options);
    expect_launches_to_wait_for_masks(*backend, 300);
    expect_a_mask_for_any_position_to_stay(*backend, 100);
    expect_launches_to_wait_for_masks(*backend, 1);
  }
}

TEST(DeviceBackend, AMaskThatDoesNotComeIsAFault) {
  BackendOptions options = device_options();
  options.stall_timeout_s = 0.5;
  expect_a_mask_that_does_not_come_to_be_a_fault(*make_device(tiny_config(), options));
}

TEST(DeviceBackend, NeighboursDoNotShow) {
  std::vector<Sequence> sixteen;
  for (uint32_t i = 0; i < kDefaultSequences; ++i) sixteen.push_back(sequence(1 + 17 * i, 3 + i % 6, i));
  Decoder decoder = make_decoder(device_options());
  const std::vector<Answer> together = decoder.answer(sixteen);
  for (uint32_t i = 0; i < kDefaultSequences; ++i) {
    ASSERT_EQ(together[i].tokens.size(), sixteen[i].num_tokens);
    EXPECT_EQ(decoder.answer({sixteen[i]}), std::vector{together[i]}) << "alone in slot 0: " << i;
    EXPECT_EQ(decoder.answer({sixteen[i]}, {.first_slot = 15 - i}), std::vector{together[i]}) << i;
  }
}

TEST(DeviceBackend, KvBlocksMayLieAnywhere) {
  Decoder decoder = make_decoder(device_options());
  for (const uint32_t seed : {1U, 2U, 3U}) {
    decoder.shuffle_blocks(seed);
    EXPECT_EQ(decoder.answer(two_sequences()), expected());
  }
}

TEST(DeviceBackend, RunsItselfAgainToTheSameBits) {
  Decoder decoder = make_decoder(device_options());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(decoder.answer(two_sequences()), expected());
}

TEST(DeviceBackend, LeftoversOfOtherSequencesDoNotShow) {
  Decoder decoder = make_decoder(device_options());
  decoder.answer({sequence(300, 10, 5), sequence(290, 10, 6)});
  EXPECT_EQ(decoder.answer(two_sequences()), expected());
}

std::unique_ptr<Backend> make_spoilt(const SpoiltWeights& weights) {
  return make_device_backend(tiny_untied_config(), weights, device_options());
}

TEST(DeviceBackend, ASequenceWhoseLogitsAreNotFiniteEndsAlone) {
  expect_only_the_spoilt_sequence_to_end(make_spoilt);
}

TEST(DeviceBackend, OneLogitThatIsNotFiniteEndsASequence) {
  expect_one_spoilt_logit_to_end_all(make_spoilt);
}

TEST(DeviceBackend, StopsBetweenPasses) {
  const auto backend = make_device(tiny_config(), device_options());
  expect_to_stop_between_passes(*backend, kContext);
}

TEST(DeviceBackend, RefusesABadStateBeforeAnythingRuns) {
  const auto backend = make_device(tiny_config(), device_options());
  StateBlock& state = backend->state();
  state.rows[2] = {
      .active = 1, .wants_logits = 1, .slot = 1, .token = tiny_config().vocab_size, .position = 0};
  state.slots[1].end_position = kContext;
  EXPECT_THROW(backend->run({.passes = 1}, {}), Error);
  state.rows[2].token = 5;
  backend->run({.passes = 1}, {});
  EXPECT_EQ(state.output[0][2].valid, 1U);
  EXPECT_EQ(state.output[0][2].position, 1U);
}

ErrorKind kind_of_refusal(const LlamaConfig& config, const BackendOptions& options) {
  try {
    make_device(config, options);
  } catch (const Error& error) {
    fmt::print("[ figures  ] {}\n", error.what());
    return error.kind();
  }
  ADD_FAILURE() << "was not refused";
  return ErrorKind::kRuntime;
}

TEST(DeviceBackend, RefusesWhatTheGpuDoesNotHave) {
  EXPECT_EQ(kind_of_refusal(tiny_config(), device_options(find_gpu(0).sms + 1)), ErrorKind::kUsage);
  LlamaConfig long_context = tiny_config();
  long_context.max_position = 1 << 24;
  BackendOptions options = device_options();
  options.limits.context = 1 << 24;
  EXPECT_EQ(kind_of_refusal(long_context, options), ErrorKind::kOutOfMemory);
}

TEST(DeviceBackend, FillsItsCacheWithWhatTheHostHas) {
  const LlamaConfig config = tiny_config();
  const auto device = make_device(config, device_options());
  const auto host =
      make_host_backend(config, std::make_shared<const ModelWeights>(ModelWeights::random(config, kSeed)),
                        host_options(kContext, 4));
  std::vector<std::vector<float>> logits;
  for (Backend* backend : {device.get(), host.get()}) {
    backend->fill_cache();
    std::iota(backend->state().block_table.begin(), backend->state().block_table.end(), 0);
    backend->state().rows[0] = {
        .active = 1, .wants_logits = 1, .slot = 0, .token = 1, .position = kContext - 1};
    backend->state().slots[0].end_position = kContext;
    backend->run({.passes = 1}, {});
    logits.emplace_back(backend->logits(0).begin(), backend->logits(0).end());
  }
  expect_near({logits[0]}, {logits[1]});
}

}  // namespace
}  // namespace serval::testing

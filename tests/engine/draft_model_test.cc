// Requests whose drafts a model makes get the bits that they get without.
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"

#include "engine/core/pass_loop.h"
#include "engine/runtime/model_source.h"
#include "engine/runtime/options.h"
#include "tests/checkpoint/test_files.h"
#include "tests/engine/drafted_requests.h"
#include "tests/engine/small_models.h"
#include "tests/engine/toy_engine.h"
#include "tests/sample.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

// A draft model, and the bytes of a token's keys and values in it.
struct Drafter {
  std::string directory;
  uint64_t kv_bytes;
};
// The bundled model itself, whose drafts are always right.
Drafter bundled() {
  return {bundled_model_directory().string(), 3584};
}
// Most of its layers: sometimes right.
Drafter first_layers(const TempDir& dir, int layers = 6) {
  write_first_layers(dir.path(), layers);
  return {dir.path().string(), 512 * static_cast<uint64_t>(layers)};
}
// Nearly always wrong.
Drafter random_model(const TempDir& dir, const RandomModel& random = {}) {
  write_random_model(dir.path(), random);
  return {dir.path().string(), 256};
}

EngineOptions with_drafter(EngineOptions options, const Drafter& drafter, int draft_max = 7) {
  options.speculation.method = Speculation::Method::kModel;
  options.speculation.model = drafter.directory;
  options.speculation.draft_max = draft_max;
  return options;
}
EngineOptions on_host() {
  EngineOptions options;
  options.backend = "host";
  options.threads = 1;
  options.max_batch_tokens = 64;
  options.context = 512;
  return options;
}

class ModelDraftedRequests : public DraftedRequests {
 protected:
  void run_with(const EngineOptions& options, const Drafter& drafter, int draft_max = 7) {
    run(engine(with_drafter(options, drafter, draft_max), drafter.kv_bytes));
  }
  const DraftStats& drafts() const { return stats().drafts; }
};

TEST_F(ModelDraftedRequests, GetTheBitsThatTheyGetWithoutDrafts) {
  const TempDir some_layers, random;
  const EngineOptions options = options_of(2, 7, 64);
  prepare(sampled(45), engine(2, 2), allow_drafts);
  run_with(options, first_layers(some_layers));
  expect_drafts();
  EXPECT_GT(ends(Finish::kCancelled), 0U);
  EXPECT_GT(ends(Finish::kStop), 0U);
  run_with(options, random_model(random));
  EXPECT_GT(drafts().drafted, 0U);
  EXPECT_LT(drafts().accepted * 3, drafts().drafted) << "but for biases and few candidates";
  run_with(options, bundled());
  EXPECT_GT(drafts().drafted, 0U);
  EXPECT_EQ(drafts().accepted, drafts().drafted) << "a model foresees itself, at any temperature";
}

TEST_F(ModelDraftedRequests, GetTheirBitsInSpiteOfPreemptions) {
  const auto change = [](Request& request) {
    make_answers_long(request);
    request.sampling = {.temperature = 0.2F, .repetition_penalty = 1};
    request.top_logprobs = 0;
  };
  const TempDir some_layers;
  prepare(8, engine(2, 2), change);
  run_with(options_of(2, 2, 64), first_layers(some_layers));
  EXPECT_GT(stats().preemptions, 0U);
  expect_drafts();
}

TEST_F(ModelDraftedRequests, GetTheirBitsWithAnyNumberOfDrafts) {
  const TempDir some_layers;
  const Drafter drafter = first_layers(some_layers);
  prepare(sampled(12), engine(2, 2), allow_drafts);
  for (const int draft_max : {1, 3, 15}) {
    SCOPED_TRACE(std::to_string(draft_max) + " drafts");
    run_with(options_of(2, 3, 48), drafter, draft_max);
    EXPECT_GT(drafts().drafted, 0U);
  }
}

// As many as a GPU's kernels of vectors have.
TEST_F(ModelDraftedRequests, GetTheirBitsInPassesOf16Rows) {
  const TempDir some_layers;
  const Drafter drafter = first_layers(some_layers);
  prepare(40, engine(2, 2, 16), allow_drafts);
  const EngineOptions options = with_drafter(options_of(2, 7, 16), drafter);
  run([=](const Size& size) {
    return engine(options, drafter.kv_bytes)({size.kv_blocks, std::min(size.sequences, 16)});
  });
  expect_drafts();
}

TEST_F(ModelDraftedRequests, GetTheirBitsInAnyInterleavingOfInstructions) {
  const TempDir some_layers;
  prepare(8, engine(2, 2), allow_drafts);
  EngineOptions options = options_of(1, 5, 48);
  options.interleaving = 3;
  run_with(options, first_layers(some_layers), 4);
}

TEST_F(ModelDraftedRequests, GetTheirBitsOnTwoRanks) {
  const TempDir some_layers;
  EngineOptions options = options_of(2, 2, 64);
  options.gpus = {0, 1};
  prepare(12, engine(options), allow_drafts);
  run_with(options, first_layers(some_layers));
  EXPECT_GT(drafts().drafted, 0U);
}

TEST_F(ModelDraftedRequests, PassTheChecksOfWhatEachPassTouches) {
  const TempDir some_layers;
  EngineOptions options = with_drafter(options_of(2, 5, 32), first_layers(some_layers), 4);
  options.checked = true;
  Engine engine = Engine::load(options);
  const Response answer = engine.generate(
      {.prompt = "The old bird", .sampling = {.temperature = 0}, .max_tokens = 24, .ignore_eos = true});
  EXPECT_EQ(answer.finish, Finish::kLength) << answer.error;
  EXPECT_GT(engine.stats().drafts.accepted, 0U);
}

// Ten requests. Some draw tokens at random, some have a long prompt.
std::vector<Response> answers_of(Engine& engine, int tokens = 40) {
  std::vector<Response> answers;
  for (int i = 0; i < 10; ++i) {
    std::string prompt = "Once upon a time there was a bird";
    for (int more = 0; more < 10 * (i % 3); ++more) prompt += " who said: come with me";
    answers.push_back(engine.generate({.prompt = prompt,
                                       .sampling = {.temperature = 0.2F * static_cast<float>(i % 4),
                                                    .repetition_penalty = 1,
                                                    .seed = static_cast<uint64_t>(i)},
                                       .max_tokens = tokens,
                                       .ignore_eos = i % 2 == 0}));
  }
  return answers;
}
void expect_equal(const std::vector<Response>& found, const std::vector<Response>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i].tokens, expected[i].tokens) << i;
    EXPECT_EQ(found[i].log_probabilities, expected[i].log_probabilities) << i;
    EXPECT_EQ(found[i].finish, expected[i].finish) << i << found[i].error;
  }
}

TEST(DraftModel, MayBeLargerThanTheModelThatItDraftsFor) {
  const TempDir random;
  EngineOptions options = on_host();
  options.model = random_model(random).directory;
  Engine plain = Engine::load(options), drafted = Engine::load(with_drafter(options, bundled()));
  expect_equal(answers_of(drafted), answers_of(plain));
  EXPECT_GT(drafted.stats().drafts.drafted, 0U);
}

// Sequences that are longer get no drafts, and go on.
TEST(DraftModel, MayHaveAShorterContext) {
  const TempDir random;
  constexpr int kShort = 48;
  const Drafter drafter = random_model(random, {.context = kShort});
  Engine plain = Engine::load(on_host()), drafted = Engine::load(with_drafter(on_host(), drafter));
  expect_equal(answers_of(drafted, 60), answers_of(plain, 60));
  const uint64_t drafts = drafted.stats().drafts.drafted;
  EXPECT_GT(drafts, 0U);
  const Response longer = drafted.generate({.prompt_ids = std::vector<int32_t>(kShort, 300),
                                            .sampling = {.repetition_penalty = 1},
                                            .max_tokens = 20,
                                            .ignore_eos = true});
  EXPECT_EQ(longer.tokens.size(), 20U);
  EXPECT_EQ(drafted.stats().drafts.drafted, drafts);
}

TEST(DraftModel, SavesPasses) {
  Engine engine = Engine::load(with_drafter(on_host(), bundled()));
  const Request request = {.prompt = "The bird",
                           .sampling = {.temperature = 0.8F, .repetition_penalty = 1},
                           .max_tokens = 160,
                           .ignore_eos = true};
  EXPECT_EQ(engine.generate(request).tokens.size(), 160U);
  EXPECT_LT(engine.stats().passes, 30U) << "8 tokens a pass";
  EXPECT_EQ(engine.stats().drafts.accepted, engine.stats().drafts.drafted);
  EXPECT_GT(engine.stats().drafts.ms, 0);
}

// The keys and values of a prompt that was read before are found again in its cache, too.
TEST(DraftModel, FindsPromptsInItsCache) {
  FakeBackend drafter(hashing_model(300), {});
  ToyEngine toy(hashing_model(300), {.loop = {.drafts = {.most = 3, .least = 1}, .draft_model = &drafter}});
  const Request request = {.prompt_ids = std::vector<int32_t>(200, 7), .max_tokens = 1};
  (void)toy.engine.generate(request);
  const uint64_t passes = drafter.passes_run();
  EXPECT_GE(passes, 200 / kDefaultRows);
  (void)toy.engine.generate(request);
  EXPECT_LE(drafter.passes_run(), passes + 1);
}

TEST(DraftModel, DraftsForAllAnswersOfARequestThatAllowsIt) {
  Engine engine = Engine::load(with_drafter(on_host(), bundled()));
  Request request = {.prompt = "The bird",
                     .sampling = {.temperature = 0.8F, .repetition_penalty = 1},
                     .max_tokens = 40,
                     .ignore_eos = true,
                     .n = 3};
  // The engine counts a pass after it has delivered the pass's tokens.
  const auto stats_of = [&](uint64_t tokens) {
    (void)engine.decode_batch({&request, 1});
    while (engine.stats().generated_tokens < tokens) std::this_thread::yield();
    return engine.stats();
  };
  const EngineStats first = stats_of(120);
  EXPECT_LT(first.generated_tokens - first.drafts.accepted, 40U) << "of 3 times 40 tokens";
  request.speculative = false;
  EXPECT_EQ(stats_of(240).drafts.drafted, first.drafts.drafted);
}

TEST(DraftModel, DraftsOnlyWhatItThinksProbable) {
  const TempDir some_layers;
  EngineOptions options = with_drafter(on_host(), first_layers(some_layers));
  Engine any = Engine::load(options);
  options.speculation.draft_p_min = 0.7F;
  Engine probable = Engine::load(options);
  expect_equal(answers_of(probable), answers_of(any));
  const DraftStats all = any.stats().drafts, some = probable.stats().drafts;
  EXPECT_GT(some.drafted, 0U);
  EXPECT_GT(static_cast<double>(some.accepted) / static_cast<double>(some.drafted),
            static_cast<double>(all.accepted) / static_cast<double>(all.drafted));
}

TEST(DraftModel, IsRefusedWithAnotherVocabulary) {
  const TempDir smaller, exchanged;
  const auto refusal = [](const Drafter& drafter) {
    return error_of([&] { (void)Engine::load(with_drafter(on_host(), drafter)); });
  };
  EXPECT_THAT(refusal(random_model(smaller, {.vocabulary = 3073})),
              HasSubstr("its vocabulary has 3073 tokens, and that of serval-stories has 3072"));
  const Drafter other = random_model(exchanged);
  exchange_tokens(exchanged.path(), 700, 800);
  EXPECT_THAT(refusal(other), HasSubstr(": token 700 is "));
}

TEST(DraftModel, IsNamedWithTheMethodAndOnlyThen) {
  const auto refusal = [](const Speculation& speculation) {
    EngineOptions options;
    options.speculation = speculation;
    return error_of([&] { check_options(options); }, ErrorKind::kUsage);
  };
  using Method = Speculation::Method;
  EXPECT_EQ(refusal({.method = Method::kModel}),
            "speculation: model needs a draft model (model_draft, --model-draft MODEL)");
  EXPECT_EQ(refusal({.method = Method::kNgram, .model = "small"}),
            "model_draft: small; it is for speculation by a model, not ngram");
  EXPECT_EQ(refusal({.method = Method::kModel, .model = "small", .draft_p_min = 1.5F}),
            "draft_p_min: 1.5; limit: 0 to 1");
}

TEST(DraftModel, ReportsItsMemory) {
  const TempDir random;
  const Drafter drafter = random_model(random);
  const Engine engine = Engine::load(with_drafter(on_host(), drafter));
  EXPECT_GT(engine.info().draft_weight_bytes, 3072 * 64 * 2);
  EXPECT_EQ(engine.info().draft_kv_cache_bytes,
            engine.info().kv_cache_tokens * static_cast<int64_t>(drafter.kv_bytes));
  EXPECT_FALSE(engine.info().draft_model.empty());
}

// A fault in one of its passes ends the running requests; later ones run.
TEST(DraftModel, FaultsEndTheRunningRequests) {
  FakeBackend drafter(hashing_model(300), {});
  ToyEngine toy(hashing_model(300), {.loop = {.drafts = {.most = 3, .least = 1}, .draft_model = &drafter}});
  const auto answer = [&](int32_t first) {
    return toy.engine.generate({.prompt_ids = std::vector<int32_t>(40, first), .max_tokens = 3});
  };
  EXPECT_EQ(answer(1).finish, Finish::kLength);
  drafter.fail_at_pass(drafter.passes_run() + 1);
  EXPECT_THAT(error_of([&] { (void)answer(2); }, ErrorKind::kDeviceFault), HasSubstr("draft model: "));
  EXPECT_TRUE(toy.releases_all_blocks());
  drafter.fail_at_pass(~uint64_t{0});
  EXPECT_EQ(answer(3).finish, Finish::kLength);
}

}  // namespace
}  // namespace serval::testing

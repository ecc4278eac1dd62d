// Requests with drafts get the bits that they get without.
#include <string>
#include <utility>

#include "engine/runtime/options.h"
#include "tests/engine/drafted_requests.h"
#include "tests/sample.h"

namespace serval::testing {
namespace {

TEST_F(DraftedRequests, GetTheBitsThatTheyGetWithoutDrafts) {
  prepare(sampled(120), engine(2, 2), allow_drafts);
  run(engine(drafting(options_of(2, 7, 64), 7, 1)));
  expect_drafts();
  EXPECT_GT(stats().cached_tokens, 0U);
  EXPECT_GT(ends(Finish::kCancelled), 0U);
  EXPECT_GT(ends(Finish::kStop), 0U);
}

TEST_F(DraftedRequests, GetTheirBitsInSpiteOfPreemptions) {
  const auto change = [](Request& request) {
    make_answers_long(request);
    request.sampling = {.temperature = 0.2F, .repetition_penalty = 1};
    request.top_logprobs = 0;
  };
  prepare(8, engine(2, 2), change);
  run(engine(drafting(options_of(2, 2, 64), 7, 1)));
  EXPECT_GT(stats().preemptions, 0U) << "each grows to four blocks, and there are " << stats().kv_blocks;
  EXPECT_GT(stats().drafts.drafted, 0U);
}

TEST_F(DraftedRequests, GetTheirBitsWithAnySizeOfDrafts) {
  prepare(sampled(24), engine(2, 2), allow_drafts);
  for (const auto& [draft_max, ngram_min] : {std::pair{1, 1}, {3, 2}, {15, 1}, {15, 4}}) {
    SCOPED_TRACE(std::to_string(draft_max) + " drafts after " + std::to_string(ngram_min) + " tokens");
    run(engine(drafting(options_of(2, 3, 48), draft_max, ngram_min)));
    EXPECT_GT(stats().drafts.drafted, 0U);
  }
}

// As many as a GPU's kernels of vectors have: few rows are left for drafts beside other sequences.
TEST_F(DraftedRequests, GetTheirBitsInPassesOf16Rows) {
  prepare(sampled(60), engine(2, 2, 16), allow_drafts);
  EngineOptions options = drafting(options_of(2, 7, 16), 7, 1);
  run([=](const Size& size) { return engine(options)({size.kv_blocks, std::min(size.sequences, 16)}); });
  expect_drafts();
}

TEST_F(DraftedRequests, GetTheirBitsInAnyInterleavingOfInstructions) {
  prepare(10, engine(2, 2), allow_drafts);
  EngineOptions options = drafting(options_of(1, 5, 48), 4, 1);
  options.interleaving = 3;
  run(engine(options));
}

TEST_F(DraftedRequests, GetTheirBitsOnTwoRanks) {
  EngineOptions options = options_of(2, 2, 64);
  options.gpus = {0, 1};
  prepare(20, engine(options), allow_drafts);
  options.sms = 5;
  run(engine(drafting(options, 7, 1)));
  EXPECT_GT(stats().drafts.drafted, 0U);
}

TEST_F(DraftedRequests, PassTheChecksOfWhatEachPassTouches) {
  EngineOptions options = drafting(options_of(2, 5, 32), 4, 1);
  options.checked = true;
  Engine engine = Engine::load(options);
  const Response answer = engine.generate({.prompt = "a b c d a b c d a b c",
                                           .sampling = {.temperature = 0},
                                           .max_tokens = 24,
                                           .ignore_eos = true});
  EXPECT_EQ(answer.finish, Finish::kLength) << answer.error;
  EXPECT_GT(engine.stats().drafts.drafted, 0U);
}

// A text that repeats itself takes fewer passes than it has tokens.
TEST(Drafts, SavePasses) {
  EngineOptions options;
  options.backend = "host";
  options.speculation.method = Speculation::Method::kNgram;
  Engine engine = Engine::load(options);
  const Request request = {.prompt_ids = {300, 301, 302, 303, 300, 301, 302, 303, 300, 301, 302, 303},
                           .sampling = {.temperature = 0},
                           .max_tokens = 200,
                           .ignore_eos = true};
  const Response answer = engine.generate(request);
  EXPECT_EQ(answer.tokens.size(), 200U);
  EXPECT_LT(engine.stats().passes, 200U);
  EXPECT_GT(engine.stats().drafts.accepted, 0U);
}

TEST(Drafts, AreRefusedWithSizesOutOfRange) {
  const auto refusal = [](const Speculation& speculation) -> std::string {
    EngineOptions options;
    options.speculation = speculation;
    try {
      check_options(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({.draft_max = 16}), "draft_max: 16; limit: 1 to 15");
  EXPECT_EQ(refusal({.draft_max = 4, .draft_min = 5}), "draft_min: 5; limit: 1 to 4");
  EXPECT_EQ(refusal({.ngram_max = 17}), "ngram_max: 17; limit: 1 to 16");
  EXPECT_EQ(refusal({.ngram_min = 5}), "ngram_min: 5; limit: 1 to 4");
  EXPECT_EQ(refusal({.accept_rate = 1.5}), "accept_rate: 1.5; limit: 0 to 1");
  EXPECT_EQ(refusal({.draft_max = 15, .draft_min = 15, .ngram_min = 16, .ngram_max = 16}), "");
}

}  // namespace
}  // namespace serval::testing

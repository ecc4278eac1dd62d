// Embeddings: which rows a pass has for them, and what a request gets.
#include "engine/core/embedding.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/core/pass_loop.h"
#include "tests/engine/stepped_loop.h"
#include "tests/engine/toy_engine.h"

namespace serval::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kHidden = 8;
constexpr PoolingConfig kLast{Pooling::kLast, false}, kMean{Pooling::kMean, false},
    kCls{Pooling::kCls, false};

struct Loop : SteppedLoop {
  explicit Loop(const PoolingConfig& config, FakeBackendOptions options = {.context = 512, .rows = 64})
      : SteppedLoop((options.pooled_cols = kHidden, options)) {
    pooling = config;
  }
};

Request text_of(size_t tokens, int32_t salt = 7) {
  Request text = request(tokens, 0);
  for (size_t i = 0; i < tokens; ++i) text.prompt_ids[i] = (static_cast<int32_t>(i) * salt + 3) % 200;
  return text;
}

// The embedding of the toy model's hidden states, position after position.
std::vector<float> expected(const Request& request, const PoolingConfig& config) {
  const std::span<const int32_t> ids = request.prompt_ids;
  const auto length = static_cast<uint32_t>(ids.size());
  const PooledPositions pooled = pooled_positions(config.pooling, length);
  std::vector<float> sum = toy_hidden_state(ids.first(pooled.begin + 1), kHidden);
  for (uint32_t position = pooled.begin + 1; position < pooled.end; ++position) {
    const std::vector<float> hidden = toy_hidden_state(ids.first(position + 1), kHidden);
    for (uint32_t c = 0; c < kHidden; ++c) sum[c] += hidden[c];
  }
  return embedding_of(sum, config, length, kHidden);
}

TEST(EmbeddingOf, DividesCutsAndNormalises) {
  const std::vector<float> pooled = {6, 8, 24};
  EXPECT_THAT(embedding_of(pooled, kLast, 2, 3), ElementsAre(6, 8, 24));
  EXPECT_THAT(embedding_of(pooled, kMean, 2, 3), ElementsAre(3, 4, 12));
  EXPECT_THAT(embedding_of(pooled, {Pooling::kMean, true}, 2, 2), ElementsAre(0.6F, 0.8F))
      << "the length is that of the values that are left";
  EXPECT_THAT(embedding_of(std::vector<float>{0, 0}, {Pooling::kLast, true}, 1, 2), ElementsAre(0, 0));
}

TEST(Embeddings, AreThoseOfEachPoolingHoweverThePromptIsDivided) {
  for (const PoolingConfig& config : {kLast, kMean, kCls}) {
    for (const uint32_t rows : {1u, 4u, 16u, 48u, 256u}) {
      SCOPED_TRACE(std::string(name_of(config.pooling)) + ", rows " + std::to_string(rows));
      Loop loop(config, {.rows = rows});
      const std::vector<Request> texts = {text_of(150), text_of(1), text_of(33, 5), text_of(64, 11)};
      for (const Request& text : texts) loop.add(text);
      loop.run_to_end();
      for (size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ(loop.answers[i].embedding, expected(texts[i], config)) << i;
        EXPECT_EQ(loop.answers[i].finish, Finish::kLength);
        EXPECT_EQ(loop.answers[i].prompt_tokens, static_cast<int>(texts[i].prompt_ids.size()));
      }
    }
  }
}

TEST(Embeddings, OfAPromptThatFillsTheContext) {
  Loop loop(kMean, {.context = 128, .rows = 48});
  const Request text = text_of(128);
  loop.add(text);
  loop.run_to_end();
  EXPECT_EQ(loop.answers[0].embedding, expected(text, kMean));
}

TEST(Embeddings, AreReadInPassesOfAsManyRowsAsMayWantOne) {
  Loop mean(kMean, {.context = 2048, .kv_blocks = 64, .rows = 2048});
  mean.add(text_of(1500));
  mean.run_to_end();
  EXPECT_EQ(mean.backend.passes_run(), 2u);
  Loop last(kLast, {.context = 2048, .kv_blocks = 64, .rows = 2048});
  last.add(text_of(1500));
  last.run_to_end();
  EXPECT_EQ(last.backend.passes_run(), 1u) << "one row wants one";
}

// The hidden states of positions that are found in the KV cache are not known.
TEST(Embeddings, TakeThePromptFromTheCacheOnlyForTheLastToken) {
  for (const PoolingConfig& config : {kLast, kMean, kCls}) {
    Loop loop(config);
    for (int i = 0; i < 2; ++i) {
      const size_t index = loop.add(text_of(200));
      loop.run_to_end();
      EXPECT_EQ(loop.answers[index].embedding, expected(text_of(200), config)) << name_of(config.pooling);
    }
    EXPECT_EQ(loop.answers[1].cached_tokens > 0, config.pooling == Pooling::kLast);
  }
}

TEST(Embeddings, WaitForBlocksAndComeAllTheSame) {
  for (const PoolingConfig& config : {kLast, kMean, kCls}) {
    Loop loop(config, {.context = 512, .kv_blocks = 9, .rows = 16});
    std::vector<Request> texts;
    for (int i = 0; i < 6; ++i) texts.push_back(text_of(static_cast<size_t>(i) * 40 + 150, 3 + i));
    for (size_t i = 0; i < texts.size(); ++i) {
      texts[i].priority = -static_cast<int>(i);
      loop.add(texts[i]);
      for (int step = 0; step < 3; ++step) loop.loop.step();
    }
    loop.run_to_end();
    for (size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(loop.answers[i].embedding, expected(texts[i], config)) << i;
  }
}

// What was pooled is in the slot, which it may not get again.
TEST(Embeddings, OfASequenceThatLeavesItsSlotBeginAgain) {
  const auto signals = std::make_shared<CoreSignals>();
  const auto channel = std::make_shared<Channel>(signals, [](const RequestEvent&) {});
  const auto codec = make_byte_codec(300);
  const ModelLimits limits = {300, 64, {}, kMean, kHidden};
  KvBlockPool pool(4, 0);
  const Request text = text_of(3);
  Sequence sequence(prepare_request(text, text.prompt_ids, limits), 0, channel,
                    codec->stream(SpecialTokens::kNot), 0, {});
  const auto join = [&] { sequence.join(0, std::make_unique<KvChain>(pool, 0), 0, {}); };
  join();
  const OutputToken pooled = {.valid = 1, .token = text.prompt_ids[0], .position = 1};
  EXPECT_FALSE(sequence.score(std::span(&pooled, 1), {}));
  EXPECT_EQ(sequence.view().score_begin, 1u);
  sequence.leave();
  join();
  EXPECT_EQ(sequence.view().score_begin, 0u);
  EXPECT_EQ(sequence.view().score_end, 3u);
}

TEST(Embeddings, OfHiddenStatesThatAreNotFiniteAreAnError) {
  Loop loop(kMean);
  loop.backend.spoil_scores_after(30);
  loop.add(text_of(100));
  loop.add(text_of(20));
  loop.run_to_end();
  EXPECT_EQ(loop.answers[0].finish, Finish::kError);
  EXPECT_THAT(loop.answers[0].error, HasSubstr("token 30 of the text: the model's hidden states are NaN"));
  EXPECT_TRUE(loop.answers[0].embedding.empty());
  EXPECT_EQ(loop.answers[1].embedding, expected(text_of(20), kMean)) << "others go on";
}

std::string refusal(const Request& request, const ModelLimits& limits) {
  try {
    prepare_request(request, request.prompt_ids, limits);
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
}

TEST(Embeddings, RefuseWhatOnlyGeneratingEnginesDoAndTheOtherWayRound) {
  const ModelLimits generates = {.vocab_size = 300, .context = 64, .stop_tokens = {}};
  ModelLimits pools = generates;
  pools.pooling = kLast;
  pools.hidden_size = kHidden;
  Request text = text_of(10);
  text.dimensions = kHidden;
  EXPECT_EQ(refusal(text, pools), "accepted");
  EXPECT_THAT(refusal(text, generates), HasSubstr("dimensions: this engine generates"));
  text.dimensions = kHidden + 1;
  EXPECT_THAT(refusal(text, pools), HasSubstr("dimensions: 9; limit: 1 to 8"));
  text = text_of(10);
  text.max_tokens = 5;
  EXPECT_THAT(refusal(text, pools), HasSubstr("max_tokens: 5; limit: 0: this engine computes embeddings"));
  text = text_of(10);
  text.n = 2;
  EXPECT_THAT(refusal(text, pools), HasSubstr("n: 2; limit: 1"));
  text = text_of(10);
  text.prompt_logprobs = 0;
  EXPECT_THAT(refusal(text, pools), HasSubstr("prompt_logprobs: "));
  EXPECT_THAT(refusal(text_of(65), pools), HasSubstr("prompt: 65 tokens; limit: 64"));
  EXPECT_EQ(refusal(text_of(64), pools), "accepted");
}

}  // namespace
}  // namespace serval::testing

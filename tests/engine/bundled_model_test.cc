// The bundled model on the host interpreter: a sequence's bits do not depend on how it is computed.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "engine/backend/host_backend.h"
#include "engine/runtime/model_source.h"
#include "engine/torch/teacher_forcing.h"
#include "models/checkpoint/weights.h"
#include "profiler/chrome/chrome_trace.h"
#include "serval/engine.h"
#include "tests/sample.h"

namespace serval {
namespace {

constexpr int kContext = 512;

EngineOptions host_options() {
  EngineOptions options;
  options.backend = "host";
  options.context = kContext;
  return options;
}

Engine& engine() {
  static Engine loaded = Engine::load(host_options());
  return loaded;
}

Request story(const std::string& prompt, int max_tokens, uint64_t seed = 1) {
  Request request{.prompt = prompt, .max_tokens = max_tokens, .ignore_eos = true};
  request.sampling.seed = seed;
  request.sampling.repetition_penalty = 1.1f;
  return request;
}

void expect_same_bits(const Response& found, const Response& expected) {
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.log_probabilities, expected.log_probabilities);  // float ==: bit for bit
  EXPECT_EQ(found.text, expected.text);
  EXPECT_EQ(found.finish, expected.finish);
}

constexpr size_t kSixteen = 16;

// 16 requests of different lengths, parameters and seeds.
std::vector<Request> sixteen_requests() {
  const std::string text =
      "Once upon a time there was a little fox who lived by the river. Every morning she went out";
  std::vector<Request> requests;
  for (size_t i = 0; i < kSixteen; ++i) {
    std::string prompt = text.substr(0, 5 + 5 * i);
    if (i % 5 == 4) prompt += prompt + prompt;
    requests.push_back(story(prompt, 10 + static_cast<int>(i), i));
    if (i % 4 == 0) requests.back().sampling.temperature = 0;
    if (i % 4 == 1) requests.back().sampling.top_k = 0;
  }
  return requests;
}

// Reads `prompt` in chunks of `chunk` rows and returns the logits after its last token, bit for bit.
std::vector<float> logits_after(Backend& backend, const std::vector<int32_t>& prompt, size_t chunk) {
  for (uint32_t block = 0; block < backend.blocks_per_sequence(); ++block) {
    backend.state().block_table[block] = static_cast<int32_t>(block);
  }
  backend.state().slots[0] = {};
  backend.state().slots[0].end_position = static_cast<uint32_t>(prompt.size());
  for (size_t begin = 0; begin < prompt.size(); begin += chunk) {
    std::fill(std::begin(backend.state().rows), std::end(backend.state().rows), PassRow{});
    const size_t end = std::min(prompt.size(), begin + chunk);
    // The row that wants logits comes first.
    for (size_t position = begin; position < end; ++position) {
      backend.state().rows[end - 1 - position] = {.active = 1,
                                                  .wants_logits = position + 1 == prompt.size(),
                                                  .slot = 0,
                                                  .token = prompt[position],
                                                  .position = static_cast<uint32_t>(position)};
    }
    backend.run({.passes = 1}, {});
  }
  const std::span<const float> logits = backend.logits(0);
  return {logits.begin(), logits.end()};
}

TEST(BundledModel, ReadsAPromptInChunksAsTokenByToken) {
  const ModelSource source = find_model("");
  const auto weights =
      std::make_shared<const ModelWeights>(ModelWeights::load(source.files->path(), *source.model));
  BackendOptions options;
  options.limits = {.context = kContext, .sequences = 1, .rows = 256};
  const auto backend = make_host_backend(*source.model, weights, options);
  std::mt19937 random(1);
  for (const size_t length : {1u, 17u, 64u, 65u, 130u}) {
    std::vector<int32_t> prompt(length);
    for (int32_t& id : prompt)
      id = static_cast<int32_t>(random() % static_cast<uint32_t>(source.model->vocab_size));
    const std::vector<float> expected = logits_after(*backend, prompt, 1);
    for (const size_t chunk : {2u, 7u, 16u, 48u, 256u})
      EXPECT_EQ(logits_after(*backend, prompt, chunk), expected) << length;
  }
}

TEST(BundledModel, GivesTheSameBitsAloneAsInABatchOfSixteen) {
  const std::vector<Request> requests = sixteen_requests();
  const std::vector<Response> together = engine().decode_batch(requests);
  for (size_t i = 0; i < requests.size(); ++i) expect_same_bits(together[i], engine().generate(requests[i]));
}

TEST(BundledModel, SharedByTwoRanksGivesTheSameBitsAloneAsInABatch) {
  EngineOptions options = host_options();
  options.gpus = {0, 1};
  Engine shared = Engine::load(options);
  EXPECT_EQ(shared.info().gpus, 2);
  std::vector<Request> requests = sixteen_requests();
  requests.resize(6);
  const std::vector<Response> together = shared.decode_batch(requests);
  for (size_t i = 0; i < requests.size(); ++i) expect_same_bits(together[i], shared.generate(requests[i]));
}

// More requests than run together, so that each joins and leaves among others.
TEST(BundledModel, GivesTheSameBitsAloneAsInABatchOfTwoHundred) {
  EngineOptions options = host_options();
  options.max_sequences = 64;
  Engine batch = Engine::load(options);
  const std::string text = "Once upon a time there was a little fox who lived by the river and loved berries";
  std::vector<Request> requests;
  for (uint32_t i = 0; i < testing::sampled(200); ++i)
    requests.push_back(story(text.substr(i % 40, 1 + i % 37), 4 + static_cast<int>(i % 5), i));
  const std::vector<Response> together = batch.decode_batch(requests);
  ASSERT_EQ(together.size(), requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].reuse_prefix = false;
    expect_same_bits(together[i], engine().generate(requests[i]));
  }
}

TEST(BundledModel, GivesTheSameBitsStepByStepWithNeighboursThatComeAndGo) {
  const std::vector<Request> requests = sixteen_requests();
  std::mt19937 random(2);
  Batch batch(engine());
  std::map<uint64_t, size_t> joined;
  size_t next = 0;
  while (next < requests.size() || !batch.idle()) {
    if (next < requests.size() && random() % 2 == 0) {
      joined[batch.add(requests[next])] = next;
      ++next;
    }
    batch.step();
  }
  for (const auto& [handle, i] : joined) expect_same_bits(batch.take(handle), engine().generate(requests[i]));
}

TEST(BundledModel, GivesTheSameBitsForAnyMachineAndPolicy) {
  const Request request = story("Once upon a time there was a small robot who", 12);
  const Response expected = engine().generate(request);
  const auto expect_no_difference = [&](const EngineOptions& options) {
    SCOPED_TRACE(options.policy + " " + std::to_string(options.sms) + " " + std::to_string(options.threads));
    Engine other = Engine::load(options);
    expect_same_bits(other.generate(request), expected);
  };
  for (const int sms : {1, 2, 7, 132}) {
    for (const int threads : {1, 2}) {
      EngineOptions options = host_options();
      options.sms = sms;
      options.threads = threads;
      expect_no_difference(options);
    }
  }
  for (const char* policy : {"round-robin", "zig-zag", "wave", "list"}) {
    EngineOptions options = host_options();
    options.sms = 7;
    options.policy = policy;
    expect_no_difference(options);
  }
  EngineOptions options = host_options();
  options.sms = 7;
  options.global_queue = true;
  expect_no_difference(options);
}

// Two ranks add sums in another order than one, but the order does not depend on how they are run.
TEST(BundledModel, GivesTheSameBitsForAnyMachineThatTwoRanksAre) {
  const Request request = story("Once upon a time there was a small robot who", 12);
  EngineOptions options = host_options();
  options.gpus = {0, 1};
  const Response expected = Engine::load(options).generate(request);
  EXPECT_EQ(expected.tokens.size(), 12U);
  options.gpus = {0, 0};
  for (const int sms : {1, 3}) {
    for (const char* policy : {"round-robin", "wave", "list"}) {
      options.sms = sms;
      options.threads = sms;
      options.policy = policy;
      expect_same_bits(Engine::load(options).generate(request), expected);
    }
  }
}

TEST(BundledModel, ContinuesAStory) {
  Request request = story("Once upon a time", 60, 3);
  request.sampling.repetition_penalty = 1;
  const Response response = engine().generate(request);
  EXPECT_GT(response.text.size(), 100u);
  double sum = 0;
  for (const float log_probability : response.log_probabilities) {
    EXPECT_LE(log_probability, 0);
    sum += static_cast<double>(log_probability);
  }
  // An untrained model is at -ln(vocabulary), about -8.
  EXPECT_GT(sum / static_cast<double>(response.tokens.size()), -2.5);
  EXPECT_GT(response.timings.prompt_ms, 0);
  EXPECT_GT(response.timings.decode_ms, 0);
}

TEST(BundledModel, ListsTheLikeliestTokensAtEachPlace) {
  Request request = story("Once upon a time", 20, 3);
  request.sampling.presence_penalty = 1;
  const Response without = engine().generate(request);
  request.top_logprobs = 20;
  const Response response = engine().generate(request);
  expect_same_bits(response, without);
  ASSERT_EQ(response.top_logprobs.size(), 20u);
  for (size_t t = 0; t < response.top_logprobs.size(); ++t) {
    const std::vector<TopLogprob>& top = response.top_logprobs[t];
    ASSERT_EQ(top.size(), 20u);
    EXPECT_TRUE(std::ranges::is_sorted(top, std::greater{}, &TopLogprob::log_probability));
    const auto drawn = std::ranges::find(top, response.tokens[t], &TopLogprob::token);
    if (drawn == top.end()) continue;
    EXPECT_EQ(drawn->log_probability, response.log_probabilities[t]);
  }
}

Request scored(std::vector<int32_t> tokens, uint32_t likeliest = 1, int from = 1) {
  Request request;
  request.prompt_ids = std::move(tokens);
  request.max_tokens = 0;
  request.prompt_logprobs = likeliest;
  request.prompt_logprobs_from = from;
  return request;
}

// A prompt and the answer to it: what the answer's tokens got when they were drawn, they get as a prompt.
TEST(BundledModel, ScoresATextAsItWasGenerated) {
  Request request = story("Once upon a time", 150, 5);
  request.top_logprobs = 3;
  const Response answer = engine().generate(request);
  std::vector<int32_t> tokens = engine().tokenize(request.prompt);
  const size_t first = tokens.size();
  tokens.insert(tokens.end(), answer.tokens.begin(), answer.tokens.end());
  const Response read = engine().generate(scored(tokens, 3));
  ASSERT_EQ(read.prompt_logprobs.size(), tokens.size() - 1);
  for (size_t i = first; i < tokens.size(); ++i) {
    const PromptLogprob& found = read.prompt_logprobs[i - 1];
    EXPECT_EQ(found.token, tokens[i]);
    EXPECT_EQ(found.log_probability, answer.log_probabilities[i - first]) << i;  // float ==: bit for bit
    EXPECT_EQ(found.top_logprobs, answer.top_logprobs[i - first]) << i;
  }
}

// Teacher forcing: the log-softmax of each position's logits.
TEST(BundledModel, ScoresATextByTheLogitsOfEachPosition) {
  const ModelSource source = find_model("");
  const auto weights =
      std::make_shared<const ModelWeights>(ModelWeights::load(source.files->path(), *source.model));
  BackendOptions options;
  options.limits = {.context = kContext, .sequences = 1};
  const auto backend = make_host_backend(*source.model, weights, options);
  std::vector<int32_t> tokens =
      engine().tokenize("The fox looked at the river, and the river looked at the fox.");
  const std::vector<float> logits = teacher_force(*backend, tokens);
  const Response read = engine().generate(scored(tokens));
  const auto vocabulary = static_cast<size_t>(source.model->vocab_size);
  for (size_t i = 1; i < tokens.size(); ++i) {
    const auto row = std::span(logits).subspan((i - 1) * vocabulary, vocabulary);
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    const double expected = row[static_cast<size_t>(tokens[i])] - std::log(sum);
    EXPECT_NEAR(read.prompt_logprobs[i - 1].log_probability, expected, 1e-5) << i;
    const auto likeliest = std::ranges::max_element(row) - row.begin();
    EXPECT_EQ(read.prompt_logprobs[i - 1].top_logprobs.at(0).token, likeliest) << i;
  }
}

// In one pass, in pieces, beside other requests, and with blocks that another request has filled.
TEST(BundledModel, ScoresATextWithTheSameBitsHoweverItIsRead) {
  std::vector<int32_t> tokens(400);
  std::mt19937 random(1);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 3000);
  const auto scores = [&](Engine& with, int from) {
    return with.generate(scored(tokens, 2, from)).prompt_logprobs;
  };
  const std::vector<PromptLogprob> expected = scores(engine(), 1);
  ASSERT_EQ(expected.size(), tokens.size() - 1);
  for (const int rows : {1, 33, 512}) {
    EngineOptions options = host_options();
    options.max_batch_tokens = std::max(rows, 1);
    options.max_sequences = 1;
    Engine other = Engine::load(options);
    EXPECT_EQ(scores(other, 1), expected) << rows << " rows a pass";
  }
  const Response shared = engine().generate(scored(tokens, 2, 300));
  EXPECT_EQ(shared.cached_tokens, 256) << "the blocks before the row of the token before";
  EXPECT_EQ(shared.prompt_logprobs, std::vector(expected.begin() + 299, expected.end()));
  std::vector<Request> many = sixteen_requests();
  many.push_back(scored(tokens, 2));
  EXPECT_EQ(engine().decode_batch(many).back().prompt_logprobs, expected);
}

EngineOptions embedding_options(const char* pooling) {
  EngineOptions options = host_options();
  options.embeddings = true;
  options.pooling = pooling;
  return options;
}

std::vector<std::vector<float>> embeddings_of(const std::vector<Request>& requests,
                                              const EngineOptions& options) {
  Engine embedder = Engine::load(options);
  std::vector<std::vector<float>> embeddings;
  for (const Response& response : embedder.embed(requests)) {
    EXPECT_EQ(response.finish, Finish::kLength) << response.error;
    embeddings.push_back(response.embedding);
  }
  return embeddings;
}

// In pieces, in any order of the instructions, and checked against their footprints.
TEST(BundledModel, EmbedsTextsWithTheSameBitsHoweverTheyAreRead) {
  std::vector<Request> requests = sixteen_requests();
  requests.resize(6);
  for (const char* pooling : {"last", "mean", "cls"}) {
    SCOPED_TRACE(pooling);
    EngineOptions options = embedding_options(pooling);
    options.max_batch_tokens = 512;
    const std::vector<std::vector<float>> expected = embeddings_of(requests, options);
    ASSERT_EQ(expected.front().size(), 256U);
    options.max_batch_tokens = 7;
    options.max_sequences = 3;
    EXPECT_EQ(embeddings_of(requests, options), expected);
    options.interleaving = 5;
    options.checked = true;
    EXPECT_EQ(embeddings_of(requests, options), expected);
  }
}

// Reads `prompt` in passes of `chunk` rows in an arithmetic class, and returns the sum of its hidden states.
std::vector<float> pooled(const std::vector<int32_t>& prompt, size_t chunk, uint32_t tile_rows) {
  const ModelSource source = find_model("");
  const std::shared_ptr<const Model> model = source.model->pooling();
  const auto weights = std::make_shared<const ModelWeights>(ModelWeights::load(source.files->path(), *model));
  BackendOptions options;
  options.limits = {.context = kContext, .sequences = 1, .rows = 128, .tile_rows = tile_rows};
  options.limits.batch_invariant = tile_rows > 0;
  const auto backend = make_host_backend(*model, weights, options);
  StateBlock& state = backend->state();
  for (uint32_t block = 0; block < backend->blocks_per_sequence(); ++block)
    state.block_table[block] = static_cast<int32_t>(block);
  state.slots[0].end_position = static_cast<uint32_t>(prompt.size());
  for (size_t begin = 0; begin < prompt.size(); begin += chunk) {
    std::fill(std::begin(state.rows), std::end(state.rows), PassRow{});
    for (size_t position = begin; position < std::min(prompt.size(), begin + chunk); ++position) {
      state.rows[position - begin] = {.active = 1,
                                      .wants_logits = 1,
                                      .slot = 0,
                                      .token = prompt[position],
                                      .position = static_cast<uint32_t>(position),
                                      .adds = position > 0 ? 1U : 0U};
    }
    backend->run({.passes = 1, .reads_prompts = true}, {});
  }
  const std::span<const float> sum = state.pooled_of(0);
  return {sum.begin(), sum.end()};
}

TEST(BundledModel, PoolsTheSameInBothArithmeticClassesButForRounding) {
  const std::vector<int32_t> prompt =
      engine().tokenize("The fox looked at the river, and so on. It was night.");
  constexpr uint32_t kTileRows = 256;
  const std::vector<float> vectors = pooled(prompt, 128, 0), tiles = pooled(prompt, 128, kTileRows);
  EXPECT_EQ(pooled(prompt, 5, 0), vectors);
  EXPECT_EQ(pooled(prompt, 5, kTileRows), tiles);
  double off = 0, power = 0;
  for (size_t i = 0; i < vectors.size(); ++i) {
    off += std::pow(double{vectors[i]} - tiles[i], 2);
    power += std::pow(vectors[i], 2);
  }
  EXPECT_LE(off, 1e-4 * power);
  EXPECT_GT(power, 0);
}

TEST(BundledModel, AnEngineGeneratesOrComputesEmbeddings) {
  Engine embedder = Engine::load(embedding_options(""));
  EXPECT_EQ(embedder.info().pooling, "last");
  EXPECT_TRUE(embedder.info().normalizes);
  EXPECT_EQ(engine().info().pooling, "");
  const auto error_of = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "accepted";
  };
  const Request request{.prompt = "The fox"};
  EXPECT_THAT(error_of([&] { embedder.generate(request); }),
              ::testing::HasSubstr("max_tokens: -1; limit: 0: this engine computes embeddings"));
  EXPECT_THAT(error_of([&] { engine().embed(std::span(&request, 1)); }),
              ::testing::HasSubstr("embeddings: this engine generates"));
}

TEST(BundledModel, PenaltiesMakeAnAnswerRepeatItselfLess) {
  const auto different = [](const Request& request) {
    const std::vector<int32_t> tokens = engine().generate(request).tokens;
    return std::set<int32_t>(tokens.begin(), tokens.end()).size();
  };
  Request request = story("Once upon a time", 100);
  request.sampling = {.temperature = 0};
  request.ignore_eos = true;
  const size_t plain = different(request);
  request.sampling.presence_penalty = 2;
  EXPECT_GT(different(request), plain);
  request.sampling.presence_penalty = 0;
  request.sampling.frequency_penalty = 2;
  EXPECT_GT(different(request), plain);
  request.sampling.frequency_penalty = 0;
  request.sampling.repetition_penalty = 10;
  request.sampling.repeat_last_n = -1;
  EXPECT_GT(different(request), plain);
  request.sampling.repeat_last_n = 0;
  EXPECT_EQ(different(request), plain);
}

TEST(BundledModel, BiasesForceAndForbidTokens) {
  Request request = story("Once upon a time", 8);
  const std::vector<int32_t> plain = engine().generate(request).tokens;
  request.logit_bias = {{plain[0], -100}, {77, 100}};
  EXPECT_EQ(engine().generate(request).tokens, std::vector<int32_t>(8, 77));
  request.logit_bias = {{plain[0], -100}};
  EXPECT_FALSE(std::ranges::count(engine().generate(request).tokens, plain[0]));
}

TEST(BundledModel, AnAnswerHasTheTokensThatAreAskedForAtLeast) {
  Request request = story("Once upon a time", 200, 3);
  const std::vector<int32_t> plain = engine().generate(request).tokens;
  request.stop_token_ids = {plain[4], plain[9]};
  const Response early = engine().generate(request);
  EXPECT_EQ(early.finish, Finish::kStop);
  EXPECT_LE(early.tokens.size(), 5u);
  request.min_tokens = 50;
  const Response late = engine().generate(request);
  ASSERT_GT(late.tokens.size(), 50u);
  for (size_t t = 0; t < 50; ++t) {
    EXPECT_NE(late.tokens[t], plain[4]);
    EXPECT_NE(late.tokens[t], plain[9]);
  }
}

TEST(BundledModel, AnswersAConversation) {
  ASSERT_FALSE(engine().info().chat_template.empty());
  Request request{.messages = {{"user", "Tell me a story."}}, .max_tokens = 400};
  const Response response = engine().generate(request);
  EXPECT_GT(response.tokens.size(), 10u);
  EXPECT_EQ(response.finish, Finish::kEos);
}

TEST(BundledModel, WritesJsonObjects) {
  size_t complete = 0;
  Request request{.prompt = "Once upon a time", .max_tokens = 300, .json_object = true, .n = 16};
  request.sampling.seed = 4;
  request.sampling.temperature = 1.5F;
  for (const Response& response : engine().decode_batch(std::span(&request, 1))) {
    const nlohmann::json value = nlohmann::json::parse(response.text, nullptr, false);
    EXPECT_EQ(value.is_object(), response.finish == Finish::kEos) << response.text;
    complete += value.is_object() ? 1 : 0;
  }
  EXPECT_GT(complete, 0U);
}

// A constraint only removes tokens: a token that the model would generate anyway keeps its log-probabilities.
TEST(BundledModel, KeepsItsLogProbabilitiesUnderASchema) {
  Request free = story("Once upon a time", 1);
  free.ignore_eos = false;
  free.sampling.temperature = 0;
  free.top_logprobs = 20;
  Request bound = free;
  bound.json_schema = R"({"type":"string"})";
  const Response one = engine().generate(free), other = engine().generate(bound);
  EXPECT_EQ(other.text.front(), '"');
  EXPECT_EQ(one.top_logprobs, other.top_logprobs);
}

TEST(BundledModel, FillsItsContextToTheLastToken) {
  const Response response = engine().generate(story("Once", -1));
  EXPECT_EQ(response.prompt_tokens + static_cast<int>(response.tokens.size()), kContext);
  EXPECT_EQ(response.finish, Finish::kLength);
  Request full;
  full.prompt_ids.assign(kContext - 1, 5);
  EXPECT_EQ(engine().generate(full).tokens.size(), 1u);
  full.prompt_ids.push_back(5);
  EXPECT_THROW(engine().generate(full), Error);
}

TEST(BundledModel, KeepsTheEventsOfItsLastTokens) {
  EngineOptions options = host_options();
  options.trace_tokens = 3;
  Engine traced = Engine::load(options);
  const std::string path = ::testing::TempDir() + "last_tokens.json.gz";
  EXPECT_THROW(traced.write_trace(path), Error) << "nothing has run";
  expect_same_bits(traced.generate(story("Once", 8)), engine().generate(story("Once", 8)));
  traced.write_trace(path);
  EXPECT_EQ(read_trace(path).windows.size(), 3U);
  traced.write_trace(path, 2);
  EXPECT_EQ(read_trace(path).windows.size(), 2U);
  EXPECT_THROW(traced.write_trace(path, 4), Error);
  EXPECT_THROW(engine().write_trace(path), Error) << "keeps none";
}

TEST(BundledModel, TurnsTextIntoTokensAndBack) {
  const std::string text = "The little fox said: \"Hello!\"";
  const std::vector<int32_t> ids = engine().tokenize(text);
  EXPECT_GT(ids.size(), 4u);
  EXPECT_EQ(engine().detokenize(ids), text);
}

TEST(BundledModel, ControlTokensInAPromptMeanTheseTokens) {
  const std::string text = "<|start_header_id|>user<|eot_id|>";
  const std::vector<int32_t> ids = engine().tokenize(text);
  EXPECT_EQ(engine().detokenize(ids, true), "<|begin_of_text|>" + text);
  EXPECT_EQ(engine().tokenize(text, {.add_special_tokens = false}).size(), ids.size() - 1);
  EXPECT_GT(engine().tokenize(text, {.special = false}).size(), ids.size());
  const auto prompt_tokens = [&](const Request& request) { return engine().generate(request).prompt_tokens; };
  EXPECT_EQ(prompt_tokens({.prompt = text, .max_tokens = 1}), static_cast<int>(ids.size()));
  EXPECT_EQ(prompt_tokens({.prompt = text, .add_special_tokens = false, .max_tokens = 1}),
            static_cast<int>(ids.size()) - 1);
}

TEST(BundledModel, ATokensBytesAreWhatItAddsToAText) {
  const std::vector<int32_t> ids = engine().tokenize("Grüße, 世界 <|eot_id|>", {.add_special_tokens = false});
  std::string text, all;
  for (const int32_t id : ids) {
    text += engine().token_bytes(id).value_or("");
    all += engine().token_bytes(id, true).value();
  }
  EXPECT_EQ(text, "Grüße, 世界 ");
  EXPECT_EQ(all, text + "<|eot_id|>");
  EXPECT_THROW(engine().token_bytes(engine().info().vocab_size), Error);
}

TEST(BundledModel, IsDescribed) {
  const ModelInfo& info = engine().info();
  EXPECT_EQ(info.backend, "host");
  EXPECT_EQ(info.context, kContext);
  EXPECT_GT(info.instructions, 0);
  EXPECT_GT(info.sms, 0);
  EXPECT_FALSE(info.policy.empty());
  EXPECT_EQ(info.kv_bytes_per_token, 4 * info.num_layers * info.num_kv_heads * info.head_dim);
}

}  // namespace
}  // namespace serval

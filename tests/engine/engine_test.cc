#include "serval/engine.h"

#include <atomic>
#include <csignal>
#include <limits>
#include <ranges>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/engine/toy_engine.h"

namespace serval::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

static_assert(std::ranges::input_range<TokenStream>);

const std::vector<int32_t> kPrompt = {7, 7, 7};

// An engine that answers any prompt of three tokens with `pieces`, one token each, repeatedly.
ToyEngine scripted_engine(const std::vector<std::string>& pieces, std::vector<int32_t> stop_tokens = {},
                          uint32_t context = 256) {
  std::vector<int32_t> script;
  for (size_t i = 0; i < pieces.size(); ++i) script.push_back(static_cast<int32_t>(i));
  return ToyEngine(scripted_model(kPrompt.size(), script),
                   {.backend = {.context = context, .kv_blocks = context},
                    .stop_tokens = std::move(stop_tokens),
                    .text = make_piece_codec(pieces)});
}

// Random bytes, which are hardly ever JSON by themselves. Token 299 ends a text.
ToyEngine random_engine(uint32_t kv_blocks, uint32_t sequences = 4, uint32_t stop_latency = 0) {
  return ToyEngine(hashing_model(300), {.backend = {.context = 256,
                                                    .kv_blocks = kv_blocks,
                                                    .rows = 8,
                                                    .sequences = sequences,
                                                    .stop_latency = stop_latency},
                                        .stop_tokens = {299}});
}

struct Streamed {
  Response response;
  std::vector<std::string> texts;
};

Streamed stream_of(ToyEngine& toy, const Request& request) {
  Streamed streamed;
  streamed.response = toy.engine.generate(request, [&](const TokenEvent& event) {
    EXPECT_EQ(event.sequence, 0u);
    streamed.texts.push_back(event.text);
    return true;
  });
  return streamed;
}

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::kRuntime, "none");
}

// A model whose logits are not finite once the text has `length` tokens, if the text begins with `spoilt`.
ToyModel failing_model(int32_t spoilt, size_t length) {
  const ToyModel healthy = hashing_model(300);
  return [=](const SequenceSlot& slot, std::span<const int32_t> tokens) {
    SampledToken sampled = healthy(slot, tokens);
    if (tokens[0] == spoilt && tokens.size() >= length)
      sampled.log_probability = std::numeric_limits<float>::quiet_NaN();
    return sampled;
  };
}

TEST(Engine, LogitsThatAreNotFiniteAreAnErrorOfTheirRequest) {
  ToyEngine toy(failing_model(5, 6), {});
  std::vector<int32_t> streamed;
  const Error error = error_of([&] {
    toy.engine.generate({.prompt_ids = {5, 5, 5}, .max_tokens = 20}, [&](const TokenEvent& event) {
      streamed.push_back(event.token);
      return true;
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
  EXPECT_THAT(error.what(), HasSubstr("token 6 of the text: the model's logits are NaN or infinite"));
  EXPECT_EQ(streamed.size(), 3u) << "earlier tokens are valid";
  EXPECT_TRUE(toy.releases_all_blocks());
  EXPECT_EQ(toy.engine.generate({.prompt_ids = {6, 5, 5}, .max_tokens = 20}).tokens.size(), 20u);
}

TEST(Engine, FailsAtTheLaunchThatItWasToldToAndAtNoOther) {
  ToyEngine toy(hashing_model(300), {.loop = {.fault_at_launch = 2}});
  const Request request{.prompt_ids = kPrompt, .max_tokens = 3, .ignore_eos = true};
  const Error fault = error_of([&] { toy.engine.generate(request); });
  EXPECT_EQ(fault.kind(), ErrorKind::kDeviceFault);
  EXPECT_STREQ(fault.what(), "launch 2: fault_at_launch");
  EXPECT_EQ(toy.engine.generate(request).tokens.size(), 3U);
}

TEST(Engine, OtherRequestsContinueWhenOneFails) {
  ToyEngine toy(failing_model(5, 6), {});
  std::vector<Request> requests;
  for (const int32_t first : {4, 5, 6}) requests.push_back({.prompt_ids = {first, 1, 2}, .max_tokens = 20});
  std::vector<uint64_t> finished;
  const std::vector<Response> responses = toy.engine.decode_batch(requests, [&](const TokenEvent& event) {
    if (event.finish != Finish::kNone) finished.push_back(event.sequence);
    return true;
  });
  EXPECT_THAT(finished, ElementsAre(1, 3));
  EXPECT_EQ(responses[1].finish, Finish::kError);
  EXPECT_THAT(responses[1].error, HasSubstr("NaN or infinite"));
  EXPECT_EQ(responses[1].tokens.size(), 3u);
  for (const size_t i : {0, 2}) {
    EXPECT_EQ(responses[i].finish, Finish::kLength);
    EXPECT_EQ(responses[i].error, "");
    EXPECT_EQ(responses[i].tokens, toy.engine.generate(requests[i]).tokens);
  }
}

TEST(Engine, AStreamThrowsWhatItsRequestFailedWith) {
  ToyEngine toy(failing_model(5, 6), {});
  TokenStream stream(toy.engine, {.prompt_ids = {5, 5, 5}, .max_tokens = 20});
  size_t tokens = 0;
  const Error error = error_of([&] {
    for ([[maybe_unused]] const TokenEvent& event : stream) ++tokens;
  });
  EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
  EXPECT_EQ(tokens, 3u);
}

TEST(Engine, StopsAtMaxTokens) {
  ToyEngine toy = scripted_engine({"a", "b", "c"});
  const Response response = toy.engine.generate({.prompt_ids = kPrompt, .max_tokens = 4});
  EXPECT_EQ(response.text, "abca");
  EXPECT_EQ(response.finish, Finish::kLength);
  EXPECT_EQ(response.log_probabilities.size(), 4u);
  EXPECT_EQ(response.prompt_tokens, 3);
}

TEST(Engine, ReadsThePromptAndNothingMoreForNoTokens) {
  ToyEngine toy = scripted_engine({"a"});
  const Response response = toy.engine.generate({.prompt_ids = kPrompt, .max_tokens = 0});
  EXPECT_EQ(response.text, "");
  EXPECT_EQ(response.finish, Finish::kLength);
  EXPECT_EQ(toy.backend->passes_run(), 1u);
  EXPECT_TRUE(toy.releases_all_blocks());
}

TEST(Engine, StopsWhereTheModelEndsUnlessAskedNotTo) {
  ToyEngine toy = scripted_engine({"a", "b", "c"}, {2});
  const Response ended = toy.engine.generate({.prompt_ids = kPrompt, .max_tokens = 9});
  EXPECT_THAT(ended.tokens, ElementsAre(0, 1, 2));
  EXPECT_EQ(ended.finish, Finish::kEos);
  const Response longer = toy.engine.generate({.prompt_ids = kPrompt, .max_tokens = 9, .ignore_eos = true});
  EXPECT_EQ(longer.tokens.size(), 9u);
  EXPECT_EQ(longer.finish, Finish::kLength);
}

TEST(Engine, EndsTheTextBeforeAStopStringAcrossTokens) {
  ToyEngine toy = scripted_engine({"one ", "E", "N", "D.", " two"});
  const Streamed streamed = stream_of(toy, {.prompt_ids = kPrompt, .stop = {"END"}});
  EXPECT_EQ(streamed.response.text, "one ");
  EXPECT_EQ(streamed.response.finish, Finish::kStop);
  EXPECT_THAT(streamed.response.tokens, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(streamed.texts, ElementsAre("one ", "", "", ""));
}

TEST(Engine, SaysWhichStopStringEndedTheText) {
  ToyEngine toy = scripted_engine({"one ", "E", "N", "D.", " two"});
  EXPECT_EQ(toy.engine.generate({.prompt_ids = kPrompt, .stop = {"two", "END"}}).stop, "END");
  EXPECT_EQ(toy.engine.generate({.prompt_ids = kPrompt, .max_tokens = 2, .stop = {"END"}}).stop, "");
}

TEST(Engine, MayIncludeWhatEndsTheText) {
  ToyEngine toy = scripted_engine({"one ", "E", "N", "D.", " two"}, {4});
  Request request{.prompt_ids = kPrompt, .max_tokens = 9, .stop = {"END"}, .include_stop_in_text = true};
  EXPECT_EQ(toy.engine.generate(request).text, "one END");
  request.stop.clear();
  request.stop_token_ids = {2};
  EXPECT_EQ(toy.engine.generate(request).text, "one EN");
  request.include_stop_in_text = false;
  EXPECT_EQ(toy.engine.generate(request).text, "one E");
}

TEST(Engine, NoTokenCompletesABadWord) {
  // Draws one of these letters. Where a mask forbids it, the backend draws the next byte.
  constexpr std::string_view kLetters = "abc ";
  const ToyModel letters = [=, any = hashing_model(kLetters.size())](const auto& slot, const auto& tokens) {
    SampledToken sampled = any(slot, tokens);
    sampled.token = kLetters[static_cast<size_t>(sampled.token)];
    return sampled;
  };
  const auto answer_with = [&](const std::vector<std::string>& bad_words) {
    return ToyEngine(letters, {.backend = {.context = 256, .kv_blocks = 64}})
        .engine.generate({.prompt_ids = kPrompt, .max_tokens = 200, .bad_words = bad_words});
  };
  ASSERT_THAT(answer_with({}).text, ::testing::AllOf(HasSubstr("bc"), HasSubstr(" a")));
  const Response response = answer_with({"bc", "a"});
  EXPECT_EQ(response.tokens.size(), 200U);
  EXPECT_THAT(response.text, ::testing::Not(HasSubstr("bc")));
  EXPECT_THAT(response.text, ::testing::Not(HasSubstr("a"))) << "neither alone nor after a space";
  EXPECT_THAT(response.text, HasSubstr("cb")) << "b and c may stand elsewhere";
}

TEST(Engine, ABadWordIsDrawnWhereNothingElseCanFollow) {
  ToyEngine toy = random_engine(64);
  const Request request{.prompt_ids = kPrompt, .bad_words = {"c"}, .json_schema = R"({"enum":["abc"]})"};
  EXPECT_EQ(toy.engine.generate(request).text, "\"abc\"");
  Request other = request;
  other.json_schema = R"({"enum":["abc","abd"]})";
  EXPECT_EQ(toy.engine.generate(other).text, "\"abd\"");
}

TEST(Engine, PromptsAreFoundInTheCacheOnlyWithTheSameSalt) {
  ToyEngine toy(hashing_model(300), {.backend = {.context = 256, .kv_blocks = 64}});
  const auto cached = [&](const std::string& salt) {
    const std::vector<int32_t> prompt(100, 7);
    return toy.engine.generate({.prompt_ids = prompt, .max_tokens = 2, .cache_salt = salt}).cached_tokens;
  };
  EXPECT_EQ(cached(""), 0);
  EXPECT_EQ(cached(""), 99) << "all but the last";
  EXPECT_EQ(cached("ann"), 0);
  EXPECT_EQ(cached("bob"), 0);
  EXPECT_EQ(cached("ann"), 99);
  EXPECT_EQ(cached(""), 99);
}

TEST(Engine, DiscardsTokensAfterAStopString) {
  for (const uint32_t latency : {0u, 3u}) {
    ToyEngine toy(scripted_model(3, {0, 1, 2}),
                  {.backend = {.stop_latency = latency}, .text = make_piece_codec({"a", "b", "c"})});
    const Response response = toy.engine.generate({.prompt_ids = kPrompt, .stop = {"b"}});
    EXPECT_EQ(response.text, "a");
    EXPECT_EQ(response.tokens.size(), 2u);
    EXPECT_TRUE(toy.releases_all_blocks());
    EXPECT_EQ(toy.backend->passes_run(), 2 + latency);
  }
}

TEST(Engine, ReleasesHeldBackTextWhenTheSequenceEnds) {
  ToyEngine toy = scripted_engine({"one ", "E", "N"});
  EXPECT_EQ(toy.engine.generate({.prompt_ids = kPrompt, .max_tokens = 3, .stop = {"END"}}).text, "one EN");
}

TEST(Engine, StreamsWholeCharacters) {
  ToyEngine toy = scripted_engine({"\xE2", "\x82", "\xAC", "x"});
  EXPECT_THAT(stream_of(toy, {.prompt_ids = kPrompt, .max_tokens = 4}).texts, ElementsAre("", "", "€", "x"));
}

TEST(Engine, EndsWithAReplacementForAnUnfinishedCharacter) {
  ToyEngine toy = scripted_engine({"x", "\xE2", "\x82"});
  const Streamed streamed = stream_of(toy, {.prompt_ids = kPrompt, .max_tokens = 3});
  EXPECT_THAT(streamed.texts, ElementsAre("x", "", "\uFFFD"));
  EXPECT_EQ(streamed.response.text, "x\uFFFD");
}

TEST(Engine, FindsAStopStringInsideSplitCharacters) {
  ToyEngine toy = scripted_engine({"a\xE2", "\x82", "\xAC", "b"});
  const Response response = toy.engine.generate({.prompt_ids = kPrompt, .stop = {"€"}});
  EXPECT_EQ(response.text, "a");
  EXPECT_EQ(response.finish, Finish::kStop);
}

TEST(Engine, FillsTheContextAndNoMore) {
  ToyEngine toy = scripted_engine({"a"}, {}, 130);
  EXPECT_EQ(toy.engine.generate({.prompt_ids = kPrompt}).tokens.size(), 127u);
}

TEST(Engine, TakesAPromptThatLeavesRoomForOneToken) {
  ToyEngine toy(hashing_model(300), {.backend = {.context = 130}});
  const Response response = toy.engine.generate({.prompt_ids = std::vector<int32_t>(129, 1)});
  EXPECT_EQ(response.tokens.size(), 1u);
  EXPECT_EQ(response.finish, Finish::kLength);
  const Error error = error_of([&] { toy.engine.generate({.prompt_ids = std::vector<int32_t>(130, 1)}); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_STREQ(error.what(), "prompt: 130 tokens; limit: 129 (context 130)");
}

TEST(Engine, NamesTheRequestOfABatchThatIsOutOfRange) {
  ToyEngine toy = scripted_engine({"a"});
  const std::vector<Request> requests = {{.prompt = "x"}, {.prompt = "x", .max_tokens = -7}};
  EXPECT_THAT(error_of([&] { toy.engine.decode_batch(requests); }).what(),
              HasSubstr("requests[1]: max_tokens: -7"));
  EXPECT_EQ(toy.backend->passes_run(), 0u);
}

TEST(Engine, RefusesAnUnknownRole) {
  ToyEngine toy = scripted_engine({"a"});
  const Request request{.messages = {{"user", "hi"}, {"robot", "hello"}}};
  EXPECT_STREQ(error_of([&] { toy.engine.generate(request); }).what(),
               "messages[1]: role \"robot\"; expected system, user, assistant or tool");
}

TEST(Engine, AnswersNoRequestsWithNoResponses) {
  ToyEngine toy = scripted_engine({"a"});
  EXPECT_TRUE(toy.engine.decode_batch({}).empty());
}

TEST(Engine, NumbersTheEventsOfABatchByRequest) {
  ToyEngine toy = scripted_engine({"a"});
  const std::vector<Request> requests(20, {.prompt_ids = kPrompt, .max_tokens = 2});
  std::vector<int> events(21);
  toy.engine.decode_batch(requests, [&](const TokenEvent& event) {
    ++events.at(event.sequence);
    return true;
  });
  EXPECT_EQ(events[0], 0);
  for (size_t i = 1; i < events.size(); ++i) EXPECT_EQ(events[i], 2);
}

TEST(Engine, LetsRequestsWaitForKvBlocks) {
  ToyEngine toy(hashing_model(300), {.backend = {.context = 256, .kv_blocks = 9}});
  const std::vector<Request> requests(10, {.prompt_ids = kPrompt});
  for (const Response& response : toy.engine.decode_batch(requests)) EXPECT_EQ(response.tokens.size(), 253u);
  EXPECT_TRUE(toy.releases_all_blocks());
}

TEST(Engine, CancelsWhenTheCallbackSaysSo) {
  ToyEngine toy = scripted_engine({"a", "b"});
  int events = 0;
  const Response response =
      toy.engine.generate({.prompt_ids = kPrompt}, [&](const TokenEvent&) { return ++events < 5; });
  EXPECT_EQ(response.finish, Finish::kCancelled);
  EXPECT_EQ(response.text, "ababa");
  EXPECT_EQ(events, 5);
  EXPECT_TRUE(toy.releases_all_blocks());
}

TEST(Engine, EndsOnlyTheSequenceWhoseCallbackSaysSo) {
  ToyEngine toy = scripted_engine({"a"});
  const std::vector<Request> requests(3, {.prompt_ids = kPrompt, .max_tokens = 100});
  const auto responses =
      toy.engine.decode_batch(requests, [](const TokenEvent& event) { return event.sequence != 2; });
  EXPECT_EQ(responses[0].tokens.size(), 100u);
  EXPECT_EQ(responses[1].tokens.size(), 1u);
  EXPECT_EQ(responses[1].finish, Finish::kCancelled);
  EXPECT_EQ(responses[2].tokens.size(), 100u);
}

TEST(Engine, RethrowsACallbacksException) {
  ToyEngine toy = scripted_engine({"a"});
  EXPECT_THROW(toy.engine.generate({.prompt_ids = kPrompt}, [](const TokenEvent&) -> bool { throw 42; }),
               int);
  EXPECT_TRUE(toy.releases_all_blocks());
  EXPECT_EQ(toy.engine.generate({.prompt_ids = kPrompt, .max_tokens = 2}).text, "aa");
}

TEST(Engine, MayBeCalledFromACallback) {
  ToyEngine toy = scripted_engine({"a", "b"});
  std::string inner;
  const Response outer =
      toy.engine.generate({.prompt_ids = kPrompt, .max_tokens = 1}, [&](const TokenEvent&) {
        inner = toy.engine.generate({.prompt_ids = kPrompt, .max_tokens = 3}).text;
        return true;
      });
  EXPECT_EQ(inner, "aba");
  EXPECT_EQ(outer.text, "a");
}

TEST(Engine, IsCancelledFromAnotherThread) {
  ToyEngine toy = scripted_engine({"a"}, {}, 100000);
  std::atomic<bool> started = false;
  std::thread canceller([&] {
    started.wait(false);
    toy.engine.cancel();
  });
  size_t events = 0;
  const Response response =
      toy.engine.generate({.prompt_ids = kPrompt, .max_tokens = 4000}, [&](const TokenEvent&) {
        started = true;
        started.notify_all();
        ++events;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return true;
      });
  canceller.join();
  EXPECT_EQ(response.finish, Finish::kCancelled);
  EXPECT_EQ(response.tokens.size(), events);
  EXPECT_LT(events, 4000u);
}

Engine* signalled_engine = nullptr;

TEST(Engine, IsCancelledFromASignalHandler) {
  ToyEngine toy = scripted_engine({"a"});
  signalled_engine = &toy.engine;
  const auto previous = std::signal(SIGUSR1, [](int) { signalled_engine->cancel(); });
  int events = 0;
  const Response response = toy.engine.generate({.prompt_ids = kPrompt}, [&](const TokenEvent&) {
    if (++events == 3) std::raise(SIGUSR1);
    return true;
  });
  std::signal(SIGUSR1, previous);
  EXPECT_EQ(response.finish, Finish::kCancelled);
  EXPECT_EQ(response.tokens.size(), 3u);
}

TEST(Engine, CancelsWaitingRequestsOfABatch) {
  ToyEngine toy = scripted_engine({"a"});
  const std::vector<Request> requests(20, {.prompt_ids = kPrompt});
  const auto responses = toy.engine.decode_batch(requests, [&](const TokenEvent&) {
    toy.engine.cancel();
    return true;
  });
  for (const Response& response : responses) EXPECT_EQ(response.finish, Finish::kCancelled);
  EXPECT_TRUE(toy.releases_all_blocks());
}

TEST(Engine, CancelsABatchBetweenItsSteps) {
  ToyEngine toy = scripted_engine({"a"}, {}, 2000);
  toy.backend->before_each_pass([] { std::this_thread::sleep_for(std::chrono::microseconds(100)); });
  Batch batch(toy.engine);
  const uint64_t handle = batch.add({.prompt_ids = kPrompt});
  EXPECT_FALSE(batch.step().empty());
  toy.engine.cancel();
  EXPECT_TRUE(batch.step().empty());
  EXPECT_TRUE(batch.idle());
  EXPECT_EQ(batch.take(handle).finish, Finish::kCancelled);
}

TEST(Engine, RunsOnAfterACancelThatHitNothing) {
  ToyEngine toy = scripted_engine({"a"});
  toy.engine.cancel();
  EXPECT_EQ(toy.engine.generate({.prompt_ids = kPrompt, .max_tokens = 2}).finish, Finish::kLength);
}

TEST(Engine, TakesCallsOfSeveralThreads) {
  ToyEngine toy(hashing_model(300), {});
  const Request request{.prompt_ids = kPrompt, .max_tokens = 50};
  const std::vector<int32_t> expected = toy.engine.generate(request).tokens;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) EXPECT_EQ(toy.engine.generate(request).tokens, expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Engine, RunsABatchBesideOtherCalls) {
  ToyEngine toy(hashing_model(300), {.backend = {.context = 256, .kv_blocks = 128}});
  const Request request{.prompt_ids = kPrompt, .max_tokens = 100};
  const std::vector<int32_t> expected = toy.engine.generate(request).tokens;
  std::thread other([&] {
    for (int round = 0; round < 20; ++round) EXPECT_EQ(toy.engine.generate(request).tokens, expected);
  });
  for (int round = 0; round < 20; ++round) {
    Batch batch(toy.engine);
    const uint64_t handle = batch.add(request);
    while (!batch.idle()) batch.step();
    EXPECT_EQ(batch.take(handle).tokens, expected);
  }
  other.join();
}

TEST(Engine, MayMoveWhileABatchOfItLives) {
  ToyEngine toy = scripted_engine({"a", "b"});
  Batch batch(toy.engine);
  const uint64_t handle = batch.add({.prompt_ids = kPrompt, .max_tokens = 4});
  batch.step();
  Engine moved = std::move(toy.engine);
  while (!batch.idle()) batch.step();
  EXPECT_EQ(batch.take(handle).text, "abab");
  EXPECT_EQ(moved.generate({.prompt_ids = kPrompt, .max_tokens = 2}).text, "ab");
}

TEST(TokenStream, IteratesOverTheTokensOfARequest) {
  ToyEngine toy = scripted_engine({"a", "b", "c"});
  TokenStream stream(toy.engine, {.prompt_ids = kPrompt, .max_tokens = 5});
  std::string text;
  for (const TokenEvent& event : stream) text += event.text;
  EXPECT_EQ(text, "abcab");
  EXPECT_EQ(stream.response().text, text);
  EXPECT_EQ(stream.response().finish, Finish::kLength);
}

TEST(TokenStream, EndsWithItsResponseWhenCancelled) {
  ToyEngine toy = scripted_engine({"a"});
  TokenStream stream(toy.engine, {.prompt_ids = kPrompt});
  int events = 0;
  for (const TokenEvent& event : stream) {
    EXPECT_EQ(event.text, "a");
    if (++events == 3) toy.engine.cancel();
  }
  EXPECT_EQ(events, 3);
  EXPECT_EQ(stream.response().finish, Finish::kCancelled);
}

TEST(ByteCodec, ReadsBytesAndNamesOtherTokens) {
  ToyEngine toy(hashing_model(300), {});
  EXPECT_THAT(toy.engine.tokenize("a€"), ElementsAre('a', 0xE2, 0x82, 0xAC));
  const std::vector<int32_t> ids = {'a', 0xE2, 299, 'b'};
  EXPECT_EQ(toy.engine.detokenize(ids), "a\uFFFD<299>b");
  const std::vector<int32_t> wrong = {300};
  EXPECT_THAT(error_of([&] { toy.engine.detokenize(wrong); }).what(), HasSubstr("ids[0]: token 300"));
}

TEST(Finish, HasNames) {
  EXPECT_STREQ(name_of(Finish::kEos), "eos");
  EXPECT_STREQ(name_of(Finish::kStop), "stop");
  EXPECT_STREQ(name_of(Finish::kLength), "length");
  EXPECT_STREQ(name_of(Finish::kCancelled), "cancelled");
  EXPECT_STREQ(name_of(Finish::kDeadline), "deadline");
  EXPECT_STREQ(name_of(Finish::kError), "error");
}

constexpr const char* kListOfWords =
    R"({"type":"array","items":{"type":"string","minLength":1,"maxLength":9},"minItems":2,"maxItems":5})";

void expect_list_of_words(const Response& response) {
  ASSERT_EQ(response.finish, Finish::kEos);
  const nlohmann::json value = nlohmann::json::parse(response.text);
  ASSERT_TRUE(value.is_array());
  EXPECT_GE(value.size(), 2U);
  EXPECT_LE(value.size(), 5U);
  for (const auto& word : value) EXPECT_TRUE(word.is_string());
}

TEST(Engine, WritesWhatASchemaDescribes) {
  ToyEngine toy = random_engine(64);
  const Request request{.prompt_ids = kPrompt, .json_schema = kListOfWords, .n = 6};
  const std::vector<Response> responses = toy.engine.decode_batch(std::span(&request, 1));
  ASSERT_EQ(responses.size(), 6U);
  for (const Response& response : responses) expect_list_of_words(response);
}

TEST(Engine, WritesWhatAGrammarAnExpressionOrAListDescribes) {
  ToyEngine toy = random_engine(64);
  const std::string grammar = "root ::= word (\", \" word){1,3} \"!\"\nword ::= [a-z]{2,5}";
  std::vector<Request> requests;
  for (uint32_t stream = 0; stream < 4; ++stream) {
    requests.push_back({.prompt_ids = kPrompt, .regex = "[ab]{3}-(yes|no)"});
    requests.push_back({.prompt_ids = kPrompt, .choice = {"left", "right", "le"}});
    requests.push_back({.prompt_ids = kPrompt, .grammar = grammar});
    for (size_t i = requests.size() - 3; i < requests.size(); ++i) requests[i].sampling.stream = stream;
  }
  const std::vector<Response> responses = toy.engine.decode_batch(requests);
  const std::regex expected[] = {std::regex("[ab]{3}-(yes|no)"), std::regex("left|right|le"),
                                 std::regex("[a-z]{2,5}(, [a-z]{2,5}){1,3}!")};
  for (size_t i = 0; i < responses.size(); ++i) {
    EXPECT_EQ(responses[i].finish, Finish::kEos);
    EXPECT_TRUE(std::regex_match(responses[i].text, expected[i % 3])) << responses[i].text;
  }
}

// The tokens that may come next depend on the last one, and the running launch gets them as a mask. So a
// constrained text needs no additional launches.
TEST(Engine, RunsConstrainedTextsInLaunchesOfManyPasses) {
  constexpr const char* kLongWord = R"({"type":"string","minLength":150})";
  const auto stats_of = [](const Request& request) {
    ToyEngine toy = random_engine(64);
    EXPECT_EQ(toy.engine.generate(request).finish, Finish::kLength);
    EXPECT_TRUE(toy.releases_all_blocks()) << "the last launch is counted by then";
    return toy.engine.stats();
  };
  const EngineStats free = stats_of({.prompt_ids = kPrompt, .max_tokens = 130, .ignore_eos = true});
  const EngineStats bound = stats_of({.prompt_ids = kPrompt, .max_tokens = 130, .json_schema = kLongWord});
  EXPECT_EQ(bound.passes, free.passes);
  EXPECT_EQ(bound.launches, free.launches);
  EXPECT_LT(free.launches, 6U);
}

// The mask of a launch's first token is given after the launch has begun.
TEST(Engine, PlansLaunchesOfConstrainedTextsAhead) {
  ToyEngine toy = random_engine(64);
  const Request request{
      .prompt_ids = kPrompt, .max_tokens = 200, .json_schema = R"({"type":"string","minLength":210})"};
  EXPECT_EQ(toy.engine.generate(request).finish, Finish::kLength);
  EXPECT_TRUE(toy.releases_all_blocks()) << "the last launch is counted by then";
  EXPECT_GE(toy.engine.stats().launches, 4U);
  EXPECT_EQ(toy.backend->launches_prepared(), toy.engine.stats().launches - 1) << "all but the first";
}

// Tokens after its end are dropped, so any mask is right for them.
TEST(Engine, EndsConstrainedTextsWithinALaunch) {
  ToyEngine toy = random_engine(64, 4, 5);
  const Request whole{.prompt_ids = kPrompt,
                      .max_tokens = 100,
                      .json_schema = R"({"type":"string","pattern":"^[a-z]{120}$"})"};
  const std::string text = toy.engine.generate(whole).text;
  ASSERT_GT(text.size(), 40U);
  Request ends = whole;
  ends.stop = {text.substr(20, 6)};
  const Response response = toy.engine.generate(ends);
  EXPECT_EQ(response.finish, Finish::kStop);
  EXPECT_EQ(response.text, text.substr(0, text.find(ends.stop.front())));
  EXPECT_TRUE(toy.releases_all_blocks());
}

TEST(Engine, ConstrainedTextsContinueAfterAPreemption) {
  ToyEngine toy = random_engine(5);
  std::vector<Request> requests;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    requests.push_back({.prompt_ids = std::vector<int32_t>(40, 7), .json_schema = kListOfWords});
    requests.back().sampling.seed = seed;
  }
  for (const Response& response : toy.engine.decode_batch(requests)) expect_list_of_words(response);
  EXPECT_GT(toy.engine.stats().preemptions, 0U);
}

// A stop token ends a text early only if nothing else can follow.
TEST(Engine, AStopTokenEndsAConstrainedTextWhereNothingElseCanFollow) {
  ToyEngine toy = random_engine(64);
  Request request{.prompt_ids = kPrompt, .max_tokens = 40, .json_schema = R"({"enum":["abcdefgh"]})"};
  request.stop_token_ids = {'e'};
  const Response response = toy.engine.generate(request);
  EXPECT_EQ(response.finish, Finish::kStop);
  EXPECT_EQ(response.text, "\"abcd");
  request.stop_token_ids = {'"'};
  EXPECT_EQ(toy.engine.generate(request).text, "");
}

TEST(Engine, RefusesAGrammarThatItDoesNotSupport) {
  ToyEngine toy = random_engine(64);
  const auto refusal = [&](const Request& request) {
    return std::string(error_of([&] { toy.engine.generate(request); }).what());
  };
  EXPECT_THAT(refusal({.prompt_ids = kPrompt, .grammar = "root ::= a"}),
              HasSubstr("grammar: line 1, column 10: rule a is not defined"));
  EXPECT_THAT(refusal({.prompt_ids = kPrompt, .regex = "("}), HasSubstr("regex: '(' without ')'"));
  const Request wrong{.prompt_ids = kPrompt, .grammar = "root ::= root"};
  EXPECT_THAT(error_of([&] { toy.engine.compile_constraint(wrong); }).what(),
              HasSubstr("begins with itself"));
  ToyEngine endless = scripted_engine({"a", "b"});
  EXPECT_THAT(error_of([&] { endless.engine.generate({.prompt_ids = kPrompt, .choice = {"c"}}); }).what(),
              HasSubstr("cannot spell"));
}

TEST(Engine, RefusesASchemaThatItDoesNotSupport) {
  ToyEngine toy = random_engine(64);
  const Request request{.prompt_ids = kPrompt, .json_schema = R"({"type":"object","not":{}})"};
  EXPECT_THAT(error_of([&] { toy.engine.generate(request); }).what(), HasSubstr("json_schema: #: keyword"));
  EXPECT_THAT(error_of([&] { toy.engine.compile_constraint(request); }).what(), HasSubstr("\"not\""));
  ToyEngine endless = scripted_engine({"a", "b"});
  EXPECT_THAT(error_of([&] { endless.engine.generate({.prompt_ids = kPrompt, .json_object = true}); }).what(),
              HasSubstr("cannot spell"));
}

}  // namespace
}  // namespace serval::testing

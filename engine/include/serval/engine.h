// Serval's public C++ API: load a model, generate text, decode many sequences together.
//
//   serval::Engine engine = serval::Engine::load({});                    // the bundled model
//   serval::Response r = engine.generate({.prompt = "Once upon a time"});
//
// All requests of an engine run together, whichever thread or function they come from: sequences join and
// leave between two passes. On the host, and on a GPU with EngineOptions::batch_invariant, what a request
// gets does not depend on the others (docs/engine.md).
//
// Errors are serval::Error (serval/error.h): kind() is the exit code a program should use, what() is one
// line. Units: a token is one vocabulary id; times are milliseconds of wall clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "serval/error.h"

namespace serval {

struct LogitBias {
  int32_t token = 0;
  float bias = 0;  // [-100, 100], added to the token's logit
};

// Logits go through biases, repetition penalty, frequency and presence penalty, top-k, top-p, min-p and
// temperature, in llama.cpp's order. What is off costs nothing.
struct SamplingParams {
  float temperature = 0.8f;         // 0: greedy; otherwise in (0, 100]
  int top_k = 40;                   // 0 or more; 0: off
  float top_p = 0.95f;              // (0, 1]; 1: off
  float min_p = 0.05f;              // [0, 1]; 0: off
  float repetition_penalty = 1.0f;  // (0, 10]; 1: off. Over the last repeat_last_n tokens, prompt included
  int repeat_last_n = 64;           // -1 or more; 0: none, -1: all
  // [-2, 2]; 0: off. OpenAI's: from the logit of a token that the answer has n > 0 times, n × frequency +
  // presence is subtracted. The prompt's tokens do not count.
  float presence_penalty = 0;
  float frequency_penalty = 0;
  uint64_t seed = 0;    // random numbers depend on (seed, stream, position) and nothing else
  uint32_t stream = 0;  // tells apart sequences that share a seed
};

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

struct Request {
  // UTF-8; other bytes become U+FFFD. Ignored if prompt_ids or messages is set; set one of these, not both.
  // Text of up to 64 MiB that leaves room for one token in the context.
  std::string prompt = {};
  bool special = false;  // control tokens that are written in `prompt` ("<|eot_id|>") mean these tokens
  std::vector<int32_t> prompt_ids = {};    // token ids, used as they are (no BOS is added)
  std::vector<ChatMessage> messages = {};  // a conversation, rendered with the model's chat template
  SamplingParams sampling = {};
  int max_tokens = -1;  // new tokens at most; -1: until the context is full; 0: read the prompt only
  std::vector<std::string> stop = {};  // the text ends before the first of these; UTF-8, up to 64 of 1 KiB
  // An answer ends with the first of these; its text ends before. With the model's own up to 16.
  std::vector<int32_t> stop_token_ids = {};
  std::vector<LogitBias> logit_bias = {};  // up to 1024, each of another token
  // Tokens at least, up to max_tokens: before, no token that ends the answer is drawn. Stop strings end it
  // all the same.
  int min_tokens = 0;
  // Of each token that is generated, the log-probabilities of so many of the likeliest, 0 to 20. A GPU then
  // hands out tokens one by one, which costs the time between two launches.
  uint32_t top_logprobs = 0;
  bool ignore_eos = false;  // the model's end-of-text tokens are tokens like any other
  // The text is JSON: an object, or a value that is valid under a JSON schema (docs/api.md says which ones
  // are known). Tokens that cannot lead there are not drawn, and those that end the answer only when the
  // value is complete; so it is, unless max_tokens, a stop string or the context ends it before. Set either;
  // neither goes with min_tokens or ignore_eos. A GPU then hands out tokens one by one, as with top_logprobs.
  bool json_object = false;
  std::string json_schema = {};  // up to 256 KiB
  // Answers, 1 to 128. Answer i is what the request gets alone with the stream sampling.stream + i; the
  // prompt is read once.
  int n = 1;
  int priority = 0;  // smaller ones are served first; of equals, the one that came first
  // From submit() on; more than 0. What is not finished by then ends as kDeadline, within a pass.
  std::optional<double> deadline_ms = {};
  // false: the whole prompt is read, even where the KV cache has its beginning from another request.
  bool reuse_prefix = true;
};

enum class Finish {
  kNone,       // still running
  kEos,        // the model ended the text
  kStop,       // one of Request::stop or stop_token_ids was reached
  kLength,     // max_tokens, or the context is full
  kCancelled,  // cancel() was called, the callback returned false for this sequence, or the engine has ended
  kDeadline,   // Request::deadline_ms is over
  kError,      // it could not go on: Response::error says why
};
const char* name_of(Finish finish);  // "eos", "stop", "length", "cancelled", "deadline", "error"

struct TopLogprob {
  int32_t token = 0;
  float log_probability = 0;  // natural log, under the model's own softmax
  friend bool operator==(const TopLogprob&, const TopLogprob&) = default;
};

struct TokenEvent {
  // As Batch::add returned it; 0 for generate(), for decode_batch() the index of the response + 1, for a
  // RequestHandle the index of the answer.
  uint64_t sequence = 0;
  int32_t token = 0;
  float log_probability = 0;  // natural log, under the model's own softmax (before penalties and temperature)
  // The Request::top_logprobs likeliest, or the whole vocabulary: the likeliest first, of equals the lowest
  // id.
  std::vector<TopLogprob> top_logprobs;
  // UTF-8 made available by this token: whole characters, and nothing that may yet become a stop string. The
  // texts of all events, joined, are the response's.
  std::string text;
  Finish finish = Finish::kNone;
};

struct Timings {
  double load_ms = 0;    // Engine::load (the same in every response)
  double queue_ms = 0;   // until the sequence first joined those that run
  double prompt_ms = 0;  // until the prompt's last chunk is done, queue_ms included: time to the first token
  double decode_ms = 0;  // from the first generated token to the last
};

struct Response {
  std::string text;
  std::vector<int32_t> tokens;  // all that were generated, an end-of-text token or a stop string's included
  std::vector<float> log_probabilities;               // one for each token
  std::vector<std::vector<TopLogprob>> top_logprobs;  // the same; empty if none were asked for
  int prompt_tokens = 0;
  int cached_tokens = 0;  // of these, how many were in the KV cache already
  Finish finish = Finish::kNone;
  std::string error;  // one line where finish is kError, else empty; what was generated before stays
  ErrorKind error_kind = ErrorKind::kRuntime;  // of that
  Timings timings;
};

// Returns false to end the event's request. Called on the thread that called generate() or decode_batch().
// What it throws ends the call and goes on to the caller.
using TokenCallback = std::function<bool(const TokenEvent&)>;

// A response of decode_batch() is complete; `index` is its place among those that are returned. Otherwise as
// a TokenCallback.
using ResponseCallback = std::function<void(size_t index, const Response& response)>;

// What becomes of a request. Of each answer come any number of kToken and then one kFinished or kError.
struct RequestEvent {
  enum class Kind {
    kToken,     // `token`; its `finish` is kNone unless it is the answer's last
    kFinished,  // the answer is complete: `response` is, but for text, tokens and their log-probabilities
    kError,     // the same where it could not go on, which response.error explains
  };
  Kind kind = Kind::kToken;
  uint32_t answer = 0;  // index, below Request::n
  TokenEvent token = {};
  Response response = {};
};

// Called on the engine's own thread, between two passes: everything waits until it returns. It must not
// throw, and must not wait for the engine; it may call submit() and RequestHandle::cancel().
using EventSink = std::function<void(const RequestEvent&)>;

// A request that was submitted. Movable. next() and wait() are for one thread at a time; the others are
// thread-safe. It may outlive its engine, which ends what it still runs as kCancelled. The request of a
// handle that is destroyed or assigned to is cancelled.
class RequestHandle {
 public:
  RequestHandle();  // of no request: nothing comes from it
  RequestHandle(RequestHandle&&) noexcept;
  RequestHandle& operator=(RequestHandle&&) noexcept;
  ~RequestHandle();

  // The next event, waited for; none once all answers are complete. After cancel() no token comes any more.
  // Only without an EventSink. Error(kUsage) on the engine's own thread.
  std::optional<RequestEvent> next();
  // The same; none also if nothing has come for so long, which done() tells apart.
  std::optional<RequestEvent> next(std::chrono::nanoseconds timeout);
  // All answers from the events that next() has not given out yet. Errors of an answer are in its response.
  std::vector<Response> wait();
  bool done() const;  // next() will give out nothing any more
  // Its answers finish as kCancelled within a pass. Signal handlers may call it, too.
  void cancel() noexcept;

  struct Impl;
  explicit RequestHandle(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// How an engine is doing; counts are of all its life.
struct EngineStats {
  uint32_t running = 0;         // sequences
  uint32_t waiting = 0;         // for a place, or for KV blocks
  uint32_t kv_blocks = 0;       // of kKvBlockTokens tokens
  uint32_t kv_blocks_held = 0;  // by running sequences
  uint32_t kv_blocks_kept = 0;  // by none, to be found again
  uint64_t finished = 0;        // answers
  uint64_t preemptions = 0;     // sequences that had to give their KV blocks back for a time
  uint64_t prompt_tokens = 0;   // of sequences that joined, after a preemption again
  uint64_t cached_tokens = 0;   // of these, found in the KV cache
  uint64_t generated_tokens = 0;
  uint64_t passes = 0;
  uint64_t launches = 0;
  uint64_t rows = 0;     // of all passes
  double pass_ms = 0;    // that all launches took
  double kernel_ms = 0;  // of it, the GPU's kernels; 0 where there is no GPU
  // Launches that followed another at once, and the time from the end of one to the begin of the next.
  uint64_t gaps = 0;
  double gap_ms = 0;
};

// stage is "tensors", "weights", …; done and total in bytes. Called from the loading thread.
using ProgressCallback = std::function<void(const char* stage, uint64_t done, uint64_t total)>;

struct EngineOptions {
  // A Hugging Face directory, a GGUF file, ORG/NAME in Hugging Face's cache, or a preset's name
  // (docs/models.md); empty: the bundled model.
  std::string model = {};
  // The seed. A preset needs one, as does a directory without weights; weights that are there are not read.
  std::optional<uint64_t> random_weights = {};
  bool allow_nonfinite = false;  // load weights that are NaN or infinite, or too large for bf16
  int context = 0;               // tokens a sequence may hold; 0: min(model's maximum, 4096)
  int max_sequences = 16;        // that run together; up to 1024. More wait their turn
  // Bytes for keys and values, enough for one full context. 0: as many as max_sequences full contexts need.
  uint64_t kv_cache_memory = 0;
  // Instead of bytes, a share of the memory that is free beside the weights, above 0 and up to 1; 0: unset.
  double kv_cache_share = 0;
  // Tokens of a pass, of prompts and of sequences that generate, each of which needs one; up to 8192, and no
  // more than the KV cache holds. 0: on a GPU 8192, of a large model as many as take about a quarter of a
  // second, at least 2048, or what memory and KV cache allow; on the host max_sequences, at least 16. On a
  // GPU, more than 16 multiply tiles of rows, for which hidden and intermediate size must be multiples of 64.
  int max_batch_tokens = 0;
  // All passes in one arithmetic class, that of tiles of rows: what a request gets depends on the request
  // alone, not on those that run beside it. On the host, and on a GPU whose passes have up to 16 tokens, that
  // is so anyway (docs/engine.md).
  bool batch_invariant = false;
  // On a GPU: requests run as soon as the program for the smallest passes is compiled. Those for larger ones
  // are compiled meanwhile; a pass waits for its own, so which tokens come does not depend on it. Where one
  // fails, the requests end that need it.
  bool programs_in_background = false;
  std::string backend = "auto";  // auto | device | host | torch
  int threads = 0;               // host interpreter; 0: all cores; up to 1024
  int sms = 0;                   // SMs to compile for, of each GPU; 0: the backend's own number; up to 1024
  // GPUs that share the model, its ranks, by number: 1, 2, 4 or 8 of them; empty: the first. Backend host
  // runs them as groups of its threads. docs/several_gpus.md says which models can be shared, and how.
  std::vector<int> gpus = {};
  // round-robin | zig-zag | wave | list, or best: what the GPU's simulator prefers; empty: the cost model
  std::string policy = {};
  bool global_queue = false;  // one queue for all SMs instead of one each
  std::string chat_template =
      {};  // llama3 | chatml | a file with a Jinja template; empty: the checkpoint's own
  // Host interpreter: one thread interleaves the instructions of all SMs in an order that this seed picks,
  // always the same. Slow; no valid program's results depend on it, so it serves to find and repeat races.
  std::optional<uint64_t> interleaving = {};
  // Host interpreter: before each pass, the program runs in the checked mode (footprints and vector clocks
  // instead of arithmetic) over what the pass touches; what it finds is an error. Slow; finds what the proof
  // of a program overlooked.
  bool checked = false;
  // A program file (serval schedule -o) to run instead of compiling the model; it has its own context, SMs,
  // policy and queues, so these stay as they are by default. Error(kRuntime) if it is not one of the model.
  std::string program = {};
  double stall_timeout_s = 30;  // a launch without progress for this long is a fault; up to a day
  // > 0: the launch of this number fails as a fault of the device does, for trying what becomes of it then.
  int fault_at_launch = 0;
  // > 0: events of the last so many tokens are kept for write_trace(), while the engine works; up to 4096.
  // What that costs: docs/profiling.md.
  int trace_tokens = 0;
  ProgressCallback progress = {};
};

struct ModelInfo {
  std::string name;
  std::string backend;
  std::string backend_notice;  // one line for the user: why backend "auto" runs on the CPU; mostly empty
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  int context = 0;              // tokens a sequence may hold in this engine
  int max_sequences = 0;        // that run together
  int64_t kv_cache_tokens = 0;  // that the KV cache holds
  int64_t num_parameters = 0;
  int64_t weight_bytes_per_token = 0;  // what one token reads of the weights
  int64_t kv_bytes_per_token = 0;
  std::string policy;
  int gpus = 1;  // that share the model
  int sms = 0;
  int64_t instructions = 0;         // of the compiled program
  std::string chat_template;        // its name or its file; "" if the model has none
  SamplingParams default_sampling;  // the project's defaults overlaid with generation_config.json
};

class Batch;

// A loaded model, its compiled program and the thread that runs it. Movable, while batches and handles of it
// live too. All members but load(), moves and the destructor are thread-safe; cancel() may be called from a
// signal handler, too. The destructor ends what runs, as shutdown() does.
class Engine {
 public:
  // Errors: kUsage for options out of range, kRuntime for a model that is missing, damaged or not supported
  // and for a backend that is not there, kOutOfMemory where weights or KV cache do not fit.
  static Engine load(const EngineOptions& options);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  const ModelInfo& info() const;
  EngineStats stats() const;
  // Ids of `text` with BOS where the model wants one, and text of `ids`. `special`: control tokens in a text
  // mean these tokens, and are written in one; else they are text like any other, and are left out. kUsage
  // for an id that is not in the vocabulary.
  std::vector<int32_t> tokenize(const std::string& text, bool special = false) const;
  std::string detokenize(std::span<const int32_t> ids, bool special = false) const;
  // Ids of a conversation, ready for the assistant's answer. kUsage for an unknown role; an error where the
  // model has no chat template that is known here.
  std::vector<int32_t> tokenize_chat(std::span<const ChatMessage> messages) const;

  // Compiles the request's json_schema, so that submit() finds it done: the 16 that were asked for last are
  // kept. kUsage for one that is not supported; nothing where the request asks for none.
  void compile_json(const Request& request) const;

  // Queues the request and returns at once. Its events come from the handle, or go to `sink` where there is
  // one. Errors: kUsage for parameters out of range, a prompt that is empty or does not fit the context, and
  // after shutdown().
  RequestHandle submit(const Request& request, EventSink sink = {});
  // All or none, and none joins before all are queued. The error names the request: "requests[3]: …".
  std::vector<RequestHandle> submit(std::span<const Request> requests);

  // Runs one request to its end; Request::n must be 1. Errors as submit(); kRuntime when the model's logits
  // are not finite, kDeviceFault when the interpreter gave up.
  Response generate(const Request& request, const TokenCallback& on_token = {});

  // Runs the requests to their ends, together with whatever else runs. Responses in the order of the
  // requests, Request::n for each. Errors as submit(), before any runs, and kDeviceFault; one whose logits
  // are not finite finishes as kError, and the others go on.
  std::vector<Response> decode_batch(std::span<const Request> requests, const TokenCallback& on_token = {},
                                     const ResponseCallback& on_response = {});

  // Writes what each SM did in the last `tokens` tokens, 0: EngineOptions::trace_tokens, and no more than the
  // last launch made, as Chrome trace events: a file that ends in .json, or .json.gz, which is compressed.
  // `serval profile FILE` reads it. Errors: kUsage without trace_tokens or for more tokens than these,
  // kRuntime if nothing has run yet or the file cannot be written.
  void write_trace(const std::string& path, int tokens = 0) const;

  // Ends all requests that are submitted now within one pass: they finish as kCancelled.
  void cancel() noexcept;
  // The same for good: no request is taken any more. Returns when nothing runs.
  void shutdown();

  struct Impl;

 private:
  friend class Batch;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Sequences whose tokens one thread takes as they come. Not thread-safe itself, except cancel(); the engine
// must outlive it. What still runs when it is destroyed is cancelled.
class Batch {
 public:
  explicit Batch(Engine& engine);
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  ~Batch();

  // Joins as soon as there is room. Returns its number (> 0). Request::n must be 1. Errors as submit().
  uint64_t add(const Request& request);
  // Waits until a sequence has made a token or has ended; returns the tokens that were made since the last
  // call, in their order. A sequence that ends without a token (cancelled, kError, or max_tokens is 0) has no
  // event. Empty when idle.
  std::vector<TokenEvent> step();
  bool idle() const;                        // all sequences have ended, and step() has returned their tokens
  void cancel(uint64_t sequence) noexcept;  // step() returns no more tokens of it
  // The response of a sequence that has ended, as step() has seen; forgets its number. kUsage for one that is
  // unknown or still running.
  Response take(uint64_t sequence);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The tokens of one request as a range: for (const TokenEvent& t : TokenStream(engine, request)) … The engine
// goes on while the range is read; a range that is left is cancelled. For one thread at a time. Request::n
// must be 1. The constructor throws as Engine::submit(), and reading on as Engine::generate().
class TokenStream {
 public:
  TokenStream(Engine& engine, const Request& request);
  class Iterator {
   public:
    using value_type = TokenEvent;
    using difference_type = std::ptrdiff_t;
    const TokenEvent& operator*() const { return *event_; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return event_ == nullptr; }

   private:
    friend class TokenStream;
    TokenStream* stream_ = nullptr;
    const TokenEvent* event_ = nullptr;
  };
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }
  const Response& response() const { return response_; }  // complete once the range is exhausted

 private:
  const TokenEvent* next();
  RequestHandle handle_;
  TokenEvent current_;
  Response response_;
};

}  // namespace serval

// Serval's public C++ API: load a model, generate text, decode many sequences together.
//
//   serval::Engine engine = serval::Engine::load({});                    // the bundled model
//   serval::Response r = engine.generate({.prompt = "Once upon a time"});
//
// Errors are serval::Error (serval/error.h): kind() is the exit code a program should use, what() is one
// line. Units: a token is one vocabulary id; times are milliseconds of wall clock.
#pragma once

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

struct SamplingParams {
  float temperature = 0.8f;         // 0: greedy; otherwise in (0, 100]
  int top_k = 40;                   // 0 or more; 0: off
  float top_p = 0.95f;              // (0, 1]; 1: off
  float min_p = 0.05f;              // [0, 1]; 0: off
  float repetition_penalty = 1.0f;  // (0, 10]; 1: off. Over the last 64 tokens, prompt included
  uint64_t seed = 0;                // random numbers depend on (seed, stream, position) and nothing else
  uint32_t stream = 0;              // tells apart sequences that share a seed
};

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

struct Request {
  std::string prompt = {};  // UTF-8; other bytes become U+FFFD. Ignored if prompt_ids or messages is set
  std::vector<int32_t> prompt_ids = {};    // token ids, used as they are (no BOS is added)
  std::vector<ChatMessage> messages = {};  // a conversation, rendered with the model's chat template
  SamplingParams sampling = {};
  int max_tokens = -1;  // new tokens at most; -1: until the context is full; 0: read the prompt only
  std::vector<std::string> stop = {};  // the text ends before the first of these; UTF-8, up to 64 of 1 KiB
  bool ignore_eos = false;             // the model's end-of-text tokens are tokens like any other
};

enum class Finish {
  kNone,       // still running
  kEos,        // the model ended the text
  kStop,       // one of Request::stop was reached
  kLength,     // max_tokens, or the context is full
  kCancelled,  // cancel() was called or the callback returned false for this sequence
  kError,      // it could not go on: Response::error says why
};
const char* name_of(Finish finish);  // "eos", "stop", "length", "cancelled", "error"

struct TokenEvent {
  uint64_t sequence = 0;  // as Batch::add returned it; 0 for generate(), index + 1 for decode_batch()
  int32_t token = 0;
  float log_probability = 0;  // natural log, under the model's own softmax (before penalties and temperature)
  // UTF-8 made available by this token: whole characters, and nothing that may yet become a stop string. The
  // texts of all events, joined, are the response's.
  std::string text;
  Finish finish = Finish::kNone;
};

struct Timings {
  double load_ms = 0;    // Engine::load (the same in every response)
  double prompt_ms = 0;  // until the prompt's last chunk is done: time to the first token
  double decode_ms = 0;  // from the first generated token to the last
};

struct Response {
  std::string text;
  std::vector<int32_t> tokens;  // all that were generated, an end-of-text token or a stop string's included
  std::vector<float> log_probabilities;  // one for each token
  int prompt_tokens = 0;
  Finish finish = Finish::kNone;
  std::string error;  // one line where finish is kError, else empty; what was generated before stays
  Timings timings;
};

// Returns false to end the event's sequence. Called on the thread that called generate() or decode_batch(),
// which it must not call itself. What it throws ends the call and goes on to the caller.
using TokenCallback = std::function<bool(const TokenEvent&)>;

// stage is "tensors", "weights", …; done and total in bytes. Called from the loading thread.
using ProgressCallback = std::function<void(const char* stage, uint64_t done, uint64_t total)>;

struct EngineOptions {
  std::string model = {};  // a Hugging Face directory or a preset's name; empty: the bundled model
  // The seed. A preset needs one, as does a directory without weights; weights that are there are not read.
  std::optional<uint64_t> random_weights = {};
  bool allow_nonfinite = false;  // load weights that are NaN or infinite, or too large for bf16
  int context = 0;               // tokens a sequence may hold; 0: min(model's maximum, 4096)
  // KV blocks are reserved for this many full contexts; up to 1024. Shorter sequences may be more: 16 decode
  // together, or this many, if it is more (ModelInfo::max_sequences).
  int max_sequences = 16;
  // Tokens of a pass, of prompts and of sequences that generate, each of which needs one; up to 8192. 0: as
  // many as sequences decode together. The GPU's kernels take up to 16.
  int max_batch_tokens = 0;
  std::string backend = "auto";  // auto | device | host | torch
  int threads = 0;               // host interpreter; 0: all cores; up to 1024
  int sms = 0;                   // SMs to compile for; 0: the backend's own number; up to 1024
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
  int context = 0;        // tokens a sequence may hold in this engine
  int max_sequences = 0;  // that a Batch decodes together
  int64_t num_parameters = 0;
  int64_t weight_bytes_per_token = 0;  // what one token reads of the weights
  int64_t kv_bytes_per_token = 0;
  std::string policy;
  int sms = 0;
  int64_t instructions = 0;         // of the compiled program
  std::string chat_template;        // its name or its file; "" if the model has none
  SamplingParams default_sampling;  // the project's defaults overlaid with generation_config.json
};

class Batch;

// A loaded model and its compiled program. Movable, while batches of it live too. Calls that run the model
// (generate, Batch::step) are serialised by a mutex inside; everything const is thread-safe; cancel() may be
// called from any thread or signal handler.
class Engine {
 public:
  // Errors: kUsage for options out of range, kRuntime for a model that is missing, damaged or not supported
  // and for a backend that is not there, kOutOfMemory where weights or KV cache do not fit.
  static Engine load(const EngineOptions& options);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  const ModelInfo& info() const;
  // Ids of `text` with BOS where the model wants one; text of `ids`, special tokens left out. kUsage for an
  // id that is not in the vocabulary.
  std::vector<int32_t> tokenize(const std::string& text) const;
  std::string detokenize(std::span<const int32_t> ids) const;
  // Ids of a conversation, ready for the assistant's answer. kUsage for an unknown role; an error where the
  // model has no chat template that is known here.
  std::vector<int32_t> tokenize_chat(std::span<const ChatMessage> messages) const;

  // Runs one request to its end. Errors: kUsage for parameters out of range or a prompt that is empty or does
  // not fit the context, kRuntime when the model's logits are not finite, kOutOfMemory when no KV blocks are
  // left, kDeviceFault when the interpreter gave up.
  Response generate(const Request& request, const TokenCallback& on_token = {});

  // Runs up to ModelInfo::max_sequences requests together; more wait their turn. Responses in the order of
  // the requests. One that is out of range is an error before any runs; one whose logits are not finite
  // finishes as kError, and the others go on.
  std::vector<Response> decode_batch(std::span<const Request> requests, const TokenCallback& on_token = {});

  // Writes what each SM did in the last tokens, at most EngineOptions::trace_tokens and no more than the last
  // launch made, as Chrome trace events: a file that ends in .json, or .json.gz, which is compressed. `serval
  // profile FILE` reads it. Waits for what runs now. Errors: kUsage without trace_tokens, kRuntime if nothing
  // has run yet or the file cannot be written.
  void write_trace(const std::string& path) const;

  // Ends whatever runs now within one pass: its responses finish as kCancelled. Batches that are between two
  // steps and requests that wait count as running.
  void cancel() noexcept;

  struct Impl;

 private:
  friend class Batch;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Sequences that are decoded together and join and leave between passes. A sequence's tokens do not depend on
// its neighbours. Not thread-safe itself, except cancel(); the engine must outlive it. KV blocks are returned
// when a sequence ends, is cancelled, or the batch is destroyed.
class Batch {
 public:
  explicit Batch(Engine& engine);
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  ~Batch();

  // Joins at the next step. Returns its handle (> 0). Errors as generate(), and kOutOfMemory if
  // ModelInfo::max_sequences are running or the KV cache has no room for the prompt and max_tokens more: they
  // are reserved here, so that no sequence runs short later.
  uint64_t add(const Request& request);
  // One pass: a new token for every sequence that has read its prompt, and chunks of the others' prompts, the
  // oldest first. Returns the tokens made, in order of handles; empty while all of them are still reading.
  // A sequence that ends without a token (cancelled, kError, or max_tokens is 0) has no event. After an error
  // it may be called again.
  std::vector<TokenEvent> step();
  bool idle() const;                        // true when no sequence is running
  void cancel(uint64_t sequence) noexcept;  // takes effect in the next step
  // The response of a finished sequence; forgets the handle. kUsage for one that is unknown or still running.
  Response take(uint64_t sequence);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The tokens of one request as a range, made one pass at a time as they are asked for: for (const TokenEvent&
// t : TokenStream(engine, request)) … Errors as Engine::generate().
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
  Batch batch_;
  uint64_t sequence_;
  std::vector<TokenEvent> pending_;
  size_t at_ = 0;
  Response response_;
};

}  // namespace serval

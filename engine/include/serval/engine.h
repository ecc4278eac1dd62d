// Serval's public C++ API: load a model, generate text, decode many sequences together.
//
//   serval::Engine engine = serval::Engine::load({});                    // the bundled model
//   serval::Response r = engine.generate({.prompt = "Once upon a time"});
//
// All requests of an engine run together, from whichever thread or function they come: sequences join and
// leave between two passes. On the host, and on a GPU with EngineOptions::batch_invariant, a request's
// results do not depend on the other requests (docs/engine.md).
//
// Errors are serval::Error (serval/error.h): kind() is the exit code that a program should use, what() is one
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

#include "serval/chat.h"
#include "serval/error.h"

namespace serval {

struct LogitBias {
  int32_t token = 0;
  float bias = 0;  // [-100, 100], added to the token's logit
};

// Steps of sampling, in llama.cpp's order: biases, repetition penalty, frequency and presence penalty, top-k,
// top-p, min-p and temperature. Steps that are off cost nothing.
struct SamplingParams {
  float temperature = 0.8f;  // 0: greedy; otherwise in (0, 100]
  int top_k = 40;            // 0 or more; 0: off
  float top_p = 0.95f;       // (0, 1]; 1: off
  float min_p = 0.05f;       // [0, 1]; 0: off
  float repetition_penalty =
      1.0f;                // (0, 10]; 1: off. For the last repeat_last_n tokens, including the prompt's
  int repeat_last_n = 64;  // -1 or more; 0: none, -1: all
  // [-2, 2]; 0: off. As in OpenAI's API: if a token occurs n > 0 times in the answer, n × frequency +
  // presence is subtracted from its logit. The prompt's tokens do not count.
  float presence_penalty = 0;
  float frequency_penalty = 0;
  uint64_t seed = 0;    // random numbers depend only on (seed, stream, position)
  uint32_t stream = 0;  // distinguishes sequences that share a seed
};

struct Request {
  // UTF-8; other bytes become U+FFFD. Set only one of prompt, prompt_ids and messages; the prompt is ignored
  // if one of the others is set. At most 64 MiB of text, which must leave room for one token in the context.
  std::string prompt = {};
  // Control tokens that are written in `prompt` ("<|eot_id|>") mean these tokens; false: they are text like
  // any other, as what is written in `messages` always is.
  bool special = true;
  bool add_special_tokens = true;          // the model's own around `prompt`: BOS, where it wants one
  bool skip_special_tokens = true;         // the answer's text leaves control tokens out
  std::vector<int32_t> prompt_ids = {};    // token ids, used as they are (no BOS is added)
  std::vector<ChatMessage> messages = {};  // a conversation, rendered with the model's chat template
  ChatOptions chat = {};                   // how `messages` are rendered
  SamplingParams sampling = {};
  int max_tokens = -1;  // limit for new tokens; -1: until the context is full; 0: only read the prompt
  std::vector<std::string> stop =
      {};  // the text ends before the first of these; UTF-8, up to 64 of 1 KiB each
  // An answer ends with the first of these; its text ends before it. Up to 16, including the model's own.
  std::vector<int32_t> stop_token_ids = {};
  // The text contains the stop string, or the text of the token of stop_token_ids, that ended it.
  bool include_stop_in_text = false;
  // Words that the answer must not contain: as the tokenizer writes each alone and after a space, no token is
  // drawn that would complete it. Other spellings are not recognised. Up to 128 of 1 to 256 bytes of UTF-8.
  // Where the answer must be JSON and nothing else can follow, they are drawn all the same.
  std::vector<std::string> bad_words = {};
  std::vector<LogitBias> logit_bias = {};  // up to 1024, for distinct tokens
  // Minimum of new tokens, at most max_tokens: before, no token that ends the answer is drawn. Stop strings
  // still end it.
  int min_tokens = 0;
  // For each generated token, the log-probabilities of this many likeliest tokens, 0 to 20. A GPU then needs
  // one launch for each token, which adds the time between two launches to every token.
  uint32_t top_logprobs = 0;
  // The log-probability of each token of the prompt given those before it, from the token at index
  // prompt_logprobs_from on, and of this many likeliest tokens in its place, 0 to 20; none: none. The first
  // token has none, so prompt_logprobs_from is 1 or more. Only what comes before the token at index
  // prompt_logprobs_from - 1 is taken from the KV cache. With max_tokens = 0 nothing is generated.
  std::optional<uint32_t> prompt_logprobs = {};
  int prompt_logprobs_from = 1;
  bool ignore_eos = false;  // the model's end-of-text tokens do not end the answer
  // The format of the text: a JSON object; a value that is valid under a JSON schema (docs/api.md lists the
  // supported keywords); a text that matches a regular expression as a whole, is one of a list, or follows a
  // grammar in llama.cpp's GBNF (docs/grammars.md). Only tokens that can lead to a complete text are drawn,
  // and tokens that end the answer only when the text is complete. So it is complete unless max_tokens, a
  // stop string or the context ends the answer before. Set at most one; none works with min_tokens or
  // ignore_eos. As with top_logprobs, a GPU then needs one launch for each token.
  bool json_object = false;
  std::string json_schema = {};          // up to 256 KiB
  std::string regex = {};                // UTF-8, up to 1,024 bytes
  std::vector<std::string> choice = {};  // UTF-8, up to 10,000 texts of 256 KiB together
  std::string grammar = {};              // up to 256 KiB
  // The answer is text or calls of tools, constrained as json_schema is. With json_object or json_schema the
  // answer is JSON or calls. Ignored with ToolChoice::kNone.
  ToolRules tools = {};
  // Unless kNone, the answer may begin with reasoning: json_object, json_schema and tools then restrict what
  // follows </think>, and markers such as <think> are part of the text even if they are control tokens.
  Reasoning reasoning = Reasoning::kNone;
  // Limit of the tokens of the reasoning; then </think> is forced. -1: none. Needs `reasoning`.
  int max_reasoning_tokens = -1;
  // Number of answers, 1 to 128. Answer i equals the answer to the same request with n = 1 and the stream
  // sampling.stream + i. The prompt is read once.
  int n = 1;
  int priority = 0;  // smaller values are served first; equal ones in order of arrival
  // Counted from submit(); more than 0. Answers that are not finished by then end as kDeadline, within a
  // pass.
  std::optional<double> deadline_ms = {};
  // false: the whole prompt is read, even if another request has left its beginning in the KV cache.
  bool reuse_prefix = true;
  // false: no drafts (EngineOptions::speculation). They never show in the answer.
  bool speculative = true;
  // Engines for embeddings keep the first `dimensions` values of an embedding, 1 to the model's hidden size;
  // 0: all. For models that are trained so that the first values suffice.
  int dimensions = 0;
  // Whether the embedding is scaled to a length of 1, once it is cut; unset: ModelInfo::normalizes.
  std::optional<bool> normalize = {};
  // KV blocks are shared only among requests with the same salt. Otherwise a client could find out, from the
  // time to the first token, which prompts other clients have sent. Up to 256 bytes; empty: shared among all
  // requests without a salt.
  std::string cache_salt = {};
};

enum class Finish {
  kNone,       // still running
  kEos,        // the model ended the text
  kStop,       // one of Request::stop or stop_token_ids was reached
  kLength,     // max_tokens, or the context is full
  kCancelled,  // cancel() was called, the callback returned false for this sequence, or the engine has ended
  kDeadline,   // Request::deadline_ms has passed
  kError,      // an error ended it: Response::error gives the reason
};
const char* name_of(Finish finish);  // "eos", "stop", "length", "cancelled", "deadline", "error"

struct TopLogprob {
  int32_t token = 0;
  float log_probability = 0;  // natural log, under the model's own softmax
  friend bool operator==(const TopLogprob&, const TopLogprob&) = default;
};

// A token of a prompt.
struct PromptLogprob {
  int32_t token = 0;
  float log_probability = 0;  // natural log, under the model's own softmax, given the tokens before it
  std::vector<TopLogprob> top_logprobs;  // the Request::prompt_logprobs likeliest tokens in its place
  friend bool operator==(const PromptLogprob&, const PromptLogprob&) = default;
};

struct TokenEvent {
  // The number that Batch::add returned; 0 for generate(); the index of the response + 1 for decode_batch();
  // the index of the answer for a RequestHandle.
  uint64_t sequence = 0;
  int32_t token = 0;
  float log_probability = 0;  // natural log, under the model's own softmax (before penalties and temperature)
  // The Request::top_logprobs likeliest tokens, at most the whole vocabulary, in descending order; equal ones
  // by ascending id.
  std::vector<TopLogprob> top_logprobs;
  // UTF-8 text that this token completes: whole characters, and no text that may become part of a stop
  // string. The texts of all events, concatenated, are the response's text.
  std::string text;
  Finish finish = Finish::kNone;
};

struct Timings {
  double load_ms = 0;    // of Engine::load (the same in every response)
  double queue_ms = 0;   // until the sequence first joined the running ones
  double prompt_ms = 0;  // until the prompt's last chunk is done, including queue_ms: time to the first token
  double decode_ms = 0;  // from the first generated token to the last
};

struct Response {
  std::string text;
  std::vector<int32_t> tokens;  // all generated tokens, including those of an end of text or a stop string
  std::vector<float> log_probabilities;               // one for each token
  std::vector<std::vector<TopLogprob>> top_logprobs;  // one for each token; empty if none were requested
  // One for each token of the prompt from Request::prompt_logprobs_from on, of a request's first answer only;
  // empty if none were requested.
  std::vector<PromptLogprob> prompt_logprobs;
  std::vector<float> embedding;  // of the prompt, in engines for embeddings; else empty
  int prompt_tokens = 0;
  int cached_tokens = 0;  // number of these that were already in the KV cache
  Finish finish = Finish::kNone;
  std::string stop;   // the stop string that ended the text; empty: none
  std::string error;  // one line if finish is kError, else empty; earlier output is kept
  ErrorKind error_kind = ErrorKind::kRuntime;  // of this error
  Timings timings;
};

// Returns false to end the event's request. Called on the thread that called generate() or decode_batch(). An
// exception ends that call and is rethrown to its caller.
using TokenCallback = std::function<bool(const TokenEvent&)>;

// A response of decode_batch() is complete; `index` is its index in the returned vector. Otherwise like a
// TokenCallback.
using ResponseCallback = std::function<void(size_t index, const Response& response)>;

// An event of a request. Each answer produces any number of kToken events and then one kFinished or kError.
struct RequestEvent {
  enum class Kind {
    kToken,     // `token`; its `finish` is kNone unless it is the answer's last
    kFinished,  // the answer is complete; `response` is set except for text, tokens and their
                // log-probabilities
    kError,     // an error ended the answer; `response` is set likewise, with its error
  };
  Kind kind = Kind::kToken;
  uint32_t answer = 0;  // index, below Request::n
  TokenEvent token = {};
  Response response = {};  // its prompt_logprobs are in the first event of an answer, of whichever kind
};

// Called on the engine's own thread between two passes: all requests wait until it returns. It must not throw
// or wait for the engine. It may call submit() and RequestHandle::cancel().
using EventSink = std::function<void(const RequestEvent&)>;

// A submitted request. Movable. next() and wait() are for one thread at a time; the other functions are
// thread-safe. It may outlive its engine, which ends running requests as kCancelled. Destroying or
// reassigning the handle cancels its request.
class RequestHandle {
 public:
  RequestHandle();  // without a request: it has no events
  RequestHandle(RequestHandle&&) noexcept;
  RequestHandle& operator=(RequestHandle&&) noexcept;
  ~RequestHandle();

  // Waits for the next event; returns none once all answers are complete. No tokens come after cancel(). Only
  // for requests without an EventSink. Throws Error(kUsage) on the engine's own thread.
  std::optional<RequestEvent> next();
  // Like next(), but also returns none if no event comes before the timeout; done() tells the two cases
  // apart.
  std::optional<RequestEvent> next(std::chrono::nanoseconds timeout);
  // Collects all answers from the events that next() has not returned yet. An answer's error is in its
  // response.
  std::vector<Response> wait();
  bool done() const;  // next() will return no more events
  // Its answers finish as kCancelled within a pass. May be called in signal handlers.
  void cancel() noexcept;

  struct Impl;
  explicit RequestHandle(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// Drafts of tokens (EngineOptions::speculation).
struct DraftStats {
  static constexpr size_t kPlaces = 15;
  uint64_t passes = 0;                 // of one sequence each, with drafts
  uint64_t drafted = 0;                // tokens
  uint64_t accepted = 0;               // of these, tokens that the answer has
  uint64_t accepted_at[kPlaces] = {};  // of the accepted ones, by their place after the sequence's last token
  double ms = 0;                       // duration of the draft model's launches
};

// State of an engine, and counters over its lifetime.
struct EngineStats {
  uint32_t running = 0;         // sequences
  uint32_t waiting = 0;         // for a place, or for KV blocks
  uint32_t kv_blocks = 0;       // of kKvBlockTokens tokens
  uint32_t kv_blocks_held = 0;  // by running sequences
  uint32_t kv_blocks_kept = 0;  // held by none, kept for reuse
  uint64_t finished = 0;        // answers
  uint64_t preemptions = 0;     // times that a sequence had to give its KV blocks back
  uint64_t prompt_tokens = 0;   // of sequences that joined; counted again after a preemption
  uint64_t cached_tokens = 0;   // number of these found in the KV cache
  uint64_t generated_tokens = 0;
  DraftStats drafts;
  uint64_t passes = 0;
  uint64_t launches = 0;
  uint64_t rows = 0;     // in all passes
  double pass_ms = 0;    // duration of all launches
  double kernel_ms = 0;  // part of it in the GPU's kernels; 0 without a GPU
  // Launches that followed another at once, and the total time between the end of one and the start of the
  // next.
  uint64_t gaps = 0;
  double gap_ms = 0;
};

// stage is "tensors", "weights", …; done and total in bytes. Called from the loading thread.
using ProgressCallback = std::function<void(const char* stage, uint64_t done, uint64_t total)>;

// Speculative decoding: a pass evaluates tokens that are expected to come next, the drafts, together with a
// sequence's last token. A draft is accepted if the model draws this very token in its place, so answers,
// token ids and log-probabilities are those without drafts, at any temperature. Requests with penalties, a
// format, tools, bad words or top_logprobs get none, nor do passes that read a prompt, passes of more than 16
// tokens on a GPU, engines with batch_invariant on a GPU, and backend torch (docs/speculation.md).
struct Speculation {
  enum class Method {
    kNone,   // no drafts
    kNgram,  // drafts continue the latest earlier occurrence of the last tokens in prompt and answer
    kModel,  // a smaller model of the same vocabulary makes them
  };
  Method method = Method::kNone;
  int draft_max = 7;  // drafts in a pass, 1 to 15
  int draft_min = 1;  // fewer are not used, 1 to draft_max
  // kModel: as EngineOptions::model. EngineOptions::random_weights, if set, holds for it too. It runs on the
  // backend of the model itself. For sequences that are longer than its own context allows it makes no
  // drafts.
  std::string model = {};
  float draft_p_min = 0;  // kModel: drafts end before one that is less probable in the draft model, 0 to 1
  int ngram_min = 2;      // tokens that must occur earlier, 1 to ngram_max
  int ngram_max = 4;      // occurrences of up to so many are told apart, up to 16
  // To measure speed with weights that make no text: each draft is accepted with this probability, 0 to 1,
  // whatever it is, and needs no earlier occurrence. Answers are then meaningless. Below 0: off.
  double accept_rate = -1;
};

struct EngineOptions {
  // A Hugging Face directory, a GGUF file, ORG/NAME in Hugging Face's cache, or a preset's name
  // (docs/models.md). Empty: the bundled model.
  std::string model = {};
  // The seed of random weights, which are used instead of the model's own. Required for a preset and for a
  // directory without weights.
  std::optional<uint64_t> random_weights = {};
  bool allow_nonfinite = false;  // load weights that are NaN or infinite, or too large for bf16
  // Types in which the layers' matrices, and the LM head's, are kept in memory: bf16; fp8 (e4m3 with a scale
  // for each row or matrix); int4, int4:32, int4:64 or int4:128 (4-bit integers in groups of 128 columns, or
  // of that many); or auto, the default: the type in which the checkpoint stores all of these matrices if the
  // run takes it, else bf16. Codes of a checkpoint in that type are kept; other weights are rounded. fp8 and
  // int4 run on one GPU or the host.
  std::string weights = {};
  std::string lm_head = {};
  // Width of the activations that weights in fp8 are multiplied with: 16bit; 8bit (e4m3 with a scale for each
  // row, in a GPU's passes of more than 64 tokens; the others stay 16 bits wide); or auto, the default: 8bit
  // if the checkpoint's activations are e4m3, or if `weights` rounds other weights to fp8. auto is 16bit with
  // batch_invariant, and on the host.
  std::string activations = {};
  // true: the engine computes embeddings, with weights in bf16 and on one GPU or the host, and generates
  // nothing; the LM head is not loaded. Unset: if the model's files say how its embeddings are made
  // (sentence-transformers' modules.json; pooling_type in a GGUF file).
  std::optional<bool> embeddings = {};
  // Which hidden states, after the final norm, an embedding is made of: last | mean | cls (that of the last
  // token, the mean of all, that of the first). Empty: as the model's files say, else last.
  std::string pooling = {};
  int context = 0;         // tokens per sequence; 0: min(model's maximum, 4096)
  int max_sequences = 16;  // running together; up to 1024. Others wait
  // Bytes for keys and values; must suffice for one full context. 0: enough for max_sequences full contexts.
  uint64_t kv_cache_memory = 0;
  // Instead of bytes, a fraction of the memory that the weights leave free, above 0 and up to 1; 0: unset.
  double kv_cache_share = 0;
  // Limit of tokens in a pass: prompt tokens and one for each sequence that generates. Up to 8192, and at
  // most what the KV cache holds. 0: on a GPU 8192, for a large model as many as take about a quarter of a
  // second, at least 2048, or what memory and KV cache allow; on the host max_sequences, at least 16. On a
  // GPU, passes of more than 16 multiply tiles of rows, for which hidden and intermediate size must be
  // multiples of 64.
  int max_batch_tokens = 0;
  // Runs all passes in one arithmetic class, that of tiles of rows: a request's results do not depend on the
  // requests that run with it. Always true on the host, and on a GPU whose passes have up to 16 tokens
  // (docs/engine.md).
  bool batch_invariant = false;
  // On a GPU: requests run as soon as the program for the smallest passes is compiled; larger programs are
  // compiled meanwhile. A pass waits for its own program, so the generated tokens do not depend on this
  // option. If a compilation fails, only the requests that need the program end.
  bool programs_in_background = false;
  std::string backend = "auto";  // auto | device | host | torch
  int threads = 0;               // for the host interpreter; 0: all cores; up to 1024
  int sms = 0;                   // SMs of each GPU to compile for; 0: the backend's own number; up to 1024
  // Indices of the GPUs that share the model (its ranks): 1, 2, 4 or 8; empty: the first one. Backend host
  // runs the ranks as groups of its threads. docs/several_gpus.md says which models can be shared, and how.
  std::vector<int> gpus = {};
  Speculation speculation = {};
  // round-robin | zig-zag | wave | list, or best: the GPU simulator's choice; empty: the cost model's choice
  std::string policy = {};
  bool global_queue = false;  // one queue for all SMs instead of one each
  std::string chat_template =
      {};  // llama3 | chatml | a file with a Jinja template; empty: the checkpoint's own
  // Host interpreter: one thread interleaves the instructions of all SMs in an order determined by this seed.
  // Slow. The results of a valid program do not depend on the order, so this helps to find and reproduce
  // races.
  std::optional<uint64_t> interleaving = {};
  // Host interpreter: before each pass, runs the program in the checked mode (footprints and vector clocks
  // instead of arithmetic) on the data that the pass touches; a violation is an error. Slow; finds what the
  // proof of a program missed.
  bool checked = false;
  // A program file (serval schedule -o) to run instead of compiling the model. It determines context, SMs,
  // policy and queues, so these options must keep their defaults. Error(kRuntime) if it is not a program of
  // the model.
  std::string program = {};
  double stall_timeout_s = 30;  // a launch without progress for this long is a fault; up to a day
  // > 0: the launch with this number fails like a device fault, to test the handling of faults.
  int fault_at_launch = 0;
  // > 0: keeps the events of the last `trace_tokens` tokens for write_trace(); up to 4096. docs/profiling.md
  // describes the cost.
  int trace_tokens = 0;
  ProgressCallback progress = {};
};

struct ModelInfo {
  std::string name;
  std::string backend;
  std::string backend_notice;  // one line for the user: why backend "auto" runs on the CPU; usually empty
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  int context = 0;              // tokens per sequence in this engine
  int max_sequences = 0;        // running together
  int64_t kv_cache_tokens = 0;  // capacity of the KV cache
  int64_t num_parameters = 0;
  int64_t weight_bytes_per_token = 0;  // bytes of the weights that one token reads
  int64_t kv_bytes_per_token = 0;
  std::string pooling;               // last, mean or cls: the engine computes embeddings; "": it generates
  bool normalizes = false;           // embeddings have a length of 1 unless Request::normalize says otherwise
  std::string draft_model;           // its name; "" if no model makes drafts
  int64_t draft_weight_bytes = 0;    // of the draft model, in the memory of the backend
  int64_t draft_kv_cache_bytes = 0;  // likewise
  std::string policy;
  int gpus = 1;  // GPUs that share the model
  int sms = 0;
  int64_t instructions = 0;          // of the compiled program
  std::string chat_template;         // its name or its file; "" if the model has none
  std::string chat_template_text;    // its Jinja; "" likewise
  std::string bos_token, eos_token;  // their texts, as prompts may contain them; "" if the model has none
  // What the chat template shows: the names of serve's --tool-parser and --reasoning-parser, else "none".
  std::string tool_parser = "none", reasoning_parser = "none";
  bool template_writes_tools = false;  // the chat template uses ChatOptions::tools
  SamplingParams default_sampling;     // the project's defaults overlaid with generation_config.json
  // generation_config.json alone; what it does not name is off, so that the model's own distribution is drawn
  // from.
  SamplingParams model_sampling;
};

// How a prompt becomes token ids: as the members of Request that have these names.
struct TokenizeOptions {
  bool special = true;
  bool add_special_tokens = true;
};

enum class WeightType { kBF16, kF16, kF32 };

// A tensor in the caller's memory, under the name that it has in a checkpoint (Hugging Face's, for GGUF files
// too): "model.layers.0.mlp.up_proj.weight".
struct WeightTensor {
  std::string name;
  WeightType type = WeightType::kBF16;  // other types than bf16 are rounded to the nearest bf16
  std::vector<int64_t> shape;           // [rows, columns] of a matrix, [size] of a vector
  const void* data = nullptr;           // host memory, row-major without gaps, of any alignment
};

// What becomes of the requests that update_weights() finds.
enum class RunningRequests {
  kFinish,  // they finish with the old weights first
  kCancel,  // they end as Finish::kCancelled within one pass
};

class Batch;

// A loaded model, its compiled program and the thread that runs it. Movable, even while its batches and
// handles exist. All members except load(), moves and the destructor are thread-safe; cancel() may also be
// called in a signal handler. The destructor ends running requests like shutdown().
class Engine {
 public:
  // Errors: kUsage for options out of range; kRuntime for a model that is missing, damaged or unsupported, or
  // for a backend that is not available; kOutOfMemory if weights or KV cache do not fit.
  static Engine load(const EngineOptions& options);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  const ModelInfo& info() const;
  EngineStats stats() const;
  // Ids of a prompt.
  std::vector<int32_t> tokenize(const std::string& text, const TokenizeOptions& options = {}) const;
  // Text of `ids`. Control tokens are written in it where `special` is set, else left out. kUsage for an id
  // that is not in the vocabulary.
  std::string detokenize(std::span<const int32_t> ids, bool special = false) const;
  // The bytes that a token adds to a text, which need not be whole characters: joined, those of an answer's
  // tokens are its text. None for ids without a token, and for control tokens unless `special` is set. kUsage
  // for an id that is not in the vocabulary.
  std::optional<std::string> token_bytes(int32_t id, bool special = false) const;
  // Ids of a conversation, ready for the assistant's answer. Control tokens that are written in its messages
  // are text. kUsage for an unknown role and where the chat template refuses the messages or fails on them;
  // an error where the model has no chat template that is known here.
  std::vector<int32_t> tokenize_chat(std::span<const ChatMessage> messages,
                                     const ChatOptions& options = {}) const;

  // Compiles what constrains the request's text (json_schema, regex, choice, grammar, tools) in advance of
  // submit(); the 16 most recently used are cached. kUsage for what is invalid or not supported. Does nothing
  // if the request has none.
  void compile_constraint(const Request& request) const;

  // Queues the request and returns at once. Its events come from the handle, or go to `sink` if one is given.
  // Errors: kUsage for parameters out of range, for a prompt that is empty or does not fit into the context,
  // in an engine for embeddings for max_tokens other than 0, and after shutdown().
  RequestHandle submit(const Request& request, EventSink sink = {});
  // Queues all requests before any joins, or none of them. The error names the request: "requests[3]: …".
  std::vector<RequestHandle> submit(std::span<const Request> requests);

  // Runs one request to its end; Request::n must be 1. Errors as submit(); kRuntime if the model's logits are
  // not finite, kDeviceFault if the interpreter failed.
  Response generate(const Request& request, const TokenCallback& on_token = {});

  // Runs the requests to their ends, together with all other requests of the engine. Responses are in the
  // order of the requests, Request::n for each. Errors as submit(), before any runs, and kDeviceFault. A
  // request whose logits are not finite finishes as kError; the others continue.
  std::vector<Response> decode_batch(std::span<const Request> requests, const TokenCallback& on_token = {},
                                     const ResponseCallback& on_response = {});

  // Computes the embeddings of the requests' prompts (Response::embedding), together with all other requests
  // of the engine. Nothing is generated: the requests' max_tokens is taken as 0, and n must be 1. A prompt
  // may fill the whole context. Responses are in the order of the requests. The bits of an embedding do not
  // depend on the other requests, nor on what the KV cache has. Errors as decode_batch(), and kUsage for an
  // engine that generates. A request whose hidden states are not finite finishes as kError.
  std::vector<Response> embed(std::span<const Request> requests);

  // Writes a trace of what each SM did in the last `tokens` tokens (0: EngineOptions::trace_tokens), at most
  // those of the last launch, as Chrome trace events: to a file that ends in .json, or in .json.gz, which is
  // compressed. `serval profile FILE` reads it. Errors: kUsage without trace_tokens or for more tokens than
  // trace_tokens, kRuntime if nothing has run yet or the file cannot be written.
  void write_trace(const std::string& path, int tokens = 0) const;

  // Replaces weights by these tensors, all or some of the model's, and returns when it is done. The engine
  // then computes the same bits as one that loads a checkpoint with these weights: they are rounded, packed
  // and, with EngineOptions::weights = "fp8", quantised as in loading, and the KV cache forgets what the old
  // ones computed. Requests that were submitted before end first, as `running` says; those submitted
  // meanwhile wait and use the new weights. A tied LM head changes with the embedding, under either name.
  // Errors, which leave all weights as they were: kUsage for a name that the model does not have, another
  // shape, two tensors that differ although the model ties them, a backend that cannot do it (torch), and
  // after shutdown(); kRuntime for values that are not finite; kOutOfMemory. After kDeviceFault the weights
  // are undefined.
  void update_weights(std::span<const WeightTensor> tensors,
                      RunningRequests running = RunningRequests::kFinish);

  // Ends all submitted requests within one pass: they finish as kCancelled.
  void cancel() noexcept;
  // Cancels all requests and accepts no more. Returns when nothing runs.
  void shutdown();

  struct Impl;

 private:
  friend class Batch;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Sequences whose tokens one thread consumes as they are generated. Not thread-safe, except cancel(). The
// engine must outlive it. Its destructor cancels the sequences that still run.
class Batch {
 public:
  explicit Batch(Engine& engine);
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  ~Batch();

  // Adds a sequence, which joins as soon as there is room. Returns its number (> 0). Request::n must be 1.
  // Errors as submit().
  uint64_t add(const Request& request);
  // Waits until a sequence has generated a token or has ended. Returns the tokens generated since the last
  // call, in order. A sequence that ends without a token (cancelled, kError, or max_tokens is 0) has no
  // event. Empty when idle.
  std::vector<TokenEvent> step();
  bool idle() const;                        // all sequences have ended, and step() has returned their tokens
  void cancel(uint64_t sequence) noexcept;  // step() returns no more tokens of it
  // Returns the response of a sequence that has ended according to step(), and forgets its number. kUsage for
  // a sequence that is unknown or still running.
  Response take(uint64_t sequence);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The tokens of one request as a range: for (const TokenEvent& t : TokenStream(engine, request)) … The engine
// continues while the range is read; leaving the range early cancels the request. For one thread at a time.
// Request::n must be 1. The constructor throws as Engine::submit(), and iteration throws as
// Engine::generate().
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

// serval generate: continues one prompt as it is written, or several as one batch.
#include <chrono>
#include <functional>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/cli/commands/commands.h"
#include "engine/cli/flags/common_options.h"
#include "engine/cli/flags/parse_value.h"
#include "engine/cli/input/prompts.h"
#include "engine/cli/input/signals.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/log.h"
#include "engine/cli/output/output.h"
#include "engine/cli/output/response_json.h"
#include "engine/cli/output/speed.h"
#include "engine/core/request.h"
#include "vm/state/output.h"

namespace serval::cli {
namespace {

constexpr const char* kExamples =
    "  serval generate -p 'Once upon a time'\n"
    "  serval generate -p 'The fox' -p 'The owl' -n 40 -s 7 --json\n"
    "  serval generate -f prompts.txt --no-echo > stories.txt\n"
    "  serval generate -m llama-3.2-1b --random-weights 1 -p 'Hello' -n 16\n";

struct Flags {
  EngineOptions engine;
  PromptFlags prompts;
  SamplingFlags sampling;
  OutputFlags output;
  bool no_echo = false;
  bool special = false;
  uint32_t top_logprobs = 0;
  std::string trace_file;
  int trace_tokens = 16;

  void declare(FlagSet& set) {
    prompts.declare(set);
    sampling.declare(set);
    declare_engine(set, engine);
    declare_max_sequences(set, engine);
    declare_capacity(set, engine);
    output.declare(set,
                   "print one JSON object instead of text; of -f one line an answer, as each is complete");
    set.value("--top-logprobs", "N",
              "with --json: log-probabilities of the N likeliest tokens at each place, 0 to 20. Default: 0",
              [this](const FlagValue& v) {
                top_logprobs = static_cast<uint32_t>(parse_integer(v, 0, kMaxTopTokens));
              });
    set.toggle("--special", "control tokens that are written in a prompt mean these tokens", special);
    set.toggle("--no-echo", "print the generated text without the prompt", no_echo);
    set.value("--trace", "FILE",
              "write what each SM did in the last tokens, as serval profile does: FILE.json or FILE.json.gz",
              [this](const FlagValue& v) { trace_file = parse_text(v); });
    set.value("--trace-tokens", "N", "with --trace: keep the last N tokens at most. Default: 16",
              [this](const FlagValue& v) {
                trace_tokens = static_cast<int>(parse_integer(v, 1, kMostLaunchPasses));
              });
    set.group("Program");
    set.value("--program", "FILE",
              "run this program file, from serval schedule -o, instead of compiling the model",
              [this](const FlagValue& v) { engine.program = parse_text(v); });
    set.toggle("--checked",
               "before each pass, check on the host, without arithmetic, that what it touches is ordered",
               engine.checked);
    set.examples(kExamples);
  }
};

// Prints the texts of a batch in the order of the prompts: the first that is not finished as it comes, those
// after it once it is their turn.
class OrderedPrinter {
 public:
  OrderedPrinter(const std::vector<std::string>& prompts, bool echo)
      : prompts_(prompts), echo_(echo), waiting_(prompts.size()), finished_(prompts.size()) {}

  void start() { begin_current(); }

  void add(size_t index, const TokenEvent& event) {
    if (index == current_) {
      print(event.text);
    } else {
      waiting_[index] += event.text;
    }
    if (event.finish != Finish::kNone) finished_[index] = true;
    while (current_ < prompts_.size() && finished_[current_]) next();
  }

  // Ends the texts that are still open, because they were cancelled.
  void finish() {
    while (current_ < prompts_.size()) next();
  }

 private:
  void begin_current() {
    ended_line_ = true;
    if (prompts_.size() > 1) print(fmt::format("==> {} of {} <==\n", current_ + 1, prompts_.size()));
    if (echo_) print(prompts_[current_]);
    print(waiting_[current_]);
  }

  void next() {
    if (!ended_line_) print("\n");
    if (++current_ == prompts_.size()) return;
    print("\n");
    begin_current();
  }

  void print(const std::string& text) {
    if (text.empty()) return;
    write_stdout(text);
    ended_line_ = text.ends_with('\n');
  }

  const std::vector<std::string>& prompts_;
  bool echo_;
  std::vector<std::string> waiting_;
  std::vector<bool> finished_;
  size_t current_ = 0;
  bool ended_line_ = true;
};

std::vector<Request> make_requests(const std::vector<std::string>& prompts, const Flags& all,
                                   const SamplingParams& defaults) {
  std::vector<Request> requests;
  for (const std::string& prompt : prompts) {
    Request request = all.sampling.request(defaults);
    request.prompt = prompt;
    request.special = all.special;
    request.sampling.stream = static_cast<uint32_t>(requests.size());
    request.top_logprobs = all.top_logprobs;
    requests.push_back(std::move(request));
  }
  return requests;
}

// So that nothing is printed before a request is refused.
void check_requests(const Engine& engine, const std::vector<Request>& requests) {
  const auto context = static_cast<size_t>(engine.info().context);
  const ModelLimits limits = {
      .vocab_size = engine.info().vocab_size, .context = static_cast<uint32_t>(context), .stop_tokens = {}};
  for (size_t i = 0; i < requests.size(); ++i) {
    check_request(requests[i]);
    if (i == 0) engine.compile_json(requests[i]);
    std::vector<int32_t> prompt = engine.tokenize(requests[i].prompt, requests[i].special);
    if (prompt.size() >= context) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("prompt {} of {}: {} tokens; limit: {} (--ctx-size {})", i + 1, requests.size(),
                              prompt.size(), context - 1, context));
    }
    prepare_request(requests[i], std::move(prompt), limits);
  }
}

// What becomes of the requests while they run. Indices are those of the requests.
struct Progress {
  std::function<void(size_t index, const TokenEvent&)> on_token;
  ResponseCallback on_response;
};

// Until a signal comes. An error of a single request is thrown.
std::vector<Response> run_requests(Engine& engine, const std::vector<Request>& requests,
                                   const Progress& progress) {
  const CancelScope cancelled_by_signals(engine);
  const auto on_token = [&](const TokenEvent& event) {
    progress.on_token(event.sequence - 1, event);
    return pending_signal() == 0;
  };
  std::vector<Response> responses = engine.decode_batch(requests, on_token, progress.on_response);
  if (responses.size() == 1 && responses[0].finish == Finish::kError)
    throw Error(responses[0].error_kind, responses[0].error);
  return responses;
}

std::string line_json(size_t index, const std::string& prompt, const Response& response, uint64_t seed) {
  nlohmann::ordered_json line = {{"index", index}, {"seed", seed}};
  line.update(response_json(prompt, response));
  return compact(line);
}

nlohmann::ordered_json results_json(const Engine& engine, const std::vector<std::string>& prompts,
                                    const std::vector<Response>& responses, uint64_t seed, double wall_ms) {
  nlohmann::ordered_json out = {{"model", engine.info().name},
                                {"backend", engine.info().backend},
                                {"seed", seed},
                                {"wall_ms", wall_ms},
                                {"responses", nlohmann::ordered_json::array()}};
  for (size_t i = 0; i < responses.size(); ++i)
    out["responses"].push_back(response_json(prompts[i], responses[i]));
  return out;
}

void log_single(const Response& response, uint64_t seed) {
  const Speed prompt = speed_of_prompt(response);
  const Speed decode = speed_of_decode(response);
  log_info(fmt::format("load {:.1f} ms; prompt {} tokens, {:.1f} ms ({:.1f} tokens/s)",
                       response.timings.load_ms, prompt.tokens, prompt.milliseconds,
                       prompt.tokens_per_second()));
  log_info(
      fmt::format("generated {} tokens, {:.1f} ms after the first ({:.1f} tokens/s); ended by {}; seed {}",
                  response.tokens.size(), decode.milliseconds, decode.tokens_per_second(),
                  name_of(response.finish), seed));
}

void log_batch(const std::vector<Response>& responses, uint64_t seed, double wall_ms) {
  Speed all{0, wall_ms};
  size_t prompt_tokens = 0;
  for (const Response& response : responses) {
    all.tokens += response.tokens.size();
    prompt_tokens += static_cast<size_t>(response.prompt_tokens);
  }
  log_info(
      fmt::format("load {:.1f} ms; {} prompts, {} prompt tokens; generated {} tokens in {:.1f} ms ({:.1f} "
                  "tokens/s); seed {}",
                  responses.front().timings.load_ms, responses.size(), prompt_tokens, all.tokens, wall_ms,
                  all.tokens_per_second(), seed));
}

// Says which prompts could not be continued to their end. Returns whether all were.
bool report_failures(const std::vector<Response>& responses) {
  bool all_well = true;
  for (size_t i = 0; i < responses.size(); ++i) {
    if (responses[i].finish != Finish::kError) continue;
    all_well = false;
    log_error(fmt::format("prompt {} of {}: {}", i + 1, responses.size(), responses[i].error));
  }
  return all_well;
}

int generate(const Flags& flags) {
  const std::vector<std::string> prompts = flags.prompts.collect();
  EngineOptions options = flags.engine;
  options.max_sequences =
      static_cast<int>(std::min(prompts.size(), static_cast<size_t>(options.max_sequences)));
  options.trace_tokens = flags.trace_file.empty() ? 0 : flags.trace_tokens;
  options.programs_in_background = true;
  Engine engine = load_engine(options, flags.output.progress);
  const std::vector<Request> requests = make_requests(prompts, flags, engine.info().default_sampling);

  check_requests(engine, requests);
  OrderedPrinter printer(prompts, !flags.no_echo);
  const bool text = !flags.output.json, lines = !text && flags.prompts.from_lines();
  const uint64_t seed = flags.sampling.seed();
  Progress progress;
  progress.on_token = [&](size_t index, const TokenEvent& event) {
    if (text) printer.add(index, event);
  };
  progress.on_response = [&](size_t index, const Response& response) {
    if (lines) write_stdout(line_json(index, prompts[index], response, seed));
  };
  const auto begin = std::chrono::steady_clock::now();
  if (text) printer.start();
  const std::vector<Response> responses = run_requests(engine, requests, progress);
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - begin;

  if (text) {
    printer.finish();
    responses.size() == 1 ? log_single(responses[0], seed) : log_batch(responses, seed, wall.count());
  } else if (!lines) {
    write_stdout(compact(results_json(engine, prompts, responses, seed, wall.count())));
  }
  if (!flags.trace_file.empty()) {
    engine.write_trace(flags.trace_file);
    log_info(flags.trace_file + ": written; serval profile reads it, as does https://ui.perfetto.dev");
  }
  const bool all_well = report_failures(responses);
  const int signal = pending_signal();
  if (signal != 0) return kSignalExitBase + signal;
  return all_well ? 0 : static_cast<int>(ErrorKind::kRuntime);
}

}  // namespace

int run_generate(const Arguments& arguments) {
  Flags flags;
  FlagSet set("generate", "Continues one or several prompts.", "-p TEXT | -f FILE [FLAGS]");
  flags.declare(set);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  if (flags.top_logprobs > 0 && !flags.output.json)
    throw Error(ErrorKind::kUsage, "--top-logprobs: needs --json" + set.see_help());
  if (set.given("--trace-tokens") && flags.trace_file.empty())
    throw Error(ErrorKind::kUsage, "--trace-tokens: needs --trace FILE" + set.see_help());
  return generate(flags);
}

}  // namespace serval::cli

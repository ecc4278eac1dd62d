// serval generate: continues one prompt as it is written, or several as one batch.
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/cli/commands/commands.h"
#include "engine/cli/flags/common_options.h"
#include "engine/cli/flags/parse_value.h"
#include "engine/cli/input/prompts.h"
#include "engine/cli/input/signals.h"
#include "engine/cli/output/draft_line.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/log.h"
#include "engine/cli/output/ordered_printer.h"
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
    "  serval generate -p 'One day' -N 3 -n 40 --deadline 10\n"
    "  serval generate -f prompts.txt --no-echo > stories.txt\n"
    "  serval generate -m llama-3.2-1b --random-weights 1 -p 'Hello' -n 16\n";

struct Flags {
  EngineOptions engine;
  PromptFlags prompts;
  SamplingFlags sampling;
  OutputFlags output;
  bool no_echo = false;
  bool special = false;
  int answers = 1;  // for each prompt
  std::optional<double> deadline_ms;
  uint32_t top_logprobs = 0;
  std::string trace_file;
  int trace_tokens = 16;

  void declare(FlagSet& set) {
    prompts.declare(set);
    prompts.declare_ids(set);
    set.toggle("--special", "control tokens that are written in a prompt mean these tokens", special);
    declare_answers(set);
    sampling.declare(set);
    declare_engine(set, engine);
    declare_max_sequences(set, engine);
    declare_capacity(set, engine);
    declare_speculation(set, engine);
    output.declare(set,
                   "print one JSON object instead of text; of -f one line an answer, as each is complete");
    set.value("--top-logprobs", "N",
              "with --json: log-probabilities of the N likeliest tokens at each place, 0 to 20. Default: 0",
              [this](const FlagValue& v) {
                top_logprobs = static_cast<uint32_t>(parse_integer(v, 0, kMaxTopTokens));
              });
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

  void declare_answers(FlagSet& set) {
    constexpr float kMostSeconds = 86400;
    set.group("Answers");
    set.value("-N,--answers", "N",
              fmt::format("answers to each prompt, 1 to {}. Default: 1", RequestLimits::kMaxAnswers),
              [this](const FlagValue& v) {
                answers = static_cast<int>(parse_integer(v, 1, RequestLimits::kMaxAnswers));
              });
    set.value("--deadline", "SECONDS",
              "time for each answer, once the model is loaded: what is not finished by then ends there. "
              "Default: none",
              [this](const FlagValue& v) {
                constexpr double kMilliseconds = 1000;
                deadline_ms = kMilliseconds *
                              static_cast<double>(parse_real(v, 0, kMostSeconds, LowerBound::kExcluded));
              });
  }
};

// Responses are in prompt order, with `of_each` answers to each prompt.
struct Answers {
  size_t prompts, of_each;

  size_t count() const { return prompts * of_each; }
  size_t prompt_of(size_t response) const { return response / of_each; }
  size_t answer_of(size_t response) const { return response % of_each; }
  // "2 of 3", "answer 1 of 4" or both; empty if there is one response in all.
  std::string place(size_t response) const {
    const std::string prompt = fmt::format("{} of {}", prompt_of(response) + 1, prompts);
    if (of_each == 1) return prompts == 1 ? "" : prompt;
    const std::string answer = fmt::format("answer {} of {}", answer_of(response) + 1, of_each);
    return prompts == 1 ? answer : prompt + ", " + answer;
  }
};

std::vector<PrintedText> texts_to_print(const std::vector<Prompt>& prompts, const Answers& answers,
                                        bool echo) {
  std::vector<PrintedText> texts;
  for (size_t i = 0; i < answers.count(); ++i)
    texts.push_back({answers.place(i), echo ? prompts[answers.prompt_of(i)].text : ""});
  return texts;
}

std::vector<Request> make_requests(const std::vector<Prompt>& prompts, const Flags& all,
                                   const SamplingParams& defaults) {
  std::vector<Request> requests;
  for (const Prompt& prompt : prompts) {
    Request request = all.sampling.request(defaults);
    request.prompt = prompt.text;
    request.prompt_ids = prompt.ids;
    request.special = all.special;
    request.n = all.answers;
    request.sampling.stream = static_cast<uint32_t>(requests.size()) * static_cast<uint32_t>(all.answers);
    request.top_logprobs = all.top_logprobs;
    request.deadline_ms = all.deadline_ms;
    requests.push_back(std::move(request));
  }
  return requests;
}

// Checks all requests before anything is printed.
void check_requests(const Engine& engine, const std::vector<Request>& requests) {
  const auto context = static_cast<size_t>(engine.info().context);
  const ModelLimits limits = {
      .vocab_size = engine.info().vocab_size, .context = static_cast<uint32_t>(context), .stop_tokens = {}};
  for (size_t i = 0; i < requests.size(); ++i) {
    check_request(requests[i]);
    if (i == 0) engine.compile_constraint(requests[i]);
    std::vector<int32_t> prompt = requests[i].prompt_ids;
    if (prompt.empty()) prompt = engine.tokenize(requests[i].prompt, {.special = requests[i].special});
    if (prompt.size() >= context) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("prompt {} of {}: {} tokens; limit: {} (--ctx-size {})", i + 1, requests.size(),
                              prompt.size(), context - 1, context));
    }
    prepare_request(requests[i], std::move(prompt), limits);
  }
}

// Callbacks of the running requests. Indices are those of the responses.
struct Progress {
  std::function<void(size_t index, const TokenEvent&)> on_token;
  ResponseCallback on_response;
};

// Runs until a signal comes. An error of a single request is thrown.
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

// With the answer's number if a prompt has several.
nlohmann::ordered_json answer_json(const std::vector<Prompt>& prompts, const Answers& answers, size_t index,
                                   const Response& response) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (answers.of_each > 1) out["answer"] = answers.answer_of(index);
  out.update(response_json(prompts[answers.prompt_of(index)].text, response));
  return out;
}

nlohmann::ordered_json results_json(const Engine& engine, uint64_t seed, double wall_ms) {
  return {{"model", engine.info().name},
          {"backend", engine.info().backend},
          {"seed", seed},
          {"wall_ms", wall_ms},
          {"responses", nlohmann::ordered_json::array()}};
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

void log_batch(const Answers& answers, const std::vector<Response>& responses, uint64_t seed,
               double wall_ms) {
  Speed all{0, wall_ms};
  size_t prompt_tokens = 0;
  for (size_t i = 0; i < responses.size(); ++i) {
    all.tokens += responses[i].tokens.size();
    if (answers.answer_of(i) == 0) prompt_tokens += static_cast<size_t>(responses[i].prompt_tokens);
  }
  const std::string prompts = fmt::format("{} prompt{}", answers.prompts, answers.prompts == 1 ? "" : "s");
  const std::string what =
      answers.of_each == 1 ? prompts : fmt::format("{} answers to {}", answers.count(), prompts);
  log_info(fmt::format(
      "load {:.1f} ms; {}, {} prompt tokens; generated {} tokens in {:.1f} ms ({:.1f} tokens/s); seed {}",
      responses.front().timings.load_ms, what, prompt_tokens, all.tokens, wall_ms, all.tokens_per_second(),
      seed));
}

// Logs the prompts that failed. Returns whether none did.
bool report_failures(const Answers& answers, const std::vector<Response>& responses) {
  bool all_well = true;
  for (size_t i = 0; i < responses.size(); ++i) {
    if (responses[i].finish != Finish::kError) continue;
    all_well = false;
    log_error(
        fmt::format("{}{}: {}", answers.prompts == 1 ? "" : "prompt ", answers.place(i), responses[i].error));
  }
  return all_well;
}

// Prints answers as they arrive, as text or as lines of JSON, and the rest once all are complete.
class Output {
 public:
  Output(const Flags& flags, const std::vector<Prompt>& prompts, const Answers& answers)
      : prompts_(prompts),
        answers_(answers),
        text_(!flags.output.json),
        lines_(flags.output.json && flags.prompts.from_lines()),
        seed_(flags.sampling.seed()),
        printer_(texts_to_print(prompts, answers, !flags.no_echo)) {}

  void start() {
    if (text_) printer_.start();
  }
  Progress progress() {
    const auto on_token = [this](size_t index, const TokenEvent& event) {
      if (text_) printer_.add(index, event.text, event.finish != Finish::kNone);
    };
    const auto on_response = [this](size_t index, const Response& response) {
      if (text_)
        printer_.add(index, "", true);  // an answer that ends by its deadline may have had no last token
      if (!lines_) return;
      nlohmann::ordered_json line = {{"index", answers_.prompt_of(index)}, {"seed", seed_}};
      line.update(answer_json(prompts_, answers_, index, response));
      write_stdout(compact(line));
    };
    return {on_token, on_response};
  }
  void finish(const Engine& engine, const std::vector<Response>& responses, double wall_ms) {
    if (text_) {
      printer_.finish();
      responses.size() == 1 ? log_single(responses[0], seed_)
                            : log_batch(answers_, responses, seed_, wall_ms);
      if (engine.stats().drafts.passes > 0) log_info(draft_line(engine.stats().drafts));
    } else if (!lines_) {
      nlohmann::ordered_json out = results_json(engine, seed_, wall_ms);
      for (size_t i = 0; i < responses.size(); ++i)
        out["responses"].push_back(answer_json(prompts_, answers_, i, responses[i]));
      write_stdout(compact(out));
    }
  }

 private:
  const std::vector<Prompt>& prompts_;
  const Answers answers_;
  const bool text_, lines_;
  const uint64_t seed_;
  OrderedPrinter printer_;
};

int generate(const Flags& flags) {
  std::vector<Prompt> prompts = flags.prompts.collect();
  const Answers answers{prompts.size(), static_cast<size_t>(flags.answers)};
  EngineOptions options = flags.engine;
  options.max_sequences =
      static_cast<int>(std::min(answers.count(), static_cast<size_t>(options.max_sequences)));
  options.trace_tokens = flags.trace_file.empty() ? 0 : flags.trace_tokens;
  options.programs_in_background = true;
  Engine engine = load_engine(options, flags.output.progress);
  const std::vector<Request> requests = make_requests(prompts, flags, engine.info().default_sampling);

  check_requests(engine, requests);
  for (Prompt& prompt : prompts) {
    if (!prompt.ids.empty()) prompt.text = engine.detokenize(prompt.ids, flags.special);
  }
  Output output(flags, prompts, answers);
  const auto begin = std::chrono::steady_clock::now();
  output.start();
  const std::vector<Response> responses = run_requests(engine, requests, output.progress());
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - begin;

  output.finish(engine, responses, wall.count());
  if (!flags.trace_file.empty()) {
    engine.write_trace(flags.trace_file);
    log_info(flags.trace_file + ": written; serval profile reads it, as does https://ui.perfetto.dev");
  }
  const bool all_well = report_failures(answers, responses);
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

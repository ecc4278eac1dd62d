// serval bench: prompt and generation speed in tokens per second, in the row format of llama-bench.
#include <algorithm>
#include <chrono>
#include <thread>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/cli/commands/commands.h"
#include "engine/cli/flags/common_options.h"
#include "engine/cli/input/signals.h"
#include "engine/cli/measure/depth_bench.h"
#include "engine/cli/measure/serving_bench.h"
#include "engine/cli/output/draft_line.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/log.h"
#include "engine/cli/output/output.h"
#include "engine/cli/output/speed.h"
#include "engine/runtime/options.h"
#include "vm/base/statistics.h"
#include "vm/state/output.h"

namespace serval::cli {
namespace {

constexpr const char* kExamples =
    "  serval bench\n"
    "  serval bench -p 64,256 -n 32 -r 3 -o json\n"
    "  serval bench -m llama-3.2-1b --random-weights 1 -p 16 -n 8 -r 1 -b 1,4\n"
    "  serval bench -m llama-3.2-1b --random-weights 1 -p 0 -n 128 -d 0,8192 --record results.jsonl\n"
    "  serval bench --requests 100 --input 200 --output 50 --rate 4\n";

constexpr int kMaxRepetitions = 10000;
constexpr int kMaxRequests = 1000000;

struct Flags {
  EngineOptions engine;
  OutputFlags output;
  std::vector<int> prompt_lengths;
  std::vector<int> generation_lengths;
  std::vector<int> batch_sizes;
  std::vector<int> depths;  // empty: no initial context, and runs through the engine
  int repetitions = 5;
  int launch_passes = 64;
  std::string format = "md";
  int trace_tokens = 0;
  std::string compare;
  std::string record_file;
  int requests = 0;  // > 0: runs requests instead of tests
  RequestSize size{512, 128};
  std::string lengths;
  double rate = 0;

  void declare(FlagSet& set);
  void declare_serving(FlagSet& set);
  void check(const FlagSet& set) const;
  void fill_defaults();
};

void append(std::vector<int>* to, const std::vector<int>& more) {
  to->insert(to->end(), more.begin(), more.end());
}

void Flags::declare(FlagSet& set) {
  set.group("Tests");
  set.list("-p,--n-prompt", "LIST", "prompt lengths in tokens, as 16,128; 0: none. Default: 512",
           [this](const FlagValue& v) { append(&prompt_lengths, parse_integer_list(v, 0, kMaxContext)); });
  set.list(
      "-n,--n-gen", "LIST", "numbers of tokens to generate; 0: none. Default: 128",
      [this](const FlagValue& v) { append(&generation_lengths, parse_integer_list(v, 0, kMaxContext)); });
  set.list("-b,--batch-size", "LIST",
           fmt::format("sequences together, 1 to {}. Default: 1", OptionLimits::kMaxSequences),
           [this](const FlagValue& v) {
             append(&batch_sizes, parse_integer_list(v, 1, OptionLimits::kMaxSequences));
           });
  set.list(
      "-d,--depth", "LIST",
      "tokens in the KV cache before each test, as 0,4096: made up, not read. Times the passes themselves",
      [this](const FlagValue& v) { append(&depths, parse_integer_list(v, 0, kMaxContext)); });
  set.value("--launch-passes", "N", "with --depth: passes of generation in one launch. Default: 64",
            [this](const FlagValue& v) {
              launch_passes = static_cast<int>(parse_integer(v, 1, kMostLaunchPasses));
            });
  set.value(
      "-r,--repetitions", "N", "runs of each test, after one that does not count. Default: 5",
      [this](const FlagValue& v) { repetitions = static_cast<int>(parse_integer(v, 1, kMaxRepetitions)); });
  set.value(
      "--trace-tokens", "N",
      "with --depth: record events as serval profile does, of the last N tokens, to see what that costs",
      [this](const FlagValue& v) {
        trace_tokens = static_cast<int>(parse_integer(v, 1, kMostLaunchPasses));
      });
  declare_serving(set);
  declare_engine(set, engine);
  declare_max_sequences(set, engine);
  declare_capacity(set, engine);
  declare_speculation(set, engine);
  set.value("--spec-accept-rate", "R",
            "with --spec: each draft is accepted with probability R, whatever it is: to time passes where "
            "the model's own text cannot be drafted, as with random weights",
            [this](const FlagValue& v) {
              engine.speculation.accept_rate = static_cast<double>(parse_real(v, 0, 1));
            });
  output.declare(set, "the same as -o json");
  set.value("-o,--output-format", "FORMAT", "md, json or csv. Default: md", [this](const FlagValue& v) {
    format = parse_choice(v, {"md", "json", "csv"});
  });
  set.value(
      "--compare", "NAME",
      "with --depth: also time the generation of torch, LibTorch's operators replayed from a CUDA graph",
      [this](const FlagValue& v) { compare = parse_choice(v, {"torch"}); });
  set.value("--record", "FILE", "with --depth or --requests: append each result to FILE, as one line of JSON",
            [this](const FlagValue& v) { record_file = parse_text(v); });
  set.examples(kExamples);
}

void Flags::declare_serving(FlagSet& set) {
  set.group("Serving, instead of tests");
  set.value("--requests", "N",
            "send N requests as clients of a server do, and time each: requests a second, time to the first "
            "token, between tokens and to the end",
            [this](const FlagValue& v) { requests = static_cast<int>(parse_integer(v, 1, kMaxRequests)); });
  set.value("--input", "N", "with --requests: tokens of a prompt, or their mean. Default: 512",
            [this](const FlagValue& v) { size.input = static_cast<int>(parse_integer(v, 1, kMaxContext)); });
  set.value("--output", "N", "with --requests: tokens to generate, or their mean. Default: 128",
            [this](const FlagValue& v) { size.output = static_cast<int>(parse_integer(v, 1, kMaxContext)); });
  set.value("--lengths", "WHAT",
            "with --requests: a number, the seed of exponentially distributed lengths; or a file with a pair "
            "a line, 'INPUT OUTPUT'. Default: all alike",
            [this](const FlagValue& v) { lengths = parse_text(v); });
  set.value("--rate", "R", "with --requests: R arrive a second on average. Default: all at once",
            [this](const FlagValue& v) {
              constexpr float kMaxRate = 1e6;
              rate = static_cast<double>(parse_real(v, 0, kMaxRate, LowerBound::kExcluded));
            });
}

void Flags::check(const FlagSet& set) const {
  const auto need = [&](const char* needed, std::initializer_list<const char*> flags) {
    for (const char* flag : flags) {
      if (set.given(flag))
        throw Error(ErrorKind::kUsage, fmt::format("{}: needs {}{}", flag, needed, set.see_help()));
    }
  };
  if (depths.empty()) need("--depth", {"--launch-passes", "--trace-tokens", "--compare"});
  if (depths.empty() && requests == 0) need("--depth or --requests", {"--record"});
  if (engine.speculation.method == Speculation::Method::kNone)
    need("--spec or --model-draft", {"--spec-accept-rate"});
  for (const char* flag : {"--spec", "--model-draft"}) {
    if (!depths.empty() && set.given(flag))
      throw Error(ErrorKind::kUsage,
                  fmt::format("{} and --depth: set either, not both{}", flag, set.see_help()));
  }
  if (requests == 0) need("--requests", {"--input", "--output", "--lengths", "--rate", "--max-sequences"});
  if (requests > 0 && !depths.empty())
    throw Error(ErrorKind::kUsage, "--requests and --depth: set either, not both" + set.see_help());
}

void Flags::fill_defaults() {
  constexpr int kDefaultPrompt = 512;
  constexpr int kDefaultGeneration = 128;
  if (prompt_lengths.empty()) prompt_lengths = {kDefaultPrompt};
  if (generation_lengths.empty()) generation_lengths = {kDefaultGeneration};
  if (batch_sizes.empty()) batch_sizes = {1};
  if (output.json) format = "json";
}

// One row: `batch` sequences each read `tokens` prompt tokens, or generate as many.
struct Test {
  enum class Kind { kPrompt, kGeneration };
  Kind kind;
  int tokens;
  int batch;

  std::string name() const { return fmt::format("{}{}", kind == Kind::kPrompt ? "pp" : "tg", tokens); }
};

std::vector<Test> tests_of(const Flags& flags) {
  std::vector<Test> tests;
  for (const int batch : flags.batch_sizes) {
    for (const int tokens : flags.prompt_lengths) {
      if (tokens > 0) tests.push_back({Test::Kind::kPrompt, tokens, batch});
    }
    for (const int tokens : flags.generation_lengths) {
      if (tokens > 0) tests.push_back({Test::Kind::kGeneration, tokens, batch});
    }
  }
  if (tests.empty()) throw Error(ErrorKind::kUsage, "no test: -p and -n are both 0; see serval bench --help");
  return tests;
}

// The tests of --depth: each test at each depth.
std::vector<DepthTest> depth_tests_of(const Flags& flags, const std::vector<Test>& tests) {
  std::vector<DepthTest> out;
  for (const int depth : flags.depths) {
    for (const Test& test : tests)
      out.push_back({test.kind == Test::Kind::kPrompt, test.tokens, test.batch, depth});
  }
  return out;
}

struct Result {
  Test test;
  std::vector<double> samples;  // tokens per second, one for each run

  double mean() const { return serval::mean(samples); }
  double deviation() const { return serval::deviation(samples, DeviationOf::kSample); }
};

// Generation is timed from the first token, which belongs to the prompt, to the last.
std::vector<Request> requests_of(const Test& test, int vocab_size) {
  const bool prompt = test.kind == Test::Kind::kPrompt;
  Request request;
  request.prompt_ids = made_up_prompt(prompt ? test.tokens : 1, vocab_size);
  request.sampling.temperature = 0;
  request.max_tokens = prompt ? 1 : test.tokens + 1;
  request.ignore_eos = true;
  request.reuse_prefix = false;  // each run reads its prompt
  return std::vector<Request>(static_cast<size_t>(test.batch), request);
}

class Bench {
 public:
  Bench(const Flags& flags, Engine& engine) : flags_(flags), engine_(engine) {}

  // The samples are empty if a signal ended the test.
  Result run(const Test& test, ProgressBar& bar) {
    const std::vector<Request> requests = requests_of(test, engine_.info().vocab_size);
    Result result{test, {}};
    for (int r = 0; r <= flags_.repetitions && pending_signal() == 0; ++r) {
      bar.update(test.name(), static_cast<uint64_t>(r), static_cast<uint64_t>(flags_.repetitions) + 1,
                 ProgressBar::Measure::kSteps);
      const double speed = measure(test, requests);
      if (r > 0) result.samples.push_back(speed);  // the first run warms up
    }
    if (pending_signal() != 0) result.samples.clear();
    return result;
  }

 private:
  using Clock = std::chrono::steady_clock;

  double measure(const Test& test, const std::vector<Request>& requests) {
    const CancelScope cancelled_by_signals(engine_);
    int started = 0;
    std::vector<bool> seen(requests.size());
    const Clock::time_point begin = Clock::now();
    Clock::time_point all_started = begin;
    const std::vector<Response> responses = engine_.decode_batch(requests, [&](const TokenEvent& event) {
      if (!seen.at(event.sequence - 1)) {
        seen[event.sequence - 1] = true;
        if (++started == test.batch) all_started = Clock::now();
      }
      return pending_signal() == 0;
    });
    const Clock::time_point end = Clock::now();
    for (const Response& response : responses) {
      if (response.finish == Finish::kError) throw Error(ErrorKind::kRuntime, response.error);
    }
    const bool prompt = test.kind == Test::Kind::kPrompt;
    const std::chrono::duration<double, std::milli> time = prompt ? all_started - begin : end - all_started;
    return Speed{static_cast<size_t>(test.tokens) * requests.size(), time.count()}.tokens_per_second();
  }

  const Flags& flags_;
  Engine& engine_;
};

// Prints rows as they are measured.
class Report {
 public:
  Report(const std::string& format, const ModelInfo& info, int threads)
      : format_(format), info_(info), threads_(threads) {}

  void begin() {
    if (format_ == "md") {
      write_stdout(
          "| model | size | params | backend | threads | batch | test | t/s | median |\n"
          "| --- | ---: | ---: | --- | ---: | ---: | --- | ---: | ---: |\n");
    } else if (format_ == "csv") {
      write_stdout(
          "model,weight_bytes,parameters,backend,gpus,threads,batch,test,mean_tokens_per_second,"
          "stddev_tokens_per_second,median_tokens_per_second,repetitions\n");
    }
  }

  void add(const Result& result) {
    if (format_ == "md") {
      write_stdout(markdown(result));
    } else if (format_ == "csv") {
      write_stdout(csv(result));
    } else {
      rows_.push_back(json(result));
    }
  }

  void end() {
    if (format_ == "json") write_stdout(pretty(rows_));
  }

 private:
  std::string markdown(const Result& r) const {
    constexpr double kMillion = 1e6;
    return fmt::format("| {} | {:.1f} MB | {:.2f} M | {} | {} | {} | {} | {:.2f} ± {:.2f} | {:.2f} |\n",
                       info_.name, static_cast<double>(info_.weight_bytes_per_token) / kMillion,
                       static_cast<double>(info_.num_parameters) / kMillion, info_.backend, threads_,
                       r.test.batch, r.test.name(), r.mean(), r.deviation(), median(r.samples));
  }

  std::string csv(const Result& r) const {
    return fmt::format("{},{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{}\n", csv_text(info_.name),
                       info_.weight_bytes_per_token, info_.num_parameters, csv_text(info_.backend),
                       info_.gpus, threads_, r.test.batch, r.test.name(), r.mean(), r.deviation(),
                       median(r.samples), r.samples.size());
  }

  // RFC 4180: quoted, with quotes doubled.
  static std::string csv_text(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + '"';
  }

  nlohmann::ordered_json json(const Result& r) const {
    return {{"model", info_.name},
            {"weight_bytes", info_.weight_bytes_per_token},
            {"parameters", info_.num_parameters},
            {"backend", info_.backend},
            {"threads", threads_},
            {"gpus", info_.gpus},
            {"sms", info_.sms},
            {"policy", info_.policy},
            {"batch", r.test.batch},
            {"test", r.test.name()},
            {"mean_tokens_per_second", r.mean()},
            {"stddev_tokens_per_second", r.deviation()},
            {"median_tokens_per_second", median(r.samples)},
            {"samples", r.samples}};
  }

  std::string format_;
  const ModelInfo& info_;
  int threads_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

// The context is just long enough for the longest test unless one was requested.
EngineOptions options_for(const Flags& flags, const std::vector<Test>& tests) {
  int batch = 1;
  int longest = 0;
  for (const Test& test : tests) {
    batch = std::max(batch, test.batch);
    longest = std::max(longest, test.tokens);
  }
  constexpr int kFirstAndLast = 2;  // a prompt's next token; a generation's first token and its prompt
  EngineOptions options = flags.engine;
  options.max_sequences = batch;
  if (options.context == 0) options.context = longest + kFirstAndLast;
  return options;
}

int bench_depths(const Flags& flags, const std::vector<Test>& tests) {
  DepthBench bench;
  bench.tests = depth_tests_of(flags, tests);
  bench.engine = flags.engine;
  bench.engine.max_sequences = *std::max_element(flags.batch_sizes.begin(), flags.batch_sizes.end());
  for (const DepthTest& test : bench.tests) {
    if (flags.engine.context == 0) bench.engine.context = std::max(bench.engine.context, test.context());
  }
  bench.repetitions = flags.repetitions;
  bench.trace_tokens = flags.trace_tokens;
  bench.launch_passes = flags.launch_passes;
  bench.format = flags.format;
  bench.compare_torch = flags.compare == "torch";
  bench.record_file = flags.record_file;
  bench.progress = flags.output.progress;
  return run_depth_bench(bench);
}

int bench_requests(const Flags& flags) {
  ServingBench bench;
  bench.engine = flags.engine;
  bench.sizes = request_sizes(flags.lengths, flags.requests, flags.size);
  bench.rate = flags.rate;
  bench.format = flags.format;
  bench.record_file = flags.record_file;
  bench.progress = flags.output.progress;
  return run_serving_bench(bench);
}

int bench(Flags flags) {
  flags.fill_defaults();
  if (flags.requests > 0) return bench_requests(flags);
  const std::vector<Test> tests = tests_of(flags);
  if (!flags.depths.empty()) return bench_depths(flags, tests);
  Engine engine = load_engine(options_for(flags, tests), flags.output.progress);
  Bench runner(flags, engine);
  const int all_threads = static_cast<int>(std::thread::hardware_concurrency());
  Report report(flags.format, engine.info(), flags.engine.threads == 0 ? all_threads : flags.engine.threads);
  report.begin();
  for (const Test& test : tests) {
    ProgressBar bar(flags.output.progress);
    const Result result = runner.run(test, bar);
    if (!result.samples.empty()) report.add(result);
    if (pending_signal() != 0) break;
  }
  report.end();
  if (const DraftStats drafts = engine.stats().drafts; drafts.passes > 0) log_info(draft_line(drafts));
  const int signal = pending_signal();
  return signal == 0 ? 0 : kSignalExitBase + signal;
}

}  // namespace

int run_bench(const Arguments& arguments) {
  Flags flags;
  FlagSet set("bench", "Measures tokens a second: pp N reads a prompt of N tokens, tg N generates N.",
              "[FLAGS]");
  flags.declare(set);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  flags.check(set);
  return bench(flags);
}

}  // namespace serval::cli

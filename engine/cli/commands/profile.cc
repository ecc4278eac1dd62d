// serval profile: records what each SM does during a token and writes a trace, a page or a report.
#include "engine/cli/commands/profile.h"

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "engine/backend/options.h"
#include "engine/cli/flags/common_options.h"
#include "engine/cli/measure/profile_recording.h"
#include "engine/cli/output/log.h"
#include "engine/cli/output/output.h"
#include "engine/runtime/options.h"
#include "profiler/chrome/chrome_trace.h"
#include "profiler/html/html.h"
#include "profiler/report/report.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

constexpr const char* kExamples =
    "  serval profile\n"
    "  serval profile --html token.html\n"
    "  serval profile --backend sim -m llama-3.2-1b --trace token.json.gz --report\n"
    "  serval profile --backend sim -m llama-3.2-1b --what-if gb_per_s=6000 --what-if notice_rounds=x0.5\n"
    "  serval profile token.json.gz --html token.html\n"
    "  serval profile diff before.json.gz after.json.gz --fail-above 3%\n";

constexpr int kMaxTokens = 1024;
constexpr const char* kSimulator = "sim";  // its name for --backend

struct Flags {
  std::string trace_input;  // empty: record
  RecordingOptions recording;
  std::string calibration;
  std::vector<std::string> what_ifs;
  std::string trace_file, html_file;
  bool report = false;
  OutputFlags output;

  void declare(FlagSet& set);
  void declare_run(FlagSet& set);
  void read_backend(const std::string& name);
  void declare_output(FlagSet& set);
  void check(const FlagSet& set) const;
  bool wants_report() const { return report || output.json || (trace_file.empty() && html_file.empty()); }
  RecordingOptions options() const;
};

// The last of several --backend flags wins.
void Flags::read_backend(const std::string& name) {
  recording.simulate = name == kSimulator;
  if (!recording.simulate) recording.engine.backend = name;
}

void Flags::declare_run(FlagSet& set) {
  EngineOptions& engine = recording.engine;
  declare_model(set, engine);
  declare_context(set, engine);
  declare_schedule(set, engine);
  const std::vector<std::string> backends = {name_of(BackendKind::kAuto), name_of(BackendKind::kDevice),
                                             name_of(BackendKind::kHost), kSimulator};
  set.value("--backend", "NAME",
            fmt::format("what runs the program: {}; {}: a model of the GPU. Default: {}",
                        fmt::join(backends, ", "), kSimulator, engine.backend),
            [this, backends](const FlagValue& v) { read_backend(parse_choice(v, backends)); });
  declare_threads(set, engine, "the host interpreter");
  set.group("What is recorded");
  set.value(
      "-n,--tokens", "N", "tokens to record, the last ones of a launch. Default: 1",
      [this](const FlagValue& v) { recording.tokens = static_cast<int>(parse_integer(v, 1, kMaxTokens)); });
  set.value(
      "-p,--prompt-tokens", "N", "instead of generated tokens, the last pass that reads a prompt of N tokens",
      [this](const FlagValue& v) { recording.prompt = static_cast<int>(parse_integer(v, 1, kMaxContext)); });
  declare_batch_tokens(set, engine);
  set.value("-b,--batch-size", "N",
            fmt::format("sequences together, 1 to {}. Default: 1", OptionLimits::kMaxSequences),
            [this](const FlagValue& v) {
              recording.batch = static_cast<int>(parse_integer(v, 1, OptionLimits::kMaxSequences));
            });
  set.value(
      "-d,--depth", "N", "tokens in the KV cache before them: made up, not read. Default: 128",
      [this](const FlagValue& v) { recording.depth = static_cast<int>(parse_integer(v, 0, kMaxContext)); });
  set.value(
      "--detail", "N",
      "1: when each role did what; 2: also how long consumers waited for pages, which slows a GPU down a "
      "little more. Default: 1",
      [this](const FlagValue& v) {
        recording.detail = static_cast<RecordingDetail>(parse_integer(
            v, static_cast<int>(RecordingDetail::kMoments), static_cast<int>(RecordingDetail::kStarving)));
      });
  set.group("Simulator");
  set.value("--calibration", "FILE", "the simulator's parameters of the GPU. Default: the H200's",
            [this](const FlagValue& v) { calibration = parse_text(v); });
  set.list(
      "--what-if", "NAME=VALUE",
      "changes a number of the calibration: gb_per_s=6000, round_factor=x0.5; may be given several times",
      [this](const FlagValue& v) { what_ifs.push_back(parse_text(v)); });
}

void Flags::declare_output(FlagSet& set) {
  output.declare(set, "print the report as one JSON object");
  set.toggle("--report", "print the report. Default: where nothing else is asked for", report);
  set.value("--trace", "FILE", "write Chrome trace events, for Perfetto: FILE.json or FILE.json.gz",
            [this](const FlagValue& v) { trace_file = parse_text(v); });
  set.value("--html", "FILE", "write a page with a Gantt chart of all SMs",
            [this](const FlagValue& v) { html_file = parse_text(v); });
}

void Flags::declare(FlagSet& set) {
  set.positional("TRACE", "a trace file to show, instead of recording one",
                 [this](const FlagValue& v) { trace_input = parse_text(v); });
  declare_run(set);
  declare_output(set);
  set.examples(kExamples);
}

// Flags that say how to record. They are refused for a trace that is recorded already.
constexpr const char* kRecordingFlags[] = {
    "--model",   "--random-weights", "--weights",       "--lm-head",          "--ctx-size",        "--gpus",
    "--sms",     "--policy",         "--queue",         "--backend",          "--threads",         "--tokens",
    "--depth",   "--batch-size",     "--prompt-tokens", "--max-batch-tokens", "--batch-invariant", "--detail",
    "--what-if", "--calibration"};

void Flags::check(const FlagSet& set) const {
  if (!trace_input.empty()) {
    for (const char* flag : kRecordingFlags) {
      if (set.given(flag))
        throw Error(ErrorKind::kUsage,
                    fmt::format("{}: {} is recorded already{}", flag, trace_input, set.see_help()));
    }
  }
  if (!recording.simulate && set.given("--what-if"))
    throw Error(ErrorKind::kUsage, "--what-if: needs --backend sim" + set.see_help());
}

RecordingOptions Flags::options() const {
  RecordingOptions out = recording;
  out.engine.max_sequences = recording.batch;
  out.simulator = calibration.empty() ? h200_sim_parameters() : read_sim_parameters(calibration);
  for (const std::string& what_if : what_ifs) apply_what_if(out.simulator, what_if);
  out.savings = wants_report() || !html_file.empty();
  out.progress = output.progress;
  return out;
}

void write_outputs(const Flags& flags, const Trace& trace, const Report& report) {
  if (!flags.trace_file.empty()) {
    write_trace(trace, flags.trace_file);
    log_info(flags.trace_file + ": written; open it in https://ui.perfetto.dev");
  }
  if (!flags.html_file.empty()) {
    const HtmlTrace page{report.metadata.contains("model") ? report.metadata.at("model") : "trace", trace,
                         report};
    write_html({&page, 1}, flags.html_file);
    log_info(flags.html_file + ": written; open it in a browser");
  }
  if (flags.wants_report()) write_stdout(flags.output.json ? to_json(report) + '\n' : to_text(report));
}

int profile(const Flags& flags) {
  ProfiledRun run = flags.trace_input.empty() ? record_tokens(flags.options())
                                              : ProfiledRun{read_trace(flags.trace_input), {}};
  Report report = report_of(run.trace);
  report.savings = std::move(run.savings);
  write_outputs(flags, run.trace, report);
  return 0;
}

}  // namespace

int run_profile(const Arguments& arguments) {
  if (!arguments.empty() && arguments.front() == "diff")
    return run_profile_diff(Arguments(arguments.begin() + 1, arguments.end()));
  Flags flags;
  FlagSet set("profile", "Records tokens and shows where their time goes; profile diff compares two traces.",
              "[TRACE] [FLAGS]");
  flags.declare(set);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  flags.check(set);
  return profile(flags);
}

}  // namespace serval::cli

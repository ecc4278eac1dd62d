#include "engine/cli/common_options.h"

#include <climits>
#include <random>

#include "engine/backend/best_policy.h"
#include "engine/cli/log.h"
#include "vm/machine.h"

namespace serval::cli {
namespace {

constexpr float kMaxTemperature = 100;
constexpr float kMaxRepetitionPenalty = 10;
constexpr int kMaxTopK = 1 << 20;

ProgressMode parse_progress(const FlagValue& value) {
  const std::string choice = parse_choice(value, {"auto", "on", "off"});
  if (choice == "auto") return ProgressMode::kAuto;
  return choice == "on" ? ProgressMode::kOn : ProgressMode::kOff;
}

}  // namespace

void OutputFlags::declare(FlagSet& flags, const std::string& json_help) {
  flags.group("Output");
  if (!json_help.empty()) flags.toggle("--json", json_help, json);
  flags.value("--progress", "WHEN", "a progress bar on stderr: auto (on a terminal), on, off. Default: auto",
              [this](const FlagValue& v) { progress = parse_progress(v); });
  flags.value("--log-level", "LEVEL", "what stderr gets: trace, debug, info, warn, error. Default: info",
              [](const FlagValue& v) {
                set_log_level(parse_choice(v, {"trace", "debug", "info", "warn", "error"}));
              });
}

void ModelFlags::declare(FlagSet& flags) {
  flags.group("Model");
  flags.value("-m,--model", "MODEL",
              "a Hugging Face directory or a preset's name. Default: the bundled model",
              [this](const FlagValue& v) { model = parse_text(v); });
  flags.value("--random-weights", "SEED",
              "weights made from SEED instead of a checkpoint's; a preset needs it",
              [this](const FlagValue& v) { random_weights = parse_unsigned(v, UINT64_MAX); });
}

void ScheduleFlags::declare(FlagSet& flags) {
  flags.group("Machine");
  flags.value("--sms", "N", "SMs to compile for. Default: the machine's own number",
              [this](const FlagValue& v) {
                sms = static_cast<int>(parse_integer(v, 1, static_cast<int>(serval::kMaxSms)));
              });
  flags.value("--policy", "NAME",
              "placement on SMs: round-robin, zig-zag, wave, list, or best: what the GPU's simulator "
              "prefers. Default: what the cost model prefers",
              [this](const FlagValue& v) {
                policy = parse_choice(v, {"round-robin", "zig-zag", "wave", "list", kBestPolicy});
              });
  flags.value("--queue", "KIND", "per-sm: a queue for each SM; global: one for all. Default: per-sm",
              [this](const FlagValue& v) {
                global_queue = parse_choice(v, {"per-sm", "global"}) == "global";
              });
}

void declare_context(FlagSet& flags, int& context) {
  flags.group("Model");
  flags.value(
      "-c,--ctx-size", "N", "tokens a sequence may hold. Default: the model's maximum, at most 4096",
      [&context](const FlagValue& v) { context = static_cast<int>(parse_integer(v, 0, kMaxContext)); });
}

void EngineFlags::declare(FlagSet& flags) {
  model.declare(flags);
  declare_context(flags, context);
  flags.value("--chat-template", "NAME", "llama3 or chatml. Default: recognised from the checkpoint",
              [this](const FlagValue& v) {
                chat_template = parse_choice(v, {"llama3", "chatml"});
              });
  schedule.declare(flags);
  flags.value("--backend", "NAME", "what runs the program: auto, device, host, torch. Default: auto",
              [this](const FlagValue& v) {
                backend = parse_choice(v, {"auto", "device", "host", "torch"});
              });
  flags.value("--threads", "N", "threads of the host interpreter; 0: all cores. Default: 0",
              [this](const FlagValue& v) { threads = static_cast<int>(parse_integer(v, 0, kMaxThreads)); });
  flags.value(
      "--interleaving", "SEED",
      "run the host interpreter's instructions on one thread, interleaved as SEED says: to look for a race",
      [this](const FlagValue& v) { interleaving = parse_unsigned(v, UINT64_MAX); });
}

EngineOptions EngineFlags::options(int max_sequences) const {
  EngineOptions options;
  options.model = model.model;
  options.random_weights = model.random_weights;
  options.context = context;
  options.max_sequences = max_sequences;
  options.backend = backend;
  options.threads = threads;
  options.sms = schedule.sms;
  options.policy = schedule.policy;
  options.global_queue = schedule.global_queue;
  options.chat_template = chat_template;
  options.interleaving = interleaving;
  return options;
}

Engine load_engine(EngineOptions options, ProgressMode progress) {
  ProgressBar bar(progress);
  options.progress = [&bar](const char* stage, uint64_t done, uint64_t total) {
    bar.update(stage, done, total, ProgressBar::Unit::kBytes);
  };
  Engine engine = Engine::load(options);
  if (!engine.info().backend_notice.empty()) log_info(engine.info().backend_notice);
  return engine;
}

void SamplingFlags::declare(FlagSet& flags) {
  flags.group("Text");
  flags.value("-n,--n-predict", "N", "new tokens at most; -1: until the context is full. Default: -1",
              [this](const FlagValue& v) { max_tokens = static_cast<int>(parse_integer(v, -1, INT_MAX)); });
  flags.list("--stop", "TEXT", "the text ends before TEXT; may be given several times",
             [this](const FlagValue& v) { stop.push_back(parse_text(v)); });
  flags.toggle("--ignore-eos", "go on after an end-of-text token", ignore_eos);

  flags.group("Sampling (defaults: the model's generation_config.json, else as stated)");
  flags.value(
      "-s,--seed", "N", "of the random numbers; -1: a new one each run. Default: -1",
      [this](const FlagValue& v) { seed_ = v.text == "-1" ? random_seed() : parse_unsigned(v, UINT64_MAX); });
  flags.value("--temp", "X", "temperature, 0 to 100; 0: always the likeliest token. Default: 0.8",
              [this](const FlagValue& v) { temperature_ = parse_real(v, 0, kMaxTemperature); });
  flags.value("--top-k", "N", "keep the N likeliest tokens; 0: all. Default: 40",
              [this](const FlagValue& v) { top_k_ = static_cast<int>(parse_integer(v, 0, kMaxTopK)); });
  flags.value("--top-p", "X",
              "keep the likeliest tokens that make up X of the probability; 1: all. Default: 0.95",
              [this](const FlagValue& v) { top_p_ = parse_real(v, 0, 1, LowerBound::kExcluded); });
  flags.value("--min-p", "X", "drop tokens less likely than X times the likeliest; 0: none. Default: 0.05",
              [this](const FlagValue& v) { min_p_ = parse_real(v, 0, 1); });
  flags.value("--repeat-penalty", "X", "makes the last 64 tokens less likely; 1: off. Default: 1",
              [this](const FlagValue& v) {
                repetition_penalty_ = parse_real(v, 0, kMaxRepetitionPenalty, LowerBound::kExcluded);
              });
}

SamplingParams SamplingFlags::apply(const SamplingParams& defaults) const {
  SamplingParams sampling = defaults;
  sampling.temperature = temperature_.value_or(defaults.temperature);
  sampling.top_k = top_k_.value_or(defaults.top_k);
  sampling.top_p = top_p_.value_or(defaults.top_p);
  sampling.min_p = min_p_.value_or(defaults.min_p);
  sampling.repetition_penalty = repetition_penalty_.value_or(defaults.repetition_penalty);
  sampling.seed = seed_;
  return sampling;
}

// 32 bits: short enough to type again, and exact in every JSON reader.
uint64_t SamplingFlags::random_seed() {
  return std::random_device()();
}

}  // namespace serval::cli

#include "engine/cli/flags/common_options.h"

#include <climits>
#include <random>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "engine/cli/output/log.h"
#include "engine/grammar/gbnf_parser.h"
#include "engine/grammar/json_schema.h"
#include "engine/runtime/options.h"
#include "models/pooling.h"
#include "models/tokenizer/chat_template.h"
#include "vm/base/json_file.h"
#include "vm/program.h"

namespace serval::cli {
namespace {

double parse_number(const FlagValue& value, const SamplingRange& range) {
  if (range.is_whole) {
    return static_cast<double>(
        parse_integer(value, static_cast<int64_t>(range.least), static_cast<int64_t>(range.most)));
  }
  return parse_real(value, static_cast<float>(range.least), static_cast<float>(range.most),
                    range.least_excluded ? LowerBound::kExcluded : LowerBound::kIncluded);
}

// "15043+1", "15043-0.5".
LogitBias parse_logit_bias(const FlagValue& value) {
  const size_t sign = value.text.find_first_of("+-");
  if (sign == 0 || sign == std::string::npos)
    reject(value, "is not a token id, + or -, and a number, as 15043+1");
  const auto part = [&](size_t begin, size_t end) {
    return FlagValue{value.source, value.text.substr(begin, end - begin), value.from_environment};
  };
  const size_t number = value.text[sign] == '+' ? sign + 1 : sign;
  const auto token = static_cast<int32_t>(parse_integer(part(0, sign), 0, INT32_MAX));
  return {token,
          static_cast<float>(parse_number(part(number, value.text.size()), sampling_range::kLogitBias))};
}

std::string load_line(const Model& model, double seconds) {
  constexpr double kGigabyte = 1e9;
  const double gigabytes = static_cast<double>(model.weight_bytes()) / kGigabyte;
  return fmt::format("loaded {:.2f} GB of weights in {:.2f} s ({:.1f} GB/s)", gigabytes, seconds,
                     gigabytes / seconds);
}

ProgressCallback drawn_by(ProgressBar& bar, const ProgressCallback& also = {}) {
  return [&bar, also](const char* stage, uint64_t done, uint64_t total) {
    if (also) also(stage, done, total);
    bar.update(stage, done, total, ProgressBar::Measure::kBytes);
  };
}

std::string parse_chat_template(const FlagValue& value) {
  if (ChatTemplate::exists(value.text)) return value.text;
  reject(value, fmt::format("is not one of {}, and not a file", fmt::join(ChatTemplate::names(), ", ")));
}

}  // namespace

void OutputFlags::declare(FlagSet& flags, const std::string& json_help) {
  flags.group("Output");
  if (!json_help.empty()) flags.toggle("--json", json_help, json);
  flags.value("--progress", "WHEN",
              fmt::format("a progress bar on stderr: {}; auto: on a terminal. Default: {}",
                          listed<ProgressMode>(), name_of(progress)),
              [this](const FlagValue& v) { progress = parse_enumerator<ProgressMode>(v); });
  const std::vector<std::string> levels = {"trace", "debug", "info", "warn", "error"};
  flags.value("--log-level", "LEVEL",
              fmt::format("what stderr gets: {}. Default: info", fmt::join(levels, ", ")),
              [levels](const FlagValue& v) { set_log_level(parse_choice(v, levels)); });
}

void declare_model_name(FlagSet& flags, std::string& model) {
  flags.group("Model");
  flags.value("-m,--model", "MODEL",
              "a Hugging Face directory, a GGUF file, a preset's name, or ORG/NAME in Hugging Face's cache. "
              "Default: the bundled model",
              [&model](const FlagValue& v) { model = parse_text(v); });
}

void declare_weight_formats(FlagSet& flags, EngineOptions& options) {
  const auto format = [&flags](const char* name, const char* of, std::string& type) {
    flags.value(name, "TYPE",
                fmt::format("type in which {} kept in memory: {}. Default: {}: fp8 or int4 where the "
                            "checkpoint has it in a form that is kept, else bf16",
                            of, fmt::join(weight_format_names(), ", "), weight_format_names().front()),
                [&type](const FlagValue& v) { type = parse_choice(v, weight_format_names()); });
  };
  format("--weights", "the layers' matrices are", options.weights);
  format("--lm-head", "the LM head is", options.lm_head);
  declare_activations(flags, options);
}

void declare_activations(FlagSet& flags, EngineOptions& options) {
  flags.value(
      "--activations", "WIDTH",
      fmt::format("width of activations that weights in fp8 are multiplied with: {}; 8bit: in a GPU's passes "
                  "of more than 64 tokens. Default: auto: 8bit if the checkpoint has them so or --weights "
                  "rounds to fp8, and not with --batch-invariant",
                  fmt::join(activation_width_names(), ", ")),
      [&options](const FlagValue& v) { options.activations = parse_choice(v, activation_width_names()); });
}

void declare_model(FlagSet& flags, EngineOptions& options) {
  declare_model_name(flags, options.model);
  flags.value("--random-weights", "SEED",
              "weights made from SEED instead of a checkpoint's; a preset needs it",
              [&options](const FlagValue& v) { options.random_weights = parse_unsigned(v, UINT64_MAX); });
  declare_weight_formats(flags, options);
  options.embeddings = false;
  flags.toggle("--allow-nonfinite", "load weights that are NaN or infinite, or too large for bf16",
               options.allow_nonfinite);
}

void declare_pooling(FlagSet& flags, EngineOptions& options) {
  flags.value(
      "--pooling", "NAME",
      fmt::format("what embeddings are made of: {}: the last token's hidden state, the mean of all, or "
                  "the first token's. Default: as the model's files say, else last",
                  listed<Pooling>()),
      [&options](const FlagValue& v) { options.pooling = name_of(parse_enumerator<Pooling>(v)); });
}

void declare_context(FlagSet& flags, EngineOptions& options) {
  flags.group("Model");
  flags.value("-c,--ctx-size", "N", "tokens a sequence may hold. Default: the model's maximum, at most 4096",
              [&options](const FlagValue& v) {
                options.context = static_cast<int>(parse_integer(v, 0, kMaxContext));
              });
}

void declare_gpus(FlagSet& flags, EngineOptions& options) {
  flags.group("Machine");
  flags.value("--gpus", "N",
              "GPUs that share the model, its ranks: 1, 2, 4 or 8, or their numbers, as 0,2. Default: 1",
              [&options](const FlagValue& v) { options.gpus = parse_gpus(v); });
}

void declare_schedule(FlagSet& flags, EngineOptions& options) {
  flags.group("Machine");
  flags.value("--sms", "N", "SMs to compile for, of each GPU. Default: the machine's own number",
              [&options](const FlagValue& v) {
                options.sms = static_cast<int>(parse_integer(v, 1, OptionLimits::kMaxSms));
              });
  declare_gpus(flags, options);
  flags.value("--policy", "NAME",
              fmt::format("placement on SMs: {}; {}: what the GPU's simulator prefers. Default: what the "
                          "cost model prefers",
                          fmt::join(policy_names(), ", "), kBestPolicy),
              [&options](const FlagValue& v) { options.policy = parse_choice(v, policy_names()); });
  flags.value("--queue", "KIND",
              fmt::format("{}: a queue for each SM; {}: one for all. Default: {}", name_of(QueueKind::kPerSm),
                          name_of(QueueKind::kGlobal), name_of(QueueKind::kPerSm)),
              [&options](const FlagValue& v) {
                options.global_queue = parse_enumerator<QueueKind>(v) == QueueKind::kGlobal;
              });
}

void declare_threads(FlagSet& flags, EngineOptions& options, const std::string& of) {
  flags.value("--threads", "N", fmt::format("threads of {}; 0: all cores. Default: 0", of),
              [&options](const FlagValue& v) {
                options.threads = static_cast<int>(parse_integer(v, 0, OptionLimits::kMaxThreads));
              });
}

void declare_batch_tokens(FlagSet& flags, EngineOptions& options) {
  flags.value(
      "--max-batch-tokens", "N",
      fmt::format(
          "most tokens of a pass, of prompts and of sequences that generate, 1 to {}. "
          "Default: 8192 on a GPU, of a large model fewer; elsewhere as many as --max-sequences, at least {}",
          OptionLimits::kMaxBatchTokens, kDefaultSequences),
      [&options](const FlagValue& v) {
        options.max_batch_tokens = static_cast<int>(parse_integer(v, 1, OptionLimits::kMaxBatchTokens));
      });
  flags.toggle("--batch-invariant",
               "what a request gets depends on the request alone, not on those that run beside it",
               options.batch_invariant);
}

void declare_kv_cache_memory(FlagSet& flags, EngineOptions& options) {
  flags.group("Capacity");
  flags.value("--kv-cache-memory", "SIZE",
              "memory for keys and values: bytes, as 512M or 8G, or a share of what is free beside the "
              "weights, as 80%. Default: a full context for each sequence",
              [&options](const FlagValue& v) {
                const MemorySize size = parse_memory_size(v);
                options.kv_cache_memory = size.bytes;
                options.kv_cache_share = size.share;
              });
}

void declare_capacity(FlagSet& flags, EngineOptions& options) {
  flags.group("Capacity");
  declare_batch_tokens(flags, options);
  declare_kv_cache_memory(flags, options);
}

void declare_max_sequences(FlagSet& flags, EngineOptions& options) {
  flags.group("Capacity");
  flags.value("--max-sequences", "N",
              fmt::format("sequences that run together, 1 to {}; more wait. Default: {}",
                          OptionLimits::kMaxSequences, options.max_sequences),
              [&options](const FlagValue& v) {
                options.max_sequences = static_cast<int>(parse_integer(v, 1, OptionLimits::kMaxSequences));
              });
}

void declare_draft_model(FlagSet& flags, Speculation& speculation) {
  flags.value("-md,--model-draft", "MODEL",
              "a smaller model of the same vocabulary that makes the drafts, named as for -m",
              [&speculation](const FlagValue& v) {
                speculation.model = parse_text(v);
                speculation.method = Speculation::Method::kModel;
              });
}

// Flags are read in this order: --spec may switch off what -md, in the environment perhaps, asks for.
void declare_speculation(FlagSet& flags, EngineOptions& options) {
  Speculation& s = options.speculation;
  flags.group("Speculation");
  declare_draft_model(flags, s);
  flags.value("--spec", "METHOD",
              fmt::format("drafts of tokens that a pass evaluates together: {}. They do not change answers. "
                          "Default: model with -md, else none",
                          fmt::join(speculation_names(), ", ")),
              [&s](const FlagValue& v) {
                s.method = speculation_named(parse_choice(v, speculation_names()));
                if (s.method == Speculation::Method::kNone) s.model.clear();
              });
  const auto number = [&flags](const char* name, const char* help, int& value, uint32_t most) {
    flags.value(name, "N", fmt::format("{}, 1 to {}. Default: {}", help, most, value),
                [&value, most](const FlagValue& v) { value = static_cast<int>(parse_integer(v, 1, most)); });
  };
  number("--draft-max", "drafts of a sequence in a pass at most", s.draft_max, kMaxDrafts);
  number("--draft-min", "fewer drafts are not used", s.draft_min, kMaxDrafts);
  flags.value("--draft-p-min", "P",
              "drafts end before one that has a lower probability in the draft model, 0 to 1. Default: 0",
              [&s](const FlagValue& v) { s.draft_p_min = parse_real(v, 0, 1); });
  number("--spec-ngram-min", "tokens that must have occurred before, for drafts to continue them",
         s.ngram_min, kMaxNgram);
  number("--spec-ngram-max", "of earlier occurrences, the longest of up to so many tokens is continued",
         s.ngram_max, kMaxNgram);
}

void declare_engine(FlagSet& flags, EngineOptions& options) {
  declare_model(flags, options);
  declare_context(flags, options);
  flags.value("--chat-template", "NAME",
              fmt::format("{} or a file with a Jinja template. Default: the checkpoint's own",
                          fmt::join(ChatTemplate::names(), ", ")),
              [&options](const FlagValue& v) { options.chat_template = parse_chat_template(v); });
  declare_schedule(flags, options);
  flags.value("--backend", "NAME",
              fmt::format("what runs the program: {}. Default: {}", fmt::join(backend_names(), ", "),
                          options.backend),
              [&options](const FlagValue& v) { options.backend = parse_choice(v, backend_names()); });
  declare_threads(flags, options, "the host interpreter");
  flags.value(
      "--interleaving", "SEED",
      "run the host interpreter's instructions on one thread, interleaved as SEED says: to look for a race",
      [&options](const FlagValue& v) { options.interleaving = parse_unsigned(v, UINT64_MAX); });
}

void check_not_compiled(const FlagSet& set, const std::string& program_file,
                        std::initializer_list<const char*> flags) {
  if (program_file.empty()) return;
  for (const char* flag : flags) {
    if (!set.given(flag)) continue;
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: {} is compiled already{}", flag, program_file, set.see_help()));
  }
}

Engine load_engine(EngineOptions options, ProgressMode progress, const ProgressCallback& also) {
  ProgressBar bar(progress);
  options.progress = drawn_by(bar, also);
  Engine engine = Engine::load(options);
  if (!engine.info().backend_notice.empty()) log_info(engine.info().backend_notice);
  return engine;
}

LoadedModel load_model(EngineOptions options, ProgressMode progress) {
  ProgressBar bar(progress);
  options.progress = drawn_by(bar);
  LoadedModel model = serval::load_model(options, open_model(options));
  if (!model.notice.empty()) log_info(model.notice);
  log_info(load_line(*model.source.model, model.load_seconds));
  return model;
}

void SamplingFlags::declare(FlagSet& flags) {
  flags.group("Text");
  flags.value("-n,--n-predict", "N", "new tokens at most; -1: until the context is full. Default: -1",
              [this](const FlagValue& v) { max_tokens = static_cast<int>(parse_integer(v, -1, INT_MAX)); });
  flags.list("--stop", "TEXT", "the text ends before TEXT; may be given several times",
             [this](const FlagValue& v) { stop.push_back(parse_text(v)); });
  flags.list("--stop-token", "ID", "the text ends before this token; may be given several times",
             [this](const FlagValue& v) {
               stop_token_ids.push_back(static_cast<int32_t>(parse_integer(v, 0, INT32_MAX)));
             });
  flags.value("--min-tokens", "N", "new tokens at least; a --stop text ends it all the same. Default: 0",
              [this](const FlagValue& v) {
                min_tokens = static_cast<int>(parse_number(v, sampling_range::kMinTokens));
              });
  flags.toggle("--ignore-eos", "go on after an end-of-text token", ignore_eos);
  flags.value("-j,--json-schema", "SCHEMA",
              "the text is a JSON value that is valid under this JSON schema; {}: any value",
              [this](const FlagValue& v) { json_schema = parse_text(v); });
  flags.value("--json-schema-file", "FILE", "the same, with the schema in FILE", [this](const FlagValue& v) {
    json_schema = read_text_file(parse_text(v), grammar::kMaxSchemaBytes);
  });
  flags.toggle("--json-object", "the text is a JSON object, of any kind", json_object);
  declare_grammar(flags);

  flags.group("Sampling (defaults: the model's generation_config.json, else as stated)");
  flags.value("-s,--seed", "N", "seed of the random numbers; -1: a new one each run. Default: -1",
              [this](const FlagValue& v) {
                seed_ = v.text == "-1" ? random_seed() : parse_unsigned(v, UINT64_MAX, "-1, or ");
              });
  for (const SamplingParameter& parameter : sampling_parameters()) {
    const bool whole = parameter.range.is_whole;
    flags.value(parameter.flag, whole ? "N" : "X",
                fmt::format("{}. Default: {}", parameter.help, static_cast<float>(parameter.of({}))),
                [this, &parameter](const FlagValue& v) {
                  given_.emplace_back(&parameter, parse_number(v, parameter.range));
                });
  }
  flags.list(
      "-l,--logit-bias", "ID+V",
      "adds V, -100 to 100, to the logit of token ID, as 15043+1 or 15043-1; may be given several times",
      [this](const FlagValue& v) { logit_bias.push_back(parse_logit_bias(v)); });
}

void SamplingFlags::declare_grammar(FlagSet& flags) {
  flags.value("--grammar", "GRAMMAR", "the text follows this grammar, in llama.cpp's GBNF",
              [this](const FlagValue& v) { grammar = parse_text(v); });
  flags.value("--grammar-file", "FILE", "the same, with the grammar in FILE", [this](const FlagValue& v) {
    grammar = read_text_file(parse_text(v), grammar::GbnfLimits::kMaxBytes);
  });
  flags.value("--regex", "REGEX", "the text matches this regular expression, as a whole",
              [this](const FlagValue& v) { regex = parse_text(v); });
  flags.list("--choice", "TEXT", "the text is one of those that are given so",
             [this](const FlagValue& v) { choice.push_back(parse_text(v)); });
}

Request SamplingFlags::request(const SamplingParams& defaults) const {
  Request request;
  request.sampling = apply(defaults);
  request.max_tokens = max_tokens;
  request.min_tokens = min_tokens;
  request.stop = stop;
  request.stop_token_ids = stop_token_ids;
  request.logit_bias = logit_bias;
  request.ignore_eos = ignore_eos;
  request.json_object = json_object;
  request.json_schema = json_schema;
  request.regex = regex;
  request.choice = choice;
  request.grammar = grammar;
  return request;
}

SamplingParams SamplingFlags::apply(const SamplingParams& defaults) const {
  SamplingParams sampling = defaults;
  for (const auto& [parameter, value] : given_) parameter->set(sampling, value);
  sampling.seed = seed_;
  return sampling;
}

// 32 bits: short enough to type, and exact in every JSON reader.
uint64_t SamplingFlags::random_seed() {
  return std::random_device()();
}

}  // namespace serval::cli

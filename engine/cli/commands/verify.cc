// serval verify: teacher-forces a text through the model and through the LibTorch reference, and reports how
// much they differ. Exit code 1 outside the gate.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/backend/options.h"
#include "engine/cli/commands/commands.h"
#include "engine/cli/commands/verify_text.h"
#include "engine/cli/flags/common_options.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/log.h"
#include "engine/cli/output/output.h"
#include "engine/runtime/load_model.h"
#include "engine/runtime/options.h"
#include "engine/runtime/text_model.h"
#include "engine/torch/fidelity.h"
#include "engine/torch/logits_file.h"
#include "engine/torch/teacher_forcing.h"
#include "models/checkpoint/random_weights.h"
#include "vm/base/error.h"
#include "vm/state/limits.h"

namespace serval::cli {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kExamples =
    "  serval verify\n"
    "  serval verify -m path/to/Llama-3.2-1B --text article.txt -n 1024 --json\n"
    "  serval verify -m llama-3.2-1b --random-weights 1 -c 512\n"
    "  serval verify -b 64\n";

constexpr int kFewestPositions = 256;  // fewer positions say little about a mean
constexpr size_t kMaxTextBytes = size_t{64} << 20;
constexpr int kOutsideGate = 1;

struct Flags {
  EngineOptions engine;
  OutputFlags output;
  int positions = kFewestPositions;
  int batch = 0;  // sequences that are decoded in parallel; 0: one is read as a prompt
  std::string text_file;
  std::optional<uint64_t> random_tokens;
  std::string reference;  // a directory with the reference's weights; empty: the model's own
  OracleDevice device = OracleDevice::kAuto;
  std::string dump_file;
  bool ours_only = false;

  void declare(FlagSet& set);
};

void Flags::declare(FlagSet& set) {
  set.group("Text");
  set.value("-n,--positions", "N",
            fmt::format("tokens to compare at, {} or more. Default: {}", kFewestPositions, kFewestPositions),
            [this](const FlagValue& v) {
              positions = static_cast<int>(parse_integer(v, kFewestPositions, kMaxContext));
            });
  set.value("--text", "FILE", "the text to read. Default: a story of Serval's own",
            [this](const FlagValue& v) { text_file = parse_text(v); });
  set.value("--random-tokens", "SEED",
            "pseudo-random tokens instead of a text. Default with --random-weights: the same seed",
            [this](const FlagValue& v) { random_tokens = parse_unsigned(v, UINT64_MAX); });
  set.value(
      "-b,--batch-size", "N",
      fmt::format("decode the text in N sequences side by side, 1 to {}, one token of each a pass. Default: "
                  "read it in passes of --max-batch-tokens",
                  OptionLimits::kMaxSequences),
      [this](const FlagValue& v) {
        batch = static_cast<int>(parse_integer(v, 1, OptionLimits::kMaxSequences));
      });
  declare_engine(set, engine);
  declare_batch_tokens(set, engine);
  set.group("Reference");
  set.value("--reference", "DIR", "the reference takes its weights from DIR. Default: the model's own",
            [this](const FlagValue& v) { reference = parse_text(v); });
  set.value("--reference-device", "NAME",
            fmt::format("where LibTorch computes: {}. Default: {}", listed<OracleDevice>(), name_of(device)),
            [this](const FlagValue& v) { device = parse_enumerator<OracleDevice>(v); });
  set.toggle("--ours-only", "compute no reference and compare nothing; for --dump", ours_only);
  output.declare(set, "print one JSON object");
  set.value("--dump", "FILE", "write tokens and logits to FILE, in the safetensors format",
            [this](const FlagValue& v) { dump_file = parse_text(v); });
  set.examples(kExamples);
}

std::string read_text(const std::string& file) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(file, error);
  if (error) throw Error(ErrorKind::kRuntime, fmt::format("{}: {}", file, error.message()));
  if (bytes > kMaxTextBytes) {
    throw Error(ErrorKind::kRuntime, fmt::format("{}: {} bytes; limit: {}", file, bytes, kMaxTextBytes));
  }
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<int32_t> pseudo_random_tokens(uint64_t seed, size_t count, int vocab_size) {
  const uint64_t key = random_tensor_key("tokens", seed);
  std::vector<int32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<int32_t>(random_word(key, i) % static_cast<uint64_t>(vocab_size));
  }
  return tokens;
}

std::vector<int32_t> text_tokens(const Flags& flags, const ModelSource& source) {
  const std::string text = flags.text_file.empty() ? kVerifyText : read_text(flags.text_file);
  const TextModel model = load_text_model(source, flags.engine.chat_template, /*random_weights=*/false);
  std::vector<int32_t> tokens = model.codec->encode(text, {.special = SpecialTokens::kNot});
  const auto wanted = static_cast<size_t>(flags.positions);
  if (tokens.size() < wanted) {
    throw Error(ErrorKind::kUsage,
                fmt::format("--positions: {}; limit: {} (the tokens of {})", wanted, tokens.size(),
                            flags.text_file.empty() ? "the text that is read where --text gives none"
                                                    : flags.text_file));
  }
  tokens.resize(wanted);
  return tokens;
}

std::vector<int32_t> choose_tokens(const Flags& flags, const ModelSource& source) {
  std::optional<uint64_t> seed = flags.random_tokens;
  if (!seed && flags.text_file.empty()) seed = flags.engine.random_weights;
  if (!seed) return text_tokens(flags, source);
  return pseudo_random_tokens(*seed, static_cast<size_t>(flags.positions), source.model->vocab_size);
}

// The model and the results of one run.
class Verification {
 public:
  explicit Verification(const Flags& flags);

  void run_ours();
  void run_reference();
  void dump() const;
  bool passed() const { return different_ == 0 && (flags_.ours_only || ratio_.within_gate()); }
  std::string as_text() const;
  ordered_json as_json() const;

 private:
  TeacherProgress computing(const char* label);
  std::shared_ptr<const ModelWeights> reference_weights();
  std::vector<float> run_oracle(const std::shared_ptr<const ModelWeights>& weights, OracleDtype dtype,
                                const char* label);
  std::string model_line() const;
  std::string batch_line() const;

  const Flags& flags_;
  ProgressBar bar_;
  EngineOptions options_;
  ModelSource source_;
  size_t vocab_;
  std::vector<int32_t> tokens_;
  std::optional<Weights> weights_;
  std::string backend_, library_, device_;
  std::vector<float> ours_, fp32_, bf16_;  // [tokens, vocab]
  size_t different_ = 0;                   // DecodedCopies::different
  Fidelity ours_error_, bf16_error_;
  FidelityRatio ratio_;
};

Verification::Verification(const Flags& flags)
    : flags_(flags),
      bar_(flags.output.progress),
      options_(flags.engine),
      source_(open_model(options_)),
      vocab_(static_cast<size_t>(source_.model->vocab_size)) {
  options_.max_sequences = std::max(1, flags_.batch);
  // As few rows as in decoding: with more, a GPU would run the programs for prompts.
  if (options_.max_batch_tokens == 0)
    options_.max_batch_tokens = std::max(static_cast<int>(kDefaultRows), flags_.batch);
  options_.progress = [this](const char* stage, uint64_t done, uint64_t total) {
    bar_.update(stage, done, total, ProgressBar::Measure::kBytes);
  };
  tokens_ = choose_tokens(flags_, source_);
}

TeacherProgress Verification::computing(const char* label) {
  return [this, label](size_t done, size_t total) {
    bar_.update(label, done, total, ProgressBar::Measure::kSteps);
  };
}

void Verification::run_ours() {
  LoadedModel model = serval::load_model(options_, source_);
  if (!model.notice.empty()) log_info(model.notice);
  backend_ = model.backend->name();
  if (flags_.batch == 0) {
    ours_ = teacher_force(*model.backend, tokens_, computing("ours"));
  } else {
    DecodedCopies copies =
        decode_copies(*model.backend, tokens_, static_cast<uint32_t>(flags_.batch), computing("ours"));
    ours_ = std::move(copies.logits);
    different_ = copies.different;
  }
  weights_ = std::move(model.weights);
}

std::shared_ptr<const ModelWeights> Verification::reference_weights() {
  if (flags_.reference.empty()) return weights_->on_host();
  weights_.reset();
  return std::make_shared<const ModelWeights>(ModelWeights::load(flags_.reference, *source_.model));
}

std::vector<float> Verification::run_oracle(const std::shared_ptr<const ModelWeights>& weights,
                                            OracleDtype dtype, const char* label) {
  Oracle oracle(*source_.model, weights,
                {.dtype = dtype,
                 .device = flags_.device,
                 .cache_cells = static_cast<int64_t>(tokens_.size()),
                 .threads = static_cast<uint32_t>(options_.threads)});
  library_ = oracle.library();
  device_ = oracle.device();
  return teacher_force(oracle, tokens_, vocab_, computing(label));
}

void Verification::run_reference() {
  const std::shared_ptr<const ModelWeights> weights = reference_weights();
  fp32_ = run_oracle(weights, OracleDtype::kFp32, "reference fp32");
  bf16_ = run_oracle(weights, OracleDtype::kBf16, "reference bf16");
  ours_error_ = compare_logits(ours_, fp32_, vocab_);
  bf16_error_ = compare_logits(bf16_, fp32_, vocab_);
  ratio_ = fidelity_ratio(ours_error_, bf16_error_);
}

void Verification::dump() const {
  if (flags_.dump_file.empty()) return;
  std::vector<NamedLogits> tables = {{"ours", ours_}};
  if (!flags_.ours_only) {
    tables.push_back({"reference.fp32", fp32_});
    tables.push_back({"reference.bf16", bf16_});
  }
  write_logits_file(flags_.dump_file, tokens_, tables);
}

std::string error_line(const std::string& name, const Fidelity& f) {
  return fmt::format("{:<16}{:>16.4e}{:>16.4e}{:>12.2f} %{:>8} (KL {:.2e})\n", name, f.mean_relative,
                     f.mean_kl, 100 * f.top1_agreement, f.worst_position, f.worst.kl);
}

std::string Verification::model_line() const {
  return fmt::format("{}, {} positions on backend {}\n", source_.model->name, tokens_.size(), backend_);
}

// The logits that are compared are those of one sequence; all other sequences must have the same bits.
std::string Verification::batch_line() const {
  if (flags_.batch == 0) return "";
  if (different_ == 0) return fmt::format("decoded in {} sequences: all have the same bits\n", flags_.batch);
  return fmt::format("decoded in {} sequences: OTHER BITS in {} of {} rows\n", flags_.batch, different_,
                     tokens_.size() * static_cast<size_t>(flags_.batch));
}

std::string Verification::as_text() const {
  if (flags_.ours_only) return model_line() + batch_line();
  std::string out = model_line();
  out += fmt::format("against the fp32 pass of {} on {}, means over the positions:\n\n", library_, device_);
  out +=
      fmt::format("{:<16}{:>16}{:>16}{:>14}{:>8}\n", "", "relative error", "KL divergence", "top-1", "worst");
  out += error_line("ours", ours_error_);
  out += error_line("reference bf16", bf16_error_);
  out += fmt::format("{:<16}{:>16.3f}{:>16.3f}\n\n", "ratio", ratio_.relative, ratio_.kl);
  return out + batch_line() +
         fmt::format("{} the gate of {}\n", ratio_.within_gate() ? "within" : "OUTSIDE", kFidelityBound);
}

ordered_json error_json(const Fidelity& f) {
  return {{"mean_relative_error", f.mean_relative},
          {"mean_kl_divergence", f.mean_kl},
          {"top1_agreement", f.top1_agreement},
          {"worst_position",
           {{"position", f.worst_position},
            {"relative_error", f.worst.relative},
            {"kl_divergence", f.worst.kl},
            {"same_top", f.worst.same_top}}}};
}

ordered_json Verification::as_json() const {
  ordered_json out = {{"model", source_.model->name}, {"positions", tokens_.size()}, {"backend", backend_}};
  if (flags_.batch > 0) out["batch"] = {{"size", flags_.batch}, {"rows_of_other_bits", different_}};
  if (flags_.ours_only) return out;
  out["reference"] = {{"library", library_}, {"device", device_}};
  out["ours"] = error_json(ours_error_);
  out["reference_bf16"] = error_json(bf16_error_);
  out["ratio"] = {{"relative_error", ratio_.relative}, {"kl_divergence", ratio_.kl}};
  out["gate"] = kFidelityBound;
  out["passed"] = passed();
  return out;
}

void check_combination(const Flags& flags) {
  if (!flags.text_file.empty() && flags.random_tokens) {
    throw Error(ErrorKind::kUsage, "--random-tokens: not with --text; see serval verify --help");
  }
  if (flags.ours_only && flags.dump_file.empty()) {
    throw Error(ErrorKind::kUsage, "--ours-only: needs --dump; see serval verify --help");
  }
  if (flags.engine.max_batch_tokens > 0 && flags.batch > flags.engine.max_batch_tokens) {
    throw Error(ErrorKind::kUsage,
                fmt::format("--batch-size: {}; limit: {} (--max-batch-tokens); see serval verify --help",
                            flags.batch, flags.engine.max_batch_tokens));
  }
  // The torch backend computes each sequence by itself.
  if (flags.batch > 0 && flags.engine.backend == name_of(BackendKind::kTorch)) {
    throw Error(ErrorKind::kUsage,
                "--batch-size: not with --backend torch, which has no batches; see serval verify --help");
  }
}

}  // namespace

int run_verify(const Arguments& arguments) {
  Flags flags;
  FlagSet set("verify", "Compares the model's logits with those of the LibTorch reference.", "[FLAGS]");
  flags.declare(set);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  check_combination(flags);
  // Fails early if the reference cannot be loaded, before minutes of computation.
  if (!flags.ours_only) load_torch_plugin();
  Verification verification(flags);
  verification.run_ours();
  if (!flags.ours_only) verification.run_reference();
  verification.dump();
  erase_progress();
  write_stdout(flags.output.json ? pretty(verification.as_json()) : verification.as_text());
  return verification.passed() ? 0 : kOutsideGate;
}

}  // namespace serval::cli

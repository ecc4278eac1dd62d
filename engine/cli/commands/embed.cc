// serval embed: embeddings of texts.
#include <chrono>
#include <climits>
#include <deque>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "engine/cli/commands/commands.h"
#include "engine/cli/flags/common_options.h"
#include "engine/cli/flags/parse_value.h"
#include "engine/cli/input/prompts.h"
#include "engine/cli/input/signals.h"
#include "engine/cli/output/log.h"
#include "engine/cli/output/output.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

constexpr const char* kExamples =
    "  serval embed -p 'Once upon a time'\n"
    "  serval embed -m path/to/Qwen3-Embedding-0.6B -f texts.txt --dimensions 256\n";

// Requests in flight for each sequence that can run, so that none waits for this thread.
constexpr size_t kRequestsOfSequence = 2;

struct Flags {
  EngineOptions engine;
  OutputFlags output;
  PromptFlags prompts;
  int dimensions = 0;
  bool no_normalize = false;

  void declare(FlagSet& set) {
    prompts.declare(set);
    prompts.declare_ids(set);
    set.group("Embeddings");
    declare_pooling(set, engine);
    set.value("--dimensions", "N",
              "only the first N values, normalised anew. Default: all, the model's hidden size",
              [this](const FlagValue& v) { dimensions = static_cast<int>(parse_integer(v, 1, INT_MAX)); });
    set.toggle("--no-normalize", "do not scale embeddings to a length of 1", no_normalize);
    declare_engine(set, engine);
    declare_capacity(set, engine);
    declare_max_sequences(set, engine);
    output.declare(set, "");
    set.examples(kExamples);
    engine.embeddings = true;
  }
};

// Runs the requests and prints a line for each, in order.
class Embedding {
 public:
  Embedding(Engine& engine, std::vector<Request> requests)
      : engine_(engine), requests_(std::move(requests)) {}

  // Returns whether no request failed. A signal ends it early.
  bool run() {
    const CancelScope cancelled_by_signals(engine_);
    const size_t most = kRequestsOfSequence * static_cast<size_t>(engine_.info().max_sequences);
    while (pending_signal() == 0 && (next_ < requests_.size() || !running_.empty())) {
      while (next_ < requests_.size() && running_.size() < most)
        running_.push_back(engine_.submit(requests_[next_++]));
      finish_first();
    }
    running_.clear();
    return all_well_;
  }

  void log(double wall_ms) const {
    log_info(fmt::format("{} embedding{} of {} tokens in {:.1f} ms ({:.1f} tokens/s)", done_,
                         done_ == 1 ? "" : "s", tokens_, wall_ms,
                         static_cast<double>(tokens_) / wall_ms * 1e3));
  }

 private:
  void finish_first() {
    const Response response = running_.front().wait().front();
    running_.pop_front();
    const size_t index = index_++;
    if (response.finish == Finish::kCancelled) return;
    if (response.finish == Finish::kError) return fail(index, response);
    ++done_;
    tokens_ += response.prompt_tokens;
    write_stdout(fmt::format("{{\"index\": {}, \"tokens\": {}, \"embedding\": [{}]}}\n", index,
                             response.prompt_tokens, fmt::join(response.embedding, ", ")));
  }

  void fail(size_t index, const Response& response) {
    if (response.error_kind != ErrorKind::kRuntime) throw Error(response.error_kind, response.error);
    all_well_ = false;
    log_error(fmt::format("prompt {}: {}", index + 1, response.error));
  }

  Engine& engine_;
  const std::vector<Request> requests_;
  std::deque<RequestHandle> running_;
  size_t next_ = 0, index_ = 0, done_ = 0;
  int64_t tokens_ = 0;
  bool all_well_ = true;
};

std::vector<Request> requests_of(const Flags& flags, const std::vector<Prompt>& prompts) {
  std::vector<Request> requests;
  for (const Prompt& prompt : prompts) {
    Request& request = requests.emplace_back();
    request.prompt = prompt.text;
    request.prompt_ids = prompt.ids;
    request.max_tokens = 0;
    request.dimensions = flags.dimensions;
    if (flags.no_normalize) request.normalize = false;
  }
  return requests;
}

int embed(const Flags& flags) {
  std::vector<Request> requests = requests_of(flags, flags.prompts.collect());
  EngineOptions options = flags.engine;
  options.programs_in_background = true;
  Engine engine = load_engine(options, flags.output.progress);
  log_info(fmt::format("pooling: {}", engine.info().pooling));
  Embedding embedding(engine, std::move(requests));
  const auto begin = std::chrono::steady_clock::now();
  const bool all_well = embedding.run();
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - begin;
  embedding.log(wall.count());
  const int signal = pending_signal();
  if (signal != 0) return kSignalExitBase + signal;
  return all_well ? 0 : static_cast<int>(ErrorKind::kRuntime);
}

}  // namespace

int run_embed(const Arguments& arguments) {
  Flags flags;
  FlagSet set("embed", "Prints the embeddings of texts, a JSON object a line.", "[FLAGS]");
  flags.declare(set);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  return embed(flags);
}

}  // namespace serval::cli

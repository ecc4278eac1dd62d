// serval score: log-probabilities of texts.
#include <chrono>
#include <cmath>
#include <deque>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/cli/commands/commands.h"
#include "engine/cli/flags/common_options.h"
#include "engine/cli/input/prompts.h"
#include "engine/cli/input/score_lines.h"
#include "engine/cli/input/signals.h"
#include "engine/cli/measure/text_score.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/log.h"
#include "engine/cli/output/output.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

constexpr const char* kExamples =
    "  serval score -f texts.jsonl\n"
    "  echo '{\"prompt\": \"Once upon a\", \"continuation\": \" time\"}' | serval score -f - --tokens\n";

// Requests in flight for each sequence that can run, so that none waits for this thread.
constexpr size_t kRequestsOfSequence = 2;

struct Flags {
  EngineOptions engine;
  OutputFlags output;
  std::string file;
  ScoreOptions score;
  bool no_special_tokens = false;
  bool tokens = false;

  void declare(FlagSet& set) {
    set.group("Texts");
    set.value(
        "-f,--file", "FILE",
        "the texts, a JSON object a line: {\"text\": …}, or {\"prompt\": …, \"continuation\": …} to score "
        "the continuation; -: stdin",
        [this](const FlagValue& v) { file = parse_text(v); });
    set.toggle("--special", "control tokens that are written in a text mean these tokens", score.special);
    set.toggle("--no-bos", "do not add the model's own special tokens, such as BOS, to a text",
               no_special_tokens);
    declare_engine(set, engine);
    declare_capacity(set, engine);
    declare_max_sequences(set, engine);
    output.declare(set, "");
    set.toggle("--tokens", "also print each token and its log-probability", tokens);
    set.examples(kExamples);
  }
};

// A line whose requests are running.
struct RunningLine {
  size_t index = 0;
  std::vector<RequestHandle> requests;
};

nlohmann::ordered_json result_json(const ScoreLine& line, size_t index, const TextScore& score,
                                   bool with_tokens) {
  nlohmann::ordered_json out = {{"index", index}};
  if (!line.id.is_null()) out["id"] = line.id;
  out["log_probability"] = score.log_probability;
  out["tokens"] = score.tokens;
  out["perplexity"] = score.perplexity();
  out["is_greedy"] = score.is_greedy;
  if (with_tokens) {
    out["token_ids"] = score.token_ids;
    out["log_probabilities"] = score.log_probabilities;
  }
  return out;
}

// Runs the requests of all lines and prints a result for each line, in order.
class Scoring {
 public:
  Scoring(Engine& engine, const Flags& flags, const std::vector<ScoreLine>& lines)
      : engine_(engine), flags_(flags), lines_(lines) {
    // All lines are checked before the first result is printed.
    for (const ScoreLine& line : lines) requests_.push_back(score_requests(engine, line, flags.score));
  }

  // Returns whether no line failed. A signal ends it early.
  bool run() {
    const CancelScope cancelled_by_signals(engine_);
    const size_t most = kRequestsOfSequence * static_cast<size_t>(engine_.info().max_sequences);
    while (pending_signal() == 0 && (next_ < lines_.size() || !running_.empty())) {
      while (next_ < lines_.size() && (running_.empty() || in_flight_ < most)) submit();
      finish_first();
    }
    running_.clear();
    return all_well_;
  }

  void log(double wall_ms) const {
    log_info(fmt::format("{} text{}, {} tokens in {:.1f} ms ({:.1f} tokens/s); perplexity {:.4f}", done_,
                         done_ == 1 ? "" : "s", all_.tokens, wall_ms,
                         static_cast<double>(all_.tokens) / wall_ms * 1e3, all_.perplexity()));
  }

 private:
  void submit() {
    RunningLine& line = running_.emplace_back();
    line.index = next_++;
    line.requests = engine_.submit(requests_[line.index]);
    in_flight_ += line.requests.size();
    requests_[line.index].clear();
  }

  void finish_first() {
    RunningLine line = std::move(running_.front());
    running_.pop_front();
    in_flight_ -= line.requests.size();
    TextScore score;
    for (RequestHandle& request : line.requests) {
      const Response response = request.wait().front();
      if (response.finish == Finish::kCancelled) return;
      if (response.finish == Finish::kError) return fail(line.index, response);
      score.add(response);
    }
    ++done_;
    all_.log_probability += score.log_probability;
    all_.tokens += score.tokens;
    write_stdout(compact(result_json(lines_[line.index], line.index, score, flags_.tokens)));
  }

  void fail(size_t index, const Response& response) {
    if (response.error_kind != ErrorKind::kRuntime) throw Error(response.error_kind, response.error);
    all_well_ = false;
    log_error(lines_[index].place + ": " + response.error);
  }

  Engine& engine_;
  const Flags& flags_;
  const std::vector<ScoreLine>& lines_;
  std::vector<std::vector<Request>> requests_;  // of each line; empty once they are submitted
  std::deque<RunningLine> running_;
  size_t next_ = 0, in_flight_ = 0, done_ = 0;
  TextScore all_;
  bool all_well_ = true;
};

int score(Flags flags) {
  flags.score.add_special_tokens = !flags.no_special_tokens;
  const std::vector<ScoreLine> lines =
      parse_score_lines(read_all(flags.file), flags.file == "-" ? "stdin" : flags.file);
  EngineOptions options = flags.engine;
  options.programs_in_background = true;
  Engine engine = load_engine(options, flags.output.progress);
  Scoring scoring(engine, flags, lines);
  const auto begin = std::chrono::steady_clock::now();
  const bool all_well = scoring.run();
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - begin;
  scoring.log(wall.count());
  const int signal = pending_signal();
  if (signal != 0) return kSignalExitBase + signal;
  return all_well ? 0 : static_cast<int>(ErrorKind::kRuntime);
}

}  // namespace

int run_score(const Arguments& arguments) {
  Flags flags;
  FlagSet set("score", "Prints the log-probabilities of texts, a JSON object a line.", "-f FILE [FLAGS]");
  flags.declare(set);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  if (flags.file.empty()) throw Error(ErrorKind::kUsage, "-f: required" + set.see_help());
  return score(std::move(flags));
}

}  // namespace serval::cli

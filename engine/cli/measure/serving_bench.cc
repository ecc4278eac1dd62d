#include "engine/cli/measure/serving_bench.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/cli/flags/common_options.h"
#include "engine/cli/input/signals.h"
#include "engine/cli/measure/bench_result.h"
#include "engine/cli/output/draft_line.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/output.h"
#include "vm/base/statistics.h"

namespace serval::cli {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

// The times of a request's events. Written on the engine's thread.
struct Timeline {
  Clock::time_point sent;
  std::vector<Clock::time_point> tokens;
  Clock::time_point ended;
  Response response;
};

double milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// Sends each request when it is due.
class Run {
 public:
  Run(Engine& engine, const ServingBench& bench)
      : engine_(engine), bench_(bench), timelines_(bench.sizes.size()) {}

  // Returns the seconds from the first request to the last token.
  double to_end(ProgressBar& bar) {
    const CancelScope cancelled_by_signals(engine_);
    const std::vector<double> due =
        arrival_times(static_cast<int>(timelines_.size()), bench_.rate, bench_.seed);
    const Clock::time_point begin = Clock::now();
    std::vector<RequestHandle> handles;
    for (size_t i = 0; i < timelines_.size() && pending_signal() == 0; ++i) {
      const std::chrono::duration<double> after(due[i]);
      wait_until(begin + std::chrono::duration_cast<Clock::duration>(after), bar);
      if (pending_signal() == 0) handles.push_back(send(i));
    }
    while (ended() < handles.size()) wait_until(Clock::now() + kDraw, bar);
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  const std::vector<Timeline>& timelines() const { return timelines_; }

 private:
  static constexpr std::chrono::milliseconds kDraw{50};

  RequestHandle send(size_t index) {
    Request request;
    request.prompt_ids = made_up_prompt(bench_.sizes[index].input, engine_.info().vocab_size, index);
    request.max_tokens = bench_.sizes[index].output;
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    timelines_[index].sent = Clock::now();
    return engine_.submit(request, [this, index](const RequestEvent& event) { note(index, event); });
  }

  void note(size_t index, const RequestEvent& event) {
    Timeline& timeline = timelines_[index];
    if (event.kind == RequestEvent::Kind::kToken) return timeline.tokens.push_back(Clock::now());
    timeline.ended = Clock::now();
    timeline.response = event.response;
    {
      const std::lock_guard lock(mutex_);
      ++ended_;
    }
    changed_.notify_one();
  }

  size_t ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

  // Waits until `time`, or until a signal comes.
  void wait_until(Clock::time_point time, ProgressBar& bar) {
    do {
      std::unique_lock lock(mutex_);
      bar.update("requests", ended_, timelines_.size(), ProgressBar::Measure::kSteps);
      changed_.wait_until(lock, std::min(time, Clock::now() + kDraw));
    } while (Clock::now() < time && pending_signal() == 0);
  }

  Engine& engine_;
  const ServingBench& bench_;
  std::vector<Timeline> timelines_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t ended_ = 0;
};

// One kind of time for all requests, in milliseconds.
struct Times {
  const char* key;  // vLLM's name
  const char* label;
  std::vector<double> values;
};

std::vector<Times> times_of(const std::vector<Timeline>& timelines) {
  Times first{"ttft", "time to first token", {}}, each{"tpot", "time per output token, but the first", {}},
      between{"itl", "time between tokens", {}}, whole{"e2el", "end to end", {}};
  for (const Timeline& t : timelines) {
    if (t.response.finish != Finish::kLength) continue;
    whole.values.push_back(milliseconds(t.ended - t.sent));
    if (t.tokens.empty()) continue;
    first.values.push_back(milliseconds(t.tokens.front() - t.sent));
    for (size_t i = 1; i < t.tokens.size(); ++i)
      between.values.push_back(milliseconds(t.tokens[i] - t.tokens[i - 1]));
    const auto others = static_cast<double>(t.tokens.size() - 1);
    if (others > 0) each.values.push_back(milliseconds(t.tokens.back() - t.tokens.front()) / others);
  }
  return {std::move(first), std::move(each), std::move(between), std::move(whole)};
}

// Mean time between the passes of two launches that follow each other at once; on a GPU, between kernels.
double mean_gap_us(const EngineStats& stats) {
  constexpr double kUsOfMs = 1e3;
  if (stats.gaps == 0) return 0;
  const double around_kernels = stats.kernel_ms > 0 ? stats.pass_ms - stats.kernel_ms : 0;
  return kUsOfMs * (stats.gap_ms / static_cast<double>(stats.gaps) +
                    around_kernels / static_cast<double>(stats.launches));
}

constexpr double kPercentiles[] = {50, 90, 99};

ordered_json figures_of(const Engine& engine, const ServingBench& bench, const Run& run,
                        const std::vector<Times>& all_times, double seconds) {
  int64_t completed = 0, input = 0, output = 0;
  for (const Timeline& t : run.timelines()) {
    if (t.response.finish != Finish::kLength) continue;
    ++completed;
    input += t.response.prompt_tokens;
    output += static_cast<int64_t>(t.tokens.size());
  }
  const auto a_second = [&](int64_t count) { return static_cast<double>(count) / seconds; };
  const EngineStats stats = engine.stats();
  const auto requests = static_cast<int64_t>(bench.sizes.size());
  ordered_json out = {{"model_id", engine.info().name},
                      {"backend", engine.info().backend},
                      {"gpus", engine.info().gpus},
                      {"num_prompts", requests},
                      {"request_rate", bench.rate > 0 ? ordered_json(bench.rate) : ordered_json("inf")},
                      {"max_concurrency", engine.info().max_sequences},
                      {"duration", seconds},
                      {"completed", completed},
                      {"failed", requests - completed},
                      {"total_input_tokens", input},
                      {"total_output_tokens", output},
                      {"request_throughput", a_second(completed)},
                      {"output_throughput", a_second(output)},
                      {"total_token_throughput", a_second(input + output)}};
  for (const Times& times : all_times) {
    out[fmt::format("mean_{}_ms", times.key)] = mean(times.values);
    out[fmt::format("median_{}_ms", times.key)] = percentile(times.values, 50);
    out[fmt::format("std_{}_ms", times.key)] = deviation(times.values, DeviationOf::kValues);
    for (const double p : kPercentiles)
      out[fmt::format("p{:.0f}_{}_ms", p, times.key)] = percentile(times.values, p);
  }
  out["passes"] = stats.passes;
  out["launches"] = stats.launches;
  out["mean_gap_us"] = mean_gap_us(stats);
  out["preemptions"] = stats.preemptions;
  if (stats.drafts.passes > 0) {
    out["draft_tokens"] = stats.drafts.drafted;
    out["accepted_tokens"] = stats.drafts.accepted;
    out["acceptance_length"] = acceptance_length(stats.drafts);
  }
  out["prefix_cache_queries"] = stats.prompt_tokens;
  out["prefix_cache_hits"] = stats.cached_tokens;
  add_build(out);
  return out;
}

std::string markdown(const ordered_json& f, const std::vector<Times>& all_times) {
  const auto number = [&](const std::string& key) { return f.at(key).get<double>(); };
  std::string out = fmt::format(
      "| model | backend | requests | failed | s | requests/s | output t/s | total t/s | preemptions | "
      "prefix hits | launches | us between |\n"
      "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
      "| {} | {} | {} | {} | {:.2f} | {:.2f} | {:.1f} | {:.1f} | {} | {:.1f} % | {} | {:.1f} |\n\n",
      f.at("model_id").get<std::string>(), f.at("backend").get<std::string>(), number("num_prompts"),
      number("failed"), number("duration"), number("request_throughput"), number("output_throughput"),
      number("total_token_throughput"), number("preemptions"),
      100 * number("prefix_cache_hits") / std::max(1.0, number("prefix_cache_queries")), number("launches"),
      number("mean_gap_us"));
  out += "| ms | mean | p50 | p90 | p99 |\n| --- | ---: | ---: | ---: | ---: |\n";
  for (const Times& times : all_times) {
    out += fmt::format("| {} | {:.2f} |", times.label, number(fmt::format("mean_{}_ms", times.key)));
    for (const double p : kPercentiles)
      out += fmt::format(" {:.2f} |", number(fmt::format("p{:.0f}_{}_ms", p, times.key)));
    out += '\n';
  }
  return out;
}

std::string csv(const ordered_json& figures) {
  std::string head, row;
  for (const auto& [key, value] : figures.items()) {
    head += (head.empty() ? "" : ",") + key;
    row += (row.empty() ? "" : ",") + value.dump();
  }
  return head + '\n' + row + '\n';
}

EngineOptions options_for(const ServingBench& bench) {
  EngineOptions options = bench.engine;
  int longest = 0;
  for (const RequestSize& size : bench.sizes) longest = std::max(longest, size.input + size.output);
  if (options.context == 0) options.context = longest;
  return options;
}

}  // namespace

int run_serving_bench(const ServingBench& bench) {
  Engine engine = load_engine(options_for(bench), bench.progress);
  Run run(engine, bench);
  double seconds = 0;
  {
    ProgressBar bar(bench.progress);
    seconds = run.to_end(bar);
  }
  const int signal = pending_signal();
  if (signal != 0) return kSignalExitBase + signal;
  const std::vector<Times> times = times_of(run.timelines());
  const ordered_json figures = figures_of(engine, bench, run, times, seconds);
  if (!bench.record_file.empty()) append_result(bench.record_file, figures);
  if (bench.format == "json") {
    write_stdout(pretty(figures));
  } else {
    write_stdout(bench.format == "csv" ? csv(figures) : markdown(figures, times));
  }
  return figures.at("failed").get<int64_t>() == 0 ? 0 : static_cast<int>(ErrorKind::kRuntime);
}

}  // namespace serval::cli

#include "engine/cli/measure/bench_result.h"

#include <ctime>
#include <set>

#include "fmt/chrono.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

#include "engine/cli/output/json_text.h"
#include "serval_commit.h"
#include "vm/base/statistics.h"
#include "vm/base/version.h"
#include "vm/base/write_file.h"

namespace serval::cli {
namespace {

using nlohmann::ordered_json;

constexpr double kMicrosecondsPerSecond = 1e6;
constexpr double kBytesPerMicrosecond = 1e3;  // for 1e9 bytes per second

template <class Time>
std::optional<double> median_us(const std::vector<PassTimes>& samples, Time&& time_of) {
  std::vector<double> times;
  for (const PassTimes& sample : samples) {
    const std::optional<double> time = time_of(sample);
    if (!time) return std::nullopt;
    times.push_back(*time / sample.passes);
  }
  return median(times);
}

// Bytes that a pass of generation reads: all weights once, and each sequence's keys and values.
double bytes_per_pass(const Model& model, const DepthTest& test) {
  const double mean_context = test.depth + (test.tokens + 1) / 2.0;  // average over the test's passes
  return static_cast<double>(model.weight_bytes_per_token()) +
         test.batch * mean_context * static_cast<double>(model.kv_bytes_per_token());
}

// Number of distinct GPUs: ranks may share one, and its memory bandwidth.
size_t different_gpus(const BenchSubject& subject) {
  if (subject.gpus.empty()) return subject.backend.program().num_devices;
  return std::set(subject.gpus.begin(), subject.gpus.end()).size();
}

ordered_json or_null(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

// A number with that many digits; empty for null.
std::string cell(const ordered_json& value, int digits, double factor = 1) {
  return value.is_null() ? "" : fmt::format("{:.{}f}", factor * value.get<double>(), digits);
}

// RFC 4180: quoted, with quotes doubled.
std::string csv_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

std::string csv_cell(const ordered_json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? csv_text(value.get<std::string>()) : value.dump();
}

std::string dtype_text(const WeightFormats& formats) {
  std::string text(name_of(formats.layers));
  if (formats.lm_head != formats.layers) text += fmt::format(", lm_head {}", name_of(formats.lm_head));
  if (formats.e4m3_inputs) text += ", activations e4m3 from 65 tokens on";
  return text;
}

}  // namespace

ordered_json bench_result(const BenchSubject& subject, const DepthTest& test, const Measured& measured) {
  const std::vector<PassTimes>& samples = measured.samples;
  const Program& program = subject.backend.program();
  const double total = *median_us(samples, [](const PassTimes& s) { return std::optional(s.total_us); });
  const std::optional<double> kernel = median_us(samples, [](const PassTimes& s) { return s.kernel_us; });
  const double tokens_per_pass = static_cast<double>(test.tokens) * test.batch / samples.front().passes;
  std::optional<double> speed, share;
  if (!test.prompt)
    speed = bytes_per_pass(subject.model, test) / kernel.value_or(total) / kBytesPerMicrosecond;
  if (speed && subject.limit_gb_per_s)
    share = *speed / (*subject.limit_gb_per_s * static_cast<double>(different_gpus(subject)));
  const auto policy = program.metadata.find("policy");

  ordered_json result = {{"model", subject.model.name},
                         {"test", test.name()},
                         {"context", test.depth},
                         {"batch", test.batch},
                         {"dtype", dtype_text(subject.model.formats)},
                         {"tokens_per_second", kMicrosecondsPerSecond * tokens_per_pass / total}};
  result["us_per_token_kernel"] = kernel ? ordered_json(*kernel / tokens_per_pass) : ordered_json(nullptr);
  result["us_per_token_total"] = total / tokens_per_pass;
  result["us_per_pass_kernel"] = or_null(kernel);
  result["us_per_pass_total"] = total;
  result["us_per_pass_torch"] = or_null(measured.torch_us);
  result["gb_per_s"] = or_null(speed);
  result["limit_gb_per_s"] = or_null(subject.limit_gb_per_s);
  result["share_of_limit"] = or_null(share);
  result["backend"] = subject.backend.name();
  result["gpu"] = kernel ? ordered_json(program.machine.name) : ordered_json(nullptr);
  result["gpus"] = program.num_devices;
  result["sms"] = program.machine.sms;
  result["policy"] = policy == program.metadata.end() ? "" : policy->second;
  result["queue"] = name_of(program.queue_kind);
  result["launch_passes"] = subject.launch_passes;
  result["repetitions"] = samples.size();
  add_build(result);
  return result;
}

void add_build(ordered_json& result) {
  result["version"] = version();
  result["commit"] = kCommit;
  result["date"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

void append_result(const std::string& file, const ordered_json& result) {
  append_to_file(file, compact(result));
}

std::string markdown_head() {
  return "| model | backend | batch | test | t/s | µs/pass | kernel µs/pass | torch µs/pass | GB/s | of the "
         "limit |\n"
         "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";
}

std::string markdown_row(const ordered_json& r) {
  constexpr double kPercent = 100;
  const std::string share = cell(r.at("share_of_limit"), 1, kPercent);
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                     r.at("model").get<std::string>(), r.at("backend").get<std::string>(),
                     r.at("batch").get<int>(), r.at("test").get<std::string>(),
                     cell(r.at("tokens_per_second"), 2), cell(r.at("us_per_pass_total"), 1),
                     cell(r.at("us_per_pass_kernel"), 1), cell(r.at("us_per_pass_torch"), 1),
                     cell(r.at("gb_per_s"), 0), share.empty() ? share : share + " %");
}

std::string csv_head(const ordered_json& result) {
  std::vector<std::string> names;
  for (const auto& [name, value] : result.items()) names.push_back(name);
  return fmt::format("{}\n", fmt::join(names, ","));
}

std::string csv_row(const ordered_json& result) {
  std::vector<std::string> cells;
  for (const ordered_json& value : result) cells.push_back(csv_cell(value));
  return fmt::format("{}\n", fmt::join(cells, ","));
}

}  // namespace serval::cli

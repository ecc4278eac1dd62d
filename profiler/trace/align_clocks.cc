#include "profiler/trace/align_clocks.h"

#include <algorithm>
#include <map>
#include <utility>

namespace serval {
namespace {

// With fewer moments no line is fitted.
constexpr double kLeastMoments = 8;

// Sums for fitting a line by least squares.
struct LineFit {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;

  void add(double at, double value) {
    n += 1;
    x += at;
    y += value;
    xx += at * at;
    xy += at * value;
  }
  ClockError line() const {
    const double spread = n * xx - x * x;
    if (n < kLeastMoments || spread <= 0) return {};
    const double rate = (n * xy - x * y) / spread;
    return {(y - rate * x) / n, rate};
  }
};

struct Notice {
  uint32_t sm;
  int64_t ns;
};

// The SMs that noticed the last signal to a counter, by pass and counter, and when.
using Notices = std::map<std::pair<uint32_t, uint32_t>, std::vector<Notice>>;

Notices notices_of(const std::vector<Execution>& executions) {
  Notices notices;
  for (const Execution& e : executions) {
    if (e.last_counter != kNoCounter && e.has(EventKind::kInputsReady))
      notices[{e.pass, e.last_counter}].push_back({e.sm, e.time(EventKind::kInputsReady)});
  }
  return notices;
}

int64_t median_ns(std::vector<Notice> notices) {
  const auto middle = notices.begin() + static_cast<std::ptrdiff_t>(notices.size() / 2);
  std::nth_element(notices.begin(), middle, notices.end(),
                   [](const Notice& a, const Notice& b) { return a.ns < b.ns; });
  return middle->ns;
}

int64_t first_of_all(const std::vector<Execution>& executions) {
  int64_t first = INT64_MAX;
  for (const Execution& e : executions) first = std::min(first, first_time(e));
  return first;
}

}  // namespace

ClockErrors clock_errors(const std::vector<Execution>& executions, uint32_t sms, uint32_t ranks) {
  ClockErrors errors{first_of_all(executions), std::vector<ClockError>(sms)};
  std::vector<LineFit> fits(sms);
  for (const auto& [key, notices] : notices_of(executions)) {
    if (2 * notices.size() < sms / ranks) continue;
    const int64_t median = median_ns(notices);
    for (const Notice& notice : notices)
      fits.at(notice.sm).add(static_cast<double>(median - errors.epoch_ns),
                             static_cast<double>(notice.ns - median));
  }
  for (uint32_t sm = 0; sm < sms; ++sm) errors.of_sm[sm] = fits[sm].line();
  return errors;
}

void correct_clocks(const ClockErrors& errors, std::vector<Execution>& executions,
                    std::vector<PageSample>& samples) {
  for (Execution& e : executions) {
    const ClockError& error = errors.of_sm.at(e.sm);
    for (int64_t& ns : e.at) {
      if (ns != kNever) ns = error.corrected(ns, errors.epoch_ns);
    }
  }
  for (PageSample& sample : samples)
    sample.at_ns = errors.of_sm.at(sample.sm).corrected(sample.at_ns, errors.epoch_ns);
}

}  // namespace serval

#include "profiler/trace/align_ranks.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <utility>

#include "profiler/trace/last_signals.h"

namespace serval {
namespace {

constexpr double kMostRate = 0.01;
constexpr int kHalvings = 60;  // of a range of rates: as fine as a double needs

// At this moment a clock is at most `value` ahead; in a list of lower bounds, at least `value`.
struct Bound {
  double at, value;
};

// Removes the upper bounds that no line can touch because of others, so that few are left.
std::vector<Bound> lower_hull(std::vector<Bound> bounds) {
  std::sort(bounds.begin(), bounds.end(), [](const Bound& a, const Bound& b) {
    return std::pair(a.at, a.value) < std::pair(b.at, b.value);
  });
  std::vector<Bound> hull;
  for (const Bound& b : bounds) {
    const auto above = [&](const Bound& first, const Bound& middle) {
      return (middle.value - first.value) * (b.at - first.at) >=
             (b.value - first.value) * (middle.at - first.at);
    };
    while (hull.size() > 1 && above(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back(b);
  }
  return hull;
}

// The argument in [low, high] at which a concave function is largest.
template <class Function>
double largest_at(double low, double high, Function&& function) {
  for (int n = 0; n < 2 * kHalvings; ++n) {
    const double first = low + (high - low) / 3, second = high - (high - low) / 3;
    if (function(first) < function(second))
      low = first;
    else
      high = second;
  }
  return (low + high) / 2;
}

// The bounds that a clock's line must lie between. Lower bounds are negated, so that they are upper ones,
// too.
class ClockBounds {
 public:
  void at_most(int64_t at, int64_t ns) {
    upper_.push_back({static_cast<double>(at), static_cast<double>(ns)});
  }
  void at_least(int64_t at, int64_t ns) {
    lower_.push_back({static_cast<double>(at), static_cast<double>(-ns)});
  }

  // `begin` and `end` of the trace, on rank 0's clock.
  std::optional<RankClock> clock(double begin, double end) {
    if (upper_.empty() || lower_.empty()) return std::nullopt;
    upper_ = lower_hull(std::move(upper_));
    lower_ = lower_hull(std::move(lower_));
    const double rate = largest_at(-kMostRate, kMostRate, [&](double r) { return room(r); });
    const double offset = (most(upper_, rate) - most(lower_, -rate)) / 2;
    RankClock clock{{offset, rate}, std::abs(room(rate)) / 2};
    if (room(rate) < 0) return clock;
    const double slowest = edge(rate, -kMostRate), fastest = edge(rate, kMostRate);
    for (const double moment : {begin, end}) {
      const double at = moment + offset + rate * moment;  // the clock's own time at that moment
      const double middle = offset + rate * at;
      const auto highest = [&](double r) { return most(upper_, r) + r * at; };
      const auto lowest = [&](double r) { return most(lower_, -r) - r * at; };
      clock.within_ns = std::max({clock.within_ns, highest(largest_at(slowest, fastest, highest)) - middle,
                                  lowest(largest_at(slowest, fastest, lowest)) + middle});
    }
    return clock;
  }

 private:
  // The largest offset that a line of this rate may have.
  static double most(const std::vector<Bound>& bounds, double rate) {
    double least = std::numeric_limits<double>::infinity();
    for (const Bound& b : bounds) least = std::min(least, b.value - rate * b.at);
    return least;
  }
  // The largest offset minus the smallest; negative if no line of this rate fits.
  double room(double rate) const { return most(upper_, rate) + most(lower_, -rate); }
  // The last rate on the way from `inside` to `limit` at which a line still fits.
  double edge(double inside, double limit) const {
    if (room(limit) >= 0) return limit;
    for (int n = 0; n < kHalvings; ++n) {
      const double middle = (inside + limit) / 2;
      (room(middle) >= 0 ? inside : limit) = middle;
    }
    return inside;
  }

  std::vector<Bound> upper_, lower_;
};

// Adds the bounds that follow from an execution on `rank`, which has seen these signals of other ranks.
void add_bounds(const RankClocks& clocks, uint32_t rank, int64_t seen_ns,
                const std::vector<RankSignals>& signals, std::vector<ClockBounds>& bounds) {
  if (rank > 0 && signals[0].last_ns != kNever)
    bounds[rank].at_most(seen_ns - clocks.epoch_ns, seen_ns - signals[0].last_ns);
  for (uint32_t other = 1; rank == 0 && other < signals.size(); ++other) {
    const int64_t given_ns = signals[other].last_ns;
    if (given_ns != kNever) bounds[other].at_least(given_ns - clocks.epoch_ns, given_ns - seen_ns);
  }
}

}  // namespace

RankClocks rank_clocks(const Trace& trace) {
  const TraceProgram& program = trace.program;
  RankClocks clocks{trace.windows.front().begin_ns, std::vector<std::optional<RankClock>>(program.ranks)};
  clocks.of_rank[0] = RankClock{};
  if (program.ranks == 1) return clocks;
  const LastSignals signals(trace);
  std::vector<ClockBounds> bounds(program.ranks);
  for (const Execution& x : trace.executions) {
    if (!x.has(EventKind::kInputsReady)) continue;
    const TraceInstruction& i = program.instructions[x.instruction];
    for (uint32_t w = i.wait_begin; w < i.wait_begin + i.wait_count; ++w) {
      const std::vector<RankSignals>* before = signals.before(program.waits[w], x.pass);
      if (before != nullptr)
        add_bounds(clocks, program.rank_of(x.sm), x.time(EventKind::kInputsReady), *before, bounds);
    }
  }
  const auto length = static_cast<double>(trace.windows.back().end_ns - clocks.epoch_ns);
  for (uint32_t rank = 1; rank < program.ranks; ++rank) clocks.of_rank[rank] = bounds[rank].clock(0, length);
  return clocks;
}

void correct_ranks(const RankClocks& clocks, Trace& trace) {
  ClockErrors errors{clocks.epoch_ns, std::vector<ClockError>(trace.program.machine.sms)};
  for (uint32_t sm = 0; sm < errors.of_sm.size(); ++sm) {
    const std::optional<RankClock>& clock = clocks.of_rank[trace.program.rank_of(sm)];
    if (clock) errors.of_sm[sm] = clock->error;
  }
  correct_clocks(errors, trace.executions, trace.samples);
}

std::string describe(const RankClocks& clocks) {
  constexpr double kNsPerUs = 1e3;
  std::vector<std::string> words;
  for (uint32_t rank = 1; rank < clocks.of_rank.size(); ++rank) {
    const std::optional<RankClock>& clock = clocks.of_rank[rank];
    words.push_back(fmt::format("GPU {}: {}", rank,
                                clock ? fmt::format("{:.1f} us", clock->within_ns / kNsPerUs) : "not known"));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace serval

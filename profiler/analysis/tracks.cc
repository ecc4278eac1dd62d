#include "profiler/analysis/tracks.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace serval {
namespace {

constexpr double kBytesPerNsToGb = 1.0;           // a byte a nanosecond is 1e9 bytes a second
constexpr double kOperationsPerNsToTflop = 1e-3;  // an operation a nanosecond is 1e9 operations a second

// Tracks cover only the windows: a trace has just some of the executions before and after them.
int64_t begin_of(const Trace& trace) {
  return trace.windows.empty() ? 0 : trace.windows.front().begin_ns;
}
int64_t end_of(const Trace& trace) {
  return trace.windows.empty() ? 0 : trace.windows.back().end_ns;
}

// Sums per bin, over the trace's windows, of amounts that are spread evenly over stretches of time.
class Bins {
 public:
  Bins(const Trace& trace, int64_t bin_ns)
      : origin_ns_(begin_of(trace)),
        end_ns_(end_of(trace)),
        bin_ns_(bin_ns),
        sums_(static_cast<size_t>((end_ns_ - origin_ns_ + bin_ns - 1) / bin_ns), 0) {}

  // Adds `rate` for each nanosecond from begin to end.
  void add(int64_t begin_ns, int64_t end_ns, double rate) {
    int64_t at = std::max(begin_ns, origin_ns_) - origin_ns_;
    const int64_t end = std::min(end_ns, end_ns_) - origin_ns_;
    while (at < end) {
      const int64_t bin = at / bin_ns_, until = std::min(end, (bin + 1) * bin_ns_);
      sums_[static_cast<size_t>(bin)] += rate * static_cast<double>(until - at);
      at = until;
    }
  }
  // Spreads `amount` evenly from begin to end; over the last nanosecond if the stretch is empty.
  void spread(int64_t begin_ns, int64_t end_ns, double amount) {
    const int64_t first = std::min(begin_ns, end_ns - 1);
    add(first, end_ns, amount / static_cast<double>(end_ns - first));
  }
  Track means(std::string name) const {
    Track track{std::move(name), {}};
    for (size_t b = 0; b < sums_.size(); ++b) {
      const int64_t begin = static_cast<int64_t>(b) * bin_ns_;
      const int64_t length = std::min(bin_ns_, end_ns_ - origin_ns_ - begin);
      track.points.push_back({origin_ns_ + begin, sums_[b] / static_cast<double>(length)});
    }
    return track;
  }

 private:
  int64_t origin_ns_, end_ns_, bin_ns_;
  std::vector<double> sums_;
};

// The time over which an execution's bytes are spread: its pages' if it has any, else its computation's.
std::pair<int64_t, int64_t> loading_time(const Execution& x) {
  if (x.has(EventKind::kLastLanded)) return {x.time(EventKind::kLoadBegin), x.time(EventKind::kLastLanded)};
  return {x.time(EventKind::kComputeBegin), x.time(EventKind::kComputeEnd)};
}

// The SMs that a track adds up: [begin, end).
struct SmRange {
  uint32_t begin, end;
  bool contains(uint32_t sm) const { return begin <= sm && sm < end; }
};

Track bandwidth(const Trace& trace, SmRange sms, int64_t bin_ns) {
  Bins bins(trace, bin_ns);
  for (const Execution& x : trace.executions) {
    if (!sms.contains(x.sm)) continue;
    const auto [begin, end] = loading_time(x);
    if (begin == kNever || end == kNever) continue;
    bins.spread(begin, end, kBytesPerNsToGb * static_cast<double>(x.bytes));
  }
  return bins.means("GB/s");
}

Track arithmetic(const Trace& trace, SmRange sms, int64_t bin_ns) {
  Bins bins(trace, bin_ns);
  for (const Execution& x : trace.executions) {
    if (!sms.contains(x.sm) || !x.has(EventKind::kComputeEnd)) continue;
    const auto operations = static_cast<double>(trace.program.instructions[x.instruction].operations);
    bins.spread(x.time(EventKind::kComputeBegin), x.time(EventKind::kComputeEnd),
                kOperationsPerNsToTflop * operations);
  }
  return bins.means("TFLOP/s");
}

Track busy_sms(const Trace& trace, SmRange sms, int64_t bin_ns) {
  Bins bins(trace, bin_ns);
  for (const Execution& x : trace.executions) {
    if (!sms.contains(x.sm) || !x.has(EventKind::kComputeEnd)) continue;
    bins.add(x.time(EventKind::kComputeBegin) + x.starved_ns, x.time(EventKind::kComputeEnd), 1);
  }
  return bins.means("busy SMs");
}

// A sample's value holds until the SM's next sample.
template <class Value>
Track sampled(const Trace& trace, SmRange sms, int64_t bin_ns, std::string name, Value&& value) {
  Bins bins(trace, bin_ns);
  for (size_t s = 0; s < trace.samples.size(); ++s) {
    const PageSample& sample = trace.samples[s];
    if (!sms.contains(sample.sm)) continue;
    const bool last = s + 1 == trace.samples.size() || trace.samples[s + 1].sm != sample.sm;
    const int64_t until = last ? end_of(trace) : trace.samples[s + 1].at_ns;
    bins.add(sample.at_ns, until, static_cast<double>(value(sample)));
  }
  return bins.means(std::move(name));
}

// The time in which an execution's pushes go over the link: while it stores, else from its last product to
// its signal.
std::pair<int64_t, int64_t> pushing_time(const Execution& x) {
  if (x.has(EventKind::kStoreBegin)) return {x.time(EventKind::kStoreBegin), x.time(EventKind::kStored)};
  return {x.time(EventKind::kComputeEnd), x.time(EventKind::kSignalled)};
}

// Traffic over the link, from a rank and to it.
struct LinkTracks {
  Track out, in;
};

// [ranks]
std::vector<LinkTracks> tracks_of_links(const Trace& trace, int64_t bin_ns) {
  const TraceProgram& program = trace.program;
  std::vector<Bins> out(program.ranks, Bins(trace, bin_ns)), in = out;
  for (const Execution& x : trace.executions) {
    const auto [begin, end] = pushing_time(x);
    if (begin == kNever || end == kNever) continue;
    for (const TracePush& push : pushes_of(program, x.instruction)) {
      const double amount = kBytesPerNsToGb * static_cast<double>(push.bytes);
      out[program.rank_of(x.sm)].spread(begin, end, amount);
      in[push.to].spread(begin, end, amount);
    }
  }
  std::vector<LinkTracks> tracks;
  for (uint32_t rank = 0; rank < program.ranks; ++rank)
    tracks.push_back({out[rank].means("link out GB/s"), in[rank].means("link in GB/s")});
  return tracks;
}

std::vector<Track> tracks_of_sms(const Trace& trace, SmRange sms, int64_t bin_ns) {
  std::vector<Track> tracks = {bandwidth(trace, sms, bin_ns), busy_sms(trace, sms, bin_ns),
                               arithmetic(trace, sms, bin_ns)};
  if (trace.samples.empty()) return tracks;
  tracks.push_back(
      sampled(trace, sms, bin_ns, "bytes in flight", [](const PageSample& s) { return s.bytes_in_flight; }));
  tracks.push_back(
      sampled(trace, sms, bin_ns, "free pages", [](const PageSample& s) { return s.free_pages; }));
  return tracks;
}

}  // namespace

std::vector<Track> tracks_of(const Trace& trace, int64_t bin_ns) {
  return tracks_of_sms(trace, {0, trace.program.machine.sms}, bin_ns);
}

std::vector<Track> link_tracks(const Trace& trace, int64_t bin_ns) {
  if (trace.program.ranks == 1) return {};
  std::vector<Track> tracks;
  for (LinkTracks& link : tracks_of_links(trace, bin_ns)) {
    link.out.name = fmt::format("GPU {} out GB/s", tracks.size());
    tracks.push_back(std::move(link.out));
  }
  return tracks;
}

std::vector<std::vector<Track>> tracks_of_ranks(const Trace& trace, int64_t bin_ns) {
  const uint32_t ranks = trace.program.ranks, sms = trace.program.sms_of_rank();
  std::vector<std::vector<Track>> tracks;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    tracks.push_back(tracks_of_sms(trace, {rank * sms, (rank + 1) * sms}, bin_ns));
  if (ranks == 1) return tracks;
  std::vector<LinkTracks> links = tracks_of_links(trace, bin_ns);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    tracks[rank].push_back(std::move(links[rank].out));
    tracks[rank].push_back(std::move(links[rank].in));
  }
  return tracks;
}

int64_t default_bin_ns(const Trace& trace) {
  constexpr int64_t kPoints = 1000;
  return std::max<int64_t>(1, (end_of(trace) - begin_of(trace)) / kPoints);
}

}  // namespace serval

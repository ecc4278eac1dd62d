// Tracks: figures over time, of all SMs together or of one rank's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/trace/trace.h"

namespace serval {

struct TrackPoint {
  int64_t at_ns = 0;  // the value holds from here to the next point
  double value = 0;
};

struct Track {
  std::string name;  // "GB/s", "TFLOP/s", "busy SMs", "bytes in flight", "free pages", "link out GB/s", …
  std::vector<TrackPoint> points;
};

// Means over bins of `bin_ns`, from the first window's begin to the last one's end:
//   GB/s             an execution's bytes, spread evenly over the time in which it loads
//   busy SMs         those whose consumers compute
//   TFLOP/s          an execution's operations, spread evenly over the time in which it computes
//   bytes in flight  and
//   free pages       sums over SMs of their last samples; left out where a trace has no samples
std::vector<Track> tracks_of(const Trace& trace, int64_t bin_ns);
// The bytes that each rank pushes to others: "GPU 0 out GB/s", …; empty for one rank. They are spread evenly
// over the time in which the instruction stores.
std::vector<Track> link_tracks(const Trace& trace, int64_t bin_ns);
// [ranks] the tracks_of() a rank's SMs and, with several ranks,
//   link out GB/s    bytes that it pushes to others
//   link in GB/s     bytes that others push to it
std::vector<std::vector<Track>> tracks_of_ranks(const Trace& trace, int64_t bin_ns);
// A bin size that gives about a thousand points.
int64_t default_bin_ns(const Trace& trace);

}  // namespace serval

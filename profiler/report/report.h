// Report: a trace in figures, which show where a token's time goes and what to improve first.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler/analysis/critical_path.h"
#include "profiler/analysis/slices.h"
#include "profiler/analysis/tracks.h"
#include "profiler/trace/trace.h"

namespace serval {

// Sums over one op or over all.
struct OpSummary {
  std::string op;
  uint64_t executions = 0;  // per token
  uint64_t bytes = 0;       // per token
  // Times of its SMs' roles in ns per token, added up over SMs: until the inputs were ready, until the data
  // had arrived, arithmetic, and from results to signal.
  double wait_ns = 0, load_ns = 0, compute_ns = 0, store_ns = 0;
};

struct PathSummary {
  std::string op;
  SliceState state = SliceState::kIdle;
  bool over_link = false;  // with kWait: waiting for another GPU's signal
  double ns = 0;           // per token
  double steps = 0;        // per token

  // "link" for a wait over the link, else the state's name.
  const char* state_name() const;
};

inline constexpr const char* kLinkState = "link";

// Time of an SM's consumers: computing, or waiting for something.
struct SmSummary {
  uint32_t sm = 0;
  std::string name;  // sm_name()
  double compute_ns = 0;
  double wait_ns = 0;  // for counters
  double load_ns = 0;  // for pages or activations
  double idle_ns = 0;  // for the next record, or for the token's end
  uint64_t bytes = 0;
  std::string worst_wait;  // the op whose inputs it waited for longest; "" if it never waited
  double worst_wait_ns = 0;
};

// The last execution of a join, if it signalled later than the median of its op there.
struct Straggler {
  uint32_t execution = 0;
  std::string op;
  uint16_t layer = kNoTag;
  uint32_t sm = 0;
  std::string sm_name;
  uint32_t counter = 0;  // of the join
  double late_ns = 0;    // after the median producer of the join
};

// The bytes that an op pushes to other GPUs, and the waiting for them.
struct ExchangeSummary {
  std::string op;
  double exchanges = 0;  // per token: counters that another GPU's records wait for
  uint64_t bytes = 0;    // per token, over the link
  double transit_ns =
      0;  // mean time from a signal until an SM that was already waiting has seen it; 0: none waited
  // Per token, added up over SMs (analysis/exchanges.h).
  double exposed_ns = 0, hidden_ns = 0;
};

// A change and the time that it would save, as the simulator (profiler/sim) predicts.
struct Saving {
  std::string change;
  double saved_ns = 0;  // per token
};

struct Report {
  TraceSource source = TraceSource::kHost;
  std::map<std::string, std::string> metadata;
  uint32_t ranks = 1;
  uint32_t sms = 0;  // of all ranks
  uint32_t tokens = 0;
  std::vector<double> token_ns;  // of each token
  double median_token_ns = 0;
  uint64_t bytes = 0;       // per token
  uint64_t operations = 0;  // per token; a multiply and an add count as two
  double gb_per_s = 0, tflop_per_s = 0;
  // Limits of the machines that the program was compiled for; 0 if not known (host).
  double limit_gb_per_s = 0, limit_tflop_per_s = 0;
  double limit_ns = 0;            // for a token's bytes, at the limit
  double compute_limit_ns = 0;    // for a token's operations, at the limit
  std::vector<PathSummary> path;  // longest first; adds up to the mean token
  std::vector<OpSummary> ops;     // in order of first execution
  std::vector<SmSummary> by_sm;
  std::vector<ExchangeSummary> exchanges;  // by op that pushes, most exposed first; empty for one GPU
  double imbalance = 0;                    // bytes of the fullest SM over the mean, minus one
  double compute_imbalance = 0;            // likewise for the time in which consumers compute
  Track bandwidth;                         // GB/s over the trace
  std::vector<Straggler> stragglers;       // latest first
  std::vector<Saving> savings;             // largest first; empty without a simulator
};

// Covers all windows of the trace. Throws Error(kRuntime) if it has none.
Report report_of(const Trace& trace);
std::string to_text(const Report& report);
// A JSON object; docs/profiling.md lists its members.
std::string to_json(const Report& report);

}  // namespace serval

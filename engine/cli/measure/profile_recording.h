// What serval profile records: tokens generated on a backend, or on the simulator.
#pragma once

#include <string>
#include <vector>

#include "engine/cli/output/progress.h"
#include "profiler/report/report.h"
#include "profiler/sim/parameters.h"
#include "profiler/trace/trace.h"
#include "serval/engine.h"
#include "vm/events.h"

namespace serval::cli {

struct RecordingOptions {
  bool simulate = false;  // instead of running on the engine's backend
  EngineOptions engine;
  int tokens = 1;  // to record, of each sequence
  int prompt = 0;  // > 0: instead, the last pass that reads a prompt of so many tokens
  int batch = 1;
  int depth = 128;  // tokens in the KV cache before the first that is recorded; made up, not read
  SimParameters simulator;
  RecordingDetail detail = RecordingDetail::kMoments;
  bool savings = false;  // predict them, too
  ProgressMode progress = ProgressMode::kAuto;
};

struct ProfiledRun {
  Trace trace;
  std::vector<Saving> savings;
};

// Passes that are run in the same launch before those that are recorded, so that these find caches warm and
// their first weights on the way.
inline constexpr int kWarmUpPasses = 2;

// Throws as loading a model, running it and simulating it do; Error(kRuntime) where a backend cannot record.
ProfiledRun record_tokens(const RecordingOptions& options);

}  // namespace serval::cli

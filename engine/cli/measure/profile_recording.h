// Recording for serval profile: tokens generated on a backend or on the simulator.
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
  int tokens = 1;  // number of tokens to record, for each sequence
  int prompt = 0;  // > 0: records the last pass that reads a prompt of this many tokens instead
  int batch = 1;
  int depth = 128;  // tokens in the KV cache before the first recorded one; filled in, not read
  SimParameters simulator;
  RecordingDetail detail = RecordingDetail::kMoments;
  bool savings = false;  // also predict savings
  ProgressMode progress = ProgressMode::kAuto;
};

struct ProfiledRun {
  Trace trace;
  std::vector<Saving> savings;
};

// Passes before the recorded ones in the same launch, so that the recorded ones start with warm caches and
// with their first weights being loaded.
inline constexpr int kWarmUpPasses = 2;

// Throws the errors of loading, running and simulating a model, and Error(kRuntime) if the backend cannot
// record.
ProfiledRun record_tokens(const RecordingOptions& options);

}  // namespace serval::cli

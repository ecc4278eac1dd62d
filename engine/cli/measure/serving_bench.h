// serval bench --requests: many requests of an engine, and how long each of them took.
#pragma once

#include <string>
#include <vector>

#include "engine/cli/measure/workload.h"
#include "engine/cli/output/progress.h"
#include "serval/engine.h"

namespace serval::cli {

struct ServingBench {
  EngineOptions engine;
  std::vector<RequestSize> sizes;  // one a request
  double rate = 0;                 // requests a second on average; 0: all at once
  uint64_t seed = 0;               // of the arrivals
  std::string format = "md";       // md, json or csv
  std::string record_file;         // the figures are appended as one line of JSON; empty: none
  ProgressMode progress = ProgressMode::kAuto;
};

// Runs the requests and prints the figures, with the names under which vLLM's `bench serve` saves them.
// Returns the exit code.
int run_serving_bench(const ServingBench& bench);

}  // namespace serval::cli

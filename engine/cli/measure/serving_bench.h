// serval bench --requests: sends many requests to an engine and times each of them.
#pragma once

#include <string>
#include <vector>

#include "engine/cli/measure/workload.h"
#include "engine/cli/output/progress.h"
#include "serval/engine.h"

namespace serval::cli {

struct ServingBench {
  EngineOptions engine;
  std::vector<RequestSize> sizes;  // one for each request
  double rate = 0;                 // requests per second on average; 0: all at once
  uint64_t seed = 0;               // for the arrival times
  std::string format = "md";       // md, json or csv
  std::string record_file;         // appends the figures as one line of JSON; empty: none
  ProgressMode progress = ProgressMode::kAuto;
};

// Runs the requests and prints the figures under the names that vLLM's `bench serve` uses. Returns the exit
// code.
int run_serving_bench(const ServingBench& bench);

}  // namespace serval::cli

// serval bench --depth: times passes on the backend itself, with a KV cache that was filled without reading a
// prompt.
#pragma once

#include <string>
#include <vector>

#include "engine/cli/output/progress.h"
#include "serval/engine.h"

namespace serval::cli {

// `batch` sequences with `depth` tokens each in the KV cache read `tokens` more tokens, or generate them.
struct DepthTest {
  bool prompt;
  int tokens;
  int batch;
  int depth;

  // "tg128 @ d4096"
  std::string name() const {
    return (prompt ? "pp" : "tg") + std::to_string(tokens) + " @ d" + std::to_string(depth);
  }
  int context() const { return depth + tokens + 1; }
};

struct DepthBench {
  EngineOptions engine;  // with a context that suffices for all tests
  std::vector<DepthTest> tests;
  int repetitions = 5;  // after one warm-up run
  int launch_passes = 64;
  std::string format = "md";   // md, json or csv
  int trace_tokens = 0;        // > 0: records events, into rings for this many of the last tokens
  bool compare_torch = false;  // also time LibTorch's operators, replayed from a CUDA graph
  std::string record_file;     // appends one line of JSON for each result; empty: none
  ProgressMode progress = ProgressMode::kAuto;
};

// Prints a row for each test as it is done. Returns the exit code.
int run_depth_bench(const DepthBench& bench);

}  // namespace serval::cli

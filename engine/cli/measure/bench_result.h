// The result of one measured test: what was measured, on what, from which commit.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/cli/measure/depth_bench.h"
#include "engine/cli/measure/pass_timer.h"
#include "models/model.h"

namespace serval::cli {

struct BenchSubject {
  const Model& model;
  const Backend& backend;
  std::optional<double> limit_gb_per_s;  // of one GPU
  std::vector<int> gpus;                 // that were asked for, one for each rank; empty: the first ones
  int launch_passes;
};

struct Measured {
  std::vector<PassTimes> samples;
  std::optional<double> torch_us;  // of a pass of LibTorch's
};

// Times are medians over the samples. A token's time is its pass's, divided by the tokens of the pass;
// gb_per_s counts weights and cached keys and values, each once a pass, and is the kernel's where there is a
// GPU. share_of_limit is that of all GPUs that share the model. What was not measured is null.
nlohmann::ordered_json bench_result(const BenchSubject& subject, const DepthTest& test,
                                    const Measured& measured);

// Adds which build measured it, and when.
void add_build(nlohmann::ordered_json& result);

// Appends a line of JSON. Throws Error(kRuntime) naming the file.
void append_result(const std::string& file, const nlohmann::ordered_json& result);

// A table row of some of the fields, and the head above it; the same as CSV, of all fields.
std::string markdown_head();
std::string markdown_row(const nlohmann::ordered_json& result);
std::string csv_head(const nlohmann::ordered_json& result);
std::string csv_row(const nlohmann::ordered_json& result);

}  // namespace serval::cli

// The record of one measured test: results, subject and build.
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
  std::optional<double> limit_gb_per_s;  // for one GPU
  std::vector<int> gpus;                 // requested GPUs, one for each rank; empty: the first ones
  int launch_passes;
};

struct Measured {
  std::vector<PassTimes> samples;
  std::optional<double> torch_us;  // for a pass of LibTorch
};

// Times are medians over the samples. A token's time is its pass's time divided by the pass's tokens.
// gb_per_s counts weights and cached keys and values once per pass, over the kernel's time if there is a GPU.
// share_of_limit is relative to all GPUs that share the model. Values that were not measured are null.
nlohmann::ordered_json bench_result(const BenchSubject& subject, const DepthTest& test,
                                    const Measured& measured);

// Adds the build's commit and the time of measurement.
void add_build(nlohmann::ordered_json& result);

// Appends the result as a line of JSON. Throws Error(kRuntime) naming the file.
void append_result(const std::string& file, const nlohmann::ordered_json& result);

// The head and a row of a Markdown table with some of the fields, and of a CSV table with all fields.
std::string markdown_head();
std::string markdown_row(const nlohmann::ordered_json& result);
std::string csv_head(const nlohmann::ordered_json& result);
std::string csv_row(const nlohmann::ordered_json& result);

}  // namespace serval::cli

// Times passes on a backend. The state is written as the engine writes it; the tokens are ignored.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/backend/backend.h"
#include "engine/cli/measure/depth_bench.h"

namespace serval::cli {

// Totals of one run of a test.
struct PassTimes {
  uint32_t passes = 0;
  double total_us = 0;              // on the host's clock, including launches
  std::optional<double> kernel_us;  // on the GPU alone
};

class PassTimer {
 public:
  // Fills the KV cache. `launch_passes` limits the passes of generation in one launch.
  PassTimer(Backend& backend, uint32_t launch_passes);
  PassTimes run(const DepthTest& test);

 private:
  void write_slots(uint32_t count);
  void run_prompt(const DepthTest& test, PassTimes& times);
  void run_generation(const DepthTest& test, PassTimes& times);
  void launch(const Launch& launch, PassTimes& times);
  int32_t next_token();

  Backend& backend_;
  uint32_t launch_passes_;
  uint64_t tokens_made_ = 0;
};

}  // namespace serval::cli

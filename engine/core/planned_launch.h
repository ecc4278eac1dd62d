// A launch as it stands in the state block: what the loop knows of it while the backend runs it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/sequence.h"

namespace serval {

// What one sequence has of a launch.
struct LaunchShare {
  Sequence* sequence = nullptr;            // it runs until the launch has ended
  uint32_t rows = 0;                       // of the first pass, at consecutive positions
  std::optional<uint32_t> logit_row = {};  // of the state's rows, where it is to get a token
  // By what is known beforehand, it has ended when the launch has: its length says so, or it has ended
  // already.
  bool ends = false;
};

struct PlannedLaunch {
  uint32_t passes = 1;  // at most
  bool reads_prompts = false;
  bool is_prepared = false;  // Launch::is_prepared
  uint32_t rows = 0;         // of the first pass
  uint32_t logit_rows = 0;   // of these, the first of the state's rows
  std::vector<LaunchShare> shares = {};
};

}  // namespace serval

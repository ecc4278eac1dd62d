// A launch that is written to the state block, as the loop tracks it while the backend runs it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/sequence.h"

namespace serval {

// One sequence's part in a launch.
struct LaunchShare {
  Sequence* sequence = nullptr;            // must live until the launch has ended
  uint32_t rows = 0;                       // in the first pass, at consecutive positions
  std::optional<uint32_t> logit_row = {};  // index among the state's rows, if it gets a token
  uint32_t drafts = 0;                     // rows after this one, for drafts
  // Rows that want the log-probability of a known token, or to be pooled: consecutive rows of the state.
  uint32_t first_scored = 0;
  uint32_t scored = 0;
  // Known before the launch ends: the sequence has ended by then, because of its length or already.
  bool ends = false;
};

struct PlannedLaunch {
  uint32_t passes = 1;  // at most
  bool reads_prompts = false;
  bool is_prepared = false;  // Launch::is_prepared
  uint32_t rows = 0;         // in the first pass
  uint32_t logit_rows = 0;   // number of these rows that want logits, which come first
  bool lists_top = false;    // some of them want the likeliest tokens
  std::vector<LaunchShare> shares = {};

  // How far its sequences get is known only when it has ended.
  bool has_drafts() const {
    return std::ranges::any_of(shares, [](const LaunchShare& share) { return share.drafts > 0; });
  }
};

}  // namespace serval

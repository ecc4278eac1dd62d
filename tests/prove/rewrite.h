// Changes programs without changing their meaning.
#pragma once

#include <cstdint>
#include <optional>

#include "vm/host/random_order.h"
#include "vm/program.h"

namespace serval::testing {

enum class Rewrite : uint8_t {
  kCountersRenamed,
  kQueuesReordered,   // independent instructions change places
  kPlacedAgain,       // on another number of SMs, or in one global queue
  kThresholdSplit,    // one counter into two: an instruction that waited for one waits for both
  kJoinsMerged,       // two joins, one after the other, on one counter with cumulative thresholds
  kIncrementsScaled,  // signals add more than one
  kWaitsAdded,        // waits that are implied by others
  kListsShuffled,     // the order of an instruction's waits and signals
};
inline constexpr int kNumRewrites = static_cast<int>(Rewrite::kListsShuffled) + 1;
const char* name_of(Rewrite rewrite);

// None if the rewrite does not apply to the program, which must be valid.
std::optional<Program> rewrite(const Program& original, Rewrite rewrite, RandomOrder& random);

}  // namespace serval::testing

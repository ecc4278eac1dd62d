// Programs with a single error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "vm/host/random_order.h"
#include "vm/program.h"

namespace serval::testing {

enum class Mutation : uint8_t {
  kWaitDropped,
  kWaitLowered,
  kWaitRaised,
  kWaitMisdirected,
  kWaitGuardsLess,
  kWaitGuardsOther,
  kWaitOfPreviousPass,
  kSignalDropped,
  kSignalMisdirected,
  kSignalDoubled,
  kQueueOrderSwapped,
  kMovedElsewhere,
  kRegionMoved,
  kRegionOfAnother,
  kTensorSwapped,
  kWrongEpoch,
  kGateMoved,
  kBadOperand,
  kOpcodeChanged,
  kInstructionDropped,
  kInstructionDuplicated,
  kTooFewPages,
  kBlockScope,
  kSystemScope,
  kSeveralDevices,
  kLogitsOnlyFlipped,
  kLeavesElsewhere,
  kLimitChanged,
  kOrderChanged,
  kHeadsChanged,
  kTensorRenamed,
  kTensorReshaped,
  // For programs of several devices.
  kPeerSignalDropped,
  kPeerSignalMisdirected,
  kCounterOfGpuScope,
  kCounterElsewhere,
  kSliceOfAnotherRank,
  kPeersMoved,
  kPushedElsewhere,
  kMovedToAnotherRank,
  // Mutations of what instructions compute, and of their inputs.
  kStatePartSwapped,
  kTensorNamedTwice,
  kCacheOfAnotherLayer,
  kRowsLeftOut,
  kSiblingDiffers,
  kPartsOfColumnsChanged,
  kOneAndWaitDropped,
  kTwoAtOnce,
};
inline constexpr int kNumMutations = static_cast<int>(Mutation::kTwoAtOnce) + 1;
const char* name_of(Mutation mutation);

// None if the chosen change does not apply to the program or does not change it.
std::optional<Program> mutate(const Program& original, Mutation mutation, RandomOrder& random);

}  // namespace serval::testing

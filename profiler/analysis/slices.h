// Slices: the activity of each role of each SM at each moment, as a Gantt chart draws it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "profiler/trace/trace.h"

namespace serval {

enum class SliceState : uint8_t {
  kFetch = 0,  // brings and checks a record
  kWait,       // for a counter
  kRoom,       // the loader waits for a free page
  kLoad,       // bytes are on their way: weights (loader), activations (preparer), or waited for (consumer)
  kCompute,
  kStore,
  kSignal,
  kIdle,  // nothing to do, or behind another role of the SM; there are no slices of it
};
inline constexpr uint32_t kNumSliceStates = 8;
inline constexpr std::array<const char*, kNumSliceStates> kSliceStateNames = {
    "fetch", "wait", "room", "load", "compute", "store", "signal", "idle"};

// One state of one role of one SM.
struct Slice {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;             // > begin_ns
  uint32_t execution = 0;         // index into Trace::executions
  uint32_t counter = kNoCounter;  // of kWait, where it is known
  uint16_t sm = 0;
  SmRole role = SmRole::kController;
  SliceState state = SliceState::kIdle;
};
static_assert(sizeof(Slice) == 32);

// In order of SM, role and time; those of one SM and role do not overlap: where a role of several warps is at
// two instructions at once, the later one's begin where the earlier one's end.
//   controller  fetch: fetch_begin to fetched
//   loader      room, then load: load_begin to last_landed, or until its next load_begin
//   preparer    wait: wait_begin to inputs_ready; load: to prepared
//   consumer    load (starved_ns of it), then compute: compute_begin to compute_end. Before it, since the
//               compute_end before: what came last, wait until inputs_ready or load until compute_begin
//   storer      store: store_begin to stored; signal: to signalled
std::vector<Slice> slices_of(const Trace& trace);

// Nanoseconds of each state within a window; idle is what is left, so that they add up to its length.
using StateTimes = std::array<int64_t, kNumSliceStates>;
// [(sm × kNumSmRoles) + role], of all SMs of the machine.
std::vector<StateTimes> state_times(const Trace& trace, std::span<const Slice> slices,
                                    const PassWindow& window);

}  // namespace serval

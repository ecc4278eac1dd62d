// Slices: what each role of each SM did when. A Gantt chart draws them.
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
  kLoad,       // bytes are on their way: weights (loader), activations (preparer), or either (consumer)
  kCompute,
  kStore,
  kSignal,
  kIdle,  // no instruction, or waiting for another role of the SM; it has no slices
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

// In order of SM, role and time. Slices of one SM and role do not overlap: where a role of several warps is
// at two instructions at once, the later one's begin where the earlier one's end.
//   controller  fetch: fetch_begin to fetched
//   loader      room, then load: load_begin to last_landed, or until its next load_begin
//   preparer    wait: wait_begin to inputs_ready; load: to prepared
//   consumer    load (starved_ns of it), then compute: compute_begin to compute_end. Before them, from the
//               previous compute_end: wait until inputs_ready if the inputs came last, else load until
//               compute_begin
//   storer      store: store_begin to stored; signal: to signalled
std::vector<Slice> slices_of(const Trace& trace);

// Nanoseconds of each state within a window. Idle is the rest, so that they add up to the window's length.
using StateTimes = std::array<int64_t, kNumSliceStates>;
// [(sm × kNumSmRoles) + role], of all SMs of the machine.
std::vector<StateTimes> state_times(const Trace& trace, std::span<const Slice> slices,
                                    const PassWindow& window);

}  // namespace serval

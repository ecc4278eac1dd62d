// What a kernel that records leaves in GPU memory (vm/device/watcher.cuh), and the events that it means.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "vm/events.h"

namespace serval::device {

// When each event of a record happened, and what goes with it.
struct RecordTimes {
  uint32_t instruction;                     // index into the program's
  uint32_t pass;                            // of the launch
  std::array<uint32_t, kNumEventKinds> at;  // [EventKind] low word of the SM's ticks | 1; 0: did not happen
  uint32_t room_ticks;                      // that the loader waited
  uint32_t bytes;                           // of all pages
  uint32_t pages;                           // Event::pages when all was over
  uint32_t first_counter;                   // that the preparer waits for …
  uint32_t last_counter;                    // … and the one that was reached last
  uint32_t starved_ticks;                   // that the consumer warp of the last page waited for pages
  std::array<uint32_t, 2> reserved;
};
static_assert(sizeof(RecordTimes) == 96);

// Every SM counts ticks from a beginning of its own. The first one sends a signal to all, several times, and
// each notes when it sees it: what that took at least is nearly the same for all, so the difference between
// the SMs is that of their clocks then. They do not run at quite the same rate: profiler/trace/align_clocks.h
// has the rest.
inline constexpr uint32_t kClockRounds = 16;

// By the first SM's clock.
struct LaunchClock {
  ClockSync begin, end;  // of the launch, beside the clock in nanoseconds
  std::array<uint64_t, kClockRounds> sent;
};
using SeenSignals = std::array<uint64_t, kClockRounds>;  // by an SM's own clock

// The rings of a launch, in GPU memory: one for each SM.
struct Recording {
  RecordTimes* records;  // [SMs × capacity]
  uint32_t* written;     // [SMs] records, ever
  LaunchClock* clock;    // [1]
  SeenSignals* seen;     // [SMs]
  uint32_t* signal;      // [1] rounds sent
  uint32_t capacity;     // records of a ring, a power of two
  uint32_t starving;     // 1: waits for pages are timed
};

// The same, as the host has it.
struct RecordedLaunch {
  std::span<const RecordTimes> records;
  std::span<const uint32_t> written;
  LaunchClock clock;
  std::span<const SeenSignals> seen;
  uint32_t capacity;
};

// The events of the records that the rings still hold: a ring of events for each SM, that holds all of them.
EventRings events_of(const RecordedLaunch& launch);
// Another GPU's SMs, behind those of `rings`, which has rings of the same size or none. `ahead_ns`: of that
// GPU's clock, ahead of the first one's.
void append_rings(const EventRings& more, int64_t ahead_ns, EventRings& rings);

}  // namespace serval::device

// Times that a recording kernel leaves in GPU memory (vm/device/watcher.cuh), and the events that they stand
// for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "vm/events.h"

namespace serval::device {

// Times of a record's events, and their arguments.
struct RecordTimes {
  uint32_t instruction;                     // index into the program's instructions
  uint32_t pass;                            // of the launch
  std::array<uint32_t, kNumEventKinds> at;  // [EventKind] low word of the SM's ticks | 1; 0: did not happen
  uint32_t room_ticks;                      // waits of the loader for free buffers
  uint32_t bytes;                           // of all pages
  uint32_t pages;                           // Event::pages when all roles were done
  uint32_t first_counter;                   // first counter that the preparer waits for …
  uint32_t last_counter;                    // … and the last one that was reached
  uint32_t starved_ticks;                   // waits for pages, by the consumer warp of the last page
  std::array<uint32_t, 2> reserved;
};
static_assert(sizeof(RecordTimes) == 96);

// Every SM counts ticks from its own start. SM 0 sends a signal to all SMs several times, and each notes when
// it sees it. The shortest delay is nearly the same for all SMs, so differences between SMs are differences
// of their clocks at that time. The clocks run at slightly different rates: profiler/trace/align_clocks.h
// corrects that.
inline constexpr uint32_t kClockRounds = 16;

// Times by the first SM's clock.
struct LaunchClock {
  ClockSync begin, end;  // of the launch, with the clock in nanoseconds
  std::array<uint64_t, kClockRounds> sent;
};
using SeenSignals = std::array<uint64_t, kClockRounds>;  // by an SM's own clock

// The rings of a launch, in GPU memory: one for each SM.
struct Recording {
  RecordTimes* records;  // [SMs × capacity]
  uint32_t* written;     // [SMs] records written since the launch began
  LaunchClock* clock;    // [1]
  SeenSignals* seen;     // [SMs]
  uint32_t* signal;      // [1] rounds sent
  uint32_t capacity;     // records of a ring, a power of two
  uint32_t starving;     // 1: consumers time their waits for pages
};

// A Recording, copied to host memory.
struct RecordedLaunch {
  std::span<const RecordTimes> records;
  std::span<const uint32_t> written;
  LaunchClock clock;
  std::span<const SeenSignals> seen;
  uint32_t capacity;
};

// Events of the records that the rings still hold. Each SM's event ring is large enough for all of them.
EventRings events_of(const RecordedLaunch& launch);
// Appends another GPU's SMs to `rings`, which has rings of the same size or none. `ahead_ns`: how far that
// GPU's clock is ahead of the first GPU's.
void append_rings(const EventRings& more, int64_t ahead_ns, EventRings& rings);

}  // namespace serval::device

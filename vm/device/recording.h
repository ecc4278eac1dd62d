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

// The rings of a launch, in GPU memory: one for each SM.
struct Recording {
  RecordTimes* records;  // [SMs × capacity]
  uint32_t* written;     // [SMs] records, ever
  SmClockSync* clocks;   // [SMs]
  uint32_t capacity;     // records of a ring, a power of two
};

// The events of the records that `records`, rings of `capacity` each, still hold: a ring of events for each
// SM, that holds all of them.
EventRings events_of(std::span<const RecordTimes> records, std::span<const uint32_t> written,
                     std::span<const SmClockSync> clocks, uint32_t capacity);

}  // namespace serval::device

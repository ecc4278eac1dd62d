// Records the events of the host interpreter's threads (vm/events.h).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "vm/events.h"

namespace serval {

// Threads may record at the same time as long as each SM belongs to one thread. Ticks are nanoseconds of
// steady_clock.
class HostRecorder {
 public:
  HostRecorder(uint32_t sms, uint32_t events_of_ring) : rings_(sms, kNumSmRoles, events_of_ring) {}

  void begin_launch() {
    std::fill(rings_.written.begin(), rings_.written.end(), 0U);
    const uint64_t ns = now();
    std::fill(rings_.clocks.begin(), rings_.clocks.end(), SmClockSync{{ns, ns}, {ns, ns}});
  }
  void end_launch() {
    const uint64_t ns = now();
    for (SmClockSync& clock : rings_.clocks) clock.end = {ns, ns};
  }
  void record(uint32_t sm, EventKind kind, size_t instruction, uint32_t pass, uint32_t argument = 0) {
    const size_t ring = index_of_role(sm, info_of(kind).role);
    const uint32_t n = rings_.written[ring]++;
    rings_.events[ring * rings_.capacity + n % rings_.capacity] = {
        .ticks = static_cast<uint32_t>(now()),
        .instruction = static_cast<uint32_t>(instruction),
        .argument = argument,
        .pass = static_cast<uint16_t>(pass),
        .kind = static_cast<uint8_t>(kind)};
  }
  const EventRings& rings() const { return rings_; }

 private:
  static uint64_t now() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  }
  EventRings rings_;
};

}  // namespace serval

#include "vm/device/recording.h"

#include <algorithm>
#include <bit>

namespace serval::device {
namespace {

constexpr uint32_t kEventsOfRecord = kNumEventKinds;

uint32_t time_of(const RecordTimes& t, EventKind kind) {
  return t.at[static_cast<size_t>(kind)];
}

// The later of two moments that are less than 2^31 ticks apart, either of which may not have happened.
uint32_t later(uint32_t a, uint32_t b) {
  if (a == 0 || b == 0) return a | b;
  return static_cast<int32_t>(a - b) > 0 ? a : b;
}

// Moments of an instruction's stores. Without pages, it ran as a group whose consumers store what they have
// computed. With pages, who stored last may have had nothing to store: then its last parts came with the end
// of the arithmetic.
uint32_t store_ticks(const RecordTimes& t, EventKind kind, uint32_t compute_end) {
  const bool group = time_of(t, EventKind::kFirstLanded) == 0;
  if (group || compute_end == 0) return compute_end;
  const uint32_t stored = time_of(t, EventKind::kStored);
  if (kind == EventKind::kStored) return stored;
  const uint32_t begin = later(time_of(t, kind), compute_end);
  return later(begin, stored) == stored ? begin : stored;
}

// An instruction that starts early may begin before its inputs are ready and, if it has nothing to do, end:
// it computes from then on.
uint32_t ticks_of(const RecordTimes& t, EventKind kind) {
  const auto computed = [&](EventKind k) {
    return time_of(t, k) == 0 ? 0 : later(time_of(t, k), time_of(t, EventKind::kInputsReady));
  };
  switch (kind) {
    case EventKind::kComputeBegin:
    case EventKind::kComputeEnd:
      return computed(kind);
    case EventKind::kStoreBegin:
    case EventKind::kStored:
      return store_ticks(t, kind, computed(EventKind::kComputeEnd));
    default:
      return time_of(t, kind);
  }
}

uint32_t argument_of(const RecordTimes& t, EventKind kind) {
  switch (kind) {
    case EventKind::kLoadIssued:
      return t.room_ticks;
    case EventKind::kLastLanded:
      return t.bytes;
    case EventKind::kWaitBegin:
      return t.first_counter;
    case EventKind::kInputsReady:
      return t.last_counter;
    case EventKind::kComputeEnd:
      return t.starved_ticks;
    default:
      return 0;
  }
}

Event event_of(const RecordTimes& t, EventKind kind) {
  return {.ticks = ticks_of(t, kind),
          .instruction = t.instruction,
          .argument = argument_of(t, kind),
          .pass = static_cast<uint16_t>(t.pass),
          .kind = static_cast<uint8_t>(kind),
          .pages = kind == EventKind::kSignalled ? static_cast<uint8_t>(t.pages) : kNoPageSample};
}

}  // namespace

EventRings events_of(std::span<const RecordTimes> records, std::span<const uint32_t> written,
                     std::span<const SmClockSync> clocks, uint32_t capacity) {
  const auto sms = static_cast<uint32_t>(written.size());
  EventRings rings(sms, 1, std::bit_ceil(capacity * kEventsOfRecord));
  std::copy(clocks.begin(), clocks.end(), rings.clocks.begin());
  for (uint32_t sm = 0; sm < sms; ++sm) {
    const uint32_t first = written[sm] > capacity ? written[sm] - capacity : 0;
    uint32_t& events = rings.written[sm];
    for (uint32_t n = first; n != written[sm]; ++n) {
      const RecordTimes& t = records[size_t{sm} * capacity + n % capacity];
      for (uint32_t k = 0; k < kNumEventKinds; ++k) {
        const Event event = event_of(t, static_cast<EventKind>(k));
        if (event.ticks != 0) rings.events[size_t{sm} * rings.capacity + events++] = event;
      }
    }
  }
  return rings;
}

}  // namespace serval::device

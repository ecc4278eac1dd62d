#include "vm/device/recording.h"

#include <algorithm>
#include <bit>

namespace serval::device {
namespace {

uint32_t time_of(const RecordTimes& t, EventKind kind) {
  return t.at[static_cast<size_t>(kind)];
}

// The later of two times that are less than 2^31 ticks apart; 0: did not happen.
uint32_t later(uint32_t a, uint32_t b) {
  if (a == 0 || b == 0) return a | b;
  return static_cast<int32_t>(a - b) > 0 ? a : b;
}

uint32_t earlier(uint32_t a, uint32_t b) {
  if (a == 0 || b == 0) return a | b;
  return later(a, b) == a ? b : a;
}

// Times of an instruction's stores. A record without pages ran as a group, whose consumers store their
// results themselves. With pages, the last storer may have had nothing to store; then its stores end with the
// arithmetic.
uint32_t store_ticks(const RecordTimes& t, EventKind kind, uint32_t compute_end) {
  const bool group = time_of(t, EventKind::kFirstLanded) == 0;
  if (group || compute_end == 0) return compute_end;
  const uint32_t stored = time_of(t, EventKind::kStored);
  if (kind == EventKind::kStored) return stored;
  const uint32_t begin = later(time_of(t, kind), compute_end);
  return later(begin, stored) == stored ? begin : stored;
}

// One consumer notes that the first page has landed, another one the last page, and the two may happen in
// either order; likewise the begin of the first page's products and the end of the last page's.
uint32_t landed_ticks(const RecordTimes& t, EventKind kind) {
  const uint32_t first = time_of(t, EventKind::kFirstLanded), last = time_of(t, EventKind::kLastLanded);
  return kind == EventKind::kFirstLanded ? earlier(first, last) : later(first, last);
}

// The preparer does not wait for the end of its copies of activations. If a page landed before the inputs
// were ready, arithmetic began when the activations had landed; otherwise no warp noted when they did. Group
// instructions have no such copies.
uint32_t prepared_ticks(const RecordTimes& t) {
  const uint32_t ready = time_of(t, EventKind::kInputsReady);
  const uint32_t page = landed_ticks(t, EventKind::kFirstLanded);
  if (page == 0) return ready;
  return later(page, ready) == ready ? time_of(t, EventKind::kComputeBegin) : 0;
}

// An instruction that starts early may begin, and without work also end, before its inputs are ready: its
// computing time starts when they are.
uint32_t ticks_of(const RecordTimes& t, EventKind kind) {
  const auto computed = [&](EventKind k) {
    return time_of(t, k) == 0 ? 0 : later(time_of(t, k), time_of(t, EventKind::kInputsReady));
  };
  switch (kind) {
    case EventKind::kLoadIssued:  // noted a few ticks late
      return earlier(time_of(t, kind), landed_ticks(t, EventKind::kLastLanded));
    case EventKind::kFirstLanded:
    case EventKind::kLastLanded:
      return landed_ticks(t, kind);
    case EventKind::kComputeBegin:
      return computed(kind);
    case EventKind::kComputeEnd:
      return time_of(t, kind) == 0 ? 0 : later(computed(EventKind::kComputeBegin), computed(kind));
    case EventKind::kPrepared:
      return prepared_ticks(t);
    case EventKind::kStoreBegin:
    case EventKind::kStored:
      return store_ticks(t, kind, ticks_of(t, EventKind::kComputeEnd));
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

// Ticks by which an SM's clock is ahead of the first SM's, plus the signal's delay, which is the same for all
// SMs.
int64_t clock_offset(const LaunchClock& clock, const SeenSignals& seen) {
  int64_t least = INT64_MAX;
  for (uint32_t r = 0; r < kClockRounds; ++r)
    least = std::min(least, static_cast<int64_t>(seen[r] - clock.sent[r]));
  return least;
}

void align_clocks(const RecordedLaunch& launch, EventRings& rings) {
  for (uint32_t sm = 0; sm < rings.sms; ++sm) {
    const auto offset = static_cast<uint64_t>(clock_offset(launch.clock, launch.seen[sm]));
    rings.clocks[sm].begin = {launch.clock.begin.ticks + offset, launch.clock.begin.ns};
    rings.clocks[sm].end = {launch.clock.end.ticks + offset, launch.clock.end.ns};
  }
}

}  // namespace

EventRings events_of(const RecordedLaunch& launch) {
  const auto sms = static_cast<uint32_t>(launch.written.size());
  EventRings rings(sms, 1, std::bit_ceil(launch.capacity * kNumEventKinds));
  align_clocks(launch, rings);
  for (uint32_t sm = 0; sm < sms; ++sm) {
    const uint32_t written = launch.written[sm];
    const uint32_t first = written > launch.capacity ? written - launch.capacity : 0;
    uint32_t& events = rings.written[sm];
    for (uint32_t n = first; n != written; ++n) {
      const RecordTimes& t = launch.records[size_t{sm} * launch.capacity + n % launch.capacity];
      for (uint32_t k = 0; k < kNumEventKinds; ++k) {
        const Event event = event_of(t, static_cast<EventKind>(k));
        if (event.ticks != 0) rings.events[size_t{sm} * rings.capacity + events++] = event;
      }
    }
  }
  return rings;
}

void append_rings(const EventRings& more, int64_t ahead_ns, EventRings& rings) {
  rings.sms += more.sms;
  rings.writers = more.writers;
  rings.capacity = more.capacity;
  rings.events.insert(rings.events.end(), more.events.begin(), more.events.end());
  rings.written.insert(rings.written.end(), more.written.begin(), more.written.end());
  for (SmClockSync clock : more.clocks) {
    clock.begin.ns -= static_cast<uint64_t>(ahead_ns);
    clock.end.ns -= static_cast<uint64_t>(ahead_ns);
    rings.clocks.push_back(clock);
  }
}

}  // namespace serval::device

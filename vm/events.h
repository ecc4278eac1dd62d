// Event records: what both interpreters write down while they run, for the profiler to read afterwards. Plain
// structs, written by the host and by the GPU.
//
// Each SM has some rings, each of which has one writer, so recording takes no atomics: one 16-byte store an
// event. A ring that is full goes on at its beginning, so that it always holds the last events.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace serval {

// The roles of an SM, which the GPU gives to different warps (vm/device/roles.cuh) and a thread of the host
// interpreter takes in turn.
enum class SmRole : uint8_t { kController = 0, kLoader, kPreparer, kConsumer, kStorer };
inline constexpr uint32_t kNumSmRoles = 5;
inline constexpr std::array<const char*, kNumSmRoles> kSmRoleNames = {"controller", "loader", "preparer",
                                                                      "consumer", "storer"};

enum class EventKind : uint8_t {
#define SERVAL_EVENT(Name, role, name, argument, meaning) k##Name,
#include "vm/events.def"
#undef SERVAL_EVENT
};

inline constexpr uint32_t kNumEventKinds = 0
#define SERVAL_EVENT(Name, role, name, argument, meaning) +1
#include "vm/events.def"
#undef SERVAL_EVENT
    ;

struct EventInfo {
  SmRole role;
  const char* name;
  const char* argument;  // unit; "" if it has none
  const char* meaning;
};
inline constexpr std::array<EventInfo, kNumEventKinds> kEventInfos = {{
#define SERVAL_EVENT(Name, role, name, argument, meaning) {SmRole::role, name, argument, meaning},
#include "vm/events.def"
#undef SERVAL_EVENT
}};
constexpr const EventInfo& info_of(EventKind kind) {
  return kEventInfos[static_cast<size_t>(kind)];
}

// The argument of kInputsReady where nothing was waited for.
inline constexpr uint32_t kNoCounter = 0xffffffff;

// How much is recorded. Waits within an instruction's arithmetic cost the GPU a little more than the rest.
enum class RecordingDetail : uint8_t {
  kMoments = 1,  // the events, without the argument of compute_end
  kStarving,     // all
};

// Event::pages of an event without a sample.
inline constexpr uint8_t kNoPageSample = 0xff;

// One event. `pages` is a sample that may come with it: how the SM's pages stand at that moment.
struct alignas(16) Event {
  uint32_t ticks = 0;             // low word of the recorder's clock
  uint32_t instruction = 0;       // index into Program::instructions
  uint32_t argument = 0;          // events.def says of what
  uint16_t pass = 0;              // of the launch
  uint8_t kind = 0;               // EventKind
  uint8_t pages = kNoPageSample;  // in flight (low 4 bits) and free (high 4 bits)
};
static_assert(sizeof(Event) == 16);
static_assert(std::is_trivially_copyable_v<Event>);

// Pages as an Event has them; more than kMaxSampledPages of either are recorded as that many.
inline constexpr uint32_t kMaxSampledPages = 15;
constexpr uint8_t pack_pages(uint32_t in_flight, uint32_t free) {
  const uint32_t low = in_flight < kMaxSampledPages ? in_flight : kMaxSampledPages;
  const uint32_t high = free < kMaxSampledPages ? free : kMaxSampledPages;
  return static_cast<uint8_t>(low | high << 4);
}
constexpr uint32_t pages_in_flight(const Event& event) {
  return event.pages & kMaxSampledPages;
}
constexpr uint32_t pages_free(const Event& event) {
  return event.pages >> 4;
}

// The same moment on an SM's own clock and on the clock that all SMs share. Two of them, from the beginning
// and the end of a launch, take all ticks between them to nanoseconds.
struct ClockSync {
  uint64_t ticks = 0;
  uint64_t ns = 0;
};

// One SM's clock over a launch. A host's clock counts nanoseconds, so there both words are the same.
struct SmClockSync {
  ClockSync begin;
  ClockSync end;
};

// The events of all SMs: ring r of SM s is events[(s × writers + r) × capacity, … + capacity), and
// written[s × writers + r] counts what was ever written to it, so event n is at n mod capacity. The host
// interpreter has a ring for each role; on the GPU one warp writes what all roles of an SM leave it. Clocks
// of an SM are read when a launch begins and when it ends; the events of one launch are at most 2^31 ticks
// apart from one to the next of a ring.
struct EventRings {
  uint32_t sms = 0;
  uint32_t writers = 0;   // rings of each SM
  uint32_t capacity = 0;  // of each ring, a power of two
  std::vector<Event> events;
  std::vector<uint32_t> written;
  std::vector<SmClockSync> clocks;  // [sms]

  EventRings() = default;
  EventRings(uint32_t num_sms, uint32_t writers_of_sm, uint32_t events_of_ring)
      : sms(num_sms),
        writers(writers_of_sm),
        capacity(events_of_ring),
        events(size_t{num_sms} * writers_of_sm * events_of_ring),
        written(size_t{num_sms} * writers_of_sm),
        clocks(num_sms) {}
};

// Index of a role of an SM among all of all.
constexpr size_t index_of_role(uint32_t sm, SmRole role) {
  return size_t{sm} * kNumSmRoles + static_cast<size_t>(role);
}

}  // namespace serval

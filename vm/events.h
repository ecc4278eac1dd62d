// Event records: both interpreters write them while they run, and the profiler reads them afterwards. Plain
// structs, shared by host and GPU.
//
// Each SM has several rings with one writer each, so recording needs no atomics: one 16-byte store an event.
// A full ring wraps around, so it always holds the latest events.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace serval {

// The roles of an SM. On the GPU different warps have them (vm/device/sm90/roles.cuh); in the host
// interpreter one thread plays them in turn.
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

// Argument of kInputsReady if no wait was needed.
inline constexpr uint32_t kNoCounter = 0xffffffff;

// How much is recorded. Timing waits within an instruction's arithmetic costs the GPU a little more than the
// rest.
enum class RecordingDetail : uint8_t {
  kMoments = 1,  // the events, without the argument of compute_end
  kStarving,     // everything
};

// Event::pages of an event without a sample.
inline constexpr uint8_t kNoPageSample = 0xff;

// One event. `pages`: an optional sample of the SM's pages at that moment.
struct alignas(16) Event {
  uint32_t ticks = 0;             // low word of the recorder's clock
  uint32_t instruction = 0;       // index into Program::instructions
  uint32_t argument = 0;          // unit: see events.def
  uint16_t pass = 0;              // of the launch
  uint8_t kind = 0;               // EventKind
  uint8_t pages = kNoPageSample;  // in flight (low 4 bits) and free (high 4 bits)
};
static_assert(sizeof(Event) == 16);
static_assert(std::is_trivially_copyable_v<Event>);

// Event::pages; larger counts are recorded as kMaxSampledPages.
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

// One moment on an SM's own clock and on the clock that all SMs share. Two of them, from the beginning and
// the end of a launch, convert all ticks between them to nanoseconds.
struct ClockSync {
  uint64_t ticks = 0;
  uint64_t ns = 0;
};

// One SM's clock over a launch. The host's clock counts nanoseconds, so on the host ticks equal ns.
struct SmClockSync {
  ClockSync begin;
  ClockSync end;
};

// The events of all SMs. Ring r of SM s is events[(s × writers + r) × capacity, … + capacity); written[s ×
// writers + r] counts all events written to it, and event n is at n mod capacity. The host interpreter has
// one ring for each role; on the GPU one warp writes the events of all roles of an SM. Each SM's clock is
// read at the beginning and the end of a launch. Successive events of a ring in one launch are at most 2^31
// ticks apart.
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

// Index of a role of an SM among the roles of all SMs.
constexpr size_t index_of_role(uint32_t sm, SmRole role) {
  return size_t{sm} * kNumSmRoles + static_cast<size_t>(role);
}

}  // namespace serval

// What the warps of a block leave behind of what they do, for the watcher (vm/device/watcher.cuh) to bring to
// GPU memory: one store to shared memory an event, since a store to global memory would hold up the next
// release of the warp. A kernel is compiled with one of two recorders; with NoRecorder, nothing of all this
// is in it.
#pragma once

#include <cstdint>

#include "vm/device/recording.h"
#include "vm/device/shared.cuh"
#include "vm/events.h"

namespace serval::device {

template <class Config>
struct NoRecorder {
  static constexpr bool kOn = false;
  static constexpr size_t kSharedBytes = sizeof(Shared<Config>);

  __device__ explicit NoRecorder(Shared<Config>&) {}
  __device__ __forceinline__ void stamp(uint32_t, EventKind) {}
  __device__ __forceinline__ void note() {}
  __device__ __forceinline__ void note_end() {}
  __device__ __forceinline__ void page(uint32_t) {}
  __device__ __forceinline__ void loaded(uint32_t) {}
  __device__ __forceinline__ void has_page(bool) {}
  __device__ __forceinline__ void used_page(uint32_t, bool, bool) {}
  template <class Wait>
  __device__ __forceinline__ void timed(Wait&& wait) {
    wait();
  }
  template <class Wait>
  __device__ __forceinline__ void timed_if(uint32_t, Wait&& wait) {
    wait();
  }
};

// Behind Shared, in blocks that record.
struct RecorderShared {
  RecordTimes times[kRecordBuffers];
  uint64_t record_written[kRecordBuffers];  // mbarriers: the watcher is done with the record, after all roles
};

// One warp's, or that of the only thread of one that works. Records are counted from the launch's first;
// one lane calls what writes. Each event of a record has one warp that notes it: of several, the one with
// the first page, with the last, or that stored last.
template <class Config>
class EventRecorder {
 public:
  static constexpr bool kOn = true;
  static constexpr size_t kSharedBytes = sizeof(Shared<Config>) + sizeof(RecorderShared);
  static_assert(kSharedBytes <= kMaxSharedBytes);

  __device__ explicit EventRecorder(Shared<Config>& shared) : shared_(shared) {}

  // All threads of a block, before the barrier that follows the initialisation of mbarriers.
  static __device__ void init(Shared<Config>& shared) {
    RecorderShared& recorder = memory(shared);
    auto* words = reinterpret_cast<uint32_t*>(&recorder.times);
    for (uint32_t i = threadIdx.x; i < sizeof(recorder.times) / sizeof(uint32_t); i += kBlockThreads)
      words[i] = 0;
    if (threadIdx.x == 0) {
      for (uint64_t& barrier : recorder.record_written) ptx::mbarrier_init(&barrier, 1);
    }
  }
  static __device__ __forceinline__ RecorderShared& memory(Shared<Config>& shared) {
    return *reinterpret_cast<RecorderShared*>(&shared + 1);
  }
  __device__ __forceinline__ RecordTimes& times(uint32_t record) const {
    return memory(shared_).times[record % kRecordBuffers];
  }

  // The event happens now, or has at `ticks`.
  __device__ __forceinline__ void stamp(uint32_t record, EventKind kind) {
    stamp_at(record, kind, ptx::clock_ticks());
  }
  __device__ __forceinline__ void stamp_at(uint32_t record, EventKind kind, uint32_t ticks) {
    times(record).at[static_cast<uint32_t>(kind)] = ticks | 1;  // 0: has not happened
  }
  // Remembers moments: what is written down later delays no other role.
  __device__ __forceinline__ void note() { noted_ticks_ = ptx::clock_ticks(); }
  __device__ __forceinline__ void note_end() { end_ticks_ = ptx::clock_ticks(); }
  __device__ __forceinline__ uint32_t noted_ticks() const { return noted_ticks_; }
  __device__ __forceinline__ uint32_t end_ticks() const { return end_ticks_; }
  // Adds up what waits have taken, if that is asked for.
  template <class Wait>
  __device__ __forceinline__ void timed_if(uint32_t wanted, Wait&& wait) {
    if (wanted == 0) {
      wait();
    } else {
      timed(wait);
    }
  }
  template <class Wait>
  __device__ __forceinline__ void timed(Wait&& wait) {
    const uint32_t begin = ptx::clock_ticks();
    wait();
    waited_ += ptx::clock_ticks() - begin;
  }

  // The loader has issued a page; then, all pages of the record.
  __device__ __forceinline__ void page(uint32_t bytes) { bytes_ += bytes; }
  __device__ __forceinline__ void loaded(uint32_t record) {
    stamp(record, EventKind::kLoadIssued);
    RecordTimes& t = times(record);
    t.room_ticks = waited_;
    t.bytes = bytes_;
    waited_ = bytes_ = 0;
  }
  // A consumer sees that a page has landed …
  __device__ __forceinline__ void has_page(bool first) {
    landed_ticks_ = ptx::clock_ticks();
    if (first) first_landed_ticks_ = landed_ticks_;
  }
  // … and has used it, from the moment of note() to that of note_end(). The record's first and last are
  // written down: nothing waits for that.
  __device__ __forceinline__ void used_page(uint32_t record, bool first, bool last) {
    if (first) {
      stamp_at(record, EventKind::kFirstLanded, first_landed_ticks_);
      stamp_at(record, EventKind::kComputeBegin, noted_ticks_);
    }
    if (!last) return;
    stamp_at(record, EventKind::kLastLanded, landed_ticks_);
    stamp_at(record, EventKind::kComputeEnd, end_ticks_);
    times(record).starved_ticks = waited_;
    waited_ = 0;
  }

 private:
  Shared<Config>& shared_;
  uint32_t waited_ = 0;
  uint32_t bytes_ = 0;
  uint32_t first_landed_ticks_ = 0;
  uint32_t landed_ticks_ = 0;
  uint32_t noted_ticks_ = 0;
  uint32_t end_ticks_ = 0;
};

// A role and what records it.
template <class Role, template <class> class RecorderOf>
struct Recorded : Role {
  using Recorder = RecorderOf<typename Role::Config>;
  [[no_unique_address]] Recorder recorder{this->s};
};

}  // namespace serval::device

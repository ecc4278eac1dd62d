// Recorders: each warp notes its events in shared memory, and the watcher (vm/device/watcher.cuh) copies them
// to GPU memory. An event costs one store to shared memory; a store to global memory would delay the warp's
// next release. A kernel is compiled with one of two recorders; with NoRecorder it contains none of this
// code.
#pragma once

#include <cstdint>

#include "vm/device/architecture.cuh"
#include "vm/device/recording.h"
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

// Follows Shared in the shared memory of blocks that record.
struct RecorderShared {
  RecordTimes times[kRecordBuffers];
  uint64_t record_written[kRecordBuffers];  // mbarriers: the watcher has copied the record's times, after all
                                            // roles were done with it
};

// The recorder of one warp, or of the only active thread of a warp. Records are numbered from the launch's
// first; one lane calls the functions that write. One warp notes each event of a record: where several could,
// the one with the first page, with the last page, or that stored last.
template <class Config>
class EventRecorder {
 public:
  static constexpr bool kOn = true;
  static constexpr size_t kSharedBytes = sizeof(Shared<Config>) + sizeof(RecorderShared);
  static_assert(kSharedBytes <= kMaxSharedBytes);

  __device__ explicit EventRecorder(Shared<Config>& shared) : shared_(shared) {}

  // Called by all threads of a block, before the barrier that follows the initialisation of mbarriers.
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

  // The event happens now; stamp_at(): it happened at `ticks`.
  __device__ __forceinline__ void stamp(uint32_t record, EventKind kind) {
    stamp_at(record, kind, ptx::clock_ticks());
  }
  __device__ __forceinline__ void stamp_at(uint32_t record, EventKind kind, uint32_t ticks) {
    times(record).at[static_cast<uint32_t>(kind)] = ticks | 1;  // 0: has not happened
  }
  // note() and note_end() remember times that are written later, so that writing delays no other role.
  __device__ __forceinline__ void note() { noted_ticks_ = ptx::clock_ticks(); }
  __device__ __forceinline__ void note_end() { end_ticks_ = ptx::clock_ticks(); }
  __device__ __forceinline__ uint32_t noted_ticks() const { return noted_ticks_; }
  __device__ __forceinline__ uint32_t end_ticks() const { return end_ticks_; }
  // Adds up the time of waits, if `wanted` is not 0.
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

  // page(): the loader has issued a page. loaded(): it has issued all pages of the record.
  __device__ __forceinline__ void page(uint32_t bytes) { bytes_ += bytes; }
  __device__ __forceinline__ void loaded(uint32_t record) {
    stamp(record, EventKind::kLoadIssued);
    RecordTimes& t = times(record);
    t.room_ticks = waited_;
    t.bytes = bytes_;
    waited_ = bytes_ = 0;
  }
  // has_page(): a consumer sees that a page has landed.
  __device__ __forceinline__ void has_page(bool first) {
    landed_ticks_ = ptx::clock_ticks();
    if (first) first_landed_ticks_ = landed_ticks_;
  }
  // used_page(): it has used that page, from note() to note_end(). Writes the times of the record's first and
  // last page; no role waits for that.
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

// A role with its recorder.
template <class Role, template <class> class RecorderOf>
struct Recorded : Role {
  using Recorder = RecorderOf<typename Role::Config>;
  [[no_unique_address]] Recorder recorder{this->s};
};

}  // namespace serval::device

// The watcher warp, where events are recorded: copies the times of a record to the SM's ring in GPU memory
// once all roles are done with the record.
#pragma once

#include <cstdint>

#include "vm/device/architecture.cuh"
#include "vm/device/recorder.cuh"

namespace serval::device {

template <class Config>
class Watcher {
 public:
  __device__ Watcher(Shared<Config>& shared, const Launch& launch, uint32_t lane)
      : s_(shared), launch_(launch), lane_(lane) {}

  // Returns when the launch is over or has been given up.
  __device__ void run() {
    if (!align_clocks()) return;
    for (uint32_t n = 0;; ++n) {
      while (!is_over(n)) {
        if (launch_is_over(n)) return;
      }
      RecorderShared& memory = EventRecorder<Config>::memory(s_);
      const uint32_t pages = sample_pages();
      if (lane_ == 0) memory.times[n % kRecordBuffers].pages = pages;
      __syncwarp();
      write(n, reinterpret_cast<uint32_t*>(&memory.times[n % kRecordBuffers]));
      __syncwarp();
      if (lane_ == 0) ptx::mbarrier_arrive(&memory.record_written[n % kRecordBuffers]);
    }
  }

 private:
  __device__ bool is_over(uint32_t record) const {
    return __all_sync(
        ~0u, ptx::mbarrier_try_wait(&s_.record_free[record % kRecordBuffers], record / kRecordBuffers & 1));
  }
  // Pages in flight and free pages at this moment; each lane tests one buffer of the ring.
  __device__ uint32_t sample_pages() const {
    constexpr uint32_t kRingPages = Config::kRingPages;
    const uint32_t issued = __shfl_sync(~0u, ptx::shared_load_acquire(&s_.pages_issued), 0);
    const uint32_t page = (issued < kRingPages ? 0 : issued - kRingPages) + lane_;
    const uint32_t at = page % kRingPages, parity = page / kRingPages & 1;
    const bool here = lane_ < kRingPages && page < issued;
    const bool in_flight = here && !ptx::mbarrier_test_wait(&s_.page_landed[at], parity);
    const bool free = lane_ < kRingPages && (!here || ptx::mbarrier_test_wait(&s_.page_free[at], parity));
    return pack_pages(static_cast<uint32_t>(__popc(__ballot_sync(~0u, in_flight))),
                      static_cast<uint32_t>(__popc(__ballot_sync(~0u, free))));
  }
  // Each lane copies one word and zeroes it for the next record.
  __device__ void write(uint32_t record, uint32_t* times) const {
    constexpr uint32_t kWords = sizeof(RecordTimes) / sizeof(uint32_t);
    static_assert(kWords <= kWarpThreads);
    const Recording& to = launch_.recording;
    const size_t at = size_t{blockIdx.x} * to.capacity + (record & (to.capacity - 1));
    if (lane_ < kWords) {
      ptx::store_relaxed(reinterpret_cast<uint32_t*>(to.records + at) + lane_, times[lane_]);
      times[lane_] = 0;
    }
    if (lane_ == 0) to.written[blockIdx.x] = record + 1;
  }

  // See LaunchClock. Meanwhile records wait to be written; the record buffers suffice for this time. False if
  // the launch has been given up.
  __device__ bool align_clocks() const {
    constexpr uint64_t kRoundTicks = 3'000;
    const Recording& to = launch_.recording;
    if (blockIdx.x == 0) read_clocks(to.clock->begin);
    for (uint32_t round = 0; round < kClockRounds; ++round) {
      const uint64_t sent = ptx::clock_ticks64();
      if (blockIdx.x == 0 && lane_ == 0) {
        to.clock->sent[round] = sent;
        ptx::store_relaxed(to.signal, round + 1);
      }
      const bool signalled = await([&] { return ptx::load_relaxed(to.signal) > round; });
      const uint64_t seen = ptx::clock_ticks64();
      if (lane_ == 0 && signalled) to.seen[blockIdx.x][round] = seen;
      const auto round_is_over = [&] { return ptx::clock_ticks64() - sent >= kRoundTicks; };
      const bool goes_on = signalled && (blockIdx.x != 0 || await(round_is_over));
      if (!__all_sync(~0u, goes_on)) return false;
    }
    return true;
  }
  // Returns false if the launch was given up before done() is true.
  template <class Done>
  __device__ bool await(Done&& done) const {
    while (!done()) {
      if (exit_requested(&s_.exit)) return false;
    }
    return true;
  }
  // Reads both clocks at the same moment. The nanosecond clock moves in steps, so waits for its next step.
  __device__ void read_clocks(ClockSync& sync) const {
    if (lane_ != 0) return;
    const uint64_t before = ptx::global_nanoseconds();
    uint64_t now = before;
    while (now == before) now = ptx::global_nanoseconds();
    sync = {ptx::clock_ticks64(), now};
  }
  // The launch is over when the other warps leave. They may still be about to free a record, so waits a
  // little.
  __device__ bool launch_is_over(uint32_t record) const {
    constexpr uint32_t kFinalEvents_ns = 2'000;
    if (!__any_sync(~0u, exit_requested(&s_.exit))) return false;
    const uint64_t begin = ptx::global_nanoseconds();
    while (__any_sync(~0u, ptx::global_nanoseconds() - begin < kFinalEvents_ns)) {
      if (is_over(record)) return false;
    }
    if (blockIdx.x == 0) read_clocks(launch_.recording.clock->end);
    return true;
  }

  Shared<Config>& s_;
  const Launch& launch_;
  const uint32_t lane_;
};

}  // namespace serval::device

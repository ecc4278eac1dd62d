// The rings of a kernel that records, in GPU memory.
#pragma once

#include <bit>

#include "vm/device/device_array.h"
#include "vm/device/recording.h"

namespace serval::device {

// Not thread-safe. One ring for each SM, for at least `events_of_ring` events.
class RecordingBuffers {
 public:
  RecordingBuffers(uint32_t sms, uint32_t events_of_ring)
      : capacity_(std::bit_ceil((events_of_ring + kNumEventKinds - 1) / kNumEventKinds)),
        records_(size_t{sms} * capacity_),
        written_(sms),
        clock_(1),
        seen_(sms),
        signal_(1) {}

  Recording device_view() const {
    return {records_.data(), written_.data(), clock_.data(), seen_.data(), signal_.data(), capacity_, 0};
  }
  // Discards what the previous launch recorded.
  void begin_launch(cudaStream_t stream) const {
    SERVAL_CUDA_CHECK(cudaMemsetAsync(written_.data(), 0, written_.size() * sizeof(uint32_t), stream));
    SERVAL_CUDA_CHECK(cudaMemsetAsync(signal_.data(), 0, sizeof(uint32_t), stream));
  }
  // Call after the launch is over.
  const EventRings& download() {
    const auto records = records_.download();
    const auto written = written_.download();
    const auto seen = seen_.download();
    rings_ = events_of({records, written, clock_.download().front(), seen, capacity_});
    return rings_;
  }

 private:
  uint32_t capacity_;  // records of a ring
  DeviceArray<RecordTimes> records_;
  DeviceArray<uint32_t> written_;
  DeviceArray<LaunchClock> clock_;
  DeviceArray<SeenSignals> seen_;
  DeviceArray<uint32_t> signal_;
  EventRings rings_;
};

}  // namespace serval::device

#include <atomic>
#include <chrono>

#include "vm/device/device_array.h"
#include "vm/device/gpu_clock.h"
#include "vm/ptx/ptx.cuh"

namespace serval {
namespace {

constexpr uint32_t kRounds = 64;

// Messages between the host and the GPU.
struct Mail {
  uint32_t asked, answered;
  uint64_t time;
};

__global__ void answer(Mail* mail) {
  for (uint32_t round = 1; round <= kRounds; ++round) {
    while (ptx::load_acquire_system(&mail->asked) < round) {
    }
    *static_cast<volatile uint64_t*>(&mail->time) = ptx::global_nanoseconds();
    ptx::store_release_system(&mail->answered, round);
  }
}

int64_t host_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

GpuClock compare_clock(cudaStream_t stream) {
  const PinnedArray<Mail> mail(1);
  Mail& mine = *mail.data();
  answer<<<1, 1, 0, stream>>>(mail.device_data());
  SERVAL_CUDA_CHECK(cudaGetLastError());
  GpuClock best{0, INT64_MAX};
  for (uint32_t round = 1; round <= kRounds; ++round) {
    const int64_t sent = host_ns();
    std::atomic_ref(mine.asked).store(round, std::memory_order_release);
    while (std::atomic_ref(mine.answered).load(std::memory_order_acquire) < round) {
    }
    const int64_t back = host_ns(), error = (back - sent) / 2;
    if (error < best.error_ns) best = {static_cast<int64_t>(mine.time) - (sent + error), error};
  }
  SERVAL_CUDA_CHECK(cudaStreamSynchronize(stream));
  return best;
}

}  // namespace serval

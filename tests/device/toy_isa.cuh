// An instruction set for tests of the device interpreter: no Llama in it.
#pragma once

#include "vm/device/isa.h"
#include "vm/device/launch_kernel.cuh"
#include "vm/device/op.cuh"

namespace serval::testing {

inline constexpr uint32_t kToyWords = 1024;  // of a toy vector: 4 KiB

// out[i] = in[i] + 1. `bulk`: the input is read by a bulk copy instead of plain loads.
struct Relay {
  TensorId in;
  TensorId out;
  uint32_t bulk;
  template <class V>
  static constexpr void fields(V&& v) {
    v(&Relay::in, "in", "in [1, 1024] i32");
    v(&Relay::out, "out", "out [1, 1024] i32");
    v(&Relay::bulk, "bulk", "1: by a bulk copy");
  }
};

// out[0] = sum of the words of `pages` pages; a page that is not freed stays with its warp for good.
struct SumPages {
  TensorId in;
  TensorId out;
  uint32_t pages;
  uint32_t keeps;  // 1: pages are not freed
  template <class V>
  static constexpr void fields(V&& v) {
    v(&SumPages::in, "in", "in [pages, 4096] i32");
    v(&SumPages::out, "out", "out [1, 1024] i32");
    v(&SumPages::pages, "pages", "pages");
    v(&SumPages::keeps, "keeps", "1: pages are not freed");
  }
};

// Waits for a value that nobody writes.
struct Hang {
  TensorId flag;
  template <class V>
  static constexpr void fields(V&& v) {
    v(&Hang::flag, "flag", "in [1, 1024] i32");
  }
};

// Ends a pass: counts it, and decides whether it was the last.
struct Tick {
  TensorId control;
  TensorId host_stop;
  template <class V>
  static constexpr void fields(V&& v) {
    v(&Tick::control, "control", "in and out: the decision");
    v(&Tick::host_stop, "host_stop", "in: one word the host may set");
  }
};

enum class ToyOpcode : uint16_t { kRelay, kSumPages, kHang, kTick };

// How SumPages streams: the pages of one tensor, one after the other.
struct ToyStream {
  struct Plan {
    const std::byte* from;
    uint32_t pages;
    uint32_t keeps;
  };
  template <class PagesOf>
  static __device__ void load(device::LoaderRole& role, const Plan& plan, PagesOf&& pages_of) {
    for (uint32_t p = 0; p < plan.pages; ++p) {
      role.page(pages_of(p, 0), kPageBytes, device::kPagesInFlight);
    }
  }
  static __device__ void prepare(device::PreparerRole& role, const Plan&) { role.wait_inputs(); }
  static __device__ void consume(device::ConsumerRole& role, const Plan& plan) {
    int sum = 0;
    for (uint32_t p = role.warp; p < plan.pages; p += device::kConsumerWarps) {
      const uint32_t page = role.next_page + p;
      role.wait_page(page);
      const int* words = reinterpret_cast<const int*>(role.s.ring[page % device::kRingPages]);
      for (uint32_t i = role.lane; i < kPageBytes / sizeof(int); i += device::kWarpThreads) sum += words[i];
      if (plan.keeps == 0) role.free_page(page);
    }
    sum = __reduce_add_sync(~0u, sum);
    role.wait_stored(role.next_unit);
    if (role.lane == 0) reinterpret_cast<int*>(role.s.partials)[role.warp] = sum;
    role.arrive_unit(role.next_unit++);
    role.next_page += plan.pages;
  }
};

}  // namespace serval::testing

namespace serval::device {

template <>
struct DeviceOp<testing::Relay> : GroupOp {
  static __device__ void run(const testing::Relay& op, const Group& group) {
    const auto* in = group.tensor<&testing::Relay::in, const uint32_t>();
    auto* out = group.tensor<&testing::Relay::out, uint32_t>();
    if (op.bulk == 0) {
      for (uint32_t i = group.thread; i < testing::kToyWords; i += kGroupThreads) {
        ptx::store_relaxed(out + i, ptx::load_relaxed(in + i) + 1);
      }
      return;
    }
    auto* copy = reinterpret_cast<uint32_t*>(group.scratch);
    auto* landed = reinterpret_cast<uint64_t*>(copy + testing::kToyWords);
    constexpr uint32_t kBytes = testing::kToyWords * sizeof(uint32_t);
    if (group.thread == 0) {
      ptx::mbarrier_init(landed, 1);
      ptx::fence_mbarrier_init();
      ptx::fence_proxy_async_global();
      ptx::mbarrier_arrive_expect_bytes(landed, kBytes);
      ptx::bulk_load(copy, in, kBytes, landed);
    }
    group.sync();
    wait_phase(landed, 0, group.exit);
    for (uint32_t i = group.thread; i < testing::kToyWords; i += kGroupThreads) {
      ptx::store_relaxed(out + i, copy[i] + 1);
    }
  }
};

template <>
struct DeviceOp<testing::SumPages> {
  static __device__ bool in_range(const testing::SumPages& op) { return op.pages <= kMaxRows; }
  static __device__ testing::ToyStream::Plan plan(const Launch&, const RecordSlot& slot,
                                                  const testing::SumPages& op) {
    return {tensor<&testing::SumPages::in, const std::byte>(slot), op.pages, op.keeps};
  }
  static __device__ const std::byte* pages_of(const RecordSlot& slot, const testing::SumPages&, uint32_t page,
                                              uint32_t) {
    return tensor<&testing::SumPages::in, const std::byte>(slot) + page * kPageBytes;
  }
  static __device__ void store(StorerRole& role, const testing::SumPages&, const testing::ToyStream::Plan&) {
    role.wait_inputs();
    role.wait_units(1, kConsumerWarps);
    if (role.lane == 0) {
      int sum = 0;
      for (uint32_t w = 0; w < kConsumerWarps; ++w) sum += reinterpret_cast<const int*>(role.s.partials)[w];
      ptx::store_relaxed(tensor<&testing::SumPages::out, uint32_t>(*role.slot), static_cast<uint32_t>(sum));
    }
    __syncwarp();
    role.units_stored(1);
  }
};

template <>
struct DeviceOp<testing::Hang> : GroupOp {
  static __device__ void run(const testing::Hang&, const Group& group) {
    for (;;) leave_if_asked(group.exit);
  }
};

template <>
struct DeviceOp<testing::Tick> : GroupOp {
  static __device__ void run(const testing::Tick&, const Group& group) {
    if (group.thread != 0) return;
    PassControl& control = *group.tensor<&testing::Tick::control, PassControl>();
    const uint32_t pass = control.passes_done++;
    const bool stop = ptx::load_acquire(group.tensor<&testing::Tick::host_stop, const uint32_t>()) != 0;
    if (stop) control.stopped_by_host = 1;
    if (stop || pass + 1 >= control.passes_wanted) ptx::store_relaxed(&control.last_pass, pass);
  }
};

}  // namespace serval::device

namespace serval::testing {

using ToyIsa = device::IsaList<ToyStream, Relay, SumPages, Hang, Tick>;

// Nothing is checked when a program is bound, so that tests can bind broken ones.
inline const DeviceIsa& toy_isa() {
  static const DeviceIsa isa{device::launch_kernel<ToyIsa>, device::prepare_kernel<ToyIsa>,
                             device::kRingPages,
                             [](const Program&, const Instruction&) { return std::string(); },
                             [](uint16_t opcode) {
                               constexpr const char* kNames[] = {"relay", "sum_pages", "hang", "tick"};
                               return opcode < std::size(kNames) ? kNames[opcode] : "unknown";
                             }};
  return isa;
}

}  // namespace serval::testing

// A model-independent instruction set for tests of the device interpreter.
#pragma once

#include "vm/device/isa.h"
#include "vm/device/op.cuh"
#include "vm/device/sm90/launch_kernel.cuh"
#include "vm/ptx/memory.cuh"
#include "vm/state/control.h"
#include "vm/state/limits.h"
#include "vm/state/output.h"
#include "vm/state/rows.h"

namespace serval::testing {

inline constexpr uint32_t kToyWords = 1024;  // in a toy vector: 4 KiB
inline constexpr uint32_t kToyPanelWords = device::kActivationRowBytes / sizeof(uint32_t);
inline constexpr uint32_t kMostToyPanels = 64;
// In a pass's entry of the output table.
inline constexpr uint32_t kToyOutputWordsOfRow = sizeof(OutputToken) / sizeof(uint32_t);
// Output of the storers: a unit is the sum of one consumer warp, and its tiles go to different storers.
inline constexpr uint32_t kToyTiles = 2;
inline constexpr uint32_t kToyTilesInAll = device::kConsumerWarps * kToyTiles;
inline constexpr uint32_t kToyMark = 1U << 30;  // added to a word that is wrong

// out[i] = in[i] + 1. With `bulk`, reads the input by a bulk copy instead of plain loads.
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

// Relay by the storers, tile by tile. `turn` rotates the assignment of tiles to warps. Words that differ from
// the first one are marked.
struct StorerRelay {
  TensorId in;
  TensorId out;
  uint32_t turn;
  uint32_t storers;
  uint32_t late = 0;
  template <class V>
  static constexpr void fields(V&& v) {
    v(&StorerRelay::in, "in", "in [1, 1024] i32: the same number everywhere");
    v(&StorerRelay::out, "out", "out [1, 1024] i32");
    v(&StorerRelay::turn, "turn", "tiles by which the warps move on");
    v(&StorerRelay::storers, "storers", "that share the tiles: 1 to 4");
    v(&StorerRelay::late, "late", "storers that are late when all is stored, a bit each");
  }
};

inline constexpr uint32_t kMostPages = 16;  // limit for SumPages

// out[n] += the words of the pages that consumer warp n / kToyTiles has received; a page that is not freed
// stays with its warp.
struct SumPages {
  TensorId in;
  TensorId out;
  uint32_t pages;
  uint32_t keeps;  // 1: pages are not freed
  uint32_t late;   // late storers, a bit each
  template <class V>
  static constexpr void fields(V&& v) {
    v(&SumPages::in, "in", "in [pages, 4096] i32");
    v(&SumPages::out, "out", "in and out [1, 1024] i32");
    v(&SumPages::pages, "pages", "pages");
    v(&SumPages::keeps, "keeps", "1: pages are not freed");
    v(&SumPages::late, "late", "storers that are late, a bit each");
  }
};

// out[n] += the words that consumer warp n / kToyTiles has received of `panels` panels, which the preparer
// copies into the activation slots.
struct SumPanels {
  TensorId in;
  TensorId out;
  uint32_t panels;
  uint32_t streamed;  // 1: takes a slot for each panel, else slots for all of them at once
  template <class V>
  static constexpr void fields(V&& v) {
    v(&SumPanels::in, "in", "in [panels, kToyPanelWords] i32");
    v(&SumPanels::out, "out", "in and out [1, 1024] i32");
    v(&SumPanels::panels, "panels", "panels");
    v(&SumPanels::streamed, "streamed", "1: one after the other");
  }
};

// Fills the scratch memory, which shares the activation slots' memory.
struct Scribble {
  uint32_t word;
  template <class V>
  static constexpr void fields(V&& v) {
    v(&Scribble::word, "word", "what is written");
  }
};

// Writes the pass's entry of the output table, which is in host memory: all its words are pass + 1.
struct Publish {
  TensorId control;
  TensorId output;
  uint32_t words;
  template <class V>
  static constexpr void fields(V&& v) {
    v(&Publish::control, "control", "in: the number of the pass");
    v(&Publish::output, "output", "out [4096, words] i32");
    v(&Publish::words, "words", "words of a pass");
  }
};

// Writes the pass's row of `kept`, alternating between the rows: all its words are pass + 1.
struct Keep {
  TensorId control;
  TensorId kept;
  template <class V>
  static constexpr void fields(V&& v) {
    v(&Keep::control, "control", "in: the number of the pass");
    v(&Keep::kept, "kept", "out [2, 1024] i32");
  }
};

// Starts early: reads what the previous pass has kept, then waits for its inputs and reads what this pass has
// kept. out[0 … 255] += wrong words. out[256] += 1, which counts passes: `control` must have the same number,
// else the pass has not begun.
struct Recall {
  TensorId control;
  TensorId kept;
  TensorId out;
  template <class V>
  static constexpr void fields(V&& v) {
    v(&Recall::control, "control", "in: the number of the pass");
    v(&Recall::kept, "kept", "in [2, 1024] i32");
    v(&Recall::out, "out", "in and out [1, 1024] i32");
  }
};

// Waits for a value that is never written.
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

enum class ToyOpcode : uint16_t {
  kRelay,
  kSumPages,
  kHang,
  kTick,
  kSumPanels,
  kPublish,
  kScribble,
  kStorerRelay,
  kKeep,
  kRecall
};

// Long for a storer: many records take less time.
inline constexpr uint32_t kLate_ns = 20'000;

// How SumPages and SumPanels stream: the pages or panels of one tensor, one after the other. StorerRelay has
// neither.
struct ToyStream {
  static constexpr bool kConsumersStore = false;
  using Pages = const std::byte*;
  template <class T>
  using Op = device::DeviceOp<T>;

  template <class T, class Role>
  static __device__ Pages pages_of(const Role& role, const T& op, uint32_t page, uint32_t matrix) {
    return device::DeviceOp<T>::pages_of(*role.buffer, op, page, matrix);
  }
  struct Plan {
    const std::byte* from;
    uint32_t pages;
    uint32_t keeps;
    uint32_t panels;
    uint32_t streamed;
    uint32_t storers = device::kStorerWarps;
    uint32_t late = 0;  // storers that are late when all is stored
  };
  using Shape = Plan;
  template <class Config>
  static __device__ Plan plan(const device::Launch&, const Shape& shape) {
    return shape;
  }
  static __device__ uint32_t units(const Plan&) { return device::kConsumerWarps; }
  static __device__ bool has_panels(const Plan& plan) { return plan.panels != 0; }
  template <class Config>
  static __device__ uint32_t storers(const Plan& plan) {
    return plan.storers;
  }

  template <class Role, class PagesOf>
  static __device__ void load(Role& role, const Plan& plan, PagesOf&& pages_of) {
    for (uint32_t p = 0; p < plan.pages; ++p) {
      role.page(pages_of(p, 0), kPageBytes, role.recorder);
    }
  }
  template <class Role>
  static __device__ void prepare(Role& role, const Plan& plan) {
    const uint32_t at_once = plan.streamed != 0 ? 1 : plan.panels;
    if (plan.streamed == 0) role.acquire_panels(at_once);
    role.wait_inputs(role.recorder);
    if (role.lane == 0) ptx::fence_proxy_async_global();
    for (uint32_t c = 0; c < plan.panels; c += at_once) {
      if (plan.streamed != 0) role.acquire_panels(at_once);
      role.copy_panels(plan.from + size_t{c} * device::kActivationRowBytes, device::kActivationRowBytes,
                       at_once,
                       device::row_bound<typename Role::Config>(role.launch) * device::kActivationRowBytes);
    }
  }
  template <class Role, class WithOp, class Signal>
  static __device__ void consume(Role& role, const Plan& plan, WithOp&&, Signal&&) {
    const uint32_t sum = __reduce_add_sync(~0u, sum_of_pages(role, plan) + sum_of_panels(role, plan));
    const uint32_t unit = role.next_unit + role.warp;
    role.wait_partial_buffer(unit);
    if (role.lane == 0) reinterpret_cast<uint32_t*>(role.s.partials)[unit % device::kPartialBuffers] = sum;
    role.arrive_unit(unit);
    role.next_unit += device::kConsumerWarps;
    role.next_page += plan.pages;
    role.next_panel += plan.panels;
  }
  template <class Role, class WithOp, class Stored>
  static __device__ void store(Role& role, const Plan& plan, WithOp&& with_op, Stored&& stored) {
    role.wait_inputs();
    with_op([&]<class Op>(const Op& op) { device::DeviceOp<Op>::store(role, op, plan.storers, stored); });
    role.next_unit += device::kConsumerWarps;
    if ((plan.late >> role.warp & 1) != 0) __nanosleep(kLate_ns);
  }
  // Calls take(tile, sum of its unit) for every tile of this warp, one of `storers` warps, and stored() after
  // the last one, before its unit is released.
  template <class Role, class Stored, class Take>
  static __device__ void for_tiles(Role& role, uint32_t storers, Stored&& stored, Take&& take) {
    for (uint32_t tile = role.storer_rank; tile < kToyTilesInAll;) {
      const uint32_t unit = tile / kToyTiles;
      role.wait_partial_buffers(unit + 1);
      role.wait_units(unit, true, 1);
      take(tile, reinterpret_cast<const uint32_t*>(
                     role.s.partials)[(role.next_unit + unit) % device::kPartialBuffers]);
      tile += storers;
      if (tile >= kToyTilesInAll) stored();
      role.tile_stored(unit, role.lane == 0, kToyTiles, min(tile, kToyTilesInAll) / kToyTiles);
    }
  }
  template <class Role, class Stored>
  static __device__ void add_sums(Role& role, uint32_t storers, Stored&& stored, uint32_t* out,
                                  uint32_t late) {
    for_tiles(role, storers, stored, [&](uint32_t tile, uint32_t sum) {
      if ((late >> role.warp & 1) != 0) __nanosleep(kLate_ns);
      if (role.lane == 0) ptx::store_relaxed(out + tile, ptx::load_relaxed(out + tile) + sum);
    });
  }

 private:
  template <class Role>
  static __device__ uint32_t sum_of_panels(Role& role, const Plan& plan) {
    uint32_t sum = 0;
    for (uint32_t c = 0; c < plan.panels; ++c) {
      const uint32_t panel = role.next_panel + c;
      role.wait_panel(panel);
      const auto* words = reinterpret_cast<const uint32_t*>(
          role.s.activations + device::activation_buffer<typename Role::Config>(panel));
      for (uint32_t i = role.warp * kWarpThreads + role.lane; i < kToyPanelWords;
           i += device::kGroupThreads) {
        sum += words[i];
      }
      role.release_panels(panel + 1);
    }
    return sum;
  }
  template <class Role>
  static __device__ uint32_t sum_of_pages(Role& role, const Plan& plan) {
    uint32_t sum = 0;
    for (uint32_t p = role.warp; p < plan.pages; p += device::kConsumerWarps) {
      const uint32_t page = role.next_page + p;
      role.wait_page(page);
      const auto* words = reinterpret_cast<const uint32_t*>(role.s.ring[page % Role::Config::kRingPages]);
      for (uint32_t i = role.lane; i < kPageBytes / sizeof(uint32_t); i += kWarpThreads) sum += words[i];
      if (plan.keeps == 0) role.free_page(page);
    }
    return sum;
  }
};

}  // namespace serval::testing

namespace serval::device {

template <>
struct DeviceOp<testing::Relay> : GroupOp {
  static constexpr bool kStartsBeforeGate = true;

  static __device__ void run(const testing::Relay& op, const Group& group) {
    group.wait_inputs();
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
      ptx::fence_proxy_async_shared();  // scratch memory was read and written through the generic proxy
      ptx::mbarrier_arrive_expect_bytes(landed, kBytes);
      ptx::bulk_load(copy, in, kBytes, landed);
    }
    group.sync();
    // Waits also if the launch fails: no other code tracks this copy, and it must not write to a block that
    // has ended.
    while (!ptx::mbarrier_try_wait(landed, 0)) {
    }
    for (uint32_t i = group.thread; i < testing::kToyWords; i += kGroupThreads) {
      ptx::store_relaxed(out + i, copy[i] + 1);
    }
  }
};

template <>
struct DeviceOp<testing::SumPages> {
  static __device__ bool in_range(const testing::SumPages& op, const ProgramShape&) {
    return op.pages <= testing::kMostPages;
  }
  static __device__ testing::ToyStream::Shape shape(const RecordBuffer& buffer, const testing::SumPages& op,
                                                    const ProgramShape&) {
    return {.from = tensor<&testing::SumPages::in, const std::byte>(buffer),
            .pages = op.pages,
            .keeps = op.keeps};
  }
  static __device__ const std::byte* pages_of(const RecordBuffer& buffer, const testing::SumPages&,
                                              uint32_t page, uint32_t) {
    return tensor<&testing::SumPages::in, const std::byte>(buffer) + page * kPageBytes;
  }
  template <class Role, class Stored>
  static __device__ void store(Role& role, const testing::SumPages& op, uint32_t storers, Stored&& stored) {
    testing::ToyStream::add_sums(role, storers, stored,
                                 tensor<&testing::SumPages::out, uint32_t>(*role.buffer), op.late);
  }
};

template <>
struct DeviceOp<testing::SumPanels> {
  static __device__ bool in_range(const testing::SumPanels& op, const ProgramShape&) {
    return op.panels <= testing::kMostToyPanels;
  }
  static __device__ testing::ToyStream::Shape shape(const RecordBuffer& buffer, const testing::SumPanels& op,
                                                    const ProgramShape&) {
    return {.from = tensor<&testing::SumPanels::in, const std::byte>(buffer),
            .panels = op.panels,
            .streamed = op.streamed};
  }
  static __device__ const std::byte* pages_of(const RecordBuffer&, const testing::SumPanels&, uint32_t,
                                              uint32_t) {
    return nullptr;  // it has none
  }
  template <class Role, class Stored>
  static __device__ void store(Role& role, const testing::SumPanels&, uint32_t storers, Stored&& stored) {
    testing::ToyStream::add_sums(role, storers, stored,
                                 tensor<&testing::SumPanels::out, uint32_t>(*role.buffer), 0);
  }
};

template <>
struct DeviceOp<testing::StorerRelay> {
  static __device__ bool in_range(const testing::StorerRelay&, const ProgramShape&) { return true; }
  static __device__ testing::ToyStream::Shape shape(const RecordBuffer&, const testing::StorerRelay& op,
                                                    const ProgramShape&) {
    return {.storers = op.storers, .late = op.late};
  }
  static __device__ const std::byte* pages_of(const RecordBuffer&, const testing::StorerRelay&, uint32_t,
                                              uint32_t) {
    return nullptr;  // it has none
  }
  // A tile of the vector for each tile of the units.
  template <class Role, class Stored>
  static __device__ void store(Role& role, const testing::StorerRelay& op, uint32_t storers,
                               Stored&& stored) {
    constexpr uint32_t kTileWords = testing::kToyWords / testing::kToyTilesInAll;
    const auto* in = tensor<&testing::StorerRelay::in, const uint32_t>(*role.buffer);
    auto* out = tensor<&testing::StorerRelay::out, uint32_t>(*role.buffer);
    const uint32_t expected = ptx::load_relaxed(in);
    testing::ToyStream::for_tiles(role, storers, stored, [&](uint32_t n, uint32_t) {
      const uint32_t tile = (n + op.turn) % testing::kToyTilesInAll;
      for (uint32_t i = tile * kTileWords + role.lane; i < (tile + 1) * kTileWords; i += kWarpThreads) {
        const uint32_t word = ptx::load_relaxed(in + i);
        ptx::store_relaxed(out + i, word + 1 + (word == expected ? 0 : testing::kToyMark));
      }
    });
  }
};

template <>
struct DeviceOp<testing::Scribble> : GroupOp {
  static __device__ void run(const testing::Scribble& op, const Group& group) {
    for (uint32_t i = group.thread; i < kScratchBytes / sizeof(uint32_t); i += kGroupThreads) {
      reinterpret_cast<uint32_t*>(group.scratch)[i] = op.word;
    }
  }
};

template <>
struct DeviceOp<testing::Publish> : GroupOp {
  static __device__ void run(const testing::Publish& op, const Group& group) {
    if (group.thread >= op.words) return;
    const auto* control = group.tensor<&testing::Publish::control, const PassControl>();
    const uint32_t pass = ptx::load_relaxed(&control->passes_done);
    uint32_t* entry = group.tensor<&testing::Publish::output, uint32_t>() + pass * op.words;
    entry[group.thread] = pass + 1;
  }
};

template <>
struct DeviceOp<testing::Keep> : GroupOp {
  static __device__ void run(const testing::Keep&, const Group& group) {
    const auto* control = group.tensor<&testing::Keep::control, const PassControl>();
    const uint32_t pass = ptx::load_relaxed(&control->passes_done);
    uint32_t* kept = group.tensor<&testing::Keep::kept, uint32_t>() + pass % 2 * testing::kToyWords;
    for (uint32_t i = group.thread; i < testing::kToyWords; i += kGroupThreads) {
      ptx::store_relaxed(kept + i, pass + 1);
    }
  }
};

template <>
struct DeviceOp<testing::Recall> : GroupOp {
  static constexpr bool kStartsEarly = true;

  static __device__ void run(const testing::Recall&, const Group& group) {
    const auto* control = group.tensor<&testing::Recall::control, const PassControl>();
    const auto* kept = group.tensor<&testing::Recall::kept, const uint4>();
    auto* out = group.tensor<&testing::Recall::out, uint32_t>();
    constexpr uint32_t kQuads = testing::kToyWords / 4;
    static_assert(kQuads == kGroupThreads, "four words a thread");
    const uint32_t pass = ptx::load_relaxed(&control->passes_done);
    const uint32_t before = wrong(ptx::load_weak(kept + (pass + 1) % 2 * kQuads + group.thread), pass);
    group.wait_inputs();
    const uint32_t now = wrong(ptx::load_relaxed(kept + pass % 2 * kQuads + group.thread), pass + 1);
    out[group.thread] += before + now;
    if (group.thread == 0 && pass != out[kGroupThreads]++) ++out[0];
  }

 private:
  static __device__ uint32_t wrong(const uint4& words, uint32_t expected) {
    return (words.x != expected ? 1 : 0) + (words.y != expected ? 1 : 0) + (words.z != expected ? 1 : 0) +
           (words.w != expected ? 1 : 0);
  }
};

template <>
struct DeviceOp<testing::Hang> : GroupOp {
  static __device__ void run(const testing::Hang&, const Group& group) {
    for (;;) exit_if_requested(group.exit);
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

using ToyIsa = device::IsaList<device::StreamList<ToyStream>, Relay, SumPages, Hang, Tick, SumPanels, Publish,
                               Scribble, StorerRelay, Keep, Recall>;

// Kernels for the toy instructions: the shapes of those for many rows and for one.
using ManyRows = device::KernelConfig<16, 9, 68, 32>;
using OneRow = device::KernelConfig<1, 10, 52, 16>;

// The instruction set of one kernel. It checks nothing when a program is bound, so that tests can bind broken
// ones.
template <class Isa, class Config>
const DeviceIsa& unchecked_isa(const char* (*name)(uint16_t opcode)) {
  static const DeviceKernelChoice kernel{device::device_kernel<Isa, Config, device::NoRecorder>(),
                                         {},
                                         Config::kRows,
                                         Config::kRingPages,
                                         nullptr};
  static const DeviceIsa isa{
      {&kernel, 1}, [](const Program&, const Instruction&) { return std::string(); }, name};
  return isa;
}

template <class Config>
const DeviceIsa& toy_isa() {
  return unchecked_isa<ToyIsa, Config>([](uint16_t opcode) {
    constexpr const char* kNames[] = {"relay",   "sum_pages", "hang",         "tick", "sum_panels",
                                      "publish", "scribble",  "storer_relay", "keep", "recall"};
    return opcode < std::size(kNames) ? kNames[opcode] : "unknown";
  });
}

}  // namespace serval::testing

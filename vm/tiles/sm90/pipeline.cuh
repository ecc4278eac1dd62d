// The pipeline of a kernel: load, compute, finish; or load, compute, store, finish. An author writes small
// functions; the pipeline owns stages, barriers, phases, registers, and the walk through the tasks.
//
// Work is a list of tasks (output tiles, say), each of which has steps. For each step one thread loads a
// stage of shared memory, while the consumers (some warpgroups) compute on the stages before. A stage is
// loaded again as soon as it has been computed on and, with a store, its results have left. Each block, or
// cluster of blocks, takes every n-th task and keeps loading while the task before is finished.
//
// A Kernel is a struct without data:
//
//   struct Globals;               the kernel's parameter: tensor maps, pointers, sizes
//   struct Task;                  what a task is: a place in the output, say
//   struct Stage;                 shared memory of a step
//   struct Scratch;               shared memory of the block, for compute() and finish()
//   kConsumers, kStages           warpgroups that compute; stages (2 or more)
//   kBlocks                       blocks of a cluster, which work on one task together: 1 or 2
//   kNeedsNoResults               true: the kernel before in the stream and this one may run at the same
//   time.
//                                 Its blocks then begin on SMs that are idle while that one ends. All that
//                                 it reads was complete when that one began. May be left out: false
//
//   uint32_t tasks(globals)                  number of tasks; host and device
//   Task task(globals, index, block)         task `index`, as block `block` of the cluster sees it
//   uint32_t steps(globals, task)            number of steps, at least 1, equal in all blocks of a cluster
//   uint32_t bytes(globals, task, step)      bytes that land in the block's stage; sizeof(Stage) if left out
//   void load(globals, task, step, stage, landing)      one thread: begins copies of those bytes
//   kTaskBytes, kScratches; void load_task(globals, task, scratch, landing)
//                                            one thread: begins copies of so many bytes, which all steps of
//                                            the task use, to the scratch memory; with a State (below) only.
//                                            Tasks take so many scratch memories in turn
//
// Either products, which stay in flight from step to step:
//   using Sums                                           an Accumulator of each warpgroup, zero at first
//   InFlight<Sums> compute(sums, stage, place)           issues a step's products
//   void finish(globals, task, Sums&, scratch, place)
// or anything else:
//   using State;  State begin(globals, place)            the thread's own variables, for all its tasks
//   void compute(globals, task, step, stage, state, scratch, place)
//   void finish(globals, task, state, scratch, place)    after a task's last step; may be left out
//   void store(globals, task, step, stage)               one thread: begins copies of the stage's results,
//                                                        which compute() has left in it; may be left out
//
// Tasks are dealt in a fixed order, so results do not depend on timing.
//
// run() below is a kernel of its own. A second back end, a group instruction of the interpreter
// (vm/device/op.cuh), needs no other Kernel: it replaces run() and Shared. Its loader takes pages of the ring
// as stages, its waits also look at the exit flag, and the tasks are the instruction's records. Kernel
// functions get all they use as arguments and never see a barrier, so they stay as they are.
#pragma once

#include <algorithm>
#include <utility>

#include "vm/tiles/sm90/launch.h"
#include "vm/tiles/sm90/ring.cuh"
#include "vm/tiles/sm90/warpgroup.cuh"

namespace serval::tiles::pipeline {

// Where load() copies to: the barrier that counts the bytes of this block's stage.
struct Landing {
  uint64_t* landed;
  uint32_t block;  // this block's number in its cluster

  // dst = the matrix at (row, col)
  template <class Tile>
  __device__ __forceinline__ void load(Tile& dst, const TensorMap<Tile>& src, uint32_t row,
                                       uint32_t col) const {
    ptx::tensor_load(dst.data, &src, row, col, landed);
  }
  // Loads the tile at (row, col) of the matrix to the same place in both blocks of a cluster.
  template <class Tile>
  __device__ __forceinline__ void load_to_both(Tile& dst, const TensorMap<Tile>& src, uint32_t row,
                                               uint32_t col) const {
    constexpr uint16_t kBoth = 3;
    ptx::tensor_load_multicast(dst.data, &src, row, col, landed, kBoth);
  }
  // `bytes` contiguous bytes, a multiple of 16, between addresses that are, too.
  __device__ __forceinline__ void load(void* dst, const void* src, uint32_t bytes) const {
    ptx::bulk_load(dst, src, bytes, landed);
  }
};

// Number of tile `index` of rows × cols tiles in groups of `group` rows, column after column in each group:
// tiles that are computed at the same time share rows and columns, which L2 then serves.
struct TilePlace {
  uint32_t row, col;
};
constexpr __host__ __device__ TilePlace tile_in_groups(uint32_t index, uint32_t rows, uint32_t cols,
                                                       uint32_t group) {
  const uint32_t first = index / (group * cols) * group;
  const uint32_t height = rows - first < group ? rows - first : group;
  const uint32_t in_group = index - first * cols;
  return {first + in_group % height, in_group / height};
}

namespace detail {

inline constexpr uint32_t kServiceWarps = 4;  // a warpgroup: registers are moved between warpgroups
inline constexpr uint32_t kLoaderWarp = 0, kStorerWarp = 1;

template <class Kernel>
concept MultipliesTiles = requires {
  typename Kernel::Sums;
};
template <class Kernel>
concept Stores = requires(const typename Kernel::Globals& globals, const typename Kernel::Task& task,
                          typename Kernel::Stage& stage) {
  Kernel::store(globals, task, 0U, stage);
};
template <class Kernel>
concept Finishes = requires(const typename Kernel::Globals& globals, const typename Kernel::Task& task,
                            typename Kernel::State& state, typename Kernel::Scratch& scratch,
                            const warpgroup::Place& place) {
  Kernel::finish(globals, task, state, scratch, place);
};
template <class Kernel>
concept LoadsTasks = requires {
  Kernel::kTaskBytes;
};
template <class Kernel>
constexpr bool needs_no_results() {
  if constexpr (requires { Kernel::kNeedsNoResults; }) return Kernel::kNeedsNoResults;
  return false;
}
template <class Kernel>
constexpr uint32_t scratches() {
  if constexpr (LoadsTasks<Kernel>) return Kernel::kScratches;
  return 1;
}
template <class Kernel>
inline constexpr uint32_t kScratches = scratches<Kernel>();
template <class Kernel>
concept CountsBytes = requires(const typename Kernel::Globals& globals, const typename Kernel::Task& task) {
  Kernel::bytes(globals, task, 0U);
};

// Registers of a thread: 65,536 for all, in eights, moved from the service warps to the consumers.
template <class Kernel>
struct Registers {
  static constexpr uint32_t kService = Kernel::kConsumers == 1 ? 56 : Kernel::kConsumers == 2 ? 40 : 32;
  static constexpr uint32_t kConsumer = Kernel::kConsumers == 1   ? 256 - 16
                                        : Kernel::kConsumers == 2 ? 232
                                                                  : 160;
};

template <class Kernel>
struct Shared {
  typename Kernel::Stage stages[Kernel::kStages];
  typename Kernel::Scratch scratch[kScratches<Kernel>];
  uint64_t landed[Kernel::kStages];    // the stage's bytes have landed
  uint64_t computed[Kernel::kStages];  // results are in the stage; if the kernel stores
  uint64_t free[Kernel::kStages];      // the stage may be loaded
  uint64_t task_landed[kScratches<Kernel>], task_free[kScratches<Kernel>];  // for what load_task() loads

  __device__ __forceinline__ void init() {
    constexpr uint32_t kConsumerWarps = Kernel::kConsumers * warpgroup::kWarps;
    for (uint32_t i = 0; i < Kernel::kStages; ++i) {
      ptx::mbarrier_init(&landed[i], 1);
      ptx::mbarrier_init(&computed[i], kConsumerWarps);
      ptx::mbarrier_init(&free[i], Stores<Kernel> ? 1 : kConsumerWarps * Kernel::kBlocks);
    }
    for (uint32_t i = 0; i < kScratches<Kernel>; ++i) {
      ptx::mbarrier_init(&task_landed[i], 1);
      ptx::mbarrier_init(&task_free[i], kConsumerWarps);
    }
    ptx::fence_mbarrier_init();
  }
};

// The part of the tasks that a cluster has.
template <class Kernel>
struct Share {
  uint32_t block, first, stride, tasks;

  __device__ __forceinline__ explicit Share(const typename Kernel::Globals& globals)
      : block(Kernel::kBlocks == 1 ? 0 : ptx::cluster_block()),
        first(blockIdx.x / Kernel::kBlocks),
        stride(gridDim.x / Kernel::kBlocks),
        tasks(Kernel::tasks(globals)) {}
  // Calls fn(task, step, last step of the task) for each step of each task, in order.
  template <class Fn>
  __device__ __forceinline__ void for_steps(const typename Kernel::Globals& globals, Fn&& fn) const {
    for (uint32_t index = first; index < tasks; index += stride) {
      const typename Kernel::Task task = Kernel::task(globals, index, block);
      const uint32_t steps = Kernel::steps(globals, task);
      for (uint32_t step = 0; step < steps; ++step) fn(task, step, step + 1 == steps);
    }
  }
};

template <class Kernel>
__device__ __forceinline__ void load_stages(const typename Kernel::Globals& globals, Shared<Kernel>& s) {
  const Share<Kernel> share(globals);
  RingPlace<Kernel::kStages> at(0);
  RingPlace<kScratches<Kernel>> task_at(0);
  share.for_steps(globals, [&](const auto& task, uint32_t step, bool last) {
    if constexpr (LoadsTasks<Kernel>) {
      // After the first stages, which are free before the task before has ended.
      if (step + 1 == Kernel::kStages || (last && step + 1 < Kernel::kStages)) {
        ptx::mbarrier_wait(&s.task_free[task_at.at], task_at.parity ^ 1);
        ptx::mbarrier_arrive_expect_bytes(&s.task_landed[task_at.at], Kernel::kTaskBytes);
        Kernel::load_task(globals, task, s.scratch[task_at.at],
                          Landing{&s.task_landed[task_at.at], share.block});
        task_at.advance();
      }
    }
    ptx::mbarrier_wait(&s.free[at.at], at.parity ^ 1);
    uint32_t bytes = sizeof(typename Kernel::Stage);
    if constexpr (CountsBytes<Kernel>) bytes = Kernel::bytes(globals, task, step);
    ptx::mbarrier_arrive_expect_bytes(&s.landed[at.at], bytes);
    Kernel::load(globals, task, step, s.stages[at.at], Landing{&s.landed[at.at], share.block});
    at.advance();
  });
}

// Stages become free when the copies out of them have read them: those of a stage while the next is stored.
template <class Kernel>
__device__ __forceinline__ void store_stages(const typename Kernel::Globals& globals, Shared<Kernel>& s) {
  const Share<Kernel> share(globals);
  RingPlace<Kernel::kStages> at(0);
  uint32_t before = Kernel::kStages;
  share.for_steps(globals, [&](const auto& task, uint32_t step, bool) {
    ptx::mbarrier_wait(&s.computed[at.at], at.parity);
    Kernel::store(globals, task, step, s.stages[at.at]);
    ptx::commit_stores();
    if (before < Kernel::kStages) {
      ptx::wait_stores_read<1>();
      ptx::mbarrier_arrive(&s.free[before]);
    }
    before = at.at;
    at.advance();
  });
  ptx::wait_stores<0>();
}

// The warp has computed on a stage.
template <class Kernel>
__device__ __forceinline__ void release(Shared<Kernel>& s, uint32_t stage, uint32_t lane) {
  if constexpr (Kernel::kBlocks > 1) {
    if (lane < Kernel::kBlocks) ptx::mbarrier_arrive_at(&s.free[stage], lane);
  } else {
    if (lane == 0) ptx::mbarrier_arrive(&s.free[stage]);
  }
}

// The products of a task. Those of a step are in flight while those of the step before end, whose stage is
// then free.
template <class Kernel>
__device__ __forceinline__ auto multiply_steps(Shared<Kernel>& s, RingPlace<Kernel::kStages>& at,
                                               uint32_t steps, const warpgroup::Place& place) {
  using Sums = typename Kernel::Sums;
  warpgroup::InFlight<Sums> products(warpgroup::zeros<Sums>());
  uint32_t before = at.at;
  ptx::mbarrier_wait(&s.landed[at.at], at.parity);
  products = Kernel::compute(std::move(products), s.stages[at.at], place);
  at.advance();
#pragma unroll 1
  for (uint32_t step = 1; step < steps; ++step) {
    ptx::mbarrier_wait(&s.landed[at.at], at.parity);
    products = Kernel::compute(std::move(products), s.stages[at.at], place);
    products.template wait_but<1>();
    release(s, before, place.lane);
    before = at.at;
    at.advance();
  }
  Sums sums = std::move(products).wait();
  release(s, before, place.lane);
  return sums;
}

template <class Kernel>
__device__ __forceinline__ void multiply_stages(const typename Kernel::Globals& globals, Shared<Kernel>& s,
                                                const warpgroup::Place& place) {
  const Share<Kernel> share(globals);
  RingPlace<Kernel::kStages> at(0);
#pragma unroll 1
  for (uint32_t index = share.first; index < share.tasks; index += share.stride) {
    const typename Kernel::Task task = Kernel::task(globals, index, share.block);
    typename Kernel::Sums sums = multiply_steps<Kernel>(s, at, Kernel::steps(globals, task), place);
    Kernel::finish(globals, task, sums, s.scratch[0], place);
  }
  if (place.leads()) ptx::wait_stores<0>();  // those of finish()
}

template <class Kernel>
__device__ __forceinline__ void compute_stages(const typename Kernel::Globals& globals, Shared<Kernel>& s,
                                               const warpgroup::Place& place) {
  const Share<Kernel> share(globals);
  RingPlace<Kernel::kStages> at(0);
  RingPlace<kScratches<Kernel>> task_at(0);
  typename Kernel::State state = Kernel::begin(globals, place);
  share.for_steps(globals, [&](const auto& task, uint32_t step, bool last) {
    if constexpr (LoadsTasks<Kernel>) {
      if (step == 0) ptx::mbarrier_wait(&s.task_landed[task_at.at], task_at.parity);
    }
    ptx::mbarrier_wait(&s.landed[at.at], at.parity);
    auto& scratch = s.scratch[task_at.at];
    Kernel::compute(globals, task, step, s.stages[at.at], state, scratch, place);
    if constexpr (Stores<Kernel>) {
      ptx::fence_proxy_async_shared();
      __syncwarp();
      if (place.lane == 0) ptx::mbarrier_arrive(&s.computed[at.at]);
    } else {
      __syncwarp();
      release(s, at.at, place.lane);
    }
    if (last) {
      if constexpr (LoadsTasks<Kernel>) {
        if (place.lane == 0) ptx::mbarrier_arrive(&s.task_free[task_at.at]);
        task_at.advance();
      }
      if constexpr (Finishes<Kernel>) Kernel::finish(globals, task, state, scratch, place);
    }
    at.advance();
  });
}

template <class Kernel>
inline constexpr uint32_t kThreads = kServiceWarps* kWarpThreads + Kernel::kConsumers* warpgroup::kThreads;

template <class Kernel>
__global__ void __launch_bounds__(kThreads<Kernel>, 1)
    run(const __grid_constant__ typename Kernel::Globals globals) {
  extern __shared__ __align__(OperandSwizzle::kAlignment) std::byte memory[];
  auto& s = *reinterpret_cast<Shared<Kernel>*>(memory);
  const uint32_t warp = __shfl_sync(kAllLanes, threadIdx.x / kWarpThreads, 0);
  if (threadIdx.x == 0) s.init();
  if constexpr (Kernel::kBlocks > 1) {
    ptx::cluster_sync();
  } else {
    __syncthreads();
  }
  if constexpr (!needs_no_results<Kernel>()) ptx::wait_for_kernels_before();
  ptx::let_next_kernel_start();
  if (warp < kServiceWarps) {
    ptx::set_max_registers_down<Registers<Kernel>::kService>();
    if (threadIdx.x == kLoaderWarp * kWarpThreads) load_stages(globals, s);
    if constexpr (Stores<Kernel>) {
      if (threadIdx.x == kStorerWarp * kWarpThreads) store_stages(globals, s);
    }
  } else {
    ptx::set_max_registers_up<Registers<Kernel>::kConsumer>();
    if constexpr (MultipliesTiles<Kernel>) {
      multiply_stages(globals, s, warpgroup::place(kServiceWarps));
    } else {
      compute_stages(globals, s, warpgroup::place(kServiceWarps));
    }
  }
  // The next kernel waits for the end of this one, by which it means that of all before.
  if constexpr (needs_no_results<Kernel>()) {
    __syncwarp();  // the loader's other lanes must not block it
    ptx::wait_for_kernels_before();
  }
  // A block's shared memory must exist until its peer has sent all copies and arrivals.
  if constexpr (Kernel::kBlocks > 1) {
    __syncwarp();
    ptx::cluster_sync();
  }
}

}  // namespace detail

// Begins the kernel in `stream`, on all SMs of the current GPU or fewer if there are fewer tasks; nothing if
// there is none. `overlaps`: its blocks start while the kernel before in the stream ends, and wait for that
// before they access global memory. Throws Error(kRuntime) if CUDA refuses the launch.
template <class Kernel>
void launch(const typename Kernel::Globals& globals, cudaStream_t stream, bool overlaps = true) {
  static_assert(Kernel::kStages >= 2, "a pipeline has two stages or more");
  static_assert(Kernel::kBlocks == 1 || Kernel::kBlocks == 2, "a cluster has one block or two");
  static_assert(Kernel::kBlocks == 1 || !detail::Stores<Kernel>,
                "a kernel that stores stages has no clusters");
  static_assert(!detail::LoadsTasks<Kernel> || !detail::MultipliesTiles<Kernel>,
                "load_task() is for kernels with a State");
  static_assert(Kernel::kConsumers >= 1 && Kernel::kConsumers <= 3, "one to three warpgroups compute");
  constexpr size_t kBytes = sizeof(detail::Shared<Kernel>), kMostBytes = 227 * 1024;
  static_assert(kBytes <= kMostBytes, "the stages and the scratch memory do not fit in shared memory");
  const uint32_t tasks = Kernel::tasks(globals);
  if (tasks == 0) return;
  SERVAL_CUDA_CHECK(
      cudaFuncSetAttribute(detail::run<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, int{kBytes}));
  const uint32_t clusters = std::min(sm_count() / Kernel::kBlocks, tasks);
  tiles::launch(detail::run<Kernel>,
                {clusters * Kernel::kBlocks, detail::kThreads<Kernel>, kBytes, Kernel::kBlocks, overlaps},
                globals, stream);
}

}  // namespace serval::tiles::pipeline

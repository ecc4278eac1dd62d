// The device interpreter: one persistent kernel, one thread block an SM, that runs a program's instructions.
//
// This header is plain C++: what it declares is linked where the build has CUDA (SERVAL_CUDA).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "vm/device/rank_threads.h"
#include "vm/events.h"
#include "vm/instruction.h"
#include "vm/program.h"

namespace serval {

// Where a program's tensors live in GPU memory, in table order. Weights with more than one row are page
// images (vm/layout/page_image.h), what products read as inputs in bf16 are activation images
// (vm/layout/activation_image.h), everything else is laid out as in host memory.
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t num_tensors) : base_(num_tensors, nullptr) {}
  void bind(TensorId tensor, void* base) { base_.at(tensor.index) = base; }
  bool bound(TensorId tensor) const { return base_.at(tensor.index) != nullptr; }
  void* base(TensorId tensor) const { return base_.at(tensor.index); }
  size_t size() const { return base_.size(); }

 private:
  std::vector<void*> base_;
};

// What an instruction set and its kernels are to the host (vm/device/isa.h); `instructions/device_isa.h` has
// Llama's, tests have their own.
struct DeviceIsa;

// Where one of a program's devices is.
struct DeviceRank {
  int gpu = 0;             // CUDA's index
  void* stream = nullptr;  // a cudaStream_t of that GPU; earlier work in it is finished before a launch
};

// What a launch runs.
struct DeviceLaunch {
  uint32_t row_bound = 0;    // rows of the pass from this one on are not active
  uint32_t passes = 1;       // at most
  uint32_t logit_bound = 0;  // rows from this one on want no logits
  bool single_rows = false;  // no item of attention's list (vm/state/attention.h) has more than one row
};

struct DeviceOptions {
  double stall_timeout_s = 10;  // a launch without progress on any SM of a GPU for this long is a fault
  // For each of the program's devices. GPUs that differ reach each other's memory; several ranks may share
  // one that has SMs for all of them.
  std::vector<DeviceRank> ranks = {{}};
  // A thread for each of `ranks`. Interpreters may share them if only one runs at a time; null: the
  // interpreter makes its own.
  std::shared_ptr<RankThreads> threads = nullptr;
};

// Binds a program to GPU memory and runs launches of it; counters start at zero and count on from launch to
// launch. Not thread-safe; beside the caller's thread, which is that of the first rank, each rank has one,
// which enqueues its kernel and waits for it (vm/device/rank_threads.h). Of errors of several ranks the
// lowest rank's is thrown. Throws Error(kRuntime) if the structure or a record does not check, a tensor is
// not bound or CUDA fails, Error(kOutOfMemory) where GPU memory ends.
class DeviceInterpreter {
 public:
  // The program must outlive it. Of the state, `rows`, `slots`, `sampled`, `control` and the block table are
  // bound to GPU memory, `output` and `host_stop` to pinned host memory that the GPU can address.
  DeviceInterpreter(const Program& program, const DeviceIsa& isa, const DeviceMemory& memory,
                    const DeviceOptions& options);
  ~DeviceInterpreter();

  // Runs passes from the state as it stands, a kernel on each GPU, until the program's control says which is
  // the last; calls on_pass(p) on this thread for each of them, in order, as soon as output[p] is known to be
  // complete. `on_started`, if there is one, is called on this thread once the kernels are enqueued, before
  // any on_pass. What it puts into the ranks' streams follows the kernels, also those that end in a fault: it
  // may run while on_pass is called. `upload(rank)`, if there is one, is called before, for all ranks at the
  // same time, on each one's thread, whose current GPU is the rank's: the kernel follows what it puts into
  // the rank's stream. Returns the passes run, when all of that is done. Throws Error(kDeviceFault) with the
  // fault's report; counters are zeroed then, and the next launch starts afresh. What the callbacks throw
  // comes out when the kernels have ended, which those of the other ranks do at once where it is `upload`.
  // Leaves another GPU as the thread's current one.
  uint32_t run(const DeviceLaunch& launch, const std::function<void(uint32_t)>& on_pass,
               const std::function<void()>& on_started = {},
               const std::function<void(uint32_t rank)>& upload = {});
  // For on_started: returns when all that was enqueued before the launch is done.
  void wait_until_begun() const;
  // Of the last run: what the kernel alone took, of several the one that took longest.
  double kernel_us() const;

  // From the next run on, runs kernels that record events, into rings for at least `events_of_ring` of
  // each SM; 0: no more. Throws Error(kRuntime) if the instruction set has no such kernel,
  // Error(kOutOfMemory) where GPU memory ends.
  void record(uint32_t events_of_ring, RecordingDetail detail = RecordingDetail::kMoments);
  // Of the last run, if it recorded: a ring for each SM, rank after rank. Ticks are cycles of the SM's clock.
  // Null if not.
  const EventRings* events();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace serval

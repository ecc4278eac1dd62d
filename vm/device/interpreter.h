// The device interpreter: one persistent kernel, one thread block an SM, that runs a program's instructions.
//
// This header is plain C++. Its functions are linked where the build has CUDA (SERVAL_CUDA).
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

// Addresses of a program's tensors in GPU memory, in table order. Weights with more than one row are page
// images (vm/layout/page_image.h), bf16 inputs of products are activation images
// (vm/layout/activation_image.h); all other tensors are laid out as in host memory.
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

// An instruction set and its kernels, as the host sees them (vm/device/isa.h). `instructions/device_isa.h`
// has Llama's; tests have their own.
struct DeviceIsa;

// GPU and stream of one of the program's devices.
struct DeviceRank {
  int gpu = 0;             // CUDA's index
  void* stream = nullptr;  // a cudaStream_t of that GPU; a launch follows earlier work in it
};

// Parameters of a launch.
struct DeviceLaunch {
  uint32_t row_bound = 0;    // rows from this one on are not active
  uint32_t passes = 1;       // most passes of the launch
  uint32_t logit_bound = 0;  // rows from this one on want no logits
  bool single_rows = false;  // no item of attention's list (vm/state/attention.h) has more than one row
};

struct DeviceOptions {
  double stall_timeout_s = 10;  // a launch without progress on any SM of a GPU for this long is a fault
  // One entry for each of the program's devices. Different GPUs must be able to access each other's memory.
  // Several ranks may share a GPU that has SMs for all of them.
  std::vector<DeviceRank> ranks = {{}};
  // One thread for each of `ranks`. Several interpreters may share them if only one runs at a time. Null: the
  // interpreter creates its own.
  std::shared_ptr<RankThreads> threads = nullptr;
};

// Binds a program to GPU memory and runs launches of it. Counters start at zero and keep growing from launch
// to launch. Not thread-safe. The caller's thread serves the first rank; each other rank has a thread of its
// own, which enqueues its kernel and waits for it (vm/device/rank_threads.h). If several ranks fail, the
// lowest rank's error is thrown. Throws Error(kRuntime) if the structure or a record is invalid, a tensor is
// not bound or CUDA fails, Error(kOutOfMemory) if GPU memory is exhausted.
class DeviceInterpreter {
 public:
  // The program must outlive it. Of the state block, `rows`, `slots`, `sampled`, `control` and the block
  // table are bound to GPU memory, `output` and `host_stop` to pinned host memory that the GPU can address.
  DeviceInterpreter(const Program& program, const DeviceIsa& isa, const DeviceMemory& memory,
                    const DeviceOptions& options);
  ~DeviceInterpreter();

  // Runs passes from the current state, one kernel on each GPU, until the program's control names the last
  // pass. Returns the number of passes when everything below is done.
  //
  // on_pass(p) is called on this thread for each pass, in order, as soon as output[p] is known to be
  // complete. on_started(), if given, is called on this thread once the kernels are enqueued, before any
  // on_pass. Work that it puts into the ranks' streams follows the kernels, also those that end in a fault,
  // and may run while on_pass is called. upload(rank), if given, is called before the kernels are enqueued,
  // for all ranks at the same time, each on the rank's thread with the rank's GPU current: the kernel follows
  // the work that it puts into the rank's stream.
  //
  // Throws Error(kDeviceFault) with the fault's report; the counters are then zeroed, and the next launch
  // starts afresh. Exceptions of the callbacks are rethrown when the kernels have ended; if `upload` throws,
  // the other ranks' kernels end at once. May change the thread's current GPU.
  uint32_t run(const DeviceLaunch& launch, const std::function<void(uint32_t)>& on_pass,
               const std::function<void()>& on_started = {},
               const std::function<void(uint32_t rank)>& upload = {});
  // For on_started: returns when all work enqueued before the launch is done.
  void wait_until_begun() const;
  // Time of the last run's kernel alone; with several ranks, the longest.
  double kernel_us() const;

  // From the next run on, uses kernels that record events, in rings of at least `events_of_ring` events for
  // each SM. 0: stops recording. Throws Error(kRuntime) if the instruction set has no such kernel,
  // Error(kOutOfMemory) if GPU memory is exhausted.
  void record(uint32_t events_of_ring, RecordingDetail detail = RecordingDetail::kMoments);
  // Events of the last run: one ring for each SM, rank after rank. Ticks are cycles of the SM's clock. Null
  // if the run did not record.
  const EventRings* events();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace serval

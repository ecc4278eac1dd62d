// One device's share of a bound program: what its kernel reads and writes beside the tensors, in that GPU's
// memory, and its launches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "vm/device/device_array.h"
#include "vm/device/interpreter.h"
#include "vm/device/isa.h"
#include "vm/device/launch.h"
#include "vm/device/recording_buffers.h"
#include "vm/device/tensor_maps.h"

namespace serval::device {

// Words in host memory that the kernels of all devices write.
enum HostWord : uint32_t { kPublished, kAborted, kNumHostWords };

// Not thread-safe, but different ranks may be made and used at the same time, each on one thread. Its
// functions leave its GPU as the thread's current one. Throws as cuda_check.h.
class BoundRank {
 public:
  // The program and the kernels must outlive it. `kernels`: those that can run the program, fewest rows
  // first.
  BoundRank(const Program& program, const DeviceIsa& isa,
            const std::vector<const DeviceKernelChoice*>& kernels, const DeviceMemory& memory,
            const DeviceOptions& options, uint32_t rank, uint32_t* host_words);

  // Where the kernels of all ranks find each other; before the first launch.
  void meet(const std::vector<std::unique_ptr<BoundRank>>& ranks);

  // What the next launches run.
  void set_launch(const DeviceLaunch& launch);
  // Notes how this GPU's clock stands to the host's, if a launch of several ranks is to be recorded.
  void compare_clock();
  int64_t clock_ahead_ns() const { return clock_ahead_ns_; }
  // Enqueues the kernel.
  void start();
  // What was enqueued before start() is done.
  bool has_begun() const { return began_.reached(); }
  // Follows all that is enqueued by now.
  void mark_end() const { all_done_.record(stream_); }
  bool has_ended() const { return all_done_.reached(); }
  // Without sleep: a launch is over when the last rank's thread knows.
  void wait_for_end() const;
  // Asks the kernel, if there is one in flight, to leave in mid-pass, while an error is on its way.
  void give_up() const noexcept;
  // Of the launch, whose kernel has ended: what the gate's counter has grown by.
  uint32_t passes_through_the_gate() const;
  double kernel_us() const;

  // After a launch whose kernel has ended: it went through so many passes, or was given up.
  void count_passes(uint32_t passes, bool words_are_dirty);
  // One for each SM.
  std::vector<FaultRecord> faults() const { return faults_.download(); }
  void start_afresh();
  // While another error is on its way, so that what goes wrong here must not take its place: returns when the
  // kernel has ended; then, when those of all ranks have, the same as start_afresh().
  void wait_after_failure() const noexcept;
  void reset_after_failure() noexcept;

  const Launch& launch() const { return launch_; }
  void record(uint32_t events_of_ring, RecordingDetail detail);
  // Null: nothing is recorded.
  RecordingBuffers* recording() { return recording_.get(); }

 private:
  void* base_of(const DeviceMemory& memory, const char* name) const;
  std::vector<void*> tensor_bases(const DeviceMemory& memory) const;
  BoundProgram bound(const DeviceMemory& memory) const;
  const DeviceKernel& kernel() const;

  const Program& program_;
  const std::vector<const DeviceKernelChoice*>& kernels_;
  const uint32_t rank_;
  const int gpu_;
  const cudaStream_t stream_;
  DeviceArray<Instruction> instructions_;
  DeviceArray<uint32_t> queue_begin_;
  DeviceArray<ResolvedWait> waits_;
  DeviceArray<Signal> signals_;
  DeviceArray<uint32_t> counters_;
  DeviceArray<uint32_t> words_;
  DeviceArray<void*> tensors_;
  DeviceArray<EncodedMap> tensor_maps_;
  DeviceArray<FaultRecord> faults_;
  CudaEvent began_, ended_, all_done_;  // the kernel, and what follows it in the stream
  std::unique_ptr<RecordingBuffers> recording_;
  Launch launch_{};
  bool single_rows_ = false;      // of the launch
  int64_t clock_ahead_ns_ = 0;    // of the host's
  bool words_are_dirty_ = false;  // the last launch left a ticket or a stop word behind
};

}  // namespace serval::device

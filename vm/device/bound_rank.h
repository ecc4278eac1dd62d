// One device's share of a bound program: what its kernel reads and writes in that GPU's memory besides the
// tensors, and its launches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "vm/device/device_array.h"
#include "vm/device/interpreter.h"
#include "vm/device/isa.h"
#include "vm/device/launch.h"
#include "vm/device/recording_buffers.h"
#include "vm/device/sm90/tensor_maps.h"

namespace serval::device {

// Words in host memory, written by the kernels of all devices.
enum HostWord : uint32_t { kPublished, kAborted, kNumHostWords };

// Not thread-safe, but several ranks may be constructed and used at the same time, each on its own thread.
// Its functions make its GPU the thread's current one. Throws as cuda_check.h does.
class BoundRank {
 public:
  // The program and the kernels must outlive it. `kernels`: those that can run the program, fewest rows
  // first.
  BoundRank(const Program& program, const DeviceIsa& isa,
            const std::vector<const DeviceKernelChoice*>& kernels, const DeviceMemory& memory,
            const DeviceOptions& options, uint32_t rank, uint32_t* host_words);

  // Tells this rank's kernel the addresses of all ranks' counters and abort words. Call before the first
  // launch.
  void connect(const std::vector<std::unique_ptr<BoundRank>>& ranks);

  // Sets the parameters of the next launches.
  void set_launch(const DeviceLaunch& launch);
  // Compares this GPU's clock with the host's, if a launch of several ranks is to be recorded.
  void compare_clock();
  int64_t clock_ahead_ns() const { return clock_ahead_ns_; }
  // Enqueues the kernel.
  void start();
  // True if the work enqueued before start() is done.
  bool has_begun() const { return began_.reached(); }
  // Marks the end of all work enqueued so far, for has_ended().
  void mark_end() const { all_done_.record(stream_); }
  bool has_ended() const { return all_done_.reached(); }
  // Does not sleep: a launch is over only when the last rank's thread has noticed its end.
  void wait_for_end() const;
  // After another error: asks a kernel that is in flight to leave in mid-pass.
  void give_up() const noexcept;
  // Passes completed by the last launch (growth of the gate's counter). Call after the kernel has ended.
  uint32_t passes_through_the_gate() const;
  double kernel_us() const;

  // Call after the kernel has ended: the launch ran `passes` passes; 0 if it was given up.
  void count_passes(uint32_t passes, bool words_are_dirty);
  // One for each SM.
  std::vector<FaultRecord> faults() const { return faults_.download(); }
  void reset_counters();
  // For error paths; both ignore errors of their own. First call wait_after_failure() for all ranks, which
  // returns when the kernel has ended, then reset_after_failure(), which does what reset_counters() does.
  void wait_after_failure() const noexcept;
  void reset_after_failure() noexcept;

  const Launch& launch() const { return launch_; }
  void record(uint32_t events_of_ring, RecordingDetail detail);
  // Null: the launch records nothing.
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
  DeviceArray<BoundWait> waits_;
  DeviceArray<Signal> signals_;
  DeviceArray<uint32_t> counters_;
  DeviceArray<uint32_t> words_;
  DeviceArray<void*> tensors_;
  DeviceArray<EncodedMap> tensor_maps_;
  DeviceArray<FaultRecord> faults_;
  CudaEvent began_, ended_, all_done_;  // the kernel, and the work after it in the stream
  std::unique_ptr<RecordingBuffers> recording_;
  Launch launch_{};
  bool single_rows_ = false;      // DeviceLaunch::single_rows
  int64_t clock_ahead_ns_ = 0;    // relative to the host's clock
  bool words_are_dirty_ = false;  // the words must be zeroed before the next launch
};

}  // namespace serval::device

// The state block on both sides of the bus: the host's in pinned memory and, on each GPU that shares the
// model, a copy of what programs change. Only the first rank's copy is downloaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "vm/device/cuda_resources.h"
#include "vm/device/interpreter.h"
#include "vm/program.h"
#include "vm/state/block.h"

namespace serval {

// The parts of the state that a launch uses; only these are copied to the GPU and back.
struct StateInUse {
  uint32_t slots = 0;    // largest slot of an active row + 1
  uint32_t biases = 0;   // maximum over the slots
  uint32_t history = 0;  // tokens; maximum over the slots that keep a history
};

// Not thread-safe, but different threads may enqueue for different ranks at the same time.
class DeviceState {
 public:
  // `gpus`: CUDA's index of each rank's GPU.
  DeviceState(const StateLimits& limits, std::span<const int> gpus);

  StateBlock& host() { return host_; }

  // Output table, top tokens, masks and stop word are bound to the host's memory, the rest to the rank's
  // copy.
  void bind(const Program& program, DeviceMemory& memory) const;

  // The following functions only enqueue, in a stream of the rank's GPU.
  // Rows, sampled, control, and the slots and block-table rows in use, including those that have not changed
  // since the last launch. In a single copy if that costs few more bytes than two.
  void upload(StateInUse use, uint32_t rank, const CudaStream& stream);
  // upload() in two parts. The block-table rows may be uploaded during a launch: for its sequences they
  // differ only in blocks with equal content.
  void upload_block_table(StateInUse use, uint32_t rank, const CudaStream& stream);
  void upload_rows_and_slots(StateInUse use, uint32_t rank, const CudaStream& stream);
  // The attention work list, for a program that has one.
  void upload_attention(uint32_t rank, const CudaStream& stream);
  // Biases and tokens of the slots in use, for every slot as many as the largest slot has. Only for the first
  // rank, which samples.
  void upload_adjustments(StateInUse use, const CudaStream& stream);
  // Downloads the first rank's copy, except the block table, the work list, the adjustments, and output and
  // top, which are in the host's memory already.
  void download(StateInUse use, const CudaStream& stream);

  // Ends the current launch after the current pass. May be called on any thread and in signal handlers.
  void request_stop() noexcept;
  void clear_stop() noexcept;

 private:
  void* device_address(const std::string& name, uint32_t rank) const;
  size_t slots_end(StateInUse use) const;
  size_t table_end(StateInUse use) const;
  void copy_up(size_t begin, size_t end, uint32_t rank, const CudaStream& stream);

  PinnedBuffer pinned_;  // the host's state block and stop word
  StateBlock host_;
  std::vector<DeviceBuffer> copies_;  // [ranks]; laid out like the state block, up to its output table
  uint32_t* host_stop_;
};

// Bytes of pinned host memory and of GPU memory that a state needs.
size_t pinned_state_bytes(const StateLimits& limits);
size_t device_state_bytes(const StateLimits& limits);

}  // namespace serval

// The state block on both sides of the bus: the host's in pinned memory, and in the memory of each GPU that
// shares the model a copy of what programs change. The first rank's is the one that comes back.
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

// What a launch uses of the state: the parts that go to the GPU and come back are as long.
struct StateInUse {
  uint32_t slots = 0;    // largest slot of an active row + 1
  uint32_t biases = 0;   // most of a slot
  uint32_t history = 0;  // tokens, most of a slot that keeps them
};

// Not thread-safe, but what is of one rank may be enqueued while others enqueue theirs.
class DeviceState {
 public:
  // `gpus`: CUDA's index of each rank's.
  DeviceState(const StateLimits& limits, std::span<const int> gpus);

  StateBlock& host() { return host_; }

  // The output table, the likeliest tokens, the masks and the stop word are the host's own memory, the rest
  // is the copy.
  void bind(const Program& program, DeviceMemory& memory) const;

  // These only enqueue, in a stream of the rank's GPU.
  // Rows, sampled and control, and the slots and block-table rows in use; what has not changed since the last
  // launch, too. One copy where that costs few bytes more than two.
  void upload(StateInUse use, uint32_t rank, const CudaStream& stream);
  // The same in two parts. The block-table rows may go up while a launch is in flight: of its own sequences
  // they have other blocks only with the same content.
  void upload_block_table(StateInUse use, uint32_t rank, const CudaStream& stream);
  void upload_rows_and_slots(StateInUse use, uint32_t rank, const CudaStream& stream);
  // The list of attention's work, for a program that has one.
  void upload_attention(uint32_t rank, const CudaStream& stream);
  // Of the slots in use the biases and tokens, as many as the one with the most has: the first rank samples.
  void upload_adjustments(StateInUse use, const CudaStream& stream);
  // Of the first rank everything but the block table, the list, the adjustments, and what is there already:
  // output and top.
  void download(StateInUse use, const CudaStream& stream);

  // Ends the launch in flight after the pass in flight. Any thread, signal handlers included.
  void request_stop() noexcept;
  void clear_stop() noexcept;

 private:
  void* device_address(const std::string& name, uint32_t rank) const;
  size_t slots_end(StateInUse use) const;
  size_t table_end(StateInUse use) const;
  void copy_up(size_t begin, size_t end, uint32_t rank, const CudaStream& stream);

  PinnedBuffer pinned_;  // the host's state block and stop word
  StateBlock host_;
  std::vector<DeviceBuffer> copies_;  // [ranks] laid out as the state block, up to its output table
  uint32_t* host_stop_;
};

// Bytes of pinned host memory and of GPU memory that a state takes.
size_t pinned_state_bytes(const StateLimits& limits);
size_t device_state_bytes(const StateLimits& limits);

}  // namespace serval

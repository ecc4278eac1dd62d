// The state block on both sides of the bus: the host's in pinned memory, a copy of what programs change in
// GPU memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "vm/device/cuda_resources.h"
#include "vm/device/interpreter.h"
#include "vm/program.h"
#include "vm/state/block.h"

namespace serval {

// What a launch uses of the state: the parts that go to the GPU and come back are as long.
struct StateInUse {
  uint32_t slots = 0;                         // largest slot of an active row + 1
  uint32_t biases = 0;                        // most of a slot
  uint32_t history = 0;                       // tokens, most of a slot that keeps them
  uint32_t first_masked = 0, end_masked = 0;  // all slots with masks are in [first_masked, end_masked)
};

class DeviceState {
 public:
  explicit DeviceState(const StateLimits& limits);

  StateBlock& host() { return host_; }

  // The output table, the likeliest tokens and the stop word are the host's own memory, the rest is the copy.
  void bind(const Program& program, DeviceMemory& memory) const;

  // Both only enqueue. Rows, sampled and control, and the slots and block-table rows in use; what has not
  // changed since the last launch, too. One copy where that costs few bytes more than two.
  void upload(StateInUse use, const CudaStream& stream);
  // Only enqueues: the list of attention's work, for a program that has one.
  void upload_attention(const CudaStream& stream);
  // Only enqueues: of the slots in use the biases and tokens, as many as the one with the most has.
  void upload_adjustments(StateInUse use, const CudaStream& stream);
  // Only enqueues: the masks of the slots that have one, and of those in between.
  void upload_masks(StateInUse use, const CudaStream& stream);
  // Everything but the block table, the list, the adjustments, the masks, and what is there already: output
  // and top.
  void download(StateInUse use, const CudaStream& stream);

  // Ends the launch in flight after the pass in flight. Any thread, signal handlers included.
  void request_stop() noexcept;
  void clear_stop() noexcept;

 private:
  void* device_address(const std::string& name) const;
  void copy_up(size_t begin, size_t end, const CudaStream& stream);

  PinnedBuffer pinned_;  // the host's state block and stop word
  StateBlock host_;
  DeviceBuffer device_;  // laid out as the state block, without its output table
  uint32_t* host_stop_;
};

// Bytes of pinned host memory and of GPU memory that a state takes.
size_t pinned_state_bytes(const StateLimits& limits);
size_t device_state_bytes(const StateLimits& limits);

}  // namespace serval

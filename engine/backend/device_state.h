// The state block on both sides of the bus: the host's in pinned memory, a copy of what programs change in
// GPU memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vm/device/cuda_resources.h"
#include "vm/device/interpreter.h"
#include "vm/program.h"
#include "vm/state.h"

namespace serval {

class DeviceState {
 public:
  explicit DeviceState(uint32_t blocks_per_sequence);

  StateBlock& host() { return *host_; }
  std::span<int32_t> block_table();  // [kMaxSlots][blocks_per_sequence]

  // The output table and the stop word are the host's own memory, the rest is the copy.
  void bind(const Program& program, DeviceMemory& memory) const;

  // Both only enqueue. Rows, slots, control, and the block table of slots below `slot_bound`, in one copy.
  void upload(uint32_t slot_bound, const CudaStream& stream);
  // Everything but the block table and the output, which is there already.
  void download(const CudaStream& stream);

  // Ends the launch in flight after the pass in flight. Any thread, signal handlers included.
  void request_stop() noexcept;
  void clear_stop() noexcept;

 private:
  void* device_address(const std::string& name) const;

  uint32_t blocks_per_sequence_;
  PinnedBuffer pinned_;   // the host's StateBlock and stop word
  PinnedBuffer staging_;  // what is uploaded: a copy of the block's head, and the block table itself
  DeviceBuffer device_;   // laid out as staging_
  StateBlock* host_;
  uint32_t* host_stop_;
};

}  // namespace serval

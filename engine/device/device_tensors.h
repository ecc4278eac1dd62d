// GPU memory for a model's tensors on one GPU, found by name. Programs of the same model share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "vm/device/cuda_resources.h"
#include "vm/device/interpreter.h"
#include "vm/program.h"

namespace serval {

class DeviceTensors {
 public:
  // Bytes by kind, to compare with the free memory before allocating.
  struct Sizes {
    uint64_t weights = 0;
    uint64_t caches = 0;
    uint64_t others = 0;
    uint64_t total() const { return weights + caches + others; }
  };

  // Allocates all tensors that the programs have on device `rank`, except the state's (device_state.h), on
  // the thread's current GPU. Tensors of the same name share memory of the largest one's size; all programs
  // must agree on tensors that outlive a launch. Caches and activations are zero, weights and constants
  // undefined. Throws Error(kOutOfMemory).
  explicit DeviceTensors(std::span<const Program* const> programs, uint32_t rank = 0);

  static Sizes sizes(std::span<const Program* const> programs, uint32_t rank = 0);

  std::byte* data(std::string_view name) const;
  // Binds the program's tensors on the rank, except the state's.
  void bind(const Program& program, DeviceMemory& memory) const;

 private:
  uint32_t rank_;
  std::map<std::string, uint64_t, std::less<>> offsets_;  // into memory_
  DeviceBuffer memory_;
};

}  // namespace serval

// GPU memory for the tensors that a model has on one GPU, found by name: programs over the same model share
// it.
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
  // Bytes by kind, to be compared with the free memory before anything is allocated.
  struct Sizes {
    uint64_t weights = 0;
    uint64_t caches = 0;
    uint64_t others = 0;
    uint64_t total() const { return weights + caches + others; }
  };

  // Room for all tensors that the programs have on device `rank`, the state's apart (device_state.h), in
  // memory of the thread's current GPU. Tensors of one name are one
  // memory, as large as the largest needs; where they outlive a launch, all programs must mean the same by
  // them. Caches and activations are zero, weights and constants undefined. Throws Error(kOutOfMemory).
  explicit DeviceTensors(std::span<const Program* const> programs, uint32_t rank = 0);

  static Sizes sizes(std::span<const Program* const> programs, uint32_t rank = 0);

  std::byte* data(std::string_view name) const;
  // The program's tensors on the rank, the state's apart.
  void bind(const Program& program, DeviceMemory& memory) const;

 private:
  uint32_t rank_;
  std::map<std::string, uint64_t, std::less<>> offsets_;  // into memory_
  DeviceBuffer memory_;
};

}  // namespace serval

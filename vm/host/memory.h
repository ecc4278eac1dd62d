// Addresses of a program's tensors in host memory.
#pragma once

#include <cstddef>
#include <vector>

#include "vm/instruction.h"

namespace serval {

// One base pointer for each tensor of the program, in table order. The memory must outlive every run. Weights
// are row-major bf16 and are only read.
class HostMemory {
 public:
  explicit HostMemory(size_t num_tensors) : base_(num_tensors, nullptr) {}
  void bind(TensorId tensor, void* base) { base_.at(tensor.index) = base; }
  size_t size() const { return base_.size(); }
  bool bound(TensorId tensor) const { return base_.at(tensor.index) != nullptr; }

  template <class T>
  T* data(TensorId tensor) const {
    return static_cast<T*>(base_[tensor.index]);
  }

 private:
  std::vector<void*> base_;
};

}  // namespace serval

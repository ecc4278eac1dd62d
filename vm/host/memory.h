// Addresses of a program's tensors in host memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "vm/instruction.h"
#include "vm/tensor.h"

namespace serval {

// One base pointer for each tensor of the program, in table order, and its storage type. The memory must
// outlive every run. Weights are row-major and are only read.
class HostMemory {
 public:
  explicit HostMemory(std::span<const Tensor> tensors) : base_(tensors.size(), nullptr) {
    for (const Tensor& tensor : tensors) dtypes_.push_back(tensor.dtype);
  }
  void bind(TensorId tensor, void* base) { base_.at(tensor.index) = base; }
  size_t size() const { return base_.size(); }
  bool bound(TensorId tensor) const { return base_.at(tensor.index) != nullptr; }

  template <class T>
  T* data(TensorId tensor) const {
    return static_cast<T*>(base_[tensor.index]);
  }
  DType dtype(TensorId tensor) const { return dtypes_[tensor.index]; }

 private:
  std::vector<void*> base_;
  std::vector<DType> dtypes_;
};

}  // namespace serval

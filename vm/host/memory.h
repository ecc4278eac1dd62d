// A program's shape, and the addresses of its tensors in host memory.
#pragma once

#include <cstddef>
#include <vector>

#include "vm/program.h"

namespace serval {

// One base pointer for each tensor of the program, in table order, and its storage type. The memory must
// outlive every run. Weights are row-major and are only read.
class HostMemory {
 public:
  explicit HostMemory(const Program& program)
      : shape_(program.shape()), base_(program.tensors.size(), nullptr) {
    for (const Tensor& tensor : program.tensors) dtypes_.push_back(tensor.dtype);
  }
  const ProgramShape& shape() const { return shape_; }
  void bind(TensorId tensor, void* base) { base_.at(tensor.index) = base; }
  size_t size() const { return base_.size(); }
  bool bound(TensorId tensor) const { return base_.at(tensor.index) != nullptr; }

  template <class T>
  T* data(TensorId tensor) const {
    return static_cast<T*>(base_[tensor.index]);
  }
  DType dtype(TensorId tensor) const { return dtypes_[tensor.index]; }

 private:
  ProgramShape shape_;
  std::vector<void*> base_;
  std::vector<DType> dtypes_;
};

}  // namespace serval

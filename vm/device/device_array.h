// Arrays of one type in GPU or pinned memory, on top of cuda_resources.h.
#pragma once

#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "vm/device/cuda_resources.h"

namespace serval {

// An array in GPU memory, zeroed at construction. Host writes have arrived when the call returns. (CUDA only
// enqueues a memset or a small copy, in a stream that neither this GPU's kernels nor those of other GPUs wait
// for, and these may write here as soon as they run.)
template <class T>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  DeviceArray() = default;
  explicit DeviceArray(size_t count) : count_(count), buffer_(count * sizeof(T)) { clear(); }
  explicit DeviceArray(std::span<const T> from) : count_(from.size()), buffer_(from.size_bytes()) {
    if (count_ == 0) return;
    SERVAL_CUDA_CHECK(cudaMemcpy(data(), from.data(), from.size_bytes(), cudaMemcpyHostToDevice));
    wait_until_written();
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  size_t size() const { return count_; }
  void clear() const {
    if (count_ == 0) return;
    SERVAL_CUDA_CHECK(cudaMemset(data(), 0, buffer_.size()));
    wait_until_written();
  }
  std::vector<T> download() const {
    std::vector<T> out(count_);
    if (count_ > 0) SERVAL_CUDA_CHECK(cudaMemcpy(out.data(), data(), buffer_.size(), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  static void wait_until_written() { SERVAL_CUDA_CHECK(cudaStreamSynchronize(cudaStreamLegacy)); }

  size_t count_ = 0;
  DeviceBuffer buffer_;
};

// An array in pinned host memory that the GPU can address, zeroed at construction.
template <class T>
class PinnedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  PinnedArray() = default;
  explicit PinnedArray(size_t count) : buffer_(count * sizeof(T)) {
    std::memset(buffer_.data(), 0, buffer_.size());
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  T* device_data() const { return reinterpret_cast<T*>(buffer_.device_data()); }

 private:
  PinnedBuffer buffer_;
};

}  // namespace serval

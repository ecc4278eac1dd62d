// Owners of CUDA resources: memory, streams, events. Each belongs to the GPU that was the thread's current
// one when it was created; use_gpu() sets that.
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>
#include <memory>

#include "vm/device/cuda_check.h"

namespace serval {

// Makes `device` the thread's current GPU. A thread starts with GPU 0.
inline void use_gpu(int device) {
  SERVAL_CUDA_CHECK(cudaSetDevice(device));
}

// GPU memory, aligned to 256 bytes, contents undefined.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(size_t bytes) : bytes_(bytes) {
    void* base = nullptr;
    if (bytes > 0) SERVAL_CUDA_CHECK(cudaMalloc(&base, bytes));
    base_.reset(static_cast<std::byte*>(base));
  }
  std::byte* data() const { return base_.get(); }
  size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* base) const { (void)cudaFree(base); }
  };
  std::unique_ptr<std::byte, Free> base_;
  size_t bytes_ = 0;
};

// Pinned host memory: copy engines can reach it, and kernels at device_data().
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(size_t bytes) : bytes_(bytes) {
    void* base = nullptr;
    if (bytes > 0)
      SERVAL_CUDA_CHECK(cudaHostAlloc(&base, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
    base_.reset(static_cast<std::byte*>(base));
  }
  std::byte* data() const { return base_.get(); }
  size_t size() const { return bytes_; }
  std::byte* device_data() const {
    void* address = nullptr;
    SERVAL_CUDA_CHECK(cudaHostGetDevicePointer(&address, base_.get(), 0));
    return static_cast<std::byte*>(address);
  }

 private:
  struct Free {
    void operator()(std::byte* base) const { (void)cudaFreeHost(base); }
  };
  std::unique_ptr<std::byte, Free> base_;
  size_t bytes_ = 0;
};

class CudaEvent;

// A stream that does not synchronise with the default stream.
class CudaStream {
 public:
  CudaStream() {
    cudaStream_t stream = nullptr;
    SERVAL_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    stream_.reset(stream);
  }
  cudaStream_t get() const { return stream_.get(); }
  // Returns when all its work is done.
  void wait() const { SERVAL_CUDA_CHECK(cudaStreamSynchronize(stream_.get())); }
  // Work enqueued later waits for the event, if that was recorded.
  void follow(const CudaEvent& event) const;

 private:
  struct Destroy {
    void operator()(cudaStream_t stream) const { (void)cudaStreamDestroy(stream); }
  };
  std::unique_ptr<CUstream_st, Destroy> stream_;
};

// An event in a stream.
class CudaEvent {
 public:
  CudaEvent() {
    cudaEvent_t event = nullptr;
    SERVAL_CUDA_CHECK(cudaEventCreate(&event));
    event_.reset(event);
  }
  void record(cudaStream_t stream) const { SERVAL_CUDA_CHECK(cudaEventRecord(event_.get(), stream)); }
  void record(const CudaStream& stream) const { record(stream.get()); }
  // True if all work before it is done.
  bool reached() const {
    const cudaError_t status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) return false;
    check_cuda(status, "cudaEventQuery");
    return true;
  }
  void wait() const { SERVAL_CUDA_CHECK(cudaEventSynchronize(event_.get())); }
  cudaEvent_t get() const { return event_.get(); }
  // Time between two events that have been reached.
  static double milliseconds(const CudaEvent& from, const CudaEvent& to) {
    float time = 0;
    SERVAL_CUDA_CHECK(cudaEventElapsedTime(&time, from.event_.get(), to.event_.get()));
    return static_cast<double>(time);
  }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
  };
  std::unique_ptr<CUevent_st, Destroy> event_;
};

inline void CudaStream::follow(const CudaEvent& event) const {
  SERVAL_CUDA_CHECK(cudaStreamWaitEvent(stream_.get(), event.get(), 0));
}

}  // namespace serval

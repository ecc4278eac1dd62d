// Runs group instructions on the GPU without the interpreter: one block a record, all at the same time.
#pragma once

#include <cuda_runtime.h>
#include <vector>

#include "gtest/gtest.h"

#include "instructions/common/reflect.h"
#include "tests/instructions/scene.h"
#include "vm/device/op.cuh"

namespace serval::testing {

// Skips the test where there is no GPU, and says so.
#define SERVAL_NEEDS_GPU()                                                                     \
  do {                                                                                         \
    int devices = 0;                                                                           \
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {                         \
      GTEST_SKIP() << "NOT TESTED: there is no GPU here, and this test is about nothing else"; \
    }                                                                                          \
  } while (false)

#define SERVAL_CUDA_OK(call)                                                     \
  do {                                                                           \
    const cudaError_t error = (call);                                            \
    ASSERT_EQ(error, cudaSuccess) << #call << ": " << cudaGetErrorString(error); \
  } while (false)

template <class Op>
__global__ void __maxnreg__(200)
    run_group_op(const Instruction* records, void* const* tensors, uint32_t rows) {
  extern __shared__ __align__(device::kScratchAlignment) std::byte scratch[];
  __shared__ Instruction record;
  __shared__ void* operands[kMaxTensorOperands];
  __shared__ PassRow pass_rows[kMaxRows];
  __shared__ uint64_t barrier;
  __shared__ device::ExitFlag exit;
  const uint32_t thread = threadIdx.x;
  if (thread == 0) {
    record = records[blockIdx.x];
    device::ptx::mbarrier_init(&barrier, device::kConsumerWarps);
    exit.set = 0;
  }
  if (thread < kMaxRows) pass_rows[thread] = static_cast<const PassRow*>(tensors[rows])[thread];
  __syncthreads();
  if (thread < tensor_operands<Op>()) {
    operands[thread] = tensors[reinterpret_cast<const TensorId*>(record.operands.data())[thread].index];
  }
  __syncthreads();
  uint32_t parity = 0;
  const device::Group group{.thread = thread,
                            .warp = thread / device::kWarpThreads,
                            .lane = thread % device::kWarpThreads,
                            .scratch = scratch,
                            .operands = operands,
                            .rows = pass_rows,
                            .barrier = &barrier,
                            .barrier_parity = &parity,
                            .exit = &exit};
  device::DeviceOp<Op>::run(*reinterpret_cast<const Op*>(record.operands.data()), group);
}

// A copy of a bench's tensors in GPU memory.
class GpuBench {
 public:
  explicit GpuBench(Bench& bench) : bench_(bench) {}
  ~GpuBench() {
    for (void* p : tensors_) cudaFree(p);
    cudaFree(records_);
    cudaFree(table_);
  }
  GpuBench(const GpuBench&) = delete;
  GpuBench& operator=(const GpuBench&) = delete;

  void upload() {
    for (size_t i = tensors_.size(); i < bench_.memory.size(); ++i) {
      void* p = nullptr;
      SERVAL_CUDA_OK(cudaMalloc(&p, bench_.memory[i].size()));
      tensors_.push_back(p);
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      SERVAL_CUDA_OK(
          cudaMemcpy(tensors_[i], bench_.memory[i].data(), bench_.memory[i].size(), cudaMemcpyHostToDevice));
    }
    copy_to(table_, tensors_);
  }
  void download(TensorId tensor) {
    auto& memory = bench_.memory[tensor.index];
    SERVAL_CUDA_OK(cudaMemcpy(memory.data(), tensors_[tensor.index], memory.size(), cudaMemcpyDeviceToHost));
  }
  template <class Op>
  void run(const std::vector<Instruction>& records, TensorId rows) {
    copy_to(records_, records);
    SERVAL_CUDA_OK(cudaFuncSetAttribute(run_group_op<Op>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        device::kScratchBytes));
    run_group_op<Op><<<static_cast<unsigned>(records.size()), device::kGroupThreads, device::kScratchBytes>>>(
        records_, table_, rows.index);
    SERVAL_CUDA_OK(cudaGetLastError());
    SERVAL_CUDA_OK(cudaDeviceSynchronize());
  }

 private:
  template <class T>
  static void copy_to(T*& to, const std::vector<T>& from) {
    cudaFree(to);
    SERVAL_CUDA_OK(cudaMalloc(&to, from.size() * sizeof(T)));
    SERVAL_CUDA_OK(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
  }

  Bench& bench_;
  std::vector<void*> tensors_;
  Instruction* records_ = nullptr;
  void** table_ = nullptr;
};

}  // namespace serval::testing

// Runs group instructions on the GPU without the interpreter: one block a record, all at the same time.
#pragma once

#include <cstring>
#include <cuda_runtime.h>
#include <set>
#include <vector>

#include "gtest/gtest.h"

#include "vm/reflect.h"
#include "tests/instructions/scene.h"
#include "vm/device/activation_image.h"
#include "vm/device/device_array.h"
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

  // A bf16 tensor [16, cols] that lies in GPU memory as a product will read it; before the first upload.
  void keep_as_image(TensorId tensor) { images_.insert(tensor.index); }

  void upload() {
    std::vector<void*> bases;
    for (uint32_t i = 0; i < bench_.memory.size(); ++i) {
      const std::vector<std::byte> memory = images_.contains(i) ? image_of(i) : bench_.memory[i];
      if (i == tensors_.size()) tensors_.emplace_back(memory.size());
      SERVAL_CUDA_CHECK(cudaMemcpy(tensors_[i].data(), memory.data(), memory.size(), cudaMemcpyHostToDevice));
      bases.push_back(tensors_[i].data());
    }
    bases_ = DeviceArray<void*>(std::span<void* const>(bases));
  }
  void download(TensorId tensor) {
    const std::vector<std::byte> memory = tensors_[tensor.index].download();
    if (!images_.contains(tensor.index)) {
      bench_.memory[tensor.index] = memory;
      return;
    }
    for_elements(tensor.index, [&](std::byte* element, uint64_t in_image) {
      std::memcpy(element, memory.data() + in_image, sizeof(uint16_t));
    });
  }
  template <class Op>
  void run(const std::vector<Instruction>& records, TensorId rows) {
    const DeviceArray<Instruction> on_gpu{std::span<const Instruction>(records)};
    SERVAL_CUDA_CHECK(cudaFuncSetAttribute(run_group_op<Op>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           device::kScratchBytes));
    run_group_op<Op><<<static_cast<unsigned>(records.size()), device::kGroupThreads, device::kScratchBytes>>>(
        on_gpu.data(), bases_.data(), rows.index);
    SERVAL_CUDA_CHECK(cudaGetLastError());
    SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
  }

 private:
  // Calls fn with each element of the tensor in the bench and its offset in the image.
  template <class Fn>
  void for_elements(uint32_t tensor, Fn&& fn) {
    const auto cols = static_cast<uint32_t>(bench_.tensor({tensor}).cols);
    for (uint32_t r = 0; r < kMaxRows; ++r) {
      for (uint32_t c = 0; c < cols; ++c) {
        fn(bench_.memory[tensor].data() + (size_t{r} * cols + c) * sizeof(uint16_t),
           activation_image::offset(cols, r, c));
      }
    }
  }
  std::vector<std::byte> image_of(uint32_t tensor) {
    std::vector<std::byte> out(activation_image::bytes(static_cast<uint32_t>(bench_.tensor({tensor}).cols)));
    for_elements(tensor, [&](const std::byte* element, uint64_t in_image) {
      std::memcpy(out.data() + in_image, element, sizeof(uint16_t));
    });
    return out;
  }

  Bench& bench_;
  std::set<uint32_t> images_;
  std::vector<DeviceArray<std::byte>> tensors_;
  DeviceArray<void*> bases_;
};

}  // namespace serval::testing

// Runs group instructions on the GPU without the interpreter: one block for each record, all in parallel.
#pragma once

#include <cuda_runtime.h>
#include <vector>

#include "gtest/gtest.h"

#include "instructions/sm90/device_kernel.cuh"
#include "tests/device/gpu_tensors.h"
#include "tests/device/needs_gpu.h"
#include "tests/instructions/scene.h"
#include "vm/device/op.cuh"
#include "vm/reflect.h"

namespace serval::testing {

template <class Op>
__global__ void __maxnreg__(200)
    run_group_op(const Instruction* records, void* const* tensors, uint32_t rows, ProgramShape program) {
  extern __shared__ __align__(device::kScratchAlignment) std::byte scratch[];
  __shared__ Instruction record;
  __shared__ uint32_t shape_words[sizeof(ProgramShape) / sizeof(uint32_t)];
  __shared__ void* operands[kMaxTensorOperands];
  __shared__ PassRow pass_rows[device::kTableRows];
  __shared__ uint64_t barrier, inputs;
  __shared__ device::ExitFlag exit;
  const uint32_t thread = threadIdx.x;
  auto& shape = *reinterpret_cast<ProgramShape*>(shape_words);
  if (thread == 0) {
    record = records[blockIdx.x];
    shape = program;
    ptx::mbarrier_init(&barrier, device::kConsumerWarps);
    ptx::mbarrier_init(&inputs, 1);
    exit.set = 0;
  }
  if (thread < device::kTableRows) pass_rows[thread] = static_cast<const PassRow*>(tensors[rows])[thread];
  __syncthreads();
  if (thread < tensor_operands<Op>()) {
    operands[thread] = tensors[reinterpret_cast<const TensorId*>(record.operands.data())[thread].index];
  }
  __syncthreads();
  uint32_t parity = 0;
  const device::Group group{.thread = thread,
                            .warp = thread / kWarpThreads,
                            .lane = thread % kWarpThreads,
                            .scratch = scratch,
                            .operands = operands,
                            .shape = shape,
                            .rows = pass_rows,
                            .inputs = &inputs,
                            .inputs_parity = 1,  // the phase before the first, which is complete
                            .barrier = &barrier,
                            .barrier_parity = &parity,
                            .exit = &exit};
  device::run_group<device::SixteenRows>(*reinterpret_cast<const Op*>(record.operands.data()), group);
}

// A copy of a bench's tensors in GPU memory; runs group instructions on them.
class GpuBench : public GpuTensors {
 public:
  using GpuTensors::GpuTensors;

  template <class Op>
  void run(const std::vector<Instruction>& records, TensorId rows) {
    const DeviceArray<Instruction> on_gpu{std::span<const Instruction>(records)};
    SERVAL_CUDA_CHECK(cudaFuncSetAttribute(run_group_op<Op>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           device::SixteenRows::kScratchBytes));
    run_group_op<Op><<<static_cast<unsigned>(records.size()), device::kGroupThreads,
                       device::SixteenRows::kScratchBytes>>>(on_gpu.data(), bases(), rows.index, shape());
    SERVAL_CUDA_CHECK(cudaGetLastError());
    SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
  }
};

}  // namespace serval::testing

// An instruction set of two GEMMs for tests and timing of instructions/common/gemm.cuh: no Llama in it.
#pragma once

#include <cuda.h>

#include "instructions/common/gemm.cuh"
#include "tests/device/toy_isa.cuh"
#include "vm/device/cuda_check.h"

namespace serval::testing {

// residual += weights × input, with what its next readers need, for one tile.
struct GemmResidual {
  TensorId weights;
  TensorId input;
  TensorId norm;
  TensorId residual;
  TensorId weighted;
  TensorId squares;
  uint32_t first_unit;
  uint32_t first_row;
  uint32_t end_row;
  uint32_t image_rows;
  uint32_t in_cols;
  uint32_t out_cols;
  template <class V>
  static constexpr void fields(V&& v) {
    v(&GemmResidual::weights, "weights", "in [out_cols, in_cols] bf16");
    v(&GemmResidual::input, "input", "in [image_rows, in_cols] bf16");
    v(&GemmResidual::norm, "norm", "in [out_cols] bf16");
    v(&GemmResidual::residual, "residual", "in and out [image_rows, out_cols] f32");
    v(&GemmResidual::weighted, "weighted", "out [image_rows, out_cols] bf16");
    v(&GemmResidual::squares, "squares", "out [image_rows, out_cols / 64] f32");
    v(&GemmResidual::first_unit, "first_unit", "units");
    v(&GemmResidual::first_row, "first_row", "rows");
    v(&GemmResidual::end_row, "end_row", "rows");
    v(&GemmResidual::image_rows, "image_rows", "rows");
    v(&GemmResidual::in_cols, "in_cols", "columns");
    v(&GemmResidual::out_cols, "out_cols", "columns");
  }
};

// output = silu(gate × input) × (up × input), both scaled by the rows' norm, for one tile.
struct GemmSilu {
  TensorId gate;
  TensorId up;
  TensorId input;
  TensorId squares;
  TensorId output;
  uint32_t first_unit;
  uint32_t first_row;
  uint32_t end_row;
  uint32_t image_rows;
  uint32_t in_cols;
  uint32_t out_cols;
  template <class V>
  static constexpr void fields(V&& v) {
    v(&GemmSilu::gate, "gate", "in [out_cols, in_cols] bf16");
    v(&GemmSilu::up, "up", "in [out_cols, in_cols] bf16");
    v(&GemmSilu::input, "input", "in [image_rows, in_cols] bf16");
    v(&GemmSilu::squares, "squares", "in [image_rows, in_cols / 64] f32");
    v(&GemmSilu::output, "output", "out [image_rows, out_cols] bf16");
    v(&GemmSilu::first_unit, "first_unit", "units");
    v(&GemmSilu::first_row, "first_row", "rows");
    v(&GemmSilu::end_row, "end_row", "rows");
    v(&GemmSilu::image_rows, "image_rows", "rows");
    v(&GemmSilu::in_cols, "in_cols", "columns");
    v(&GemmSilu::out_cols, "out_cols", "columns");
  }
};

enum class GemmOpcode : uint16_t { kResidual, kSilu, kTick };
inline constexpr float kGemmEpsilon = 1e-5F;

}  // namespace serval::testing

namespace serval::device {

template <>
struct DeviceOp<testing::GemmResidual> {
  using Op = testing::GemmResidual;

  static __device__ bool in_range(const Op&) { return true; }
  static __device__ gemm::Shape shape(const RecordSlot& slot, const Op& op) {
    return {.activations = tensor<&Op::input, const std::byte>(slot),
            .squares = nullptr,
            .epsilon = 0,
            .image_rows = op.image_rows,
            .first_row = op.first_row,
            .end_row = op.end_row,
            .first_unit = op.first_unit,
            .matrices = 1,
            .cols = op.in_cols};
  }
  static __device__ const std::byte* pages_of(const RecordSlot& slot, const Op&, uint32_t, uint32_t) {
    return tensor<&Op::weights, const std::byte>(slot);
  }
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const Op& op, const gemm::WarpTile& part,
                                                     const float (&d)[kValues]) {
    gemm::add_to_residual(
        role, part,
        {tensor<&Op::residual, float>(*role.slot), tensor<&Op::norm, const uint16_t>(*role.slot),
         tensor<&Op::weighted, std::byte>(*role.slot), tensor<&Op::squares, float>(*role.slot), op.image_rows,
         op.out_cols},
        op.first_unit, d);
  }
};

template <>
struct DeviceOp<testing::GemmSilu> {
  using Op = testing::GemmSilu;

  static __device__ bool in_range(const Op&) { return true; }
  static __device__ gemm::Shape shape(const RecordSlot& slot, const Op& op) {
    return {.activations = tensor<&Op::input, const std::byte>(slot),
            .squares = tensor<&Op::squares, const float>(slot),
            .epsilon = testing::kGemmEpsilon,
            .image_rows = op.image_rows,
            .first_row = op.first_row,
            .end_row = op.end_row,
            .first_unit = op.first_unit,
            .matrices = 2,
            .cols = op.in_cols};
  }
  static __device__ const std::byte* pages_of(const RecordSlot& slot, const Op&, uint32_t, uint32_t matrix) {
    return matrix == 0 ? tensor<&Op::gate, const std::byte>(slot) : tensor<&Op::up, const std::byte>(slot);
  }
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const Op& op, const gemm::WarpTile& part,
                                                     const float (&d)[kValues]) {
    gemm::store_silu(role, part, tensor<&Op::output, std::byte>(*role.slot), op.image_rows, op.out_cols,
                     op.first_unit, d);
  }
};

}  // namespace serval::device

namespace serval::testing {

using GemmIsa = device::IsaList<device::StreamList<device::gemm::Stream>, GemmResidual, GemmSilu, Tick>;

// What they are compiled for: tiles of so many tokens.
using Tokens256 = device::GemmConfig<2048, 256, 4, 4>;
using Tokens128 = device::GemmConfig<2048, 128, 6, 4>;

// How the copy engine finds slabs in a matrix's page images: of `box_units` units, 1 KiB each.
inline CUtensorMap gemm_weight_map(void* images, uint32_t outputs, uint32_t cols, uint32_t box_units) {
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found{};
  constexpr unsigned kSinceCuda = 12000;
  SERVAL_CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, kSinceCuda,
                                                     cudaEnableDefault, &found));
  constexpr uint32_t kWord = sizeof(uint32_t);
  const cuuint64_t unit_bytes = page_image::unit_bytes(cols);
  const cuuint64_t sizes[2] = {unit_bytes / kWord, outputs / kUnitRows};
  const cuuint32_t box[2] = {device::gemm::kPieceBytes / kWord, box_units}, steps[2] = {1, 1};
  CUtensorMap map{};
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      &map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, images, sizes, &unit_bytes, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check_cuda(result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue, "cuTensorMapEncodeTiled");
  return map;
}

template <class Config>
const DeviceIsa& gemm_isa() {
  static const DeviceKernelChoice kernel{
      device::device_kernel<GemmIsa, Config, device::NoRecorder>(), {}, Config::kRows, nullptr};
  static const DeviceIsa isa{{&kernel, 1},
                             1,
                             [](const Program&, const Instruction&) { return std::string(); },
                             [](uint16_t opcode) {
                               constexpr const char* kNames[] = {"gemm_residual", "gemm_silu", "tick"};
                               return opcode < std::size(kNames) ? kNames[opcode] : "unknown";
                             }};
  return isa;
}

}  // namespace serval::testing

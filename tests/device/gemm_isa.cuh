// An instruction set of two GEMMs for tests and timing of instructions/common/gemm.cuh: no Llama in it.
#pragma once

#include "instructions/common/gemm.cuh"
#include "tests/device/toy_isa.cuh"

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
  uint32_t num_units;
  uint32_t first_row;
  uint32_t end_row;
  uint32_t image_rows;
  uint32_t in_cols;
  uint32_t out_cols;
  uint32_t hangs = 0;
  template <class V>
  static constexpr void fields(V&& v) {
    v(&GemmSilu::gate, "gate", "in [out_cols, in_cols] bf16");
    v(&GemmSilu::up, "up", "in [out_cols, in_cols] bf16");
    v(&GemmSilu::input, "input", "in [image_rows, in_cols] bf16");
    v(&GemmSilu::squares, "squares", "in [image_rows, in_cols / 64] f32");
    v(&GemmSilu::output, "output", "out [image_rows, out_cols] bf16");
    v(&GemmSilu::first_unit, "first_unit", "units");
    v(&GemmSilu::num_units, "num_units", "units of each matrix: 8, or 16 in a wide tile");
    v(&GemmSilu::first_row, "first_row", "rows");
    v(&GemmSilu::end_row, "end_row", "rows");
    v(&GemmSilu::image_rows, "image_rows", "rows");
    v(&GemmSilu::in_cols, "in_cols", "columns");
    v(&GemmSilu::out_cols, "out_cols", "columns");
    v(&GemmSilu::hangs, "hangs", "1: what finishes the tile never ends");
  }
};

enum class GemmOpcode : uint16_t { kResidual, kSilu, kTick };
inline constexpr float kGemmEpsilon = 1e-5F;

}  // namespace serval::testing

namespace serval::device {

template <>
struct GemmOp<testing::GemmResidual> {
  using Op = testing::GemmResidual;

  static __device__ bool in_range(const Op&) { return true; }
  static __device__ gemm::Shape shape(const RecordBuffer& buffer, const Op& op) {
    return {.activations = tensor<&Op::input, const std::byte>(buffer),
            .squares = nullptr,
            .epsilon = 0,
            .image_rows = op.image_rows,
            .first_row = op.first_row,
            .end_row = op.end_row,
            .units = gemm::Units::kNeighbours,
            .cols = op.in_cols,
            .logits_only = 0,
            .adds = 1,
            .block_table = nullptr,
            .blocks_of_sequence = 0};
  }
  static __device__ gemm::Pages pages_of(const BoundProgram& program, const Op& op, uint32_t part) {
    if (part == gemm::kResidualPart)
      return {gemm::tensor_map(program, op.residual), op.first_unit * kUnitRows};
    return {gemm::tensor_map(program, op.weights), op.first_unit};
  }
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const Op& op, const gemm::WarpTile& part,
                                                     float (&d)[kValues]) {
    const auto place = [&]() -> gemm::ResidualPlace {
      return {tensor<&Op::residual, float>(*role.buffer),
              tensor<&Op::norm, const uint16_t>(*role.buffer),
              tensor<&Op::weighted, std::byte>(*role.buffer),
              tensor<&Op::squares, float>(*role.buffer),
              op.image_rows,
              op.out_cols};
    };
    gemm::add_to_residual(role, part, place, op.first_unit, gemm::kTileUnits, d);
  }
};

template <>
struct GemmOp<testing::GemmSilu> {
  static constexpr bool kHasWideTiles = true;
  using Op = testing::GemmSilu;

  static __device__ bool in_range(const Op&) { return true; }
  static __device__ gemm::Shape shape(const RecordBuffer& buffer, const Op& op) {
    return {.activations = tensor<&Op::input, const std::byte>(buffer),
            .squares = tensor<&Op::squares, const float>(buffer),
            .epsilon = testing::kGemmEpsilon,
            .image_rows = op.image_rows,
            .first_row = op.first_row,
            .end_row = op.end_row,
            .units = op.num_units > gemm::kPairUnits ? gemm::Units::kWidePairs : gemm::Units::kPairs,
            .cols = op.in_cols,
            .logits_only = 0,
            .adds = 0,
            .block_table = nullptr,
            .blocks_of_sequence = 0};
  }
  static __device__ gemm::Pages pages_of(const BoundProgram& program, const Op& op, uint32_t) {
    return {gemm::tensor_map(program, op.gate), op.first_unit};
  }
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const Op& op, const gemm::WarpTile& part,
                                                     float (&d)[kValues]) {
    if (op.hangs != 0) wait_for_exit(&role.s.exit);
    gemm::store_silu(role, part, tensor<&Op::output, std::byte>(*role.buffer), op.image_rows, op.out_cols,
                     op.first_unit + part.tile_half * gemm::kPairUnits, d);
  }
};

}  // namespace serval::device

namespace serval::testing {

using GemmIsa = device::IsaList<device::StreamList<device::gemm::Stream>, GemmResidual, GemmSilu, Tick>;

// What they are compiled for: tiles of so many tokens.
using Tokens256 = device::GemmConfig<2048, 256, 4, 128>;
using Tokens128 = device::GemmConfig<2048, 128, 6, 64>;
struct Tokens64 : device::GemmConfig<2048, 64, 6, 96> {
  static constexpr bool kHasWideTiles = true;
};

// Of the tensors that the instructions name.
inline std::vector<Boxes> gemm_boxes(const Program& program) {
  std::vector<Boxes> boxes(program.tensors.size());
  for (const Instruction& i : program.instructions) {
    if (i.opcode == static_cast<uint16_t>(GemmOpcode::kResidual)) {
      boxes[i.as<GemmResidual>().weights.index] = {BoxKind::kTiles};
      boxes[i.as<GemmResidual>().residual.index] = {BoxKind::kRows};
    }
    if (i.opcode != static_cast<uint16_t>(GemmOpcode::kSilu)) continue;
    boxes[i.as<GemmSilu>().gate.index] = {BoxKind::kPairs, i.as<GemmSilu>().up};
  }
  return boxes;
}

template <class Config>
const DeviceIsa& gemm_isa() {
  static const DeviceKernelChoice kernel{
      device::device_kernel<GemmIsa, Config, device::NoRecorder>(), {}, Config::kRows, 1, nullptr};
  static const DeviceIsa isa{{&kernel, 1},
                             [](const Program&, const Instruction&) { return std::string(); },
                             [](uint16_t opcode) {
                               constexpr const char* kNames[] = {"gemm_residual", "gemm_silu", "tick"};
                               return opcode < std::size(kNames) ? kNames[opcode] : "unknown";
                             },
                             gemm_boxes};
  return isa;
}

}  // namespace serval::testing

// A model-independent instruction set of two products, to test and time the tile stream
// (instructions/product/orders/sm90/tile_stream.cuh).
#pragma once

#include "instructions/product/epilogues/silu.cuh"
#include "instructions/product/epilogues/sm90/residual_tile.cuh"
#include "instructions/product/formats/bf16/operands.cuh"
#include "instructions/product/formats/e4m3/operands.cuh"
#include "instructions/product/orders/sm90/tile_stream.cuh"
#include "instructions/sm90/boxes.h"
#include "tests/device/toy_isa.cuh"

namespace serval::testing {

inline constexpr float kGemmEpsilon = 1e-5F;

// residual += weights × input, and the outputs for its next readers, for one tile.
struct GemmResidual {
  TensorId weights;
  TensorId input;
  TensorId norm;
  TensorId residual;
  TensorId weighted;
  TensorId squares;
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t first_row;
  uint32_t num_rows;
  uint32_t in_cols;
  uint32_t out_cols;
  uint32_t parts = 1;

  static constexpr std::array kWeights = {&GemmResidual::weights};
  static constexpr auto kInput = &GemmResidual::input;
  static constexpr auto kAddsTo = &GemmResidual::residual;

  template <class V>
  static constexpr void fields(V&& v) {
    v(&GemmResidual::weights, "weights", "in [out_cols, in_cols] bf16");
    v(&GemmResidual::input, "input", "in [max_rows, in_cols] bf16");
    v(&GemmResidual::norm, "norm", "in [out_cols] bf16");
    v(&GemmResidual::residual, "residual", "in and out [max_rows, out_cols] f32");
    v(&GemmResidual::weighted, "weighted", "out [max_rows, out_cols] bf16");
    v(&GemmResidual::squares, "squares", "out [max_rows, out_cols / 64] f32");
    v(&GemmResidual::first_unit, "first_unit", "units");
    v(&GemmResidual::num_units, "num_units", "units");
    v(&GemmResidual::first_row, "first_row", "rows");
    v(&GemmResidual::num_rows, "num_rows", "rows");
    v(&GemmResidual::in_cols, "in_cols", "columns");
    v(&GemmResidual::out_cols, "out_cols", "columns");
    v(&GemmResidual::parts, "parts", "K splits");
  }
};
constexpr Product product(const GemmResidual& op, const ProgramShape&) {
  return whole_product(op.out_cols / kUnitRows, op.in_cols);
}

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
  uint32_t num_rows;
  uint32_t in_cols;
  uint32_t out_cols;
  uint32_t hangs = 0;
  float epsilon = kGemmEpsilon;

  static constexpr std::array kWeights = {&GemmSilu::gate, &GemmSilu::up};
  static constexpr uint32_t kMatrices = 2;
  static constexpr auto kInput = &GemmSilu::input;
  static constexpr auto kInputSquares = &GemmSilu::squares;

  template <class V>
  static constexpr void fields(V&& v) {
    v(&GemmSilu::gate, "gate", "in [out_cols, in_cols] bf16");
    v(&GemmSilu::up, "up", "in [out_cols, in_cols] bf16");
    v(&GemmSilu::input, "input", "in [max_rows, in_cols] bf16");
    v(&GemmSilu::squares, "squares", "in [max_rows, in_cols / 64] f32");
    v(&GemmSilu::output, "output", "out [max_rows, out_cols] bf16");
    v(&GemmSilu::first_unit, "first_unit", "units");
    v(&GemmSilu::num_units, "num_units", "units of each matrix: 8, or 16 in a wide tile");
    v(&GemmSilu::first_row, "first_row", "rows");
    v(&GemmSilu::num_rows, "num_rows", "rows");
    v(&GemmSilu::in_cols, "in_cols", "columns");
    v(&GemmSilu::out_cols, "out_cols", "columns");
    v(&GemmSilu::hangs, "hangs", "1: the epilogue never ends");
    v(&GemmSilu::epsilon, "epsilon", "of the RMS norm");
  }
};
constexpr Product product(const GemmSilu& op, const ProgramShape&) {
  return whole_product(op.out_cols / kUnitRows, op.in_cols);
}

enum class GemmOpcode : uint16_t { kResidual, kSilu, kTick };

}  // namespace serval::testing

namespace serval::device {

template <>
struct ProductOp<testing::GemmResidual> {
  using Op = testing::GemmResidual;

  template <class Role>
  static __device__ __forceinline__ epilogues::AddToResidual epilogue(const Role& role, const Op& op) {
    return {.residual = tensor<&Op::residual, float>(*role.buffer),
            .norm = tensor<&Op::norm, const uint16_t>(*role.buffer),
            .weighted = tensor<&Op::weighted, std::byte>(*role.buffer),
            .squares = tensor<&Op::squares, float>(*role.buffer),
            .image_rows = role.s.shape.limits.rows,
            .cols = op.out_cols,
            .first_unit = op.first_unit,
            .num_units = op.num_units,
            .parts = op.parts,
            .map = tensor_map(role.launch.program, op.residual)};
  }
};

template <>
struct ProductOp<testing::GemmSilu> {
  using Op = testing::GemmSilu;

  struct SiluOrHang : epilogues::SiluProduct {
    bool hangs;

    template <class Role, uint32_t kValues>
    __device__ __forceinline__ void finish_tile(Role& role, const epilogues::WarpTile& tile,
                                                float (&d)[kValues]) const {
      if (hangs) wait_for_exit(&role.s.exit);
      epilogues::SiluProduct::finish_tile(role, tile, d);
    }
  };
  template <class Role>
  static __device__ __forceinline__ SiluOrHang epilogue(const Role& role, const Op& op) {
    return {{.output = tensor<&Op::output, std::byte>(*role.buffer),
             .image_rows = role.s.shape.limits.rows,
             .cols = op.out_cols,
             .first_unit = op.first_unit},
            op.hangs != 0};
  }
};

}  // namespace serval::device

namespace serval::testing {

using GemmIsa = device::IsaList<device::StreamList<device::tile_stream::Stream<device::formats::Bf16>>,
                                GemmResidual, GemmSilu, Tick>;

// The kernels for these instructions, with tiles of 64, 128 and 256 tokens.
using Tokens256 = device::TileConfig<2048, 256, 4, 128>;
using Tokens128 = device::TileConfig<2048, 128, 6, 64>;
struct Tokens64 : device::TileConfig<2048, 64, 6, 96> {
  static constexpr bool kHasWideTiles = true;
};

// The boxes of all tensors that the instructions name.
inline std::vector<Boxes> gemm_boxes(const Program& program) {
  std::vector<Boxes> boxes(program.tensors.size());
  for (const Instruction& i : program.instructions) {
    if (i.opcode == static_cast<uint16_t>(GemmOpcode::kResidual))
      add_product_boxes(i.as<GemmResidual>(), boxes);
    if (i.opcode == static_cast<uint16_t>(GemmOpcode::kSilu)) add_product_boxes(i.as<GemmSilu>(), boxes);
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

// The compiled kernels, and which programs each can run.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "instructions/device_isa.h"
#include "instructions/device_kernel.cuh"
#include "instructions/isa.h"

namespace serval {
namespace {

template <class Config>
DeviceKernelChoice choice() {
  return {device::compiled_kernel<Config, device::NoRecorder>(),
          device::compiled_kernel<Config, device::EventRecorder>(),
          Config::kRows,
          Config::kRingPages,
          [](const Program& program) { return runs(Config::kTraits, program); },
          Config::kTraits.single_rows};
}

// Kernels of vectors take it that all inputs of products have the same image.
std::string check_images(const Program& program, const Instruction& instruction, bool tile_order) {
  const Image other = tile_order ? Image::kActivation : Image::kSlabs;
  std::string wrong;
  for_own_tensors(program.tensors, instruction, [&](const FieldInfo& field, const Tensor& tensor) {
    if (tensor.image != other || !wrong.empty()) return;
    wrong = std::string(op_name(instruction.opcode)) + ": " + field.name + ": " + tensor.name +
            " does not have the image of the program's other inputs of products";
  });
  return wrong;
}

std::string check_on_device(const Program& program, const Instruction& instruction) {
  if (std::string wrong = check_instruction(program, instruction); !wrong.empty()) return wrong;
  if (multiplies_tiles(program)) return "";
  const bool tile_order = has_tile_order(program);
  if (std::string wrong = check_images(program, instruction, tile_order); !wrong.empty() || tile_order)
    return wrong;
  switch (static_cast<Opcode>(instruction.opcode)) {
    case Opcode::kPlannedAttention:
    case Opcode::kPlannedMerge:
      return std::string(op_name(instruction.opcode)) + ": expected a program that multiplies tiles of rows";
    case Opcode::kSample:
      if (const uint32_t rows = instruction.as<Sample>().num_rows; rows != 1)
        return "num_rows: " + std::to_string(rows) +
               "; limit: 1 (the GPU's kernels sample a row an instance)";
      return "";
    default:
      return "";
  }
}

// Calls fn(op) for each of the program's.
template <class Op, class Fn>
void for_each_op(const Program& program, Fn&& fn) {
  for (const Instruction& i : program.instructions) {
    if (i.opcode == static_cast<uint16_t>(kOpcodeOf<Op>)) fn(i.as<Op>());
  }
}
template <class Op, auto... Members>
void note_boxes(const Program& program, BoxKind kind, std::vector<Boxes>& boxes) {
  for_each_op<Op>(program, [&](const Op& op) { ((boxes[(op.*Members).index] = {kind}), ...); });
}
void note_attention(const Program& program, std::vector<Boxes>& boxes) {
  note_boxes<PlannedAttention, &PlannedAttention::k_cache, &PlannedAttention::v_cache>(
      program, BoxKind::kKvBlocks, boxes);
  for_each_op<PlannedAttention>(program, [&](const PlannedAttention& op) {
    boxes[op.q.index] = {BoxKind::kQueries, {}, op.head_dim};
  });
}
std::vector<Boxes> boxes_of(const Program& program) {
  const bool tiles = multiplies_tiles(program);
  if (!tiles && !has_tile_order(program)) return {};
  std::vector<Boxes> boxes(program.tensors.size());
  note_attention(program, boxes);
  if (!tiles) return boxes;
  note_boxes<QkvRope, &QkvRope::wq, &QkvRope::wk, &QkvRope::wv>(program, BoxKind::kTiles, boxes);
  note_boxes<ProjectPart, &ProjectPart::wq, &ProjectPart::wk, &ProjectPart::wv>(program, BoxKind::kTiles,
                                                                                boxes);
  note_boxes<QkvProject, &QkvProject::wq, &QkvProject::wk, &QkvProject::wv>(program, BoxKind::kTiles, boxes);
  note_boxes<MatvecResidual, &MatvecResidual::weights>(program, BoxKind::kTiles, boxes);
  note_boxes<MatvecPart, &MatvecPart::weights>(program, BoxKind::kTiles, boxes);
  note_boxes<MatvecPush, &MatvecPush::weights>(program, BoxKind::kTiles, boxes);
  note_boxes<MatvecResidual, &MatvecResidual::residual>(program, BoxKind::kRows, boxes);
  for_each_op<GateUpSilu>(program, [&](const GateUpSilu& op) {
    boxes[op.gate.index] = {BoxKind::kPairs, op.up};
  });
  note_boxes<LmHead, &LmHead::weights>(program, BoxKind::kTiles, boxes);
  return boxes;
}

}  // namespace

const DeviceIsa& device_isa() {
  static const std::array choices = {
#define SERVAL_KERNEL(Name, ...) choice<device::Name>(),
#define SERVAL_TILE_ORDER_KERNEL(Name, ...) choice<device::Name>(),
#define SERVAL_GEMM_KERNEL(Name, ...) choice<device::Name>(),
#define SERVAL_RANKS_KERNEL(Name, ...) choice<device::Name>(),
#include "instructions/kernels.def"
#undef SERVAL_KERNEL
#undef SERVAL_TILE_ORDER_KERNEL
#undef SERVAL_GEMM_KERNEL
#undef SERVAL_RANKS_KERNEL
  };
  static const DeviceIsa isa{choices, check_on_device, op_name, boxes_of};
  return isa;
}

}  // namespace serval

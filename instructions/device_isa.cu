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
          device::compiled_kernel<Config, device::EventRecorder>(), Config::kRows, Config::kRingPages,
          [](const Program& program) { return runs(Config::kTraits, program); }};
}

std::string check_on_device(const Program& program, const Instruction& instruction) {
  if (std::string wrong = check_instruction(program, instruction); !wrong.empty()) return wrong;
  if (multiplies_tiles(program)) return "";
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

template <class Op, auto... Members>
void note_boxes(const Program& program, BoxKind kind, std::vector<Boxes>& boxes) {
  for (const Instruction& i : program.instructions) {
    if (i.opcode != static_cast<uint16_t>(kOpcodeOf<Op>)) continue;
    const Op op = i.as<Op>();
    ((boxes[(op.*Members).index] = {kind}), ...);
  }
}
// A tile of QKV may have half of its units of one matrix and half of another, where heads are small.
bool fills_tiles(const Instruction& i) {
  switch (static_cast<Opcode>(i.opcode)) {
    case Opcode::kQkvRope:
      return i.as<QkvRope>().head_dim == kTileUnits * kUnitRows;
    case Opcode::kQkvProject:
      return fills_tiles(i.as<QkvProject>(), kTileUnits);
    default:
      return true;
  }
}
BoxKind boxes_of_heads(const Program& program) {
  const bool fill_tiles =
      std::ranges::all_of(program.instructions, [](const Instruction& i) { return fills_tiles(i); });
  return fill_tiles ? BoxKind::kTiles : BoxKind::kHalfTiles;
}
std::vector<Boxes> boxes_of(const Program& program) {
  if (!multiplies_tiles(program)) return {};
  std::vector<Boxes> boxes(program.tensors.size());
  note_boxes<QkvRope, &QkvRope::wq, &QkvRope::wk, &QkvRope::wv>(program, boxes_of_heads(program), boxes);
  note_boxes<QkvProject, &QkvProject::wq, &QkvProject::wk, &QkvProject::wv>(program, boxes_of_heads(program),
                                                                            boxes);
  note_boxes<MatvecResidual, &MatvecResidual::weights>(program, BoxKind::kTiles, boxes);
  note_boxes<MatvecResidual, &MatvecResidual::residual>(program, BoxKind::kRows, boxes);
  for (const Instruction& i : program.instructions) {
    if (i.opcode == static_cast<uint16_t>(Opcode::kGateUpSilu))
      boxes[i.as<GateUpSilu>().gate.index] = {BoxKind::kPairs, i.as<GateUpSilu>().up};
  }
  note_boxes<LmHead, &LmHead::weights>(program, BoxKind::kTiles, boxes);
  note_boxes<PlannedAttention, &PlannedAttention::k_cache, &PlannedAttention::v_cache>(
      program, BoxKind::kKvBlocks, boxes);
  return boxes;
}

}  // namespace

const DeviceIsa& device_isa() {
  static const std::array choices = {
#define SERVAL_KERNEL(Name, ...) choice<device::Name>(),
#define SERVAL_GEMM_KERNEL(Name, ...) choice<device::Name>(),
#include "instructions/kernels.def"
#undef SERVAL_KERNEL
#undef SERVAL_GEMM_KERNEL
  };
  static const DeviceIsa isa{choices, check_on_device, op_name, boxes_of};
  return isa;
}

}  // namespace serval

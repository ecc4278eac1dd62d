// The compiled kernels, and the programs that each can run.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "instructions/device_isa.h"
#include "instructions/isa.h"
#include "instructions/sm90/boxes.h"
#include "instructions/sm90/device_kernel.cuh"

namespace serval {
namespace {

// The build has a kernel that records events for Config, too.
template <class Config>
inline constexpr bool kHasRecordingKernel = false;
#define SERVAL_RECORDING_KERNEL(Name) \
  template <>                         \
  inline constexpr bool kHasRecordingKernel<device::Name> = true;
#include "instructions/recording_kernels.def"
#undef SERVAL_RECORDING_KERNEL

template <class Config>
DeviceKernel recording_kernel() {
  if constexpr (kHasRecordingKernel<Config>) return device::compiled_kernel<Config, device::EventRecorder>();
  return {};
}

template <class Config>
DeviceKernelChoice choice() {
  return {device::compiled_kernel<Config, device::NoRecorder>(),
          recording_kernel<Config>(),
          Config::kRows,
          Config::kRingPages,
          [](const Program& program) { return runs(Config::kTraits, program); },
          Config::kTraits.single_rows};
}

// Kernels of vectors assume that all inputs of products have the image of the program's order.
std::string check_images(const Program& program, const Instruction& instruction) {
  const Image other = adds_as_tiles(program.order) ? Image::kActivation : Image::kSlabs;
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
  if (program.order == Order::kTile) return "";
  if (std::string wrong = check_images(program, instruction); !wrong.empty() || adds_as_tiles(program.order))
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

std::vector<Boxes> boxes_of(const Program& program) {
  if (!adds_as_tiles(program.order)) return {};
  std::vector<Boxes> boxes(program.tensors.size());
  for (const Instruction& i : program.instructions) {
    with_operands(i, [&]<class Op>(const Op& op) {
      add_attention_boxes(op, boxes);
      if constexpr (HasProduct<Op>) {
        if (program.order == Order::kTile) add_product_boxes(op, boxes);
      }
    });
  }
  return boxes;
}

}  // namespace

const DeviceIsa& device_isa() {
  static const std::array choices = {
#define SERVAL_KERNEL(Name, ...) choice<device::Name>(),
#define SERVAL_E4M3_KERNEL(Name, ...) choice<device::Name>(),
#define SERVAL_INT4_KERNEL(Name, ...) choice<device::Name>(),
#define SERVAL_TILE_ORDER_KERNEL(Name, ...) choice<device::Name>(),
#define SERVAL_TILE_KERNEL(Name, ...) choice<device::Name>(),
#define SERVAL_E4M3_TILE_KERNEL(Name, ...) choice<device::Name>(),
#define SERVAL_INT4_TILE_KERNEL(Name, ...) choice<device::Name>(),
#define SERVAL_W8A8_TILE_KERNEL(Name, ...) choice<device::Name>(),
#define SERVAL_RANKS_KERNEL(Name, ...) choice<device::Name>(),
#define SERVAL_POOLING_KERNEL(Name, ...) choice<device::Name>(),
#include "instructions/sm90/kernels.def"
#undef SERVAL_KERNEL
#undef SERVAL_E4M3_KERNEL
#undef SERVAL_INT4_KERNEL
#undef SERVAL_TILE_ORDER_KERNEL
#undef SERVAL_TILE_KERNEL
#undef SERVAL_E4M3_TILE_KERNEL
#undef SERVAL_INT4_TILE_KERNEL
#undef SERVAL_W8A8_TILE_KERNEL
#undef SERVAL_RANKS_KERNEL
#undef SERVAL_POOLING_KERNEL
  };
  static const DeviceIsa isa{choices, check_on_device, op_name, boxes_of};
  return isa;
}

}  // namespace serval

// The compiled kernels, and which programs each can run.
#include <array>
#include <string>

#include "instructions/device_isa.h"
#include "instructions/device_kernel.cuh"
#include "instructions/isa.h"

namespace serval {
namespace {

template <class Config>
DeviceKernelChoice choice() {
  return {device::compiled_kernel<Config, device::NoRecorder>(),
          device::compiled_kernel<Config, device::EventRecorder>(), Config::kRows,
          [](const Program& program) { return runs(Config::kTraits, program); }};
}

std::string check_on_device(const Program& program, const Instruction& instruction) {
  std::string wrong = check_instruction(program, instruction);
  if (!wrong.empty() || instruction.opcode != static_cast<uint16_t>(Opcode::kSample)) return wrong;
  const uint32_t rows = instruction.as<Sample>().num_rows;
  if (rows == 1) return "";
  return "num_rows: " + std::to_string(rows) + "; limit: 1 (the GPU's kernels sample a row an instance)";
}

}  // namespace

const DeviceIsa& device_isa() {
  static const std::array choices = {
#define SERVAL_KERNEL(Name, ...) choice<device::Name>(),
#include "instructions/kernels.def"
#undef SERVAL_KERNEL
  };
  static const DeviceIsa isa{choices, kernels().back().ring_pages, check_on_device, op_name};
  return isa;
}

}  // namespace serval

// Which kernels there are, and which programs each can run.
#include <algorithm>
#include <array>

#include "instructions/device_isa.h"
#include "instructions/device_kernel.cuh"
#include "instructions/isa.h"

namespace serval {

namespace {

// All attention has heads of this size.
template <uint32_t kHeadDim>
bool has_heads_of(const Program& program) {
  return std::ranges::all_of(program.instructions, [](const Instruction& i) {
    return i.opcode != static_cast<uint16_t>(Opcode::kAttention) || i.as<Attention>().head_dim == kHeadDim;
  });
}

template <class Config>
DeviceKernelChoice choice(bool (*runs)(const Program&)) {
  return {device::compiled_kernel<Config, device::NoRecorder>(),
          device::compiled_kernel<Config, device::EventRecorder>(), Config::kRows, runs};
}

}  // namespace

const DeviceIsa& device_isa() {
  static const std::array kernels = {choice<device::OneRowHeads64>(has_heads_of<64>),
                                     choice<device::OneRowHeads128>(has_heads_of<128>),
                                     choice<device::AnyPass>(nullptr)};
  static const DeviceIsa isa{kernels, device::AnyPass::kRingPages, check_instruction, op_name};
  return isa;
}

}  // namespace serval

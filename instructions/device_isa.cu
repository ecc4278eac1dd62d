// Which kernels there are, and which programs each can run.
#include <array>

#include "instructions/device_isa.h"
#include "instructions/device_kernel.cuh"
#include "instructions/isa.h"

namespace serval {

namespace {

template <class Config>
DeviceKernelChoice choice() {
  DeviceKernelChoice made{device::compiled_kernel<Config, device::NoRecorder>(),
                          device::compiled_kernel<Config, device::EventRecorder>(), Config::kRows, nullptr};
  if constexpr (Config::kHeadDim != 0)
    made.runs = [](const Program& program) { return has_heads_of(program, Config::kHeadDim); };
  return made;
}

}  // namespace

const DeviceIsa& device_isa() {
  static const std::array kernels = {choice<device::OneRowHeads64>(), choice<device::OneRowHeads128>(),
                                     choice<device::FourRows>(), choice<device::EightRows>(),
                                     choice<device::AnyPass>()};
  static const DeviceIsa isa{kernels, device::AnyPass::kRingPages, check_instruction, op_name};
  return isa;
}

}  // namespace serval

// The compiled kernels, and which programs each can run.
#include <array>

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

}  // namespace

const DeviceIsa& device_isa() {
  static const std::array choices = {
#define SERVAL_KERNEL(Name, ...) choice<device::Name>(),
#include "instructions/kernels.def"
#undef SERVAL_KERNEL
  };
  static const DeviceIsa isa{choices, kernels().back().ring_pages, check_instruction, op_name};
  return isa;
}

}  // namespace serval

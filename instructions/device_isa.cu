// The megakernel without a recorder, and the instruction set with both.
#include "instructions/device_isa.h"
#include "instructions/device_kernel.cuh"
#include "instructions/isa.h"

namespace serval {

const DeviceIsa& device_isa() {
  static const DeviceIsa isa{device::device_kernel<device::LlamaIsa, device::NoRecorder>(),
                             recording_device_kernel(), device::kRingPages, check_instruction, op_name};
  return isa;
}

}  // namespace serval

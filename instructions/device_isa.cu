// The one translation unit that compiles the megakernel: all instructions of isa.def.
#include "instructions/device_isa.h"
#include "instructions/isa.h"
#include "instructions/isa_devices.cuh"
#include "vm/device/launch_kernel.cuh"

namespace serval {
namespace {

using Llama = device::IsaList<device::matvec::Stream
#define SERVAL_OP(Type, folder, semantics) , Type
#include "instructions/isa.def"
#undef SERVAL_OP
                              >;

}  // namespace

const DeviceIsa& device_isa() {
  static const DeviceIsa isa{device::launch_kernel<Llama>, device::prepare_kernel<Llama>, device::kRingPages,
                             check_instruction, op_name};
  return isa;
}

}  // namespace serval

// All instructions of isa.def as the type that the megakernel is compiled for.
#pragma once

#include "instructions/isa_devices.cuh"
#include "vm/device/launch_kernel.cuh"

namespace serval {

namespace device {

using LlamaIsa = IsaList<matvec::Stream
#define SERVAL_OP(Type, folder, semantics) , Type
#include "instructions/isa.def"
#undef SERVAL_OP
                         >;

}  // namespace device

DeviceKernel recording_device_kernel();

}  // namespace serval

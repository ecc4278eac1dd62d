// The instruction set of the device interpreter, with the kernels that are compiled for it; linked only in
// builds with CUDA.
#pragma once

#include "vm/device/isa.h"

namespace serval {

const DeviceIsa& device_isa();

}  // namespace serval

// The instruction set for the device interpreter, with the kernels that are compiled for it; linked where the
// build has CUDA.
#pragma once

#include "vm/device/isa.h"

namespace serval {

const DeviceIsa& device_isa();

}  // namespace serval

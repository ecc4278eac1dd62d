// Which errors of a launch are faults of the device.
#pragma once

#include "vm/base/error.h"

namespace serval {

// Runs `call`, which asks a device for something during a launch. What it throws as Error(kRuntime) becomes
// Error(kDeviceFault), with the same line: CUDA reports that a kernel has failed (an illegal address, a
// memory error that ECC found) in whatever call comes next, and most of its errors last as long as the
// process. Memory that has run out is no fault.
template <typename Call>
void fault_on_error(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kRuntime) throw;
    throw Error(ErrorKind::kDeviceFault, error.what());
  }
}

}  // namespace serval

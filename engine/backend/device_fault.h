// Decides which errors of a launch are device faults.
#pragma once

#include "vm/base/error.h"

namespace serval {

// Runs `call`, which makes CUDA calls during a launch, and rethrows its Error(kRuntime) as
// Error(kDeviceFault) with the same line. CUDA reports a failed kernel (an illegal address, an uncorrectable
// memory error) in whatever call comes next, and most of its errors last until the process ends. Running out
// of memory is not a fault.
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

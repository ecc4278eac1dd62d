// An instruction set as the device interpreter's host side sees it.
#pragma once

#include <cstddef>
#include <string>

#include "vm/device/launch.h"
#include "vm/program.h"

namespace serval {

struct DeviceKernel {
  // Starts the kernel on `sms` SMs in `stream` (a cudaStream_t). Returns a cudaError_t.
  int (*launch)(const device::Launch& launch, unsigned sms, void* stream);
  // Raises the kernel's limit of shared memory; once for each GPU. Returns a cudaError_t.
  int (*prepare)();
};

struct DeviceIsa {
  DeviceKernel kernel;
  DeviceKernel recording_kernel;  // the same, which also records events
  unsigned pages;                 // of an SM's ring: what a program may be compiled for
  // Why a record may not run on this program ("" if it may).
  std::string (*check)(const Program&, const Instruction&);
  const char* (*name)(uint16_t opcode);
};

}  // namespace serval

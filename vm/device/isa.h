// An instruction set as the device interpreter's host side sees it.
#pragma once

#include <cstddef>
#include <span>
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

// A kernel that is compiled for some programs and passes.
struct DeviceKernelChoice {
  DeviceKernel plain;
  DeviceKernel recording;        // the same, which also records events; without functions: there is none
  unsigned rows;                 // that a pass may have
  bool (*runs)(const Program&);  // null: it runs every program
};

struct DeviceIsa {
  // The first that can run a pass does; the last can run all, of programs of up to as many rows.
  std::span<const DeviceKernelChoice> kernels;
  unsigned pages;  // of an SM's ring, at least: what a program may be compiled for
  // Why a record may not run on this program ("" if it may).
  std::string (*check)(const Program&, const Instruction&);
  const char* (*name)(uint16_t opcode);
};

}  // namespace serval

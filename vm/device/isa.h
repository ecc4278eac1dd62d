// An instruction set as the device interpreter's host side sees it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "vm/device/launch.h"
#include "vm/program.h"

namespace serval {

struct DeviceKernel {
  // Starts the kernel on `sms` SMs in `stream` (a cudaStream_t). Returns a cudaError_t.
  int (*launch)(const device::Launch& launch, unsigned sms, void* stream);
  // Raises the kernel's shared memory limit; call once on each GPU. Returns a cudaError_t.
  int (*prepare)();
};

// A kernel that is compiled for some programs and passes.
struct DeviceKernelChoice {
  DeviceKernel plain;
  DeviceKernel recording;  // the same kernel, recording events too; functions are null where there is none
  unsigned rows;           // largest number of rows of a pass
  unsigned pages;          // ring pages of an SM: most that a program may be compiled for
  bool (*runs)(const Program&);  // null: it runs every program
  bool single_rows = false;      // runs only launches with DeviceLaunch::single_rows
};

// Number of tensor maps reserved for each tensor.
inline constexpr uint32_t kMapsOfTensor = 2;

struct Boxes;  // in which a tensor is loaded; the architecture's own (vm/device/sm90/boxes.h)

struct DeviceIsa {
  // A launch uses the first kernel that can run its passes. Of the kernels that can run a program, the last
  // one takes the most rows.
  std::span<const DeviceKernelChoice> kernels;
  // Returns why a record may not run in this program, or "".
  std::string (*check)(const Program&, const Instruction&);
  const char* (*name)(uint16_t opcode);
  // Returns for each tensor the boxes in which GEMMs read it. May be null or return an empty vector: no
  // tensor is read in boxes.
  std::vector<Boxes> (*boxes)(const Program&) = nullptr;
};

}  // namespace serval

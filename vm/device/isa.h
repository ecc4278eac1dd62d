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

// The boxes in which the copy engine loads a tensor (vm/device/tensor_maps.h).
enum class BoxKind : uint8_t {
  kNone,
  kTiles,     // weights: the units of a tile; second map: half as many
  kPairs,     // weights: half a tile's units from this matrix and half from the partner
  kRows,      // fp32: 32 rows and 32 columns
  kKvBlocks,  // a KV cache: 64 channels of the tokens of a block and head; second map: of kKvBoxTokens tokens
  kQueries,   // bf16 vectors of head_dim channels: 64 channels of kQueriesOfBox vectors
};
inline constexpr uint32_t kKvBoxTokens = 16;
inline constexpr uint32_t kQueriesOfBox = 8;

struct Boxes {
  BoxKind kind = BoxKind::kNone;
  TensorId partner = {};  // kPairs only: a matrix of the same shape at a higher address
  uint32_t head_dim = 0;  // kQueries only
};

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

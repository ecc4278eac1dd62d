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
  // Raises the kernel's limit of shared memory; once for each GPU. Returns a cudaError_t.
  int (*prepare)();
};

// A kernel that is compiled for some programs and passes.
struct DeviceKernelChoice {
  DeviceKernel plain;
  DeviceKernel recording;        // the same, which also records events; without functions: there is none
  unsigned rows;                 // that a pass may have
  unsigned pages;                // of an SM's ring: what a program may be compiled for
  bool (*runs)(const Program&);  // null: it runs every program
  bool single_rows = false;      // only launches of which DeviceLaunch::single_rows says so
};

// Tensor maps that each tensor has room for.
inline constexpr uint32_t kMapsOfTensor = 2;

// In which boxes the copy engine brings a tensor (vm/device/tensor_maps.h).
enum class BoxKind : uint8_t {
  kNone,
  kTiles,     // weights: a tile's units; by the second map, half as many
  kPairs,     // weights: half as many, and as many of the partner
  kRows,      // fp32: 32 rows and columns
  kKvBlocks,  // a KV cache: 64 channels of a block's tokens of one head; by the second map, of kKvBoxTokens
  kQueries,   // bf16 vectors of head_dim channels: 64 channels of kQueriesOfBox
};
inline constexpr uint32_t kKvBoxTokens = 16;
inline constexpr uint32_t kQueriesOfBox = 8;

struct Boxes {
  BoxKind kind = BoxKind::kNone;
  TensorId partner = {};  // of kPairs: a matrix of the same shape that lies further on in memory
  uint32_t head_dim = 0;  // of kQueries
};

struct DeviceIsa {
  // The first that can run a pass does; of those that run a program, the last takes the most rows.
  std::span<const DeviceKernelChoice> kernels;
  // Why a record may not run on this program ("" if it may).
  std::string (*check)(const Program&, const Instruction&);
  const char* (*name)(uint16_t opcode);
  // Of each tensor, in which boxes GEMMs read it. May be null, or return nothing: none is read so.
  std::vector<Boxes> (*boxes)(const Program&) = nullptr;
};

}  // namespace serval

// The boxes in which the copy engine (TMA) loads tensors.
#pragma once

#include <cstdint>

#include "vm/instruction.h"

namespace serval {

// The boxes of a tensor (vm/device/sm90/tensor_maps.h).
enum class BoxKind : uint8_t {
  kNone,
  kTiles,     // weights: the units of a tile; second map: half as many
  kPairs,     // weights: half a tile's units from this matrix and half from the partner
  kRows,      // fp32: 32 rows and 32 columns
  kKvBlocks,  // a KV cache: 64 channels of the tokens of a block and head; second map: of kKvBoxTokens tokens
  kQueries,   // bf16 vectors of the channels of a head: 64 channels of kQueriesOfBox vectors
};
inline constexpr uint32_t kKvBoxTokens = 16;
inline constexpr uint32_t kQueriesOfBox = 8;

struct Boxes {
  BoxKind kind = BoxKind::kNone;
  TensorId partner = {};  // kPairs only: a matrix of the same shape at a higher address
};

}  // namespace serval

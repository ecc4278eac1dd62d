// How the copy engine finds what GEMMs read: a tensor map for each tensor that comes in boxes.
#pragma once

#include <cstddef>
#include <vector>

#include "vm/device/interpreter.h"
#include "vm/device/isa.h"
#include "vm/program.h"

namespace serval {

// A CUtensorMap; its address is a multiple of its size.
struct alignas(128) EncodedMap {
  std::byte encoding[128];
};

// Of page images of [rows, cols] weights: a row of 32-bit words for each unit, in boxes of `units` units and
// one slab (vm/layout/slab_image.h). Throws Error(kRuntime) where CUDA refuses.
EncodedMap map_of_weights(void* images, uint64_t rows, uint32_t cols, uint32_t units);
// The same of two matrices, whose boxes come together: half of the units of each. Throws besides where the
// second does not lie behind the first.
EncodedMap map_of_pairs(void* first, void* second, uint64_t rows, uint32_t cols, uint32_t units);
// Of fp32 [rows, cols]: boxes of 32 rows and 32 columns, whose rows of 128 bytes are swizzled. Throws
// likewise.
EncodedMap map_of_rows(void* values, uint64_t rows, uint64_t cols);
// Of bf16 vectors of head_dim channels: boxes of `box` vectors and 64 channels, swizzled likewise. Throws
// likewise.
EncodedMap map_of_heads(void* vectors, uint64_t count, uint32_t head_dim, uint32_t box);

// Of each of the program's tensors kMapsOfTensor; those that come in no boxes have nothing. Of at least one.
std::vector<EncodedMap> make_tensor_maps(const Program& program, const DeviceIsa& isa,
                                         const DeviceMemory& memory);

}  // namespace serval

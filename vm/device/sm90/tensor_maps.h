// Tensor maps, through which the copy engine loads what GEMMs read: one for each tensor that is loaded in
// boxes.
#pragma once

#include <cstddef>
#include <vector>

#include "vm/device/interpreter.h"
#include "vm/device/isa.h"
#include "vm/dtype.h"
#include "vm/program.h"

namespace serval {

// A CUtensorMap, aligned to its size.
struct alignas(128) EncodedMap {
  std::byte encoding[128];
};

// Page images of [rows, cols] weights, of type kBF16, kE4M3 or 4-bit integers.
struct WeightImages {
  void* base;
  DType dtype;
  uint64_t rows;
  uint32_t cols;
};
// Contents of a unit's box: the weights of one slab (vm/layout/slab_image.h), of 4-bit integers of two, or
// the words of a group.
enum class BoxContents : uint8_t { kWeights, kWords };
// Map of page images: one row of 32-bit words for each unit; boxes of `units` units. Throws Error(kRuntime)
// if CUDA refuses it.
EncodedMap map_of_weights(const WeightImages& images, uint32_t units,
                          BoxContents contents = BoxContents::kWeights);
// Map of two matrices of weights in one box: half of `units` from each. Also throws if the second does not
// lie at a higher address than the first.
EncodedMap map_of_pairs(const WeightImages& images, void* second, uint32_t units,
                        BoxContents contents = BoxContents::kWeights);
// Map of fp32 [rows, cols]: boxes of 32 rows and 32 columns, whose rows of 128 bytes are swizzled. Throws
// likewise.
EncodedMap map_of_rows(void* values, uint64_t rows, uint64_t cols);
// Map of bf16 vectors of head_dim channels: boxes of `box` vectors and 64 channels, swizzled likewise. Throws
// likewise.
EncodedMap map_of_heads(void* vectors, uint64_t count, uint32_t head_dim, uint32_t box);

// kMapsOfTensor maps for each of the program's tensors, at least one tensor's; zero for tensors that are not
// loaded in boxes. After them as many of the words of groups, for weights of 4-bit integers.
std::vector<EncodedMap> make_tensor_maps(const Program& program, const DeviceIsa& isa,
                                         const DeviceMemory& memory);

}  // namespace serval

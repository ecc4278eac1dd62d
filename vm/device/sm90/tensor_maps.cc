#include "vm/device/sm90/tensor_maps.h"

#include <algorithm>
#include <cstring>
#include <cuda.h>
#include <functional>

#include "vm/base/error.h"
#include "vm/device/sm90/boxes.h"
#include "vm/device/sm90/tensor_map_encoder.h"
#include "vm/layout/e4m3_image.h"
#include "vm/layout/int4_image.h"
#include "vm/layout/kv_cache.h"
#include "vm/layout/page_image.h"
#include "vm/layout/units.h"

namespace serval {
namespace {

static_assert(sizeof(EncodedMap) == sizeof(CUtensorMap));

constexpr uint32_t kBoxOfRows = 32;

constexpr uint32_t kBoxChannels = 64;  // 128 bytes

// One matrix with rows row_bytes apart, or two such matrices that are matrix_bytes apart.
struct Matrix {
  CUtensorMapDataType type;
  void* base;
  uint64_t rows, cols, row_bytes, matrix_bytes;  // matrix_bytes 0: one matrix
  uint32_t box_rows, box_cols;
  CUtensorMapSwizzle swizzle;
};

EncodedMap encode(const Matrix& m) {
  static const auto encoder = tensor_map_encoder();
  const cuuint64_t sizes[] = {m.cols, m.rows, 2}, strides[] = {m.row_bytes, m.matrix_bytes};
  const cuuint32_t box[] = {m.box_cols, m.box_rows, 2}, steps[] = {1, 1, 1};
  CUtensorMap map{};
  check_encoded(encoder(&map, m.type, m.matrix_bytes == 0 ? 2 : 3, m.base, sizes, strides, box, steps,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, m.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  EncodedMap out{};
  std::memcpy(&out, &map, sizeof out);
  return out;
}

uint64_t bytes_of_unit(DType dtype, uint32_t cols) {
  if (is_int4(dtype)) return int4_image::unit_bytes(cols, group_of(dtype));
  return dtype == DType::kE4M3 ? e4m3_image::unit_bytes(cols) : page_image::unit_bytes(cols);
}
// Bytes of a unit's box: a slab, of 4-bit integers a block of two, or the words of a group.
uint32_t bytes_of_box(DType dtype, BoxContents contents) {
  if (contents == BoxContents::kWords) return int4_image::kGroupBytes;
  if (is_int4(dtype)) return int4_image::kBlockBytes;
  return dtype == DType::kE4M3 ? e4m3_image::kPairBytes : 2 * page_image::kProductBytes;
}

Matrix images_of(const WeightImages& images, uint32_t units, BoxContents contents) {
  constexpr uint32_t kWord = sizeof(uint32_t);
  const auto [base, dtype, rows, cols] = images;
  const uint64_t unit_bytes = bytes_of_unit(dtype, cols);
  const uint32_t slab_bytes = bytes_of_box(dtype, contents);
  return {.type = CU_TENSOR_MAP_DATA_TYPE_UINT32,
          .base = base,
          .rows = (rows + kUnitRows - 1) / kUnitRows,
          .cols = unit_bytes / kWord,
          .row_bytes = unit_bytes,
          .matrix_bytes = 0,
          .box_rows = units,
          .box_cols = slab_bytes / kWord,
          .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE};
}

}  // namespace

EncodedMap map_of_weights(const WeightImages& images, uint32_t units, BoxContents contents) {
  return encode(images_of(images, units, contents));
}

EncodedMap map_of_pairs(const WeightImages& images, void* second, uint32_t units, BoxContents contents) {
  Matrix both = images_of(images, units / 2, contents);
  void* const first = images.base;
  if (std::less<>()(second, first) || first == second) {
    throw Error(ErrorKind::kRuntime,
                "program: of two matrices that are multiplied together, the second must lie "
                "at a higher address in GPU memory than the first");
  }
  both.matrix_bytes = static_cast<uint64_t>(static_cast<std::byte*>(second) - static_cast<std::byte*>(first));
  return encode(both);
}

EncodedMap map_of_rows(void* values, uint64_t rows, uint64_t cols) {
  return encode({.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                 .base = values,
                 .rows = rows,
                 .cols = cols,
                 .row_bytes = cols * sizeof(float),
                 .matrix_bytes = 0,
                 .box_rows = kBoxOfRows,
                 .box_cols = kBoxOfRows,
                 .swizzle = CU_TENSOR_MAP_SWIZZLE_128B});
}

EncodedMap map_of_heads(void* vectors, uint64_t count, uint32_t head_dim, uint32_t box) {
  return encode({.type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                 .base = vectors,
                 .rows = count,
                 .cols = head_dim,
                 .row_bytes = head_dim * sizeof(uint16_t),
                 .matrix_bytes = 0,
                 .box_rows = box,
                 .box_cols = kBoxChannels,
                 .swizzle = CU_TENSOR_MAP_SWIZZLE_128B});
}

std::vector<EncodedMap> make_tensor_maps(const Program& program, const DeviceIsa& isa,
                                         const DeviceMemory& memory) {
  const std::vector<Boxes> boxes = isa.boxes == nullptr ? std::vector<Boxes>() : isa.boxes(program);
  const size_t of_all = std::max<size_t>(boxes.size(), 1) * kMapsOfTensor;
  std::vector<EncodedMap> maps(2 * of_all);
  for (uint32_t t = 0; t < boxes.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    void* const base = memory.base({t});
    const WeightImages images{base, tensor.dtype, tensor.rows, static_cast<uint32_t>(tensor.cols)};
    EncodedMap& map = maps[size_t{t} * kMapsOfTensor];
    EncodedMap& words = maps[of_all + size_t{t} * kMapsOfTensor];
    const bool has_words = is_int4(tensor.dtype);
    switch (boxes[t].kind) {
      case BoxKind::kNone:
        break;
      case BoxKind::kTiles:
        map = map_of_weights(images, kTileUnits);
        (&map)[1] = map_of_weights(images, kTileUnits / 2);
        if (!has_words) break;
        words = map_of_weights(images, kTileUnits, BoxContents::kWords);
        (&words)[1] = map_of_weights(images, kTileUnits / 2, BoxContents::kWords);
        break;
      case BoxKind::kPairs:
        map = map_of_pairs(images, memory.base(boxes[t].partner), kTileUnits);
        if (has_words)
          words = map_of_pairs(images, memory.base(boxes[t].partner), kTileUnits, BoxContents::kWords);
        break;
      case BoxKind::kKvBlocks: {
        const uint64_t tokens = tensor.rows / tensor.head_dim * tensor.cols;  // of all blocks and heads
        map = map_of_heads(base, tokens, tensor.head_dim, kKvBlockTokens);
        (&map)[1] = map_of_heads(base, tokens, tensor.head_dim, kKvBoxTokens);
        break;
      }
      case BoxKind::kQueries:
        map = map_of_heads(base, tensor.rows * tensor.cols / program.heads.head_dim, program.heads.head_dim,
                           kQueriesOfBox);
        break;
      case BoxKind::kRows:
        map = map_of_rows(base, tensor.rows, tensor.cols);
        break;
    }
  }
  return maps;
}

}  // namespace serval

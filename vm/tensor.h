// A program's tensors: what they are called, how large they are and what may write them. No memory is
// attached here.
#pragma once

#include <cstdint>
#include <string>

#include "vm/dtype.h"

namespace serval {

enum class TensorKind : uint8_t {
  kWeight = 0,      // immutable, from the checkpoint, found by its name there
  kConstant = 1,    // immutable, computed from the model's shape (the RoPE table)
  kActivation = 2,  // lives within a pass
  kKvCache = 3,     // lives across passes
  kState = 4,       // part of the state block (vm/state/block.h)
};
inline constexpr int kNumTensorKinds = 5;

constexpr bool is_immutable(TensorKind kind) {
  return kind == TensorKind::kWeight || kind == TensorKind::kConstant;
}

// How a tensor lies in a GPU's memory. The host interpreter holds caches as a GPU does and all else
// row-major.
enum class Image : uint8_t {
  kRowMajor = 0,
  kPages = 1,       // matrices of weights: vm/layout/page_image.h
  kActivation = 2,  // what products of few rows read: vm/layout/activation_image.h
  kSlabs = 3,       // what GEMMs read: vm/layout/slab_image.h
  kKvBlocks = 4,    // caches: vm/layout/kv_cache.h
};
inline constexpr int kNumImages = 5;

template <>
struct EnumNames<Image> {
  static constexpr EnumName<Image> kTable[] = {{Image::kRowMajor, "row-major"},
                                               {Image::kPages, "pages"},
                                               {Image::kActivation, "activation"},
                                               {Image::kSlabs, "slabs"},
                                               {Image::kKvBlocks, "kv-blocks"}};
};

// Of all tensors of a kind but those that products read: matrices of weights are pages, vectors are not.
constexpr Image image_of(TensorKind kind, uint64_t rows) {
  if (kind == TensorKind::kKvCache) return Image::kKvBlocks;
  return kind == TensorKind::kWeight && rows > 1 ? Image::kPages : Image::kRowMajor;
}

// The order in which a weight's rows are packed into page images. Row-major hosts ignore it.
enum class RowOrder : uint8_t {
  kSequential = 0,
  kRotaryPairs = 1,  // within each head of `head_dim` rows: 0, head_dim/2, 1, head_dim/2 + 1, …
};

// A matrix of `rows` × `cols` elements. A KV cache's row is (KV head × head_dim + channel), its column (block
// × kKvBlockTokens + token in block).
struct Tensor {
  std::string name;
  uint64_t rows = 0;
  uint64_t cols = 0;
  DType dtype = DType::kF32;  // the storage type
  TensorKind kind = TensorKind::kActivation;
  Image image = Image::kRowMajor;
  RowOrder row_order = RowOrder::kSequential;
  uint8_t device = 0;
  uint32_t head_dim = 0;  // channels of a head where the tensor has heads, else 0

  // Of its elements alone; vm/stored_bytes.h has what its image takes.
  uint64_t bytes() const { return rows * cols * size_of(dtype); }
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

// Whether two tensors have the same shape, storage type, kind and image.
inline bool same_layout(const Tensor& a, const Tensor& b) {
  return a.rows == b.rows && a.cols == b.cols && a.dtype == b.dtype && a.kind == b.kind && a.image == b.image;
}

}  // namespace serval

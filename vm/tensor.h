// A program's tensors: their names, sizes and kinds. No memory is attached here.
#pragma once

#include <cstdint>
#include <string>

#include "vm/dtype.h"
#include "vm/layout/row_bytes.h"

namespace serval {

enum class TensorKind : uint8_t {
  kWeight = 0,      // immutable, from the checkpoint, found by its name there
  kConstant = 1,    // immutable, computed from the model's shape (the RoPE table)
  kActivation = 2,  // valid within a pass
  kKvCache = 3,     // kept across passes
  kState = 4,       // part of the state block (vm/state/block.h)
};
inline constexpr int kNumTensorKinds = 5;

constexpr bool is_immutable(TensorKind kind) {
  return kind == TensorKind::kWeight || kind == TensorKind::kConstant;
}

// Layout of a tensor in a GPU's memory. The host interpreter stores caches as a GPU does and everything else
// row-major.
enum class Image : uint8_t {
  kRowMajor = 0,
  kPages = 1,       // weight matrices: vm/layout/page_image.h
  kActivation = 2,  // inputs of products of few rows: vm/layout/activation_image.h
  kSlabs = 3,       // inputs of GEMMs: vm/layout/slab_image.h
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

// Image of all tensors of a kind except inputs of products: weight matrices are pages, vectors are not.
constexpr Image image_of(TensorKind kind, uint64_t rows) {
  if (kind == TensorKind::kKvCache) return Image::kKvBlocks;
  return kind == TensorKind::kWeight && rows > 1 ? Image::kPages : Image::kRowMajor;
}

// Order in which a weight's rows are packed into page images. It does not apply to row-major tensors.
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
  uint32_t head_dim = 0;  // channels of a head; 0 for tensors without heads

  // Bytes of its elements and scales, row-major; for its image see vm/stored_bytes.h.
  uint64_t bytes() const { return rows * row_bytes_of(dtype, cols); }
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

// True for activations that are codes with a scale for each row (vm/layout/e4m3_rows.h).
inline bool has_input_scales(const Tensor& tensor) {
  return tensor.kind == TensorKind::kActivation && tensor.dtype == DType::kE4M3;
}

// True if two tensors have the same shape, storage type, kind and image.
inline bool same_layout(const Tensor& a, const Tensor& b) {
  return a.rows == b.rows && a.cols == b.cols && a.dtype == b.dtype && a.kind == b.kind && a.image == b.image;
}

}  // namespace serval

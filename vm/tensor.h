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

// The order in which a weight's rows are packed into page images. Row-major hosts ignore it.
enum class RowOrder : uint8_t {
  kSequential = 0,
  kRotaryPairs = 1,  // within each head of `head_dim` rows: 0, head_dim/2, 1, head_dim/2 + 1, …
};

// A matrix of `rows` × `cols` elements, row-major in memory, except a KV cache: its row is (KV head ×
// head_dim + channel), its column (block × kKvBlockTokens + token in block), and its memory order is
// vm/layout/kv_cache.h's.
struct Tensor {
  std::string name;
  uint64_t rows = 0;
  uint64_t cols = 0;
  DType dtype = DType::kF32;
  TensorKind kind = TensorKind::kActivation;
  RowOrder row_order = RowOrder::kSequential;
  uint8_t device = 0;
  uint32_t head_dim = 0;  // channels of a head where the tensor has heads, else 0

  uint64_t bytes() const { return rows * cols * size_of(dtype); }
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

}  // namespace serval

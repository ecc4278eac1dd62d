// The operands that a record multiplies, which its instruction names in op.h
// (instructions/product/product.h), as device code reads them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instructions/common/footprint.h"
#include "instructions/product/product.h"
#include "vm/device/record.cuh"
#include "vm/device/typed_address.cuh"
#include "vm/state/rows.h"

namespace serval::device {

// How an instruction with a product runs on the GPU: a specialisation in its folder's product.cuh.
//
//   epilogue(role, op)    processes the results: an epilogue (instructions/product/epilogues)
//
// An epilogue finishes an output tile of each order that it has code for:
//
//   one output a lane, in vector orders (orders/vector_stream.cuh)
//     Fetched                             values that storing an output needs besides its sums
//     fetch_constant(role, output)        Fetched, from memory that nothing writes during the pass
//     fetch_written(role, output, f)      optional: adds values that are ready only with the inputs
//     store(role, output, sums, f)        called by all lanes, whether the output is wanted or not
//   128 rows of weights × a tile of tokens (orders/sm90/tile_stream.cuh)
//     finish_tile(role, tile, d)          processes the sums of a tile, or of each half of a wide tile
//     add_part(role, tile, d)             optional: processes the sums of a K split that is not the last
//     kHasWideTiles                       optional: finish_tile() takes halves of wide tiles
template <class Op>
struct ProductOp;

// The activations that a record multiplies.
struct ProductInput {
  const std::byte* activations;  // an image
  const float* squares;          // sums of squares of the residual, if rows must be normalised, or null
  float epsilon;                 // if there are squares
  bool logits_only;              // only rows that want logits have results

  __device__ __forceinline__ bool wants(const PassRow& row) const {
    return contains(computed_rows(logits_only), row);
  }
};

template <HasProduct Op>
__device__ __forceinline__ ProductInput input_of(const RecordBuffer& buffer, const Op& op,
                                                 const ProgramShape& program) {
  ProductInput input{.activations = without_type(tensor<Op::kInput, const std::byte>(buffer)),
                     .squares = nullptr,
                     .epsilon = 0,
                     .logits_only = product(op, program).logits_only};
  if constexpr (requires { Op::kInputSquares; }) {
    input.squares = tensor<Op::kInputSquares, const float>(buffer);
    input.epsilon = op.epsilon;
  }
  return input;
}

// Weight tensor `which` of Op::kWeights, with its format's number in the address (vm/device/typed_address.h).
template <HasProduct Op>
__device__ __forceinline__ const std::byte* typed_weights(const RecordBuffer& buffer, uint32_t which) {
  constexpr size_t kCount = Op::kWeights.size();
  static_assert(kCount >= 1 && kCount <= 3);
  if constexpr (kCount > 1) {
    if (which == 1) return tensor<Op::kWeights[1], const std::byte>(buffer);
  }
  if constexpr (kCount > 2) {
    if (which == 2) return tensor<Op::kWeights[2], const std::byte>(buffer);
  }
  return tensor<Op::kWeights[0], const std::byte>(buffer);
}
template <HasProduct Op>
__device__ __forceinline__ TensorId weight_tensor(const Op& op, uint32_t which) {
  constexpr size_t kCount = Op::kWeights.size();
  if constexpr (kCount > 1) {
    if (which == 1) return op.*Op::kWeights[1];
  }
  if constexpr (kCount > 2) {
    if (which == 2) return op.*Op::kWeights[2];
  }
  return op.*Op::kWeights[0];
}

}  // namespace serval::device

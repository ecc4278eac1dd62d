// Kernels that fill GPU memory when a model is loaded. Plain C++ header; linked in builds with CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <string>

#include "vm/tensor.h"

namespace serval {

// The row granularity of slices of `weight`: a unit of its image, or a whole head if the image mixes the
// head's rows.
uint32_t slice_rows(const Tensor& weight);

// Packs rows [first_row, first_row + num_rows) of `weight` into its page image, quantised as quantise_rows()
// does if the weight is in codes. `rows` are these rows, row-major, in GPU memory aligned to 16 bytes;
// `image` is the beginning of the whole weight's image. first_row is a multiple of slice_rows(weight), and so
// is num_rows unless the weight ends there. The weight's columns are a multiple of kTileDim.
void pack_rows(const Tensor& weight, uint64_t first_row, uint64_t num_rows, const uint16_t* rows,
               std::byte* image, cudaStream_t stream);

// As above, for a weight whose rows the checkpoint has as codes: packs them as they are. `rows`: [num_rows]
// of row_bytes_of(dtype, cols) (vm/layout/weight_rows.h).
void pack_code_rows(const Tensor& weight, uint64_t first_row, uint64_t num_rows, const uint8_t* rows,
                    std::byte* image, cudaStream_t stream);

// The position of a weight's elements in the whole matrix of its name, of which the weight may be a part.
struct MatrixPart {
  uint64_t first_row = 0, first_col = 0;  // first_col: a multiple of 8
  uint64_t matrix_cols = 0;
};
// Makes the page image of this part of the random matrix with this name and seed (docs/random_weights.md).
void pack_random(const Tensor& weight, const std::string& name, const MatrixPart& part, uint64_t seed,
                 std::byte* image, cudaStream_t stream);

// fill_random_matrix() of random_weights.h from element 0, into GPU memory aligned to 16 bytes. `count` is a
// multiple of 8.
void fill_random(uint16_t* out, uint64_t count, uint64_t key, float scale, cudaStream_t stream);

}  // namespace serval

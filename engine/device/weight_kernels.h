// Kernels that fill GPU memory when a model is loaded. Plain C++; linked where the build has CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

#include "vm/tensor.h"

namespace serval {

// Rows that a slice of `weight` begins and ends at: a unit of its image, or a whole head where the image
// mixes the head's rows.
uint32_t slice_rows(const Tensor& weight);

// Packs rows [first_row, first_row + num_rows) of `weight` into its page image. `rows`: these rows,
// row-major, in GPU memory aligned to 16 bytes; `image`: where the whole weight's image begins. first_row is
// a multiple of slice_rows(weight), and so is num_rows unless the weight ends there. The weight's columns are
// a multiple of kTileDim.
void pack_rows(const Tensor& weight, uint64_t first_row, uint64_t num_rows, const uint16_t* rows,
               std::byte* image, cudaStream_t stream);

// Where a weight's elements are in the whole matrix of its name, of which it may be a part.
struct MatrixPart {
  uint64_t first_row = 0, first_col = 0;  // first_col: a multiple of 8
  uint64_t matrix_cols = 0;
};
// The page image of such a part of the random matrix of that name and seed (docs/random_weights.md).
void pack_random(const Tensor& weight, const MatrixPart& part, uint64_t seed, std::byte* image,
                 cudaStream_t stream);

// fill_random_matrix() of random_weights.h, from element 0, in GPU memory aligned to 16 bytes. `count` is a
// multiple of 8.
void fill_random(uint16_t* out, uint64_t count, uint64_t key, float scale, cudaStream_t stream);

}  // namespace serval

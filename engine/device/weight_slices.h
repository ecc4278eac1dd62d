// Divides weights into slices for the upload to the GPUs that share a model. Plain C++, also in builds
// without CUDA.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/checkpoint/weight_source.h"
#include "models/ranks.h"

namespace serval {

// Slices are whole rows of the source's matrices, at most rows_of_slice[i] rows of weights[i]; i is the
// piece's `tensor`. The ranks' slices alternate: slices are uploaded in this order, many at a time. A matrix
// has more slices for one rank than that, so without alternation only one or two buses would be in use.
std::vector<WeightPiece> cut_into_slices(std::span<const RankWeight> weights,
                                         std::span<const int64_t> rows_of_slice);

// Number of the slice's elements that belong to the rank.
int64_t elements_of_slice(const RankWeight& weight, const WeightPiece& slice);

// Reads these elements, row by row without gaps. `tensor` is the weight's index in the source. Throws as the
// source's read() and require_finite().
void read_slice(const WeightSource& source, size_t tensor, const RankWeight& weight, const WeightPiece& slice,
                std::span<uint16_t> out);

}  // namespace serval

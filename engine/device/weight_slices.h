// How weights are cut up on their way to the GPUs that share a model. Plain C++: it is the same in builds
// without CUDA.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/checkpoint/weight_source.h"
#include "models/ranks.h"

namespace serval {

// Whole rows of the source's matrices, at most rows_of_slice[i] of them for weights[i], whose index is the
// piece's `tensor`. The ranks' slices take turns: slices are brought in this order, many at a time, and a
// matrix has more than that for one rank, so that without turns one or two of the buses were in use.
std::vector<WeightPiece> cut_into_slices(std::span<const RankWeight> weights,
                                         std::span<const int64_t> rows_of_slice);

// Elements that the rank has of a slice's rows.
int64_t elements_of_slice(const RankWeight& weight, const WeightPiece& slice);

// These elements, row by row without gaps. `tensor`: the weight's index in the source. Throws as the source's
// read() and require_finite().
void read_slice(const WeightSource& source, size_t tensor, const RankWeight& weight, const WeightPiece& slice,
                std::span<uint16_t> out);

}  // namespace serval

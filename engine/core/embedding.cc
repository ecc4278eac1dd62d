#include "engine/core/embedding.h"

#include <cmath>

namespace serval {

PooledPositions pooled_positions(Pooling pooling, uint32_t length) {
  switch (pooling) {
    case Pooling::kLast:
      return {length - 1, length};
    case Pooling::kCls:
      return {0, 1};
    case Pooling::kMean:
      break;
  }
  return {0, length};
}

std::vector<float> embedding_of(std::span<const float> pooled, const PoolingConfig& config, uint32_t length,
                                uint32_t dimensions) {
  const double terms = config.pooling == Pooling::kMean ? length : 1;
  double divisor = terms;
  if (config.normalize) {
    double squares = 0;
    for (const float value : pooled.first(dimensions)) squares += double{value} * value;
    divisor = squares > 0 ? std::sqrt(squares) : 1;  // the number of terms cancels out
  }
  std::vector<float> embedding;
  embedding.reserve(dimensions);
  for (const float value : pooled.first(dimensions)) embedding.push_back(static_cast<float>(value / divisor));
  return embedding;
}

}  // namespace serval

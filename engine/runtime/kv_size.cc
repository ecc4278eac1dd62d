#include "engine/runtime/kv_size.h"

#include <algorithm>
#include <limits>

#include "fmt/format.h"

#include "models/ranks.h"
#include "vm/layout/kv_cache.h"

namespace serval {
namespace {

uint64_t bytes_beside_weights(const ModelBytes& model, uint64_t free_bytes) {
  return free_bytes - std::min(free_bytes, model.weights);
}

}  // namespace

ModelBytes bytes_of_model(const Model& model, uint32_t ranks) {
  return {static_cast<uint64_t>(model.weight_bytes()),
          static_cast<uint64_t>(kv_bytes_per_token_of_rank(model, ranks)) * ranks};
}

ModelBytes bytes_of_rank(const Model& model, uint32_t ranks) {
  int64_t weights = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    weights = std::max(weights, weight_bytes_of_rank(model, rank, ranks));
  return {static_cast<uint64_t>(weights), static_cast<uint64_t>(kv_bytes_per_token_of_rank(model, ranks))};
}

uint64_t kv_tokens_beside_weights(const ModelBytes& model, uint64_t free_bytes) {
  return bytes_beside_weights(model, free_bytes) / model.kv_of_token;
}

uint32_t kv_blocks_of(const EngineOptions& options, const ModelBytes& model, int context,
                      uint64_t free_bytes) {
  const bool is_share = options.kv_cache_share > 0;
  if (options.kv_cache_memory == 0 && !is_share) return 0;
  const uint64_t bytes =
      is_share ? static_cast<uint64_t>(options.kv_cache_share *
                                       static_cast<double>(bytes_beside_weights(model, free_bytes)))
               : options.kv_cache_memory;
  const uint64_t block_bytes = model.kv_of_token * kKvBlockTokens;
  const uint32_t needed = blocks_for_tokens(static_cast<uint32_t>(context));
  const uint64_t blocks = bytes / block_bytes;
  if (blocks < needed) {
    throw Error(ErrorKind::kOutOfMemory,
                fmt::format("kv_cache_memory: {} bytes; limit: {} or more (a context of {} tokens)", bytes,
                            needed * block_bytes, context));
  }
  constexpr uint64_t kMostBlocks = std::numeric_limits<int32_t>::max() / kKvBlockTokens;
  return static_cast<uint32_t>(std::min(blocks, kMostBlocks));
}

}  // namespace serval

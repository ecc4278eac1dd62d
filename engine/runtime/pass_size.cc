#include "engine/runtime/pass_size.h"

#include <algorithm>

#include "fmt/format.h"

#include "engine/compile/gpu_programs.h"
#include "vm/base/error.h"
#include "vm/dtype.h"
#include "vm/layout/kv_cache.h"
#include "vm/state/attention.h"

namespace serval {
namespace {

// For memory that does not depend on the shape: the state block, and staging buffers for weights.
constexpr uint64_t kReserve = uint64_t{512} << 20;
constexpr uint64_t kF32 = 4, kBf16 = 2;
// Limit of partial sums over columns (instructions/common/column_parts.h).
constexpr uint64_t kPartSums = 4;

// An upper bound: some models lack some of these.
uint64_t bytes_of_row(const Model& model) {
  const auto hidden = static_cast<uint64_t>(model.hidden_size);
  const auto queries = static_cast<uint64_t>(model.num_heads) * static_cast<uint64_t>(model.head_dim);
  const auto keys = static_cast<uint64_t>(model.num_kv_heads) * static_cast<uint64_t>(model.head_dim);
  const uint64_t residual = hidden * (kF32 + kBf16 + kF32), sums = kPartSums * hidden * kF32;
  const uint64_t projected = (queries + 2 * keys) * kF32, attention = 2 * queries * kBf16;
  const auto intermediate = static_cast<uint64_t>(model.intermediate_size);
  const uint64_t codes = model.formats.e4m3_inputs ? hidden + queries + intermediate : 0;
  return residual + sums + projected + attention + intermediate * kBf16 + codes;
}

uint64_t bytes_of_all_rows(const Model& model) {
  const uint64_t logits = uint64_t{kMostLogitRows} * static_cast<uint64_t>(model.vocab_size) * kF32;
  const auto group = static_cast<uint64_t>(model.num_heads / model.num_kv_heads);
  const uint64_t partial =
      uint64_t{kAttentionPlaces} * group * (static_cast<uint64_t>(model.head_dim) + 2) * kF32;
  return logits + partial + kReserve;
}

// Sequences that generate wait for the prompts in their pass, so passes of a large model have fewer tokens. A
// GPU multiplies at about 600 TFLOP/s.
uint32_t tokens_of_short_pass(uint64_t weight_bytes, DType layers) {
  constexpr double kMostOperations = 1.5e14;
  const double of_token = 2 * (static_cast<double>(weight_bytes) * 8 / bits_of(layers));
  uint32_t tokens = kMostGpuTokens;
  while (tokens > kLeastGpuTokens && tokens * of_token > kMostOperations) tokens /= 2;
  return tokens;
}

uint64_t tokens_of_cache(const ProgramLimits& limits) {
  return uint64_t{limits.kv_blocks()} * kKvBlockTokens;
}

}  // namespace

uint32_t gpu_batch_tokens(const Model& model, const ModelBytes& bytes, const ProgramLimits& limits,
                          uint64_t free_bytes) {
  const uint32_t least = limits.slots();
  if (!can_multiply_tiles(model, limits.ranks)) return least;
  const uint64_t cached_tokens = tokens_of_cache(limits);
  const uint64_t cache = cached_tokens * bytes.kv_of_token;
  const uint64_t taken = bytes.weights + cache + bytes_of_all_rows(model);
  const uint64_t left = free_bytes - std::min(free_bytes, taken);
  uint32_t tokens = tokens_of_short_pass(bytes.weights, model.formats.layers);
  while (tokens > kDefaultRows && (tokens > cached_tokens || tokens * bytes_of_row(model) > left))
    tokens /= 2;
  return std::max(tokens, least);
}

void check_pass_size(const EngineOptions& options, const ProgramLimits& limits) {
  const uint64_t most = tokens_of_cache(limits);
  if (limits.pass_rows() <= most) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: {}; limit: {} (the tokens of the KV cache: {} blocks of {})",
                          options.max_batch_tokens > 0 ? "max_batch_tokens" : "max_sequences",
                          limits.pass_rows(), most, limits.kv_blocks(), kKvBlockTokens));
}

}  // namespace serval

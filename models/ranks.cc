#include "models/ranks.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <string>
#include <utility>

#include "instructions/common/slices.h"
#include "vm/base/error.h"
#include "vm/layout/units.h"

namespace serval {
namespace {

void require_multiple(const char* field, int value, uint32_t of, uint32_t ranks) {
  if (static_cast<uint32_t>(value) % of == 0) return;
  const std::string expected = of == ranks ? fmt::format("a multiple of {}", ranks)
                                           : fmt::format("a multiple of {} × {}", ranks, of / ranks);
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: {}; expected {} to share it among {} GPUs", field, value, expected, ranks));
}

// Instructions of several ranks read the table as a page image, and a matrix of one row has none
// (vm/tensor.h).
void require_no_single_token(uint32_t vocab, uint32_t ranks) {
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (vocabulary_share(vocab, rank, ranks).count != 1) continue;
    throw Error(ErrorKind::kUsage,
                fmt::format("vocab_size: {}; expected a size that leaves none of {} GPUs a single token",
                            vocab, ranks));
  }
}

struct Range {
  int64_t first, count;
};

// The range of `size` elements that a rank holds, in whole pieces. If there are fewer pieces than ranks,
// ranks share pieces: each has at least one.
Range share_of(int64_t size, const WeightSpec& spec, uint32_t rank, uint32_t ranks) {
  const int64_t pieces = (size + spec.piece - 1) / spec.piece;
  const PieceRange own = pieces_of_rank(static_cast<uint64_t>(pieces), rank, ranks);
  const auto begin = static_cast<int64_t>(own.begin),
             end = std::max(begin + 1, static_cast<int64_t>(own.end));
  return {begin * spec.piece, std::min(end * spec.piece, size) - begin * spec.piece};
}

}  // namespace

void check_ranks(const ModelShape& model, uint32_t ranks) {
  if (ranks < 1 || ranks > kMaxDevices)
    throw Error(ErrorKind::kUsage, fmt::format("gpus: {}; limit: 1 to {}", ranks, kMaxDevices));
  if (ranks == 1) return;
  require_multiple("num_attention_heads", model.num_heads, ranks, ranks);
  const auto kv_heads = static_cast<uint32_t>(model.num_kv_heads);
  if (kv_heads % ranks != 0 && ranks % kv_heads != 0) {
    throw Error(ErrorKind::kUsage,
                fmt::format("num_key_value_heads: {}; expected a multiple or a divisor of {} to "
                            "share them among as many GPUs",
                            kv_heads, ranks));
  }
  require_multiple("hidden_size", model.hidden_size, ranks * kTileDim, ranks);
  require_multiple("intermediate_size", model.intermediate_size, ranks * kTileDim, ranks);
  require_no_single_token(static_cast<uint32_t>(model.vocab_size), ranks);
}

WeightPart part_of_rank(const WeightSpec& spec, uint32_t rank, uint32_t ranks) {
  WeightPart part{0, spec.rows, 0, spec.cols};
  if (ranks == 1 || spec.split == WeightSplit::kNone) return part;
  if (spec.split == WeightSplit::kRows) {
    const Range share = share_of(spec.rows, spec, rank, ranks);
    part.first_row = share.first;
    part.rows = share.count;
  } else {
    const Range share = share_of(spec.cols, spec, rank, ranks);
    part.first_col = share.first;
    part.cols = share.count;
  }
  return part;
}

std::vector<RankWeight> weights_of_ranks(const Model& model, const Program& program) {
  std::map<std::string, WeightSpec> specs;
  for (WeightSpec& spec : model.weights()) specs.emplace(spec.name, std::move(spec));
  std::vector<RankWeight> weights;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.kind != TensorKind::kWeight) continue;
    const WeightSpec& spec = specs.at(tensor.name);
    weights.push_back(
        {&tensor, part_of_rank(spec, tensor.device, program.num_devices), spec.cols, spec.source_name()});
  }
  return weights;
}

int64_t weight_bytes_of_rank(const Model& model, uint32_t rank, uint32_t ranks) {
  int64_t bytes = 0;
  for (const WeightSpec& spec : model.weights()) {
    const WeightPart part = part_of_rank(spec, rank, ranks);
    bytes += bytes_of_weights(spec.dtype, part.rows, part.cols);
  }
  return bytes;
}

int64_t kv_bytes_per_token_of_rank(const ModelShape& model, uint32_t ranks) {
  const auto kv_heads = static_cast<uint32_t>(model.num_kv_heads);
  return model.kv_bytes_per_token() / kv_heads * kv_heads_of_rank(kv_heads, ranks);
}

}  // namespace serval

#include "tests/prove/programs.h"

#include <algorithm>
#include <numeric>

#include "instructions/planned_attention/plan_launch.h"
#include "models/llama/graph.h"
#include "tests/scheduler/graphs.h"
#include "vm/layout/kv_cache.h"
#include "vm/state/attention.h"

namespace serval::testing {
namespace {

// Attention of sequences that may have two leaves is merged.
constexpr uint32_t kTwoLeaves = kPlannedLeafTokens + 100;
// The block table and the masks have one shape.
constexpr uint32_t kBlocksOfMasks = 32;

Program tiles_of_ranks(const LlamaConfig& config, uint32_t ranks, uint32_t sms, uint32_t rows) {
  const Graph graph = build_llama_graph(
      config, {.sms = sms, .context = kTwoLeaves, .rows = rows, .tile_rows = 32, .ranks = ranks});
  return compile_as(graph, {Policy::kList, QueueKind::kPerSm, sms});
}

}  // namespace

const std::vector<Program>& small_programs() {
  static const std::vector<Program> programs = [] {
    std::vector<Program> out;
    for (const uint32_t context : {200U, 512U, 700U}) {
      for (const uint32_t sms : {1U, 2U, 3U, 7U}) {
        LlamaConfig config = tiny_config();
        config.num_layers = sms == 3 ? 3 : 2;
        const uint32_t rows = sms == 2 ? 48 : sms == 7 ? 2 : kDefaultRows;
        const Graph graph = build_llama_graph(config, {.sms = sms, .context = context, .rows = rows});
        for (const Compilation& how : compilations_for(sms)) out.push_back(compile_as(graph, how));
      }
    }
    for (const uint32_t sms : {2U, 7U}) {
      const uint32_t context = sms == 2 ? 200 : kTwoLeaves;
      const Graph graph = build_llama_graph(tiny_parts_config(),
                                            {.sms = sms, .context = context, .rows = 17, .tile_rows = 32});
      for (const Compilation& how : compilations_for(sms)) out.push_back(compile_as(graph, how));
    }
    // With head norms: programs of single rows, and of tiles.
    for (const uint32_t tile_rows : {0U, 32U}) {
      const uint32_t sms = tile_rows == 0 ? 3 : 2;
      const Graph graph = build_llama_graph(tiny_shared_head_norms_config(),
                                            {.sms = sms, .context = 200, .rows = 17, .tile_rows = tile_rows});
      for (const Compilation& how : compilations_for(sms)) out.push_back(compile_as(graph, how));
    }
    // With activations in e4m3.
    LlamaConfig quantises = tiny_e4m3_inputs_config();
    quantises.num_layers = 1;
    const Graph of_codes =
        build_llama_graph(quantises, {.sms = 2, .context = 200, .rows = 72, .tile_rows = 32});
    for (const Compilation& how : compilations_for(2)) out.push_back(compile_as(of_codes, how));
    // Programs of one row in tile order; the first has as many blocks of a sequence as a mask has words.
    for (const uint32_t context : {kBlocksOfMasks * kKvBlockTokens, kTwoLeaves}) {
      const uint32_t sms = context == kTwoLeaves ? 7 : 2;
      const Graph graph = build_llama_graph(tiny_parts_config(),
                                            {.sms = sms, .context = context, .rows = 1, .tile_order = true});
      for (const Compilation& how : compilations_for(sms)) out.push_back(compile_as(graph, how));
    }
    // Programs that pool hidden states: of vectors, and of tiles.
    for (const uint32_t tile_rows : {0U, 32U}) {
      LlamaConfig pools = tile_rows == 0 ? tiny_config() : tiny_parts_config();
      pools.num_layers = 1;
      pools.pools = true;
      const uint32_t sms = tile_rows == 0 ? 3 : 2;
      const Graph graph =
          build_llama_graph(pools, {.sms = sms, .context = 200, .rows = 17, .tile_rows = tile_rows});
      for (const Compilation& how : compilations_for(sms)) out.push_back(compile_as(graph, how));
    }
    // Programs of several rows, with as many blocks as a mask has words.
    LlamaConfig config = tiny_config();
    config.num_layers = 2;
    config.max_position = kBlocksOfMasks * kKvBlockTokens;
    const Graph graph =
        build_llama_graph(config, {.sms = 2, .context = kBlocksOfMasks * kKvBlockTokens, .rows = 6});
    for (const Compilation& how : compilations_for(2)) out.push_back(compile_as(graph, how));
    return out;
  }();
  return programs;
}

const std::vector<Program>& shared_programs() {
  static const std::vector<Program> programs = [] {
    std::vector<Program> out;
    for (const uint32_t ranks : {2U, 4U, 8U}) {
      for (const uint32_t sms : {2U, 1U, 3U}) {
        const LlamaConfig config = tiny_shared_config(ranks == 4 ? 2 : 8);
        const uint32_t rows = sms == 1 ? 2 : kDefaultRows;
        const Graph graph =
            build_llama_graph(config, {.sms = sms, .context = 200, .rows = rows, .ranks = ranks});
        for (const Policy policy : kPolicies) {
          if (ranks == 8 && policy != Policy::kList) continue;
          out.push_back(compile_as(graph, {policy, QueueKind::kPerSm, sms}));
        }
      }
    }
    // Programs of tiles of rows, where each rank adds up a slice of the sums: of one tile and, with 40 rows,
    // of two.
    out.push_back(tiles_of_ranks(tiny_shared_config(), 2, 2, 17));
    out.push_back(tiles_of_ranks(tiny_sliced_config(), 4, 2, 40));
    out.push_back(tiles_of_ranks(tiny_sliced_config(), 8, 1, 17));
    out.push_back(tiles_of_ranks(tiny_wide_config(), 2, 2, 17));
    out.push_back(tiles_of_ranks(tiny_shared_head_norms_config(), 2, 2, 17));
    return out;
  }();
  return programs;
}

RandomPasses::RandomPasses(const Program& program, uint32_t passes, RandomOrder& random) {
  const StateLimits& limits = program.limits;
  const uint32_t blocks = blocks_for_tokens(limits.max_context);
  block_table_.resize(size_t{limits.sequences} * blocks);
  std::iota(block_table_.begin(), block_table_.end(), 0);
  for (size_t i = block_table_.size(); i > 1; --i)
    std::swap(block_table_[i - 1], block_table_[random.below(i)]);
  begin(limits, passes, random);
  while (rows_.size() < passes) rows_.push_back(following(rows_.back()));
  plan(program);
  for (size_t pass = 0; pass < passes; ++pass) {
    views_.push_back({rows_[pass].data(), block_table_.data(), blocks});
    if (!attention_.empty())
      views_.back().attention = reinterpret_cast<const AttentionList*>(attention_[pass].data());
  }
}

void RandomPasses::plan(const Program& program) {
  const std::optional<AttentionPlanShape> shape = attention_plan_shape(program);
  if (!shape) return;
  for (const Rows& rows : rows_) {
    attention_.emplace_back(attention_list_bytes(shape->rows) / sizeof(uint32_t));
    plan_attention(
        *shape, rows, [](const PassRow& row) { return row.position; },
        *reinterpret_cast<AttentionList*>(attention_.back().data()));
  }
}

// Sequences with a run of rows each; usually the last row of a run wants logits.
void RandomPasses::begin(const StateLimits& limits, uint32_t passes, RandomOrder& random) {
  constexpr uint64_t kLongestRun = 6;
  Rows rows(limits.rows);
  uint32_t row = 0;
  for (uint32_t slot = 0; slot < limits.sequences && row < limits.rows; ++slot) {
    const auto run = static_cast<uint32_t>(
        std::min<uint64_t>(limits.rows - row, random.below(2) == 0 ? 1 : 1 + random.below(kLongestRun)));
    const auto first = static_cast<uint32_t>(random.below(limits.max_context - run - passes));
    for (uint32_t r = 0; r < run; ++r, ++row) {
      rows[row].active = 1;
      rows[row].slot = slot;
      rows[row].position = first + r;
      rows[row].wants_logits = r + 1 == run && random.below(4) != 0 ? 1 : 0;
    }
    if (random.below(3) == 0) ++row;  // an idle row between sequences
    if (random.below(3) == 0) break;
  }
  rows_.push_back(rows);
}

RandomPasses::Rows RandomPasses::following(const Rows& rows) {
  Rows out = rows;
  for (PassRow& row : out) {
    if (row.active != 0 && row.wants_logits == 0) row.active = 0;
    ++row.position;
  }
  return out;
}

}  // namespace serval::testing

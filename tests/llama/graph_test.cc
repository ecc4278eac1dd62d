#include "models/llama/graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/llama/configs.h"
#include "tests/llama/tiny_model.h"
#include "vm/base/error.h"
#include "vm/state/attention.h"
#include "vm/state/names.h"
#include "vm/state/output.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

std::string refusal(const GraphOptions& options, const LlamaConfig& config = tiny_config()) {
  try {
    build_llama_graph(config, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(LlamaGraph, RefusesMachinesAndContextsOutOfRange) {
  const auto longest = static_cast<uint32_t>(tiny_config().max_position);
  EXPECT_EQ(refusal({.sms = 1, .context = 1}), "");
  EXPECT_EQ(refusal({.sms = kMaxSms, .context = longest}), "");
  EXPECT_THAT(refusal({.sms = 0, .context = 1}), HasSubstr("sms: 0; limit: 1 to 1024"));
  EXPECT_THAT(refusal({.sms = kMaxSms + 1, .context = 1}), HasSubstr("sms: 1025"));
  EXPECT_THAT(refusal({.sms = 1, .context = 0}), HasSubstr("context: 0 tokens; limit: 1 to 1024"));
  EXPECT_THAT(refusal({.sms = 1, .context = longest + 1}), HasSubstr("context: 1025 tokens"));
}

TEST(LlamaGraph, RefusesRowsAndSequencesOutOfRange) {
  EXPECT_EQ(refusal({.context = 64, .rows = kLargestRows, .sequences = kLargestSequences}), "");
  EXPECT_THAT(refusal({.context = 64, .rows = 0}), HasSubstr("rows: 0; limit: 1 to 8192"));
  EXPECT_THAT(refusal({.context = 64, .rows = kLargestRows + 1}), HasSubstr("rows: 8193"));
  EXPECT_THAT(refusal({.context = 64, .sequences = 0}), HasSubstr("sequences: 0; limit: 1 to 1024"));
  EXPECT_THAT(refusal({.context = 64, .sequences = kLargestSequences + 1}), HasSubstr("sequences: 1025"));
}

// A model that pools has neither an LM head nor samples; each column is pooled once.
TEST(LlamaGraph, EndsInPooledHiddenStatesWhereTheModelPools) {
  LlamaConfig config = tiny_config();
  config.pools = true;
  config.tie_word_embeddings = false;
  for (const uint32_t sms : {1U, 20U, 132U}) {
    const Graph graph = build_llama_graph(config, {.sms = sms, .context = 64, .rows = 48});
    EXPECT_EQ(graph.limits.pooled_cols, static_cast<uint32_t>(config.hidden_size));
    uint32_t next_col = 0, next_row = 0;
    for (const Instruction& node : graph.nodes) {
      EXPECT_NE(node.opcode, static_cast<uint16_t>(Opcode::kLmHead));
      EXPECT_NE(node.opcode, static_cast<uint16_t>(Opcode::kSample));
      if (node.opcode != static_cast<uint16_t>(Opcode::kPool)) continue;
      const auto op = node.as<Pool>();
      EXPECT_EQ(columns_of(op).begin, std::exchange(next_col, columns_of(op).end));
      EXPECT_EQ(rows_of(op, graph.limits).begin, std::exchange(next_row, rows_of(op, graph.limits).end));
    }
    EXPECT_EQ(next_col, static_cast<uint32_t>(config.hidden_size));
    EXPECT_EQ(next_row, 48U);
    for (const Tensor& tensor : graph.tensors) EXPECT_NE(tensor.name, llama_tensor::kLmHead);
  }
  EXPECT_THAT(refusal({.context = 64, .ranks = 2}, config), HasSubstr("embeddings: supported on 1 GPU"));
}

// The kernels on a GPU sample one row per instance; more rows than SMs are divided among the SMs, and the
// rows that only long prompts with log-probabilities use are divided once more.
TEST(LlamaGraph, SamplesEveryRowThatMayWantLogitsOnce) {
  for (const uint32_t rows : {1U, 4U, 16U, 48U, 256U, 2048U}) {
    const Graph graph = build_llama_graph(tiny_config(), {.sms = 20, .context = 64, .rows = rows});
    uint32_t next = 0, instances = 0;
    for (const Instruction& node : graph.nodes) {
      if (node.opcode != static_cast<uint16_t>(Opcode::kSample)) continue;
      EXPECT_EQ(node.as<Sample>().first_row, next);
      next += node.as<Sample>().num_rows;
      ++instances;
    }
    EXPECT_EQ(next, std::min(rows, kMostLogitRows));
    EXPECT_EQ(instances, std::min(rows, 20U) * (rows > kLeastDrawingRows ? 2 : 1));  // there are 16 sequences
  }
}

// Programs of up to 16 rows have the same layout of partial results.
TEST(LlamaGraph, HasTensorsOfTheRowsThatAreAskedFor) {
  for (const auto& [rows, partial_rows] : {std::pair{1U, 16U}, {16U, 16U}, {48U, 48U}, {50U, 64U}}) {
    const Graph graph =
        build_llama_graph(tiny_config(), {.sms = 1, .context = 64, .rows = rows, .sequences = 3});
    const auto rows_of = [&](std::string_view name) {
      const auto found = std::ranges::find(graph.tensors, name, &Tensor::name);
      return found == graph.tensors.end() ? 0 : found->rows;
    };
    EXPECT_EQ(rows_of(llama_tensor::kResidual), rows);
    EXPECT_EQ(rows_of(state_tensor::kRows), rows);
    EXPECT_EQ(rows_of(state_tensor::kSlots), 3U);
    EXPECT_EQ(rows_of(state_tensor::kOutput), launch_passes(rows));
    EXPECT_EQ(rows_of(llama_tensor::kPartial) % partial_rows, 0U);
    EXPECT_EQ(graph.limits.rows, rows);
    EXPECT_EQ(graph.limits.sequences, 3U);
  }
}

// After the last attention, rows of a prompt that do not want logits are not needed.
TEST(LlamaGraph, ComputesTheLastLayerOnlyWhereLogitsAreWanted) {
  const LlamaConfig config = tiny_config();
  ASSERT_GT(config.num_layers, 1);
  for (const Instruction& node : build_llama_graph(config, {.sms = 2, .context = 64}).nodes) {
    const uint32_t wanted = node.tag + 1 == config.num_layers ? 1 : 0;
    if (node.opcode == static_cast<uint16_t>(Opcode::kGateUpSilu)) {
      EXPECT_EQ(node.as<GateUpSilu>().logits_only, wanted) << "layer " << node.tag;
    } else if (node.opcode == static_cast<uint16_t>(Opcode::kMatvecResidual)) {
      EXPECT_EQ(node.as<MatvecResidual>().logits_only, wanted) << "layer " << node.tag;
    }
  }
}

// The matrices whose products are added to the residual; a program of tiles cuts their columns into K splits.
TEST(LlamaGraph, CutsColumnsIntoPartsByTheMatrixsShape) {
  struct Parts {
    uint32_t o, down;
    bool operator==(const Parts&) const = default;
  };
  const std::map<std::string, Parts> expected = {
      {"llama-2-7b", {2, 2}},   {"llama-3.1-70b", {1, 1}}, {"llama-3.1-8b", {2, 2}},
      {"llama-3.2-1b", {2, 4}}, {"llama-3.2-3b", {2, 2}},  {"mistral-7b-v0.3", {2, 2}},
      {"qwen2.5-0.5b", {1, 4}}, {"qwen2.5-1.5b", {2, 4}},  {"qwen2.5-7b", {2, 2}},
      {"qwen3-0.6b", {2, 3}},   {"qwen3-8b", {2, 2}},      {"smollm2-1.7b", {2, 4}},
      {"smollm2-135m", {1, 2}}, {"smollm2-360m", {1, 3}},
  };
  std::map<std::string, Parts> found;
  for (const std::string& name : preset_names()) {
    LlamaConfig config = preset_config(name);
    config.num_layers = 1;
    // A single SM shares no tile with others, so each product contains its number of K splits.
    const Graph graph = build_llama_graph(config, {.sms = 1, .context = 64, .rows = 17, .tile_rows = 256});
    std::vector<uint32_t> parts;
    for (const Instruction& node : graph.nodes) {
      if (node.opcode != static_cast<uint16_t>(Opcode::kMatvecResidual)) continue;
      if (node.as<MatvecResidual>().first_unit == 0) parts.push_back(node.as<MatvecResidual>().parts);
    }
    ASSERT_EQ(parts.size(), 2U) << name;
    found[name] = {parts[0], parts[1]};
  }
  for (const auto& [name, parts] : found) {
    const auto at = expected.find(name);
    ASSERT_NE(at, expected.end()) << name;
    EXPECT_EQ(parts, at->second) << name << ": " << parts.o << ", " << parts.down;
  }
  EXPECT_EQ(found.size(), expected.size());
}

// Counts how often instances cover each cell of a grid, and the cells of the largest instance.
class Grid {
 public:
  Grid(uint32_t rows, uint32_t cols) : cols_(cols), times_(size_t{rows} * cols) {}
  void add(uint32_t first_row, uint32_t rows, uint32_t first_col, uint32_t cols) {
    largest_ = std::max(largest_, size_t{rows} * cols);
    ++instances_;
    for (uint32_t r = first_row; r < first_row + rows; ++r) {
      for (uint32_t c = first_col; c < first_col + cols; ++c) ++times_[size_t{r} * cols_ + c];
    }
  }
  bool covered_once() const {
    return std::ranges::all_of(times_, [](uint32_t times) { return times == 1; });
  }
  size_t instances() const { return instances_; }
  size_t largest() const { return largest_; }

 private:
  uint32_t cols_;
  std::vector<uint32_t> times_;
  size_t instances_ = 0, largest_ = 0;
};

// Llama-1B's down-projection has 2048 outputs, 256 units, and 8 panels of columns, 2 in each of 4 K splits.
TEST(LlamaGraph, SharesTheColumnsOfFewTilesAmongTheSms) {
  LlamaConfig config = preset_config("llama-3.2-1b");
  config.num_layers = 2;
  for (const uint32_t rows : {17U, 64U, 128U, 200U, 256U}) {
    SCOPED_TRACE(rows);
    const Graph graph =
        build_llama_graph(config, {.sms = 132, .context = 64, .rows = rows, .tile_rows = 256});
    Grid products(256, 8), sums(rows, 256);
    std::map<uint32_t, uint32_t> sums_of_col;  // tensors by first column
    for (const Instruction& node : graph.nodes) {
      EXPECT_NE(node.opcode, static_cast<uint16_t>(Opcode::kMatvecResidual));
      if (node.tag != 0) continue;
      if (node.opcode == static_cast<uint16_t>(Opcode::kMatvecPart)) {
        const auto op = node.as<MatvecPart>();
        if (op.in_cols != 8192) continue;
        EXPECT_EQ(op.first_row, 0U);
        EXPECT_EQ(op.num_rows, rows);
        products.add(op.first_unit, op.num_units, op.first_col / 1024, op.num_cols / 1024);
        sums_of_col[op.first_col] = op.sums.index;
      } else if (node.opcode == static_cast<uint16_t>(Opcode::kAddParts)) {
        const auto op = node.as<AddParts>();
        if (op.num_parts != 4) continue;
        sums.add(op.first_row, op.num_rows, op.first_unit, op.num_units);
        EXPECT_EQ(op.first_row % kRowsAddedTogether, 0U);
        EXPECT_EQ(op.part0.index, sums_of_col[0]);
        EXPECT_EQ(op.part1.index, sums_of_col[2048]);
        EXPECT_EQ(op.part2.index, sums_of_col[4096]);
        EXPECT_EQ(op.part3.index, sums_of_col[6144]);
      }
    }
    EXPECT_TRUE(products.covered_once());
    EXPECT_EQ(products.instances(), 128U);
    EXPECT_TRUE(sums.covered_once());
    EXPECT_LE(sums.instances(), 132U);
    EXPECT_GE(sums.instances(), 100U);
    // A warp adds 64 columns of four rows at a time.
    const size_t items = (rows + kRowsAddedTogether - 1) / kRowsAddedTogether * size_t{256 / 8};
    EXPECT_LE(sums.largest(), (items * 4 / 3 / 132 + 1) * kRowsAddedTogether * 8);
  }
}

// Counts the tiles of the first layer's Q, K and V by shape: units and rows.
std::map<std::pair<uint32_t, uint32_t>, uint32_t> tiles_of_qkv(const char* model, uint32_t rows) {
  LlamaConfig config = preset_config(model);
  config.num_layers = 2;
  const Graph graph = build_llama_graph(config, {.sms = 132, .context = 64, .rows = rows, .tile_rows = 256});
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> tiles;
  for (const Instruction& node : graph.nodes) {
    if (node.opcode != static_cast<uint16_t>(Opcode::kQkvRope) || node.tag != 0) continue;
    const auto op = node.as<QkvRope>();
    ++tiles[{op.num_units, op.num_rows}];
  }
  return tiles;
}

// Llama-8B's Q, K and V have 768 units, 1B's 384.
TEST(LlamaGraph, HalvesTilesWhereThatGivesMoreSmsOne) {
  using Tiles = std::map<std::pair<uint32_t, uint32_t>, uint32_t>;
  EXPECT_EQ(tiles_of_qkv("llama-3.1-8b", 128), (Tiles{{{8, 128}, 96}}));
  EXPECT_EQ(tiles_of_qkv("llama-3.1-8b", 256), (Tiles{{{8, 256}, 96}}));   // units before rows
  EXPECT_EQ(tiles_of_qkv("llama-3.1-8b", 512), (Tiles{{{16, 256}, 96}}));  // 192 of half the size
  EXPECT_EQ(tiles_of_qkv("llama-3.2-1b", 256), (Tiles{{{8, 128}, 96}}));   // both
  EXPECT_EQ(tiles_of_qkv("llama-3.2-1b", 300), (Tiles{{{8, 256}, 48}, {{8, 44}, 48}}));
}

// If most SMs have a tile anyway, one SM computes all K splits of a tile, in memory that belongs to the tile.
TEST(LlamaGraph, LeavesThePartsOfManyTilesToOneSmEach) {
  LlamaConfig config = preset_config("llama-3.2-1b");
  config.num_layers = 2;
  const Graph graph = build_llama_graph(config, {.sms = 132, .context = 64, .rows = 2048, .tile_rows = 256});
  std::set<uint32_t> parts;
  for (const Instruction& node : graph.nodes) {
    if (node.opcode != static_cast<uint16_t>(Opcode::kMatvecResidual)) continue;
    parts.insert(node.as<MatvecResidual>().parts);
  }
  EXPECT_EQ(parts, (std::set<uint32_t>{2, 4}));
}

// Counts the tiles of the first layer by units of gate, each with as many of up.
std::map<uint32_t, uint32_t> tiles_of_gate_and_up(const char* model, const GraphOptions& options) {
  LlamaConfig config = preset_config(model);
  config.num_layers = 2;
  const uint32_t units = static_cast<uint32_t>(config.intermediate_size) / kUnitRows / options.ranks;
  Grid products(options.ranks, units);
  std::map<uint32_t, uint32_t> tiles;
  const Graph graph = build_llama_graph(config, options);
  for (const Instruction& node : graph.nodes) {
    if (node.opcode != static_cast<uint16_t>(Opcode::kGateUpSilu) || node.tag != 0) continue;
    const auto op = node.as<GateUpSilu>();
    if (op.first_row > 0) continue;
    products.add(graph.tensors[op.gate.index].device, 1, op.first_unit, op.num_units);
    ++tiles[op.num_units];
  }
  EXPECT_TRUE(products.covered_once()) << model;
  return tiles;
}

TEST(LlamaGraph, MultipliesGateAndUpInWideTilesWhereThatHalvesTheWaves) {
  using Tiles = std::map<uint32_t, uint32_t>;
  const auto tiles = [](const char* model, uint32_t rows, uint32_t sms = 132, uint32_t ranks = 1) {
    return tiles_of_gate_and_up(model,
                                {.sms = sms, .context = 64, .rows = rows, .tile_rows = 256, .ranks = ranks});
  };
  for (const uint32_t rows : {17U, 64U}) {
    SCOPED_TRACE(rows);
    EXPECT_EQ(tiles("llama-3.1-8b", rows), (Tiles{{16, 112}}));  // with 224 tiles, some SMs would have two
    EXPECT_EQ(tiles("llama-3.2-1b", rows), (Tiles{{8, 128}}));   // no SM has two
    EXPECT_EQ(tiles("qwen2.5-7b", rows), (Tiles{{8, 296}}));     // three tiles take less than two wide ones
    EXPECT_EQ(tiles("qwen2.5-7b", rows, 148), (Tiles{{16, 148}}));  // one wide tile per SM instead of two
    EXPECT_EQ(tiles("smollm2-360m", rows, 20), (Tiles{{8, 40}}));   // head_dim 64 has no wide tiles
    EXPECT_EQ(tiles("llama-2-7b", rows, 100), (Tiles{{16, 86}}));
  }
  EXPECT_EQ(tiles("llama-3.1-8b", 65),
            (Tiles{{8, 224}}));  // one tile of rows; kernels of larger tiles run it
  // A rank's share of the columns decides.
  EXPECT_EQ(tiles("llama-3.1-8b", 64, 132, 2), (Tiles{{8, 224}}));
  EXPECT_EQ(tiles("llama-3.1-70b", 64, 132, 2), (Tiles{{16, 224}}));
}

TEST(LlamaGraph, MergesAttentionOnlyWhereASequenceMayHaveSeveralLeaves) {
  LlamaConfig config = preset_config("llama-3.2-1b");
  config.num_layers = 2;
  const auto merges = [&](uint32_t context) {
    const Graph graph =
        build_llama_graph(config, {.sms = 132, .context = context, .rows = 64, .tile_rows = 256});
    return std::ranges::count(graph.nodes, static_cast<uint16_t>(Opcode::kPlannedMerge),
                              &Instruction::opcode);
  };
  EXPECT_EQ(merges(kPlannedLeafTokens), 0);
  EXPECT_EQ(merges(kPlannedLeafTokens + 1), 2 * 132);
}

// Llama-70B on four GPUs: a rank has 320 units of Q, K and V, and 8192 columns in 3 K splits.
TEST(LlamaGraph, SpreadsARanksProjectionsOverPartsOfTheirColumns) {
  constexpr uint32_t kUnits = 320, kParts = 3, kSms = 132;
  LlamaConfig config = preset_config("llama-3.1-70b");
  config.num_layers = 1;
  for (const uint32_t rows : {64U, 256U, 512U}) {
    const Graph graph = build_llama_graph(
        config, {.sms = kSms, .context = 64, .rows = rows, .tile_rows = rows == 64 ? 64U : 256U, .ranks = 4});
    std::vector<Grid> products(kParts, Grid(rows, kUnits));
    Grid added(rows, kUnits);
    size_t instances = 0;
    for (const Instruction& node : graph.nodes) {
      EXPECT_NE(node.opcode, static_cast<uint16_t>(Opcode::kQkvRope));
      if (device_of(graph.tensors, node) != 0) continue;
      if (node.opcode == static_cast<uint16_t>(Opcode::kProjectPart)) {
        const auto op = node.as<ProjectPart>();
        ASSERT_EQ(op.parts, kParts);
        ASSERT_LT(op.part, kParts);
        products[op.part].add(op.first_row, op.num_rows, op.first_unit, op.num_units);
        ++instances;
      } else if (node.opcode == static_cast<uint16_t>(Opcode::kRopeParts)) {
        const auto op = node.as<RopeParts>();
        added.add(op.first_row, op.num_rows, op.first_unit, op.num_units);
      }
    }
    for (const Grid& part : products) EXPECT_TRUE(part.covered_once()) << rows << " rows";
    EXPECT_TRUE(added.covered_once()) << rows << " rows";
    EXPECT_GE(instances, 120U) << rows << " rows";
    EXPECT_GE(added.instances(), kSms / 2) << rows << " rows";
  }
}

TEST(LlamaGraph, HasATileOrderForSingleRows) {
  const LlamaConfig config = tiny_parts_config(), norms = tiny_head_norms_config();
  const GraphOptions one{.sms = 4, .context = 64, .rows = 1, .tile_order = true};
  EXPECT_EQ(refusal(one, config), "");
  GraphOptions two = one, tiles = one, ranks = one;
  two.rows = tiles.tile_rows = ranks.ranks = 2;
  EXPECT_THAT(refusal(two, config),
              HasSubstr("tile order: supported with 1 row, without tiles, on 1 device"));
  EXPECT_THAT(refusal(tiles, config), HasSubstr("tile order"));
  EXPECT_THAT(refusal(ranks, tiny_shared_config()), HasSubstr("tile order"));
  EXPECT_THAT(refusal(one, norms), HasSubstr("without norms of the heads"));
  EXPECT_TRUE(config.has_tile_order());
  EXPECT_FALSE(norms.has_tile_order());
}

// K splits are those of programs of tiles; each product is in one record.
TEST(LlamaGraph, CutsColumnsIntoPartsInTileOrder) {
  const Graph graph = build_llama_graph(preset_config("llama-3.2-1b"),
                                        {.sms = 132, .context = 64, .rows = 1, .tile_order = true});
  uint32_t of_two = 0, of_four = 0;
  for (const Instruction& node : graph.nodes) {
    EXPECT_NE(node.opcode, static_cast<uint16_t>(Opcode::kMatvecPart));
    if (node.opcode != static_cast<uint16_t>(Opcode::kMatvecResidual)) continue;
    const auto op = node.as<MatvecResidual>();
    EXPECT_EQ(op.parts, matrix_parts(op.out_cols, op.in_cols));
    ++(op.parts == 2 ? of_two : of_four);
  }
  EXPECT_GT(of_two, 0U);
  EXPECT_EQ(of_four, of_two);
}

TEST(LlamaGraph, HasNoPartsInProgramsOfVectors) {
  const Graph graph = build_llama_graph(preset_config("llama-3.2-1b"), {.sms = 132, .context = 64});
  for (const Instruction& node : graph.nodes) {
    EXPECT_NE(node.opcode, static_cast<uint16_t>(Opcode::kMatvecPart));
    EXPECT_NE(node.opcode, static_cast<uint16_t>(Opcode::kAddParts));
    if (node.opcode != static_cast<uint16_t>(Opcode::kMatvecResidual)) continue;
    EXPECT_EQ(node.as<MatvecResidual>().parts, 1U);
  }
  for (const Tensor& tensor : graph.tensors) EXPECT_FALSE(tensor.name.starts_with("parts.")) << tensor.name;
}

}  // namespace
}  // namespace serval::testing

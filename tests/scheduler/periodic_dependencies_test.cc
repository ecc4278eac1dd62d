// Compares with derive_dependencies(): the results must be identical.
#include "scheduler/periodic_dependencies.h"

#include <fmt/format.h>

#include "gtest/gtest.h"

#include "models/llama/graph.h"
#include "scheduler/periods.h"
#include "tests/scheduler/graphs.h"

namespace serval::testing {
namespace {

constexpr uint32_t kTileRows = 256;

void expect_same(const Graph& graph) {
  EXPECT_TRUE(derive_periodic_dependencies(graph) == derive_dependencies(graph));
}

Graph graph_of(const LlamaConfig& config, uint32_t sms, uint32_t rows, uint32_t ranks) {
  return build_llama_graph(config, {.sms = sms,
                                    .context = 4096,
                                    .rows = rows,
                                    .tile_rows = rows > kDefaultRows ? kTileRows : 0,
                                    .ranks = ranks});
}

// Models with and without head norms, with biases, and with and without K splits.
TEST(PeriodicDependencies, AreThoseOfTheWholeGraph) {
  for (const char* preset : {"llama-3.2-1b", "llama-3.1-70b", "qwen2.5-1.5b", "qwen3-0.6b"}) {
    for (const uint32_t rows : {1U, 16U, 64U, 300U, 512U, 1024U}) {
      SCOPED_TRACE(fmt::format("{}, {} rows", preset, rows));
      const Graph graph = graph_of(shortened_preset(preset, 8), 132, rows, 1);
      EXPECT_EQ(find_periods(graph, 5)->count, 7U);
      expect_same(graph);
    }
  }
}

TEST(PeriodicDependencies, AreThoseOfTheWholeGraphOnSeveralRanks) {
  for (const char* preset : {"llama-3.1-8b", "qwen3-8b"}) {
    for (const uint32_t ranks : {2U, 4U, 8U}) {
      for (const uint32_t rows : {16U, 64U, 300U}) {
        SCOPED_TRACE(fmt::format("{}, {} rows, {} ranks", preset, rows, ranks));
        const Graph graph = graph_of(shortened_preset(preset, 7), 132, rows, ranks);
        EXPECT_EQ(find_periods(graph, 5)->count, 6U);
        expect_same(graph);
      }
    }
  }
}

TEST(PeriodicDependencies, AreThoseOfTheWholeGraphOfAnyDepth) {
  for (int layers = 1; layers < 10; ++layers) {
    for (const uint32_t sms : kSmCounts) {
      SCOPED_TRACE(fmt::format("{} layers, {} SMs", layers, sms));
      expect_same(graph_of(shortened_preset("llama-3.2-1b", layers), sms, 16, 1));
    }
  }
}

// The layers are alike, but an extra stage changes what one of them reads or leaves.
TEST(PeriodicDependencies, AreThoseOfTheWholeGraphIfAStageIsBetweenLayers) {
  const Graph whole = graph_of(shortened_preset("llama-3.2-1b", 8), 20, 16, 1);
  const auto periods = find_periods(whole, 5);
  ASSERT_TRUE(periods);
  for (uint32_t after = 0; after < 7; ++after) {
    Graph graph = whole;
    const uint32_t stage = periods->first_stage + after * periods->stages;
    const uint32_t nodes = whole.stages.front().num_nodes;  // of the embedding
    graph.nodes.insert(graph.nodes.begin() + whole.stages[stage].first_node, whole.nodes.begin(),
                       whole.nodes.begin() + nodes);
    graph.stages.insert(graph.stages.begin() + stage, {"another", whole.stages[stage].first_node, nodes});
    for (size_t s = stage + 1; s < graph.stages.size(); ++s) graph.stages[s].first_node += nodes;
    SCOPED_TRACE(fmt::format("after {} layers", after));
    expect_same(graph);
  }
}

TEST(PeriodicDependencies, AreThoseOfTheWholeGraphIfNothingRepeats) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    expect_same(random_graph(seed));
  }
}

// Arbitrary periods may depend on stages before all of them, or on each other.
TEST(PeriodicDependencies, AreThoseOfTheWholeGraphIfRandomStagesRepeat) {
  constexpr uint32_t kGraphs = 300;
  uint32_t found = 0;
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph once = random_graph(seed);
    const size_t num_stages = once.stages.size() - 1;  // without `advance`
    const size_t from = seed % num_stages, to = from + 1 + (seed / 7) % (num_stages - from);
    Graph graph;
    static_cast<ProgramShape&>(graph) = once;
    graph.tensors = once.tensors;
    const auto append = [&](const Stage& stage) {
      graph.begin_stage(stage.name);
      graph.stages.back().num_nodes = stage.num_nodes;
      graph.nodes.insert(graph.nodes.end(), once.nodes.begin() + stage.first_node,
                         once.nodes.begin() + stage.first_node + stage.num_nodes);
    };
    for (size_t s = 0; s < from; ++s) append(once.stages[s]);
    for (uint32_t period = 0; period < 5 + seed % 4; ++period) {
      for (size_t s = from; s < to; ++s) append(once.stages[s]);
    }
    for (size_t s = to; s < once.stages.size(); ++s) append(once.stages[s]);
    found += find_periods(graph, 5) ? 1 : 0;
    expect_same(graph);
  }
  EXPECT_GT(found, kGraphs / 10 * 9);  // except if a stage is empty
}

}  // namespace
}  // namespace serval::testing

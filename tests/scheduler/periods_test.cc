#include "scheduler/periods.h"

#include "gtest/gtest.h"

#include "models/llama/graph.h"
#include "tests/scheduler/graphs.h"

namespace serval::testing {
namespace {

constexpr int kLayers = 7;
// The last layer multiplies only rows that want logits.
constexpr uint32_t kAlike = kLayers - 1;

Graph layered_graph(uint32_t rows, uint32_t tile_rows) {
  return build_llama_graph(shortened_preset("llama-3.2-1b", kLayers),
                           {.sms = 20, .rows = rows, .tile_rows = tile_rows});
}

template <class Op>
void change(Graph& graph, uint32_t layer, void (*with)(Op&)) {
  for (Instruction& node : graph.nodes) {
    if (node.tag != layer || node.opcode != static_cast<uint16_t>(kOpcodeOf<Op>)) continue;
    Op op = node.as<Op>();
    with(op);
    node.set(op);
  }
}

TEST(Periods, AreTheLayersOfAModel) {
  const Graph graph = layered_graph(16, 0);
  const auto periods = find_periods(graph, 2);
  ASSERT_TRUE(periods);
  EXPECT_EQ(periods->count, kAlike);
  EXPECT_EQ(periods->first_stage, 1U);  // after the embedding
  for (uint32_t layer = 0; layer < kAlike; ++layer) {
    EXPECT_EQ(graph.nodes[periods->begin(layer)].tag, layer);
    EXPECT_EQ(graph.nodes[periods->begin(layer) + periods->nodes - 1].tag, layer);
  }
}

TEST(Periods, AreAtLeastAsManyAsAskedFor) {
  const Graph graph = layered_graph(256, 256);
  EXPECT_TRUE(find_periods(graph, kAlike));
  EXPECT_FALSE(find_periods(graph, kAlike + 1));
}

TEST(Periods, EndBeforeALayerThatDiffers) {
  Graph graph = layered_graph(16, 0);
  change<QkvRope>(graph, 5, [](QkvRope& op) { op.epsilon *= 2; });
  const auto periods = find_periods(graph, 2);
  ASSERT_TRUE(periods);
  EXPECT_EQ(periods->count, 5U);
}

TEST(Periods, AreNotFoundIfASingleInstanceDiffers) {
  Graph graph = layered_graph(16, 0);
  Instruction& last = graph.nodes[find_periods(graph, kAlike)->begin(3) - 1];
  auto op = last.as<MatvecResidual>();
  op.in_cols *= 2;
  last.set(op);
  EXPECT_FALSE(find_periods(graph, kAlike));
}

TEST(Periods, AreNotFoundIfLayersShareACache) {
  Graph graph = layered_graph(16, 0);
  const TensorId other = graph.nodes[find_periods(graph, kAlike)->begin(1)].as<QkvRope>().k_cache;
  Instruction& reader = graph.nodes.back();
  auto op = reader.as<Advance>();
  op.host_stop = other;
  reader.set(op);
  EXPECT_FALSE(find_periods(graph, kAlike));
}

TEST(Periods, AreNotFoundInAnEmptyGraph) {
  EXPECT_FALSE(find_periods({}, 2));
}

}  // namespace
}  // namespace serval::testing

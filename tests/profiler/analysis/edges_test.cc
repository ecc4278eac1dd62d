#include "profiler/analysis/edges.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/profiler/trace_builder.h"

namespace serval {

void PrintTo(const Edge& e, std::ostream* out) {
  *out << e.from << " -> " << e.to << " by c" << e.counter << " at " << e.signalled_ns;
}

namespace testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Edges, LeadFromTheProducerThatCameLast) {
  // Executions: short 0, last 1, long 2, and those of the second token from 3 on. Both SMs' first
  // instructions wait for the gate of the first token.
  const Trace trace = two_sm_trace().trace();
  EXPECT_THAT(edges_of(trace),
              ElementsAre(Edge{2, 1, 0, 650}, Edge{1, 3, 1, 1000}, Edge{5, 4, 0, 1650}, Edge{1, 5, 1, 1000}));
}

TEST(Edges, LeadFromTheIncrementThatReachedTheThreshold) {
  TraceBuilder b(3);
  const uint32_t counter = b.counter(), gate = b.counter();
  b.add("early", 0, {}, {counter});
  b.add("late", 1, {}, {counter});
  b.add("waits for one", 2, {{counter, 1, 1}}, {gate});
  b.window(0, 100);
  b.execute(0, 0, 0, 10, 20);
  b.execute(1, 0, 0, 30, 40);
  b.execute(2, 25, 25, 50, 100);
  EXPECT_THAT(edges_of(b.trace()), ElementsAre(Edge{0, 2, counter, 20}));
}

TEST(Edges, ThresholdZeroIsTheLastSignalOfThePassBefore) {
  TraceBuilder b(1);
  const uint32_t counter = b.counter();
  b.add("writes again", 0, {{counter, 0, 1}}, {counter});
  b.gate(b.counter());  // never signalled here
  b.window(0, 100);
  b.execute(0, 0, 0, 10, 20);
  b.window(100, 200);
  b.execute(0, 110, 110, 120, 130);
  EXPECT_THAT(edges_of(b.trace()), ElementsAre(Edge{0, 1, counter, 20}));
}

TEST(Edges, ThereIsNoneToAProducerOutsideTheTrace) {
  TraceBuilder b(1);
  const uint32_t counter = b.counter();
  b.add("waits", 0, {{counter, 1, 1}}, {});
  b.window(0, 100);
  b.execute(0, 0, 0, 10, 20);
  EXPECT_THAT(edges_of(b.trace()), IsEmpty());
}

TEST(Edges, LeadFromGpuToGpuAndEachGpuWaitsForItsOwnGate) {
  const Trace trace = two_gpu_trace().trace();
  constexpr uint32_t kPushed0 = 0, kPushed1 = 1, kReduced = 2, kGate0 = 3, kGate1 = 4;
  const std::vector<Edge> edges = edges_of(trace);
  EXPECT_THAT(edges,
              ElementsAre(Edge{3, 1, kPushed0, 320}, Edge{1, 2, kReduced, 420}, Edge{3, 4, kPushed1, 320},
                          Edge{2, 5, kGate0, 1000}, Edge{8, 6, kPushed0, 1320}, Edge{6, 7, kReduced, 1420},
                          Edge{2, 8, kGate1, 1000}, Edge{8, 9, kPushed1, 1320}));
  std::vector<bool> crossing;
  for (const Edge& edge : edges) crossing.push_back(crosses_link(trace, edge));
  EXPECT_THAT(crossing, ElementsAre(true, false, false, false, true, false, true, false));
}

}  // namespace
}  // namespace testing
}  // namespace serval

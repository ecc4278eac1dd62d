// Checks by brute force that the waits and signals of a compiled program order all conflicting accesses, and
// that no wait is redundant.
#include "scheduler/dependencies.h"

#include <fmt/format.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "models/llama/graph.h"
#include "tests/scheduler/graphs.h"
#include "tests/scheduler/ordering.h"

namespace serval::testing {
namespace {

using ::testing::IsEmpty;

std::string description(const Compilation& how) {
  return fmt::format("{} {} on {} SMs",
                     how.queue_kind == QueueKind::kGlobal ? "global queue" : "a queue each",
                     name_of(how.policy), how.sms);
}

void expect_sound(const Graph& graph, const Compilation& how) {
  SCOPED_TRACE(description(how));
  const Program program = compile_as(graph, how);
  ASSERT_NO_THROW(check_structure(program));
  const Ordering ordering(graph, program);
  ASSERT_EQ(ordering.misplaced(), "");
  EXPECT_EQ(ordering.miscounted(), "");
  ASSERT_EQ(ordering.deadlock(), "");
  EXPECT_EQ(ordering.unordered(), "");
  EXPECT_EQ(ordering.unfinished_at_gate(), "");
}

TEST(Dependencies, OrderEveryConflictOfRandomGraphs) {
  constexpr uint32_t kGraphs = 150;
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph = random_graph(seed);
    for (const uint32_t sms : {1U, 2U, 7U}) {
      for (const Compilation& how : compilations_for(sms)) expect_sound(graph, how);
    }
    if (HasFailure()) return;
  }
}

TEST(Dependencies, OrderEveryConflictOfATinyLlama) {
  for (const uint32_t sms : kSmCounts) {
    const Graph graph = build_llama_graph(tiny_config(), {.sms = sms, .context = 600});
    for (const Compilation& how : compilations_for(sms)) expect_sound(graph, how);
  }
}

TEST(Dependencies, OrderEveryConflictOfALlamaMadeForAnotherMachine) {
  const Graph graph = build_llama_graph(tiny_config(), {.sms = 20, .context = 600});
  for (const uint32_t sms : kSmCounts) {
    for (const Compilation& how : compilations_for(sms)) expect_sound(graph, how);
  }
}

TEST(Dependencies, OrderEveryConflictOfLlama1b) {
  const Graph graph = build_llama_graph(shortened_preset("llama-3.2-1b", 2), {.sms = 132, .context = 4096});
  expect_sound(graph, {Policy::kList, QueueKind::kPerSm, 132});
}

// Every wait is necessary: without it a conflict would be unordered.
TEST(Dependencies, HaveNoRedundantWaitInLlamas) {
  for (const uint32_t sms : kSmCounts) {
    const Graph graph = build_llama_graph(tiny_config(), {.sms = sms, .context = 600});
    const Program program = compile_as(graph, {Policy::kRoundRobin, QueueKind::kPerSm, sms});
    EXPECT_THAT(Ordering(graph, program).redundant_waits(), IsEmpty()) << sms << " SMs";
  }
  const Graph graph = build_llama_graph(shortened_preset("llama-3.2-1b", 2), {.sms = 132, .context = 4096});
  const Program program = compile_as(graph, {Policy::kRoundRobin, QueueKind::kPerSm, 132});
  EXPECT_THAT(Ordering(graph, program).redundant_waits(), IsEmpty());
}

TEST(Dependencies, AreEmptyForAnEmptyGraph) {
  const Dependencies deps = derive_dependencies({});
  EXPECT_TRUE(deps.joins.empty() && deps.waits.empty() && deps.signals.empty());
}

}  // namespace
}  // namespace serval::testing

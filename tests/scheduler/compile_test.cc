#include "scheduler/compile.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "models/llama/graph.h"
#include "scheduler/timing.h"
#include "tests/scheduler/graphs.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

double estimate_us(const Program& program) {
  return std::strtod(program.metadata.at("estimate_us").c_str(), nullptr);
}

Graph tiny_graph(uint32_t sms) {
  return build_llama_graph(tiny_config(), {.sms = sms, .context = 600});
}

TEST(Compile, PrefersThePolicyThatTheCostModelPrefers) {
  for (const uint32_t sms : kSmCounts) {
    const Graph graph = build_llama_graph(shortened_preset("llama-3.2-1b", 3), {.sms = sms});
    const Program chosen = compile(graph, machine_of(sms), {});
    double best = 1e300;
    for (const Policy policy : kPolicies) {
      const Program program = compile_as(graph, {policy, QueueKind::kPerSm, sms});
      EXPECT_EQ(program.metadata.at("policy"), name_of(policy));
      best = std::min(best, estimate_us(program));
    }
    EXPECT_EQ(estimate_us(chosen), best) << chosen.metadata.at("policy");
  }
}

TEST(Compile, IsDeterministic) {
  for (const Compilation& how : compilations_for(132)) {
    EXPECT_EQ(serialise(compile_as(tiny_graph(132), how)), serialise(compile_as(tiny_graph(132), how)));
  }
}

TEST(Compile, MakesAQueueForEachSmOrOneForAll) {
  for (const uint32_t sms : kSmCounts) {
    for (const Compilation& how : compilations_for(sms)) {
      const Program p = compile_as(tiny_graph(sms), how);
      EXPECT_EQ(p.num_queues(), how.queue_kind == QueueKind::kGlobal ? 1 : sms);
      EXPECT_EQ(p.machine, machine_of(sms));
      EXPECT_EQ(p.limits, (StateLimits{203, 600, 16 * 10}));
    }
  }
}

// Otherwise an instruction could block the queue before those that it waits for.
TEST(Compile, PutsAGlobalQueueInSerialOrder) {
  const Graph graph = tiny_graph(7);
  const Program p = compile_as(graph, {Policy::kRoundRobin, QueueKind::kGlobal, 7});
  ASSERT_EQ(p.instructions.size(), graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    EXPECT_EQ(p.instructions[n].operands, graph.nodes[n].operands) << n;
  }
}

TEST(Compile, GatesAPassOnItsLastInstruction) {
  for (const Compilation& how : compilations_for(7)) {
    const Program p = compile_as(tiny_graph(7), how);
    for (const Instruction& i : p.instructions) {
      for (const Signal& s : p.signals_of(i)) {
        EXPECT_EQ(s.counter == p.gate_counter, i.opcode == static_cast<uint16_t>(Opcode::kAdvance));
      }
    }
    EXPECT_EQ(p.counters[p.gate_counter].increments_per_pass, 1U);
  }
}

TEST(Compile, EstimatesTheTimeOfItsProgram) {
  for (const uint32_t sms : kSmCounts) {
    for (const Graph& graph :
         {tiny_graph(sms), build_llama_graph(shortened_preset("llama-3.2-1b", 2), {.sms = sms}),
          random_graph(sms)}) {
      for (const Policy policy : kPolicies) {
        const Machine machine = machine_of(sms);
        const Dependencies deps = derive_dependencies(graph);
        const std::vector<NodeTime> times = node_times(graph, machine, {});
        const double expected = makespan_us(deps, place(graph, deps, machine, policy, times), machine, times);
        const Program p = compile_as(graph, {policy, QueueKind::kPerSm, sms});
        EXPECT_NEAR(time_pass(p, {}, false).end_us, expected, 1e-9 * expected)
            << name_of(policy) << " " << sms;
        EXPECT_NEAR(estimate_us(p), expected, 0.051) << "printed with one decimal";
      }
    }
  }
}

TEST(Compile, RefusesGraphsThatCannotBecomePrograms) {
  const auto refusal = [](const Graph& graph, uint32_t sms) {
    try {
      compile(graph, machine_of(sms), {});
    } catch (const Error& e) {
      return std::pair(e.kind(), std::string(e.what()));
    }
    return std::pair(ErrorKind::kRuntime, std::string("accepted"));
  };
  EXPECT_EQ(refusal(tiny_graph(1), 0).first, ErrorKind::kUsage);
  EXPECT_THAT(refusal(Graph{}, 1).second, HasSubstr("no instruction"));
  Graph wrong = tiny_graph(1);
  wrong.tensors[0].rows += 1;
  EXPECT_THAT(refusal(wrong, 1).second, HasSubstr("node 0"));
}

}  // namespace
}  // namespace serval::testing

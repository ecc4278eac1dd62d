#include "profiler/sim/simulate.h"

#include <algorithm>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "engine/compile/compile_model.h"
#include "instructions/isa.h"
#include "models/llama/graph.h"
#include "profiler/analysis/critical_path.h"
#include "profiler/sim/kernel_choice.h"
#include "scheduler/compile.h"
#include "tests/scheduler/graphs.h"
#include "tests/sim/hand_made.h"
#include "vm/base/error.h"
#include "vm/stored_bytes.h"

namespace serval {
namespace {

using ::testing::ElementsAre;
using testing::HandMade;
using ::testing::HasSubstr;
using testing::round_numbers;

template <class Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// SM 0 runs `first`, then SM 1 runs `second`, which waits for it. SM 0 has a second instruction that no other
// waits for.
Program chain_of_two(uint32_t first, uint32_t second) {
  HandMade hand(2);
  const uint32_t done = hand.counter(), gate = hand.counter();
  hand.add(0, first, {}, {{done, 1}});
  hand.add(1, second, {{done, 1, 2}}, {{gate, 1}});
  return hand.build(gate);
}

double us(int64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

TEST(Simulate, GivesTheTimesThatTheModelHasOnPaper) {
  const Trace trace = simulate(chain_of_two(1, 1), decode_launch(1, 10, 1), round_numbers());
  ASSERT_EQ(trace.executions.size(), 2U);
  const Execution& a = trace.executions[0];
  const auto at = [](const Execution& e, EventKind kind) { return us(e.time(kind)); };
  EXPECT_EQ(at(a, EventKind::kFetched), 0.5);
  EXPECT_EQ(at(a, EventKind::kLoadIssued), 0.5);
  EXPECT_EQ(at(a, EventKind::kLastLanded), 2.5);     // memory: 2
  EXPECT_EQ(at(a, EventKind::kInputsReady), 1.5);    // the pass's rows; no other waits
  EXPECT_EQ(at(a, EventKind::kPrepared), 2.5);       // reading the activations
  EXPECT_EQ(at(a, EventKind::kComputeBegin), 2.75);  // the page is in registers
  EXPECT_EQ(at(a, EventKind::kComputeEnd), 3.75);
  EXPECT_EQ(at(a, EventKind::kStored), 4.25);
  EXPECT_EQ(at(a, EventKind::kSignalled), 5.25);
  const Execution& b = trace.executions[1];
  EXPECT_EQ(at(b, EventKind::kLastLanded), 2.5);    // weights wait for nothing
  EXPECT_EQ(at(b, EventKind::kInputsReady), 6.25);  // noticing the counter
  EXPECT_EQ(at(b, EventKind::kPrepared), 7.25);
  EXPECT_EQ(at(b, EventKind::kComputeEnd), 8.25);
  EXPECT_EQ(at(b, EventKind::kSignalled), 9.75);
  ASSERT_EQ(trace.windows.size(), 1U);
  EXPECT_EQ(us(trace.windows[0].length_ns()), 9.75);
}

TEST(Simulate, AddsWhatTakesTheSameUnderAnyLoad) {
  const auto with = [](double SimParameters::*member, uint32_t first) {
    SimParameters p = round_numbers();
    p.*member = 0.25;
    return simulate(chain_of_two(first, 1), decode_launch(1, 10, 1), p);
  };
  const auto second_ready = [](const Trace& trace) {
    return us(trace.executions[1].time(EventKind::kInputsReady));
  };
  EXPECT_EQ(second_ready(with(&SimParameters::notice_us, 1)), 6.25 + 0.25);
  EXPECT_EQ(second_ready(with(&SimParameters::join_us, 1)), 6.25);  // one signal: none is late
  const Trace landing = with(&SimParameters::land_us, 8);
  EXPECT_EQ(us(landing.executions[0].time(EventKind::kFirstLanded)), 2.5 + 0.25);
  EXPECT_EQ(us(landing.executions[0].time(EventKind::kLastLanded)),
            8.5 + 0.25);  // the loader goes on meanwhile
}

TEST(Simulate, WaitsLongerForTheSlowestOfMore) {
  const auto second_half = [](uint32_t signals) {
    HandMade hand(signals + 1);
    const uint32_t done = hand.counter(), gate = hand.counter();
    for (uint32_t sm = 0; sm < signals; ++sm) hand.add(sm, 1, {}, {{done, 1}});
    hand.add(signals, 1, {{done, signals, 2}}, {{gate, 1}});
    SimParameters p = round_numbers();
    p.join_us = 0.25;
    return predict_us(hand.build(gate), decode_launch(1, 10, 1), p);
  };
  EXPECT_NEAR(second_half(8), second_half(1) + 3 * 0.25, 1e-3);
}

TEST(Simulate, StoresFourUnitsOfOneRowAtOnce) {
  SimParameters p = round_numbers();
  p.last_storer_us = 0.25;
  const auto after_products = [&](uint32_t units, uint32_t rows) {
    const Trace trace = simulate(chain_of_two(units, 1), decode_launch(rows, 10, 1), p);
    const Execution& e = trace.executions[0];
    return us(e.time(EventKind::kSignalled) - e.time(EventKind::kComputeEnd));
  };
  EXPECT_EQ(after_products(1, 1), 0.5 + 1);
  EXPECT_EQ(after_products(4, 1), 0.5 + 1);         // one storer, which signals
  EXPECT_EQ(after_products(8, 1), 0.5 + 0.25 + 1);  // two, of which the last one signals
  EXPECT_EQ(after_products(1, 8), 0.5 + 0.25 + 1);  // a tile of four rows for each
}

TEST(Simulate, TakesAWhileBetweenTwoTilesOfAStorer) {
  SimParameters p = round_numbers();
  p.pages_in_flight = p.pages_in_flight_waiting = 8;  // all units are complete at the same time
  p.next_tile_us = 0.125;
  const auto after_products = [&](uint32_t units) {
    const Trace trace = simulate(chain_of_two(units, 1), decode_launch(8, 10, 1), p);
    const Execution& e = trace.executions[0];
    return us(e.time(EventKind::kSignalled) - e.time(EventKind::kComputeEnd));
  };
  EXPECT_EQ(after_products(2), 0.5 + 1);  // two tiles of a unit: one for each storer
  EXPECT_EQ(after_products(4), 0.5 + 0.125 + 0.5 + 1);
  EXPECT_EQ(after_products(8), 0.5 + 3 * (0.125 + 0.5) + 1);
}

// Two devices of two SMs. Both SMs of the first one push; each SM of the other waits for one of them, and the
// last one opens both gates.
TEST(Simulate, PushesOverTheLinkOnPaper) {
  HandMade hand(2, QueueKind::kPerSm, 2);
  const uint32_t pushed[] = {hand.counter_on(1), hand.counter_on(1)}, done = hand.counter_on(1);
  const uint32_t gates[] = {hand.counter_on(0), hand.counter_on(1)};
  hand.push(0, 1, {}, {{pushed[0], 1}});
  hand.push(1, 1, {}, {{pushed[1], 1}});
  hand.add(2, 1, {{pushed[0], 1, 2}}, {{done, 1}});
  hand.add(3, 1, {{pushed[1], 1, 2}, {done, 1, 2}}, {{gates[0], 1}, {gates[1], 1}});
  SimParameters p = round_numbers();
  p.link_us = 0.75;
  p.link_gb_per_s = 0.016;  // a unit's results, 8 sums of 4 bytes, take 2 µs
  const auto at = [](const Execution& e, EventKind kind) { return us(e.time(kind)); };
  const Trace trace = simulate(hand.build(gates[0]), decode_launch(1, 10, 1), p);
  ASSERT_EQ(trace.executions.size(), 4U);
  EXPECT_EQ(at(trace.executions[0], EventKind::kSignalled), 5.25);  // as on one device
  EXPECT_EQ(at(trace.executions[1], EventKind::kSignalled), 5.25);
  const Execution& first = trace.executions[2];
  EXPECT_EQ(at(first, EventKind::kInputsReady), 5.25 + 2 + 0.75 + 1);  // bytes, link, noticing
  EXPECT_EQ(at(first, EventKind::kSignalled), 9 + 3.5);
  // The second push's bytes follow the first's: they arrive at 10, before `done`, which carries no bytes.
  const Execution& second = trace.executions[3];
  EXPECT_EQ(at(second, EventKind::kInputsReady), 12.5 + 0.75 + 1);
  EXPECT_EQ(at(second, EventKind::kSignalled), 14.25 + 3.5);
  EXPECT_EQ(us(trace.windows[0].length_ns()), 17.75 + 0.75);

  p.link_gb_per_s = 0.004;  // 8 µs
  const Trace slow = simulate(hand.build(gates[0]), decode_launch(1, 10, 1), p);
  EXPECT_EQ(at(slow.executions[2], EventKind::kInputsReady), 5.25 + 8 + 0.75 + 1);
  EXPECT_EQ(at(slow.executions[3], EventKind::kInputsReady), 5.25 + 2 * 8 + 0.75 + 1);
  // For four rows, 128 bytes.
  p.link_gb_per_s = 0.016;
  const Trace rows = simulate(hand.build(gates[0]), decode_launch(4, 10, 1), p);
  const double signalled = at(rows.executions[0], EventKind::kSignalled);
  EXPECT_EQ(at(rows.executions[2], EventKind::kInputsReady), signalled + 4 * 2 + 0.75 + 1);
}

TEST(Simulate, ReceivesPagesOfOneSmAtItsOwnRate) {
  SimParameters p = round_numbers();
  p.sm_gb_per_s = 16.384;  // a page per microsecond; memory delivers two in two
  const Trace trace = simulate(chain_of_two(8, 1), decode_launch(1, 10, 1), p);
  EXPECT_EQ(us(trace.executions[0].time(EventKind::kFirstLanded)), 2.5);
  EXPECT_EQ(us(trace.executions[0].time(EventKind::kLastLanded)), 2.5 + 7);
}

TEST(Simulate, StreamsPagesTwoAtATimeWhereMemoryTakesLongest) {
  // Pages land in pairs at 2.5, 4.5, 6.5, 8.5; the last pair is multiplied by 9.75.
  const Trace trace = simulate(chain_of_two(8, 1), decode_launch(1, 10, 1), round_numbers());
  EXPECT_EQ(us(trace.executions[0].time(EventKind::kFirstLanded)), 2.5);
  EXPECT_EQ(us(trace.executions[0].time(EventKind::kLastLanded)), 8.5);
  EXPECT_EQ(us(trace.executions[0].time(EventKind::kComputeEnd)), 9.75);
}

TEST(Simulate, LoadsAheadNoMoreThanTheRingAndTheRegistersHold) {
  SimParameters p = round_numbers();
  p.ring_pages = 4;
  p.consumer_warps = 2;
  // B waits for A until about 20; until then 4 + 2 of its pages can land.
  const Trace trace = simulate(chain_of_two(16, 12), decode_launch(1, 10, 1), p);
  const Execution& b = trace.executions[1];
  EXPECT_GT(b.room_ns, 0);
  EXPECT_GT(b.time(EventKind::kLoadIssued), b.time(EventKind::kPrepared));
  p.ring_pages = 12;
  const Trace roomy = simulate(chain_of_two(16, 12), decode_launch(1, 10, 1), p);
  EXPECT_EQ(roomy.executions[1].room_ns, 0);
  EXPECT_LT(roomy.executions[1].time(EventKind::kLoadIssued), roomy.executions[1].time(EventKind::kPrepared));
}

TEST(Simulate, HasMorePagesInFlightOnceTheInputsAreThere) {
  SimParameters p = round_numbers();
  const auto last_landed = [&] {
    return us(
        simulate(chain_of_two(9, 1), decode_launch(1, 10, 1), p).executions[0].time(EventKind::kLastLanded));
  };
  EXPECT_EQ(last_landed(), 2.5 + 4 * 2);  // in pairs
  p.pages_in_flight = 9;
  // The inputs are complete at 1.5. The third page had to wait, with two in flight, and is issued at 2.5.
  EXPECT_EQ(last_landed(), 2.5 + 2);
}

TEST(Simulate, FindsTheCriticalPathThatAProgramWasMadeWith) {
  HandMade hand(3);
  const uint32_t left = hand.counter(), right = hand.counter(), gate = hand.counter();
  hand.add(0, 12, {}, {{left, 1}});  // long
  hand.add(1, 1, {}, {{right, 1}});  // short: the last instruction does not wait longer for it
  hand.add(2, 1, {{left, 1, 2}, {right, 1, 2}}, {{gate, 1}});
  const Trace trace = simulate(hand.build(gate), decode_launch(1, 10, 1), round_numbers());
  const std::vector<Edge> edges = edges_of(trace);
  const auto path = executions_of(critical_path(trace, edges, trace.windows[0]));
  std::vector<uint32_t> instructions;
  for (const uint32_t e : path) instructions.push_back(trace.executions[e].instruction);
  EXPECT_THAT(instructions, ElementsAre(0, 2));
  EXPECT_EQ(trace.executions.back().last_counter, left);
}

TEST(Simulate, PassesFollowEachOtherThroughTheGate) {
  const Trace trace = simulate(chain_of_two(1, 1), decode_launch(1, 10, 3), round_numbers());
  ASSERT_EQ(trace.windows.size(), 3U);
  for (size_t p = 1; p < 3; ++p) {
    EXPECT_EQ(trace.windows[p].begin_ns, trace.windows[p - 1].end_ns);
    // Weights are loaded already: noticing the gate and reading the rows (2), activations (1), product (1),
    // store (0.5), signal (1). The second instruction has read the rows when it notices the first (1 instead
    // of 2).
    EXPECT_EQ(us(trace.windows[p].length_ns()), 5.5 + 4.5);
  }
  EXPECT_NEAR(predict_us(chain_of_two(1, 1), decode_launch(1, 10, 3), round_numbers()), 10, 1e-4);
}

TEST(Simulate, EndsWhereTheContextIsFull) {
  const Trace trace = simulate(chain_of_two(1, 1), decode_launch(1, 1022, 10), round_numbers());
  EXPECT_EQ(trace.windows.size(), 2U);
}

Program llama_1b(uint32_t layers, Policy policy = Policy::kRoundRobin, QueueKind kind = QueueKind::kPerSm) {
  const LlamaConfig config = testing::shortened_preset("llama-3.2-1b", static_cast<int>(layers));
  return compile(build_llama_graph(config, {.sms = h200_machine().sms}), h200_machine(),
                 {.policy = policy, .queue_kind = kind, .context = {}});
}

uint64_t page_bytes_of_weights(const Program& program) {
  uint64_t bytes = 0;
  for (const Tensor& t : program.tensors) {
    if (t.image == Image::kPages) bytes += stored_bytes(t);
  }
  return bytes;
}

TEST(Simulate, HasEveryByteOfTheProgramInTheTrace) {
  const Program program = llama_1b(2);
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    const Trace trace =
        simulate(llama_1b(2, Policy::kList, kind), decode_launch(1, 128, 2), h200_sim_parameters());
    std::map<uint32_t, uint64_t> streamed;  // by pass
    for (const Execution& e : trace.executions)
      streamed[e.pass] += e.has(EventKind::kLoadBegin) ? e.bytes : 0;
    EXPECT_EQ(streamed[0], page_bytes_of_weights(program));
    EXPECT_EQ(streamed[1], page_bytes_of_weights(program));
    EXPECT_EQ(trace.executions.size(), 2 * program.instructions.size());
  }
}

TEST(Simulate, GivesATraceThatChecks) {
  for (const uint32_t rows : {1U, 3U, 8U, 16U}) {
    const Trace trace = simulate(llama_1b(1), decode_launch(rows, 300, 2), h200_sim_parameters());
    EXPECT_NO_THROW(check_trace(trace, "simulated"));
    EXPECT_EQ(trace.source, TraceSource::kSim);
  }
}

TEST(Simulate, GivesTheSameTraceEveryTime) {
  const Program program = llama_1b(2);
  const auto run = [&] { return simulate(program, decode_launch(2, 500, 2), h200_sim_parameters()); };
  const Trace a = run(), b = run();
  ASSERT_EQ(a.executions.size(), b.executions.size());
  for (size_t i = 0; i < a.executions.size(); ++i) {
    EXPECT_EQ(a.executions[i].instruction, b.executions[i].instruction);
    EXPECT_EQ(a.executions[i].at, b.executions[i].at);
  }
  EXPECT_EQ(us(a.windows[1].length_ns()), us(b.windows[1].length_ns()));
}

// Keys and values of earlier passes are loaded before the inputs are complete.
TEST(Simulate, StartsAttentionEarly) {
  const SimParameters& p = h200_sim_parameters();
  const Trace trace = simulate(llama_1b(1), decode_launch(1, 128, 1), p);
  const OpTimes& times = p.ops[static_cast<size_t>(Opcode::kAttention)];
  int found = 0;
  for (const Execution& e : trace.executions) {
    if (trace.program.ops[trace.program.instructions[e.instruction].op] != "attention" || e.bytes == 0)
      continue;
    const double most = times.fixed_us + static_cast<double>(e.bytes) / 1024 * times.us_per_kib;
    EXPECT_NEAR(us(e.time(EventKind::kComputeEnd) - e.time(EventKind::kInputsReady)), most, 0.01);
    ++found;
  }
  EXPECT_GT(found, 0);
}

TEST(KernelChoice, IsTheFirstThatCanRunThePass) {
  const SimParameters& p = h200_sim_parameters();
  const LlamaConfig config = testing::shortened_preset("llama-3.2-3b", 1);  // heads of 128
  const Program program = compile(build_llama_graph(config, {.sms = h200_machine().sms}), h200_machine(),
                                  {.policy = Policy::kList, .queue_kind = QueueKind::kPerSm, .context = {}});
  EXPECT_EQ(kernel_choice(llama_1b(1), 1, p).head_dim, 64U);
  EXPECT_EQ(kernel_choice(program, 1, p).head_dim, 128U);
  EXPECT_EQ(kernel_choice(llama_1b(1), 2, p).rows, 4U);
  EXPECT_EQ(kernel_choice(llama_1b(1), 5, p).rows, 8U);
  EXPECT_EQ(kernel_choice(program, 9, p).rows, 16U);
  EXPECT_EQ(kernel_choice(program, 48, p).rows, 64U) << "as if a kernel were compiled for so many";
  SimParameters changed = p;
  apply_what_if(changed, "ring_pages=12");
  EXPECT_EQ(kernel_choice(llama_1b(1), 1, changed).ring_pages, 12U);
}

// Kernels of vectors take up to 16 rows; the last one is used for more rows.
TEST(Simulate, ModelsPassesOfAnyNumberOfRows) {
  const SimParameters& p = h200_sim_parameters();
  const LlamaConfig config = testing::shortened_preset("llama-3.2-1b", 1);
  double before = 0;
  for (const uint32_t rows : {1U, 16U, 48U, 256U}) {
    const Program program =
        compile(build_llama_graph(config, {.sms = h200_machine().sms, .rows = rows, .sequences = rows}),
                h200_machine(), {.policy = Policy::kList, .queue_kind = QueueKind::kPerSm, .context = {}});
    const double us = predict_us(program, decode_launch(rows, 128, 2), p);
    EXPECT_GT(us, before) << rows;
    before = us;
    EXPECT_EQ(error_of([&] { predict_us(program, decode_launch(rows + 1, 128, 2), p); }),
              fmt::format("simulation: rows: {}; limit: {}", rows + 1, rows));
  }
}

TEST(Simulate, PredictsWhatTheTraceSays) {
  const Program program = llama_1b(2);
  const SimLaunch launch = decode_launch(1, 128, 2);
  EXPECT_NEAR(predict_us(program, launch, h200_sim_parameters()),
              us(simulate(program, launch, h200_sim_parameters()).windows[1].length_ns()), 0.002);
}

// Improvements that cannot make anything wait longer. (A larger ring or more pages in flight can: they make
// every message slower.)
TEST(Simulate, IsNeverSlowerOnABetterMachine) {
  const Program program = llama_1b(2);
  const SimLaunch launch = decode_launch(1, 128, 2);
  const auto with = [&](const char* what_if) {
    SimParameters p = h200_sim_parameters();
    apply_what_if(p, what_if);
    return predict_us(program, launch, p);
  };
  const double as_it_is = with("gb_per_s=x1");
  double before = with("gb_per_s=x0.25");
  for (const char* better : {"gb_per_s=x0.5", "gb_per_s=x1", "gb_per_s=x2", "gb_per_s=x8"}) {
    EXPECT_LT(with(better), before) << better;
    before = with(better);
  }
  for (const char* better :
       {"round_factor=x0.5", "signal_us=0", "notice_rounds=0", "read_rounds=0", "notice_us=0", "join_us=0",
        "land_us=0", "scale_us=0", "latency_factor=x0.5", "multiply_us=x0.5", "take_us=x0.5", "store_us=0",
        "next_tile_us=0", "last_storer_us=0", "load_us=0", "prepare_us=0", "fetch_us=0",
        "attention.fixed_us=0", "sample.fixed_us=0"}) {
    EXPECT_LE(with(better), as_it_is * (1 + 1e-3)) << better;
  }
  for (const char* worse : {"round_factor=x3", "multiply_us=x5", "attention.fixed_us=x10", "fetch_us=20",
                            "ring_pages=2", "pages_in_flight_waiting=1", "record_buffers=1"}) {
    EXPECT_GT(with(worse), as_it_is) << worse;
  }
}

// A warp multiplies the pages of a chain one after the other, product by product.
TEST(Simulate, TakesLongerInTileOrderByTheChainsOfProducts) {
  const LlamaConfig config = testing::shortened_preset("llama-3.2-1b", 2);
  const auto compiled = [&](bool tile_order) {
    return compile_model(config, h200_machine(),
                         {.context = 512, .rows = 1, .batch_invariant = tile_order, .tile_order = tile_order},
                         {.policy = Policy::kList});
  };
  const auto us_of = [&](const ValidProgram& program, const char* what_if) {
    SimParameters p = h200_sim_parameters();
    apply_what_if(p, what_if);
    return predict_us(*program, decode_launch(1, 128, 1), p);
  };
  const ValidProgram vectors = compiled(false), in_tile_order = compiled(true);
  EXPECT_EQ(us_of(vectors, "chain_us=x4"), us_of(vectors, "chain_us=x1"));
  EXPECT_GT(us_of(in_tile_order, "chain_us=x1"), us_of(vectors, "chain_us=x1"));
  EXPECT_GT(us_of(in_tile_order, "chain_us=x4"), us_of(in_tile_order, "chain_us=x1"));
  EXPECT_EQ(us_of(in_tile_order, "multiply_us=x4"), us_of(in_tile_order, "multiply_us=x1"));
}

TEST(Simulate, IsNeverSlowerOverABetterLink) {
  const LlamaConfig config = testing::shortened_preset("llama-3.2-1b", 2);
  const ValidProgram program =
      compile_model(config, h200_machine(), {.context = 512, .ranks = 2}, {.policy = Policy::kList});
  const SimLaunch launch = decode_launch(1, 128, 2);
  const auto with = [&](const char* what_if) {
    SimParameters p = h200_sim_parameters();
    apply_what_if(p, what_if);
    return predict_us(*program, launch, p);
  };
  const double as_it_is = with("gb_per_s=x1");
  for (const char* better : {"link_us=x0.5", "link_us=0", "link_gb_per_s=x2", "link_gb_per_s=x100"})
    EXPECT_LE(with(better), as_it_is * (1 + 1e-3)) << better;
  for (const char* worse : {"link_us=x2", "link_gb_per_s=x0.1"}) EXPECT_GT(with(worse), as_it_is) << worse;
}

TEST(Simulate, TakesNoLessThanItsBytesAtFullBandwidth) {
  const Program program = llama_1b(2);
  const double least_us =
      static_cast<double>(page_bytes_of_weights(program)) / h200_sim_parameters().gb_per_s / 1e3;
  EXPECT_GT(predict_us(program, decode_launch(1, 128, 2), h200_sim_parameters()), least_us);
}

TEST(Simulate, TakesLongerForMoreRowsAndLongerContexts) {
  const Program program = llama_1b(1);
  const auto us_of = [&](uint32_t rows, uint32_t context) {
    return predict_us(program, decode_launch(rows, context, 2), h200_sim_parameters());
  };
  EXPECT_LT(us_of(1, 100), us_of(1, 4000));
  EXPECT_LT(us_of(1, 100), us_of(8, 100));
  EXPECT_LT(us_of(8, 100), us_of(16, 100));
}

TEST(Simulate, SkipsTheLmHeadOfRowsThatWantNoLogits) {
  const Program program = llama_1b(1);
  SimLaunch prompt = decode_launch(4, 100, 1);
  for (PassRow& row : prompt.rows) row.wants_logits = 0;
  const Trace trace = simulate(program, prompt, h200_sim_parameters());
  for (const Execution& e : trace.executions) {
    const bool lm_head = trace.program.ops[trace.program.instructions[e.instruction].op] == "lm_head";
    EXPECT_EQ(e.has(EventKind::kLoadBegin) && lm_head, false);
  }
  EXPECT_EQ(trace.windows.size(), 1U);  // no row continues
}

// A program that is proven valid runs to its end on any machine.
TEST(Simulate, RunsWhateverTheSchedulerCompiles) {
  const std::vector<const char*> machines = {"ring_pages=1",      "pages_in_flight=1", "record_buffers=1",
                                             "partial_buffers=1", "storer_warps=1",    "consumer_warps=1",
                                             "consumer_warps=3",  "partial_bytes=32",  "activation_rows=1"};
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Graph graph = testing::random_graph(seed);
    for (const uint32_t sms : testing::kSmCounts) {
      for (const testing::Compilation& how : testing::compilations_for(sms)) {
        const Program program = testing::compile_as(graph, how);
        SimParameters p = h200_sim_parameters();
        apply_what_if(p, machines[seed % machines.size()]);
        // As many rows as the program has, each of its own sequence, and fewer.
        const uint32_t most = std::min(program.limits.rows, program.limits.sequences);
        for (const uint32_t rows : {1U, std::min(7U, most), most}) {
          SCOPED_TRACE(
              fmt::format("seed {}, {} SMs, {}, {} rows", seed, sms, machines[seed % machines.size()], rows));
          Trace trace;
          ASSERT_NO_THROW(trace = simulate(program, decode_launch(rows, 40, 2), p));
          EXPECT_EQ(trace.executions.size(), 2 * program.instructions.size());
        }
      }
    }
  }
}

TEST(Simulate, NamesWhereAProgramIsStuck) {
  const auto stuck = [](const Program& program) {
    return error_of([&] { simulate(program, decode_launch(1, 10, 2), round_numbers()); });
  };
  HandMade starved(2);
  const uint32_t never = starved.counter(), gate = starved.counter();
  starved.add(0, 1, {}, {{gate, 1}});
  starved.add(1, 1, {{never, 3, 2}}, {{never, 2}});
  EXPECT_EQ(
      stuck(starved.build(gate)),
      "simulation: deadlock: SM 1: instruction 1 (matvec_residual) of pass 0 waits for counter 0: 0 of 3");

  // Each waits for an instruction that comes later in the other SM's queue.
  HandMade crossed(2);
  const uint32_t a = crossed.counter(), b = crossed.counter();
  crossed.add(0, 1, {{a, 1, 2}}, {});
  crossed.add(0, 1, {}, {{b, 1}});
  crossed.add(1, 1, {{b, 1, 2}}, {});
  crossed.add(1, 1, {}, {{a, 1}});
  EXPECT_THAT(stuck(crossed.build(a)),
              HasSubstr("SM 0: instruction 0 (matvec_residual) of pass 0 waits for counter 0"));
}

// If any wait cannot be satisfied, the simulation ends with an error.
TEST(Simulate, EndsWhereAnyWaitIsForever) {
  for (uint32_t seed = 0; seed < 5; ++seed) {
    const Program good =
        testing::compile_as(testing::random_graph(seed), {Policy::kWave, QueueKind::kPerSm, 2});
    for (size_t w = 0; w < good.waits.size(); ++w) {
      Program bad = good;
      bad.waits[w].threshold += 1000;
      EXPECT_THAT(error_of([&] {
                    predict_us(bad, decode_launch(std::min(2U, bad.limits.rows), 40, 1),
                               h200_sim_parameters());
                  }),
                  HasSubstr("simulation: deadlock: SM"));
    }
  }
}

TEST(Simulate, RefusesALaunchThatTheProgramCannotRun) {
  const Program program = chain_of_two(1, 1);
  const auto error = [&](const SimLaunch& launch) {
    return error_of([&] { simulate(program, launch, round_numbers()); });
  };
  EXPECT_EQ(error({.rows = {}, .passes = 1}), "simulation: rows: none is active");
  EXPECT_EQ(error(decode_launch(17, 1, 1)), "simulation: rows: 17; limit: 16");
  EXPECT_EQ(error(decode_launch(1, 1, 0)), "simulation: passes: 0; limit: 1 to 4096");
  EXPECT_EQ(error(decode_launch(1, 1024, 1)),
            "simulation: position: 1024; limit: 1023 (the program's context)");
}

TEST(Simulate, RefusesAProgramThatIsDamaged) {
  Program program = chain_of_two(1, 1);
  program.instructions[0].opcode = 999;
  EXPECT_THAT(error_of([&] { predict_us(program, decode_launch(1, 1, 1), round_numbers()); }),
              HasSubstr("opcode"));
  program = chain_of_two(1, 1);
  program.waits[0].counter = 77;
  EXPECT_THAT(error_of([&] { predict_us(program, decode_launch(1, 1, 1), round_numbers()); }),
              HasSubstr("counter 77"));
}

}  // namespace
}  // namespace serval

// Traces that check_trace() refuses; readers of traces rely on it.
#include "profiler/trace/trace.h"

#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "profiler/trace/trim.h"
#include "tests/profiler/trace_builder.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The error for the trace of two SMs after `damage`.
std::string error_after(const std::function<void(Trace&)>& damage) {
  Trace trace = two_sm_trace().trace();
  damage(trace);
  try {
    check_trace(trace, "a.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    EXPECT_THAT(error.what(), StartsWith("a.json: trace: "));
    return error.what();
  }
  return "no error";
}

TEST(Trace, AGoodOnePasses) {
  EXPECT_EQ(error_after([](Trace&) {}), "no error");
}

TEST(Trace, IndicesHaveToBeInRange) {
  const auto expect = [](const char* said, const std::function<void(Trace&)>& damage) {
    EXPECT_THAT(error_after(damage), HasSubstr(said));
  };
  expect("machine: 0 SMs", [](Trace& t) { t.program.machine.sms = 0; });
  expect("gate_counter: 9; limit: 1", [](Trace& t) { t.program.gate_counter = 9; });
  expect("instruction 1: op: 3; limit: 2", [](Trace& t) { t.program.instructions[1].op = 3; });
  expect("instruction 1: queue: 2; limit: 1", [](Trace& t) { t.program.instructions[1].queue = 2; });
  expect("instruction 1: waits", [](Trace& t) { t.program.instructions[1].wait_count = 0xffffffff; });
  expect("signals: 5; limit: 3", [](Trace& t) { t.program.instructions[0].signal_count = 3; });
  expect("wait 0: counter: 2; limit: 1", [](Trace& t) { t.program.waits[0].counter = 2; });
  expect("signal 2: counter: 7; limit: 1", [](Trace& t) { t.program.signals[2].counter = 7; });
  expect("execution 3: instruction: 3; limit: 2", [](Trace& t) { t.executions[3].instruction = 3; });
  expect("execution 3: sm: 2; limit: 1", [](Trace& t) { t.executions[3].sm = 2; });
  expect("execution 3: last_counter: 2; limit: 1", [](Trace& t) { t.executions[3].last_counter = 2; });
  expect("execution 5: pass: 3; limit: 0 to 2", [](Trace& t) { t.executions[5].pass = 3; });
  expect("sample 0: sm: 2; limit: 1", [](Trace& t) { t.samples = {{.at_ns = 0, .sm = 2}}; });
}

TEST(Trace, TimesHaveToBeInOrder) {
  EXPECT_THAT(error_after([](Trace& t) { t.executions[0].set(EventKind::kPrepared, 9); }),
              HasSubstr("execution 0: inputs_ready is after prepared"));
  EXPECT_THAT(error_after([](Trace& t) { t.executions[0].set(EventKind::kStored, -7); }),
              HasSubstr("execution 0: time: -7 ns"));
  EXPECT_THAT(error_after([](Trace& t) { t.executions[0].set(EventKind::kSignalled, int64_t{1} << 60); }),
              HasSubstr("execution 0: time"));
  EXPECT_THAT(error_after([](Trace& t) { t.executions[0].room_ns = -1; }), HasSubstr("execution 0: time"));
  EXPECT_THAT(error_after([](Trace& t) { t.executions[0].at.fill(kNever); }),
              HasSubstr("execution 0: no event"));
  EXPECT_THAT(error_after([](Trace& t) { t.samples = {{.at_ns = 5}, {.at_ns = 4}}; }), HasSubstr("sample 1"));
}

TEST(Trace, WindowsFollowEachOther) {
  EXPECT_THAT(error_after([](Trace& t) { t.windows.clear(); }), HasSubstr("no token"));
  EXPECT_THAT(error_after([](Trace& t) { t.windows[1].begin_ns = 999; }), HasSubstr("window 1"));
  EXPECT_THAT(error_after([](Trace& t) { t.windows[1].pass = 5; }), HasSubstr("window 1"));
  EXPECT_THAT(error_after([](Trace& t) { t.windows[0].end_ns = 0; }), HasSubstr("window 0"));
}

TEST(Trace, EveryInstructionSignalsOnceInEachToken) {
  EXPECT_THAT(error_after([](Trace& t) { t.executions.erase(t.executions.begin()); }),
              HasSubstr("pass 0: 2 executions of 3 instructions"));
  EXPECT_THAT(error_after([](Trace& t) { t.executions[0].instruction = 1; }),
              HasSubstr("pass 0: instruction 1 does not signal once"));
  EXPECT_THAT(error_after([](Trace& t) { t.executions[4].set(EventKind::kSignalled, kNever); }),
              HasSubstr("pass 1: instruction 1 does not signal once"));
  EXPECT_THAT(error_after([](Trace& t) { std::swap(t.executions[0], t.executions[5]); }),
              HasSubstr("not in order"));
}

TEST(Trace, RanksHaveAsManySmsEachAGateEachAndPushToOthers) {
  const auto error = [](const std::function<void(Trace&)>& damage) {
    return error_after([&](Trace& t) {
      t = two_gpu_trace().trace();
      damage(t);
    });
  };
  EXPECT_EQ(error([](Trace&) {}), "no error");
  EXPECT_THAT(error([](Trace& t) { t.program.ranks = 0; }), HasSubstr("0 ranks of 2 SMs"));
  EXPECT_THAT(error([](Trace& t) { t.program.machine.sms = 3; }), HasSubstr("2 ranks of 3 SMs"));
  EXPECT_THAT(error([](Trace& t) { t.program.ranks = 9; }), HasSubstr("limit: 1 to 8"));
  EXPECT_THAT(error([](Trace& t) { t.program.gate_counter = 4; }), HasSubstr("gate_counter: 5; limit: 4"));
  EXPECT_THAT(error([](Trace& t) { t.program.pushes[0].instruction = 5; }),
              HasSubstr("push 0: instruction: 5; limit: 4"));
  EXPECT_THAT(error([](Trace& t) { t.program.pushes[0].to = 2; }), HasSubstr("push 0: to: 2; limit: 1"));
  EXPECT_THAT(error([](Trace& t) { t.program.pushes[0].to = 0; }), HasSubstr("own rank"));
  EXPECT_THAT(error([](Trace& t) { std::swap(t.program.pushes[0], t.program.pushes[4]); }),
              HasSubstr("not in order"));
}

TEST(Trace, AnSmIsNamedWithItsGpuWhereThereAreSeveral) {
  EXPECT_EQ(sm_name(two_sm_trace().trace().program, 1), "SM 1");
  EXPECT_EQ(sm_name(two_gpu_trace().trace().program, 1), "GPU 1 SM 0");
}

TEST(LastTokens, KeepsWhatRunsInThem) {
  const Trace trace = last_tokens(two_sm_trace().trace(), 1);
  check_trace(trace, "trimmed");
  ASSERT_EQ(trace.windows.size(), 1U);
  EXPECT_EQ(trace.windows[0].pass, 1U);
  EXPECT_EQ(trace.windows[0].begin_ns, 0);
  EXPECT_EQ(trace.executions.size(), 3U);
  EXPECT_EQ(trace.executions[0].time(EventKind::kInputsReady), 10);
}

TEST(LastTokens, TimeBeginsWithTheFirstEventEvenBeforeTheWindow) {
  TraceBuilder b = two_sm_trace();
  b.trace().executions[5].set(EventKind::kLoadBegin, 900);
  b.trace().samples = {{.at_ns = 100}, {.at_ns = 950}};
  const Trace trace = last_tokens(b.trace(), 1);
  EXPECT_EQ(trace.windows[0].begin_ns, 100);
  EXPECT_EQ(trace.executions[2].time(EventKind::kLoadBegin), 0);
  ASSERT_EQ(trace.samples.size(), 1U);
  EXPECT_EQ(trace.samples[0].at_ns, 50);
}

}  // namespace
}  // namespace serval::testing

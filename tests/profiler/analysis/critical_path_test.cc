#include "profiler/analysis/critical_path.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/profiler/toy_traces.h"
#include "tests/profiler/trace_builder.h"
#include "vm/base/error.h"

namespace serval {

void PrintTo(const PathStep& s, std::ostream* out) {
  *out << kSliceStateNames[static_cast<size_t>(s.state)] << " of execution " << s.execution << ", "
       << kSmRoleNames[static_cast<size_t>(s.role)] << ", " << s.begin_ns << " to " << s.end_ns;
}

namespace testing {
namespace {

using ::testing::ElementsAre;

std::vector<PathStep> path_of(const Trace& trace, size_t window) {
  return critical_path(trace, edges_of(trace), trace.windows[window]);
}

// The instructions on the path.
std::vector<uint32_t> instructions_of(const Trace& trace, size_t window) {
  std::vector<uint32_t> out;
  for (const uint32_t e : executions_of(path_of(trace, window)))
    out.push_back(trace.executions[e].instruction);
  return out;
}

void expect_covers(const std::vector<PathStep>& path, const PassWindow& window) {
  ASSERT_FALSE(path.empty());
  EXPECT_EQ(path.front().begin_ns, window.begin_ns);
  EXPECT_EQ(path.back().end_ns, window.end_ns);
  for (size_t s = 1; s < path.size(); ++s) EXPECT_EQ(path[s].begin_ns, path[s - 1].end_ns);
}

TEST(CriticalPath, OfAHandMadeTraceIsKnownToTheNanosecond) {
  const Trace trace = two_sm_trace().trace();
  constexpr uint32_t kLong = 2, kLast = 1;
  using enum SliceState;
  EXPECT_THAT(path_of(trace, 0),
              ElementsAre(PathStep{0, 2, kLong, kNoCounter, SmRole::kLoader, kIdle},
                          PathStep{2, 290, kLong, kNoCounter, SmRole::kLoader, kLoad},
                          PathStep{290, 300, kLong, kNoCounter, SmRole::kConsumer, kLoad},
                          PathStep{300, 340, kLong, kNoCounter, SmRole::kConsumer, kLoad},
                          PathStep{340, 600, kLong, kNoCounter, SmRole::kConsumer, kCompute},
                          PathStep{600, 650, kLong, kNoCounter, SmRole::kStorer, kStore},
                          PathStep{650, 700, kLast, 0, SmRole::kPreparer, kWait},
                          PathStep{700, 750, kLast, kNoCounter, SmRole::kPreparer, kLoad},
                          PathStep{750, 950, kLast, kNoCounter, SmRole::kConsumer, kCompute},
                          PathStep{950, 1000, kLast, kNoCounter, SmRole::kStorer, kStore}));
}

TEST(CriticalPath, SaysWhereItCrossesTheLink) {
  const Trace trace = two_gpu_trace().trace();
  constexpr uint32_t kReduce = 1, kPushOfPeer = 3, kPushed = 0;
  const std::vector<PathStep> path = path_of(trace, 0);
  expect_covers(path, trace.windows[0]);
  EXPECT_THAT(path, ::testing::Contains(PathStep{320, 370, kReduce, kPushed, SmRole::kPreparer,
                                                 SliceState::kWait, /*over_link=*/true}));
  EXPECT_EQ(std::count_if(path.begin(), path.end(), [](const PathStep& s) { return s.over_link; }), 1);
  EXPECT_EQ(executions_of(path).front(), kPushOfPeer);
}

TEST(CriticalPath, CoversEachWindowExactly) {
  const Trace trace = two_sm_trace().trace();
  for (size_t w = 0; w < trace.windows.size(); ++w) expect_covers(path_of(trace, w), trace.windows[w]);
}

TEST(CriticalPath, GoesOnWithWhatGaveBackAPageWhereThereWasNoRoom) {
  TraceBuilder b(1);
  const uint32_t gate = b.counter();
  b.add("slow", 0, {}, {});
  b.add("streams", 0, {}, {gate});
  b.window(0, 1000);
  b.execute(0, 0, 0, 600, 650);
  Execution& x = b.execute(1, 10, 900, 950, 1000);
  x.set(EventKind::kPrepared, 20);
  x.set(EventKind::kLoadBegin, 100);
  x.room_ns = 400;
  x.set(EventKind::kFirstLanded, 800);
  x.set(EventKind::kLastLanded, 900);
  EXPECT_THAT(path_of(b.trace(), 0),
              ElementsAre(PathStep{0, 500, 0, kNoCounter, SmRole::kConsumer, SliceState::kCompute},
                          PathStep{500, 800, 1, kNoCounter, SmRole::kLoader, SliceState::kLoad},
                          PathStep{800, 900, 1, kNoCounter, SmRole::kConsumer, SliceState::kLoad},
                          PathStep{900, 950, 1, kNoCounter, SmRole::kConsumer, SliceState::kCompute},
                          PathStep{950, 1000, 1, kNoCounter, SmRole::kStorer, SliceState::kStore}));
}

TEST(CriticalPath, IsEmptyWhereNothingOpensTheGate) {
  TraceBuilder b = two_sm_trace();
  b.gate(0);
  EXPECT_THAT(path_of(b.trace(), 0), ElementsAre());
}

TEST(CriticalPath, InstructionsThatWaitForEachOtherAreAnError) {
  TraceBuilder b(2);
  const uint32_t one = b.counter(), two = b.counter();
  b.add("a", 0, {{two, 1, 1}}, {one});
  b.add("b", 1, {{one, 1, 1}}, {two});
  b.gate(one);
  b.window(10, 100);
  b.execute(0, 100, 100, 100, 100);
  b.execute(1, 100, 100, 100, 100);
  EXPECT_THROW(path_of(b.trace(), 0), Error);
}

// The join waits for `quick` on SM 0 and `slow` on SM 1. `slow` waits until SM 0 runs the instruction after
// `quick`, whose signal was sent before. So `slow` comes last, whatever the threads' timing.
struct Race {
  static constexpr uint32_t kDoor = 0;
  static constexpr uint32_t kSlow = 2, kJoin = 3,
                            kEnd = 4;  // after `quick` and the instruction that opens the door

  static Program program() {
    ToyBuilder b(3);
    const uint32_t arrived = b.counter(), joined = b.counter(), gate = b.counter();
    b.add(0, kToyAdd, {.in = 1, .out = 2}, {}, {{arrived, 1}});
    b.add(0, kToyOpen, {.out = kDoor, .value = 1}, {}, {});
    b.add(1, kToyHold, {.in = kDoor, .value = 1}, {}, {{arrived, 1}});
    b.add(2, kToyAdd, {.in = 3, .out = 4}, {{arrived, 2, 1}}, {{joined, 1}});
    b.add(2, kToyEnd, {}, {{joined, 1, 1}}, {{gate, 1}});
    return b.build(gate);
  }
};

TEST(CriticalPath, OfARecordedRunIsTheOneThatTheProgramForces) {
  constexpr uint32_t kRuns = 50;
  for (uint32_t run = 0; run < kRuns; ++run) {
    ToyMachine machine(Race::program(), 3);
    const Trace trace = record_toy(machine, 1, 1);
    EXPECT_THAT(instructions_of(trace, 0), ElementsAre(Race::kSlow, Race::kJoin, Race::kEnd));
    expect_covers(path_of(trace, 0), trace.windows[0]);
  }
}

}  // namespace
}  // namespace testing
}  // namespace serval

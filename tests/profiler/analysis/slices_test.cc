#include "profiler/analysis/slices.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/profiler/trace_builder.h"

namespace serval::testing {
namespace {

using ::testing::ElementsAre;

struct Part {
  int64_t begin_ns, end_ns;
  SliceState state;
  friend bool operator==(const Part&, const Part&) = default;
};
void PrintTo(const Part& p, std::ostream* out) {
  *out << kSliceStateNames[static_cast<size_t>(p.state)] << " " << p.begin_ns << " to " << p.end_ns;
}

std::vector<Part> parts_of(const Trace& trace, uint32_t sm, SmRole role) {
  std::vector<Part> out;
  for (const Slice& s : slices_of(trace)) {
    if (s.sm == sm && s.role == role) out.push_back({s.begin_ns, s.end_ns, s.state});
  }
  return out;
}

TraceBuilder one_instruction() {
  TraceBuilder b(1);
  const uint32_t gate = b.counter();
  b.add("op", 0, {}, {gate});
  b.window(0, 1000);
  return b;
}

TEST(Slices, SayWhatEachRoleDid) {
  TraceBuilder b = one_instruction();
  Execution& x = b.execute(0, 300, 420, 800, 900);
  x.set(EventKind::kFetchBegin, 10);
  x.set(EventKind::kFetched, 30);
  x.set(EventKind::kLoadBegin, 40);
  x.set(EventKind::kLoadIssued, 200);
  x.set(EventKind::kLastLanded, 250);
  x.room_ns = 60;
  x.set(EventKind::kWaitBegin, 50);
  x.set(EventKind::kPrepared, 400);
  x.starved_ns = 80;
  x.set(EventKind::kStoreBegin, 810);
  x.set(EventKind::kStored, 870);
  EXPECT_THAT(parts_of(b.trace(), 0, SmRole::kController), ElementsAre(Part{10, 30, SliceState::kFetch}));
  EXPECT_THAT(parts_of(b.trace(), 0, SmRole::kLoader),
              ElementsAre(Part{40, 100, SliceState::kRoom}, Part{100, 250, SliceState::kLoad}));
  EXPECT_THAT(parts_of(b.trace(), 0, SmRole::kPreparer),
              ElementsAre(Part{50, 300, SliceState::kWait}, Part{300, 400, SliceState::kLoad}));
  EXPECT_THAT(parts_of(b.trace(), 0, SmRole::kConsumer),
              ElementsAre(Part{30, 300, SliceState::kWait}, Part{300, 420, SliceState::kLoad},
                          Part{420, 500, SliceState::kLoad}, Part{500, 800, SliceState::kCompute}));
  EXPECT_THAT(parts_of(b.trace(), 0, SmRole::kStorer),
              ElementsAre(Part{810, 870, SliceState::kStore}, Part{870, 900, SliceState::kSignal}));
}

TEST(Slices, ConsumersWaitForWhatCameLast) {
  TraceBuilder b = one_instruction();
  Execution& x = b.execute(0, 300, 500, 800, 900);
  x.set(EventKind::kFirstLanded, 450);  // after the inputs: the wait for the counter cost no time
  EXPECT_THAT(parts_of(b.trace(), 0, SmRole::kConsumer),
              ElementsAre(Part{0, 500, SliceState::kLoad}, Part{500, 800, SliceState::kCompute}));
}

TEST(Slices, ALoaderGoesOnToTheNextInstructionWhilePagesLand) {
  TraceBuilder b(1);
  const uint32_t gate = b.counter();
  b.add("first", 0, {}, {});
  b.add("second", 0, {}, {gate});
  b.window(0, 1000);
  for (const int64_t at : {0, 100}) {
    Execution& x = b.execute(at == 0 ? 0 : 1, at, at, at, at);
    x.set(EventKind::kLoadBegin, at);
    x.set(EventKind::kLoadIssued, at + 90);
    x.set(EventKind::kLastLanded, at + 150);
  }
  EXPECT_THAT(parts_of(b.trace(), 0, SmRole::kLoader),
              ElementsAre(Part{0, 100, SliceState::kLoad}, Part{100, 250, SliceState::kLoad}));
}

TEST(Slices, WhoStillWaitsAtTheEndOfTheTraceWaitsUntilThen) {
  TraceBuilder b = one_instruction();
  b.execute(0, 1, 2, 3, 1000);
  Execution& next = b.execute(0);
  next.pass = 1;
  next.set(EventKind::kWaitBegin, 600);
  EXPECT_THAT(parts_of(b.trace(), 0, SmRole::kPreparer),
              ElementsAre(Part{1, 2, SliceState::kLoad}, Part{600, 1000, SliceState::kWait}));
}

TEST(Slices, NameTheCounterThatWasReachedLast) {
  const Trace trace = two_sm_trace().trace();
  for (const Slice& s : slices_of(trace)) {
    const bool knows = s.state == SliceState::kWait && trace.executions[s.execution].last_counter == 0;
    EXPECT_EQ(s.counter, knows ? 0 : kNoCounter);
  }
}

TEST(Slices, StatesOfEachSmAndRoleAddUpToTheToken) {
  const Trace trace = two_sm_trace().trace();
  const std::vector<Slice> slices = slices_of(trace);
  for (const PassWindow& window : trace.windows) {
    const std::vector<StateTimes> all = state_times(trace, slices, window);
    ASSERT_EQ(all.size(), 2 * kNumSmRoles);
    for (const StateTimes& times : all) {
      int64_t sum = 0;
      for (const int64_t t : times) {
        EXPECT_GE(t, 0);
        sum += t;
      }
      EXPECT_EQ(sum, window.length_ns());
    }
    const StateTimes& slow = all[index_of_role(1, SmRole::kConsumer)];
    EXPECT_EQ(slow[static_cast<size_t>(SliceState::kCompute)], 260);
    const StateTimes& controller = all[index_of_role(1, SmRole::kController)];
    EXPECT_EQ(controller[static_cast<size_t>(SliceState::kIdle)], 1000);
  }
}

}  // namespace
}  // namespace serval::testing

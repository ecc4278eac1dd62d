// The host interpreter on a toy instruction set: counters, passes, the gate, faults.
#include "vm/host/interpreter.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/vm/toy_isa.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;

constexpr double kShortTimeout = 0.2;             // seconds
constexpr uint32_t kLongerThanTimeout = 500'000;  // µs
const std::vector<uint32_t> kThreads = {1, 2, 5};

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Error error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no serval::Error";
  return {ErrorKind::kRuntime, ""};
}

// Passes one value from SM to SM: `steps` additions, each of which waits for the previous one. The result is
// steps × passes only if every addition sees the previous one. Every third addition is delayed.
Program relay(uint32_t sms, uint32_t steps, uint32_t increment, QueueKind kind = QueueKind::kPerSm) {
  ToyBuilder b(sms, kind);
  uint32_t before = b.counter();
  const uint32_t first = before;
  for (uint32_t i = 0; i < steps; ++i) {
    const uint32_t queue = kind == QueueKind::kGlobal ? 0 : i % sms;
    const uint32_t after = b.counter();
    std::vector<Wait> waits;
    if (i > 0) waits.push_back({before, increment, 1});
    b.add(queue, kToyAdd, {.in = i % 7, .out = (i + 1) % 7, .value = 1, .delay_us = i % 3 == 0 ? 100U : 0U},
          waits, {{after, increment}});
    before = after;
  }
  // Copies the value back to cell 0 and ends the pass.
  const uint32_t home = b.counter();
  b.add(0, kToyAdd, {.in = steps % 7, .out = 0}, {{before, increment, 1}}, {{home, increment}});
  b.add(0, kToyEnd, {}, {{home, increment, 1}}, {{first, increment}});
  return b.build(first);
}

TEST(HostInterpreter, CountersOrderInstructionsOfDifferentSms) {
  for (const uint32_t threads : kThreads) {
    for (const uint32_t sms : {1U, 2U, 5U}) {
      ToyMachine toy(relay(sms, 30, 1), threads);
      EXPECT_EQ(toy.run(1), 1U);
      EXPECT_EQ(toy.cell(0), 30U) << sms << " SMs, " << threads << " threads";
    }
  }
}

TEST(HostInterpreter, RunsAProgramForManyPassesAndLaunches) {
  for (const uint32_t threads : kThreads) {
    ToyMachine toy(relay(3, 10, 1), threads);
    EXPECT_EQ(toy.run(100), 100U);
    EXPECT_EQ(toy.run(1), 1U);
    EXPECT_EQ(toy.run(50), 50U);
    EXPECT_EQ(toy.cell(0), 151U * 10);
  }
}

// A thread that has waited long for one of its SMs must still notice that another can run.
TEST(HostInterpreter, AThreadOfManySmsRunsWhicheverIsFree) {
  ToyMachine toy(relay(9, 61, 1), 2);
  constexpr uint32_t kPasses = 200;
  EXPECT_EQ(toy.run(kPasses), kPasses);
  EXPECT_EQ(toy.cell(0), kPasses * 61);
}

// A program of several devices, each with its own cells, gate and decision: the value goes from device to
// device, one step each, and the last device tells all of them whether another pass follows.
class ToyRanks {
 public:
  ToyRanks(uint32_t ranks, uint32_t threads)
      : controls(ranks), program_(build(ranks)), interpreter_(program_, toy_isa(), bind(), {threads, 20}) {}
  uint32_t run(uint32_t passes, const std::function<void(uint32_t)>& on_pass = {}) {
    controls.assign(controls.size(), {.passes_done = 0, .passes_wanted = passes});
    return interpreter_.run(on_pass);
  }
  const Program& program() const { return program_; }

  std::vector<uint32_t> cells = std::vector<uint32_t>(kToyCells, 0);
  std::vector<PassControl> controls;

 private:
  static Program build(uint32_t ranks);
  HostMemory bind();
  uint32_t stop_ = 0;
  Program program_;
  HostInterpreter interpreter_;
};

Program ToyRanks::build(uint32_t ranks) {
  ToyBuilder b(ranks);
  std::vector<uint32_t> arrived, gates;
  for (uint32_t r = 0; r < ranks; ++r) arrived.push_back(b.counter());
  for (uint32_t r = 0; r < ranks; ++r) gates.push_back(b.counter());
  for (uint32_t r = 0; r < ranks; ++r) {
    std::vector<Wait> waits;
    if (r > 0) waits.push_back({arrived[r - 1], 1, 1});
    std::vector<Signal> signals = {{arrived[r], 1}};
    b.add(r, kToyAdd, {.in = r, .out = (r + 1) % ranks, .value = 1, .delay_us = 50}, waits, signals);
  }
  std::vector<Signal> open;
  for (const uint32_t gate : gates) open.push_back({gate, 1});
  b.add(0, kToyEnd, {}, {{arrived[ranks - 1], 1, 1}}, open);
  Program p = b.build(gates.front());
  p.num_devices = ranks;
  p.machine.sms = 1;
  for (uint32_t r = 0; r < ranks; ++r) {
    p.counters[arrived[r]] = {1, CounterScope::kSystem, static_cast<uint8_t>((r + 1) % ranks)};
    p.counters[gates[r]] = {1, CounterScope::kSystem, static_cast<uint8_t>(r)};
    if (r == 0) continue;
    p.tensors.push_back(p.tensors[1]);
    p.tensors.back().device = static_cast<uint8_t>(r);
  }
  return p;
}

// Here all devices share one decision; in real programs an instruction copies it (push_state).
HostMemory ToyRanks::bind() {
  HostMemory memory(program_);
  memory.bind({0}, cells.data());
  memory.bind({1}, &controls[0]);
  memory.bind({2}, &stop_);
  for (uint32_t t = 3; t < program_.tensors.size(); ++t) memory.bind({t}, &controls[0]);
  return memory;
}

TEST(HostInterpreter, RunsDevicesAsGroupsOfThreads) {
  constexpr uint32_t kPasses = 40;
  for (const uint32_t ranks : {2U, 4U, 8U}) {
    for (const uint32_t threads : {1U, 2U, 3U, 8U, 20U}) {
      ToyRanks toy(ranks, threads);
      uint32_t passes_seen = 0;
      const auto count = [&](uint32_t pass) { EXPECT_EQ(pass, passes_seen++); };
      EXPECT_EQ(toy.run(kPasses, count), kPasses);
      EXPECT_EQ(passes_seen, kPasses);
      EXPECT_EQ(toy.cells[0], kPasses * ranks) << ranks << " devices, " << threads << " threads";
      EXPECT_EQ(toy.run(3), 3U);
      EXPECT_EQ(toy.cells[0], (kPasses + 3) * ranks);
    }
  }
}

TEST(HostInterpreter, NamesTheRankThatWaits) {
  ToyRanks toy(2, 2);
  Program p = toy.program();
  p.waits[0].threshold = 3;
  std::vector<uint32_t> cells(kToyCells, 0);
  PassControl control{.passes_done = 0, .passes_wanted = 1};
  uint32_t stop = 0;
  HostMemory memory(p);
  memory.bind({0}, cells.data());
  memory.bind({1}, &control);
  memory.bind({2}, &stop);
  memory.bind({3}, &control);
  HostInterpreter interpreter(p, toy_isa(), memory, {1, kShortTimeout});
  const Error e = error_of([&] { interpreter.run({}); });
  EXPECT_EQ(e.kind(), ErrorKind::kDeviceFault);
  EXPECT_THAT(e.what(), HasSubstr("rank "));
}

// With 2^29 increments a pass, counters wrap around every eighth pass.
TEST(HostInterpreter, CountersMayWrapAround) {
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    ToyMachine toy(relay(3, 10, uint32_t{1} << 29, kind), 2);
    for (uint32_t launch = 1; launch <= 5; ++launch) {
      EXPECT_EQ(toy.run(13), 13U);
      EXPECT_EQ(toy.cell(0), launch * 13 * 10);
    }
  }
}

// SM 0 has nothing to do, and its thread is delayed until SM 1 has run all passes. The gate's counter is then
// 2^31 ahead of the value that SM 0 waits for.
TEST(HostInterpreter, AnSmThatComesPassesLateGoesThroughTheGates) {
  constexpr uint32_t kIncrement = uint32_t{1} << 29, kPasses = 6;
  ToyBuilder b(2);
  const uint32_t end = b.counter();
  b.add(1, kToyEnd, {}, {}, {{end, kIncrement}});
  ToyMachine toy(b.build(end), 2);
  uint32_t passes_seen = 0;
  const auto hold_up = [&](uint32_t pass) {
    ++passes_seen;
    const std::atomic_ref last(toy.control.last_pass);
    while (pass == 0 && last.load(std::memory_order_acquire) == kKeepRunning) std::this_thread::yield();
  };
  EXPECT_EQ(toy.run(kPasses, hold_up), kPasses);
  EXPECT_EQ(passes_seen, kPasses);
}

TEST(HostInterpreter, ThresholdZeroWaitsForThePassBefore) {
  ToyBuilder b(2);
  const uint32_t read = b.counter(), written = b.counter(), end = b.counter();
  // SM 0 overwrites cell 1 only after SM 1 has read the previous pass's value.
  b.add(0, kToyAdd, {.in = 1, .out = 1, .value = 1}, {{read, 0, 1}}, {{written, 1}});
  b.add(1, kToyAdd, {.in = 1, .out = 2, .delay_us = 300}, {{written, 1, 1}}, {{read, 1}});
  b.add(0, kToyEnd, {}, {{read, 1, 1}}, {{end, 1}});
  ToyMachine toy(b.build(end), 2);
  toy.run(40);
  EXPECT_EQ(toy.cell(1), 40U);
  EXPECT_EQ(toy.cell(2), 40U);
}

TEST(HostInterpreter, NoSmStartsAPassBeforeTheOneBeforeHasEnded) {
  constexpr uint32_t kPasses = 60, kCount = 3, kLog = 100;
  ToyBuilder b(3);
  const uint32_t slow = b.counter(), end = b.counter();
  b.add(0, kToyAdd, {.delay_us = 300}, {}, {{slow, 1}});
  b.add(0, kToyEnd, {}, {{slow, 1, 1}}, {{end, 1}});
  b.add(2, kToyTrace, {.in = kCount, .out = kLog}, {}, {});  // waits for nothing: only the gate delays it
  ToyMachine toy(b.build(end), 3);
  toy.run(kPasses);
  ASSERT_EQ(toy.cell(kCount), kPasses);
  for (uint32_t p = 0; p < kPasses; ++p) EXPECT_THAT(toy.cell(kLog + p), Ge(p));
}

TEST(HostInterpreter, AnSmMayHaveNothingToDo) {
  for (const uint32_t threads : {1U, 2U, 4U}) {
    for (const uint32_t busy : {0U, 2U}) {
      ToyBuilder b(4);
      const uint32_t end = b.counter();
      b.add(busy, kToyAdd, {.in = 0, .out = 0, .value = 1}, {}, {});
      b.add(busy, kToyEnd, {}, {}, {{end, 1}});
      ToyMachine toy(b.build(end), threads);
      std::vector<uint32_t> passes;
      EXPECT_EQ(toy.run(3, [&](uint32_t p) { passes.push_back(p); }), 3U);
      EXPECT_EQ(toy.cell(0), 3U);
      EXPECT_THAT(passes, ElementsAre(0, 1, 2));
    }
  }
}

TEST(HostInterpreter, AGlobalQueueIsSharedByAllThreads) {
  for (const uint32_t threads : kThreads) {
    ToyMachine toy(relay(4, 25, 1, QueueKind::kGlobal), threads);
    std::vector<uint32_t> passes;
    EXPECT_EQ(toy.run(20, [&](uint32_t p) { passes.push_back(p); }), 20U);
    EXPECT_EQ(toy.run(2), 2U);
    EXPECT_EQ(toy.cell(0), 22U * 25);
    EXPECT_EQ(passes.size(), 20U);
  }
}

TEST(HostInterpreter, MoreThreadsThanQueuesOrInstructionsAreHarmless) {
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    ToyBuilder b(2, kind);
    const uint32_t end = b.counter();
    b.add(0, kToyEnd, {.delay_us = 1000}, {}, {{end, 1}});
    ToyMachine toy(b.build(end), 16, kShortTimeout);
    for (int launch = 0; launch < 20; ++launch) EXPECT_EQ(toy.run(2), 2U);
  }
}

TEST(HostInterpreter, CallsBackOnTheCallersThreadInOrder) {
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    ToyMachine toy(relay(3, 6, 1, kind), 3);
    uint32_t next = 0;
    toy.run(30, [&, caller = std::this_thread::get_id()](uint32_t pass) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      EXPECT_EQ(pass, next++);
      EXPECT_GT(std::atomic_ref(toy.control.passes_done).load(), pass);
    });
    EXPECT_EQ(next, 30U);
  }
}

// In each pass, an instruction on SM `asker` of 3 waits for the caller of the launch.
Program asking_program(uint32_t asker, QueueKind kind = QueueKind::kPerSm) {
  ToyBuilder b(3, kind);
  const uint32_t end = b.counter(), asked = b.counter();
  const uint32_t queue = kind == QueueKind::kGlobal ? 0 : asker;
  b.add(queue, kToyAsk, {.in = 0, .out = 1}, {}, {{asked, 1}});
  b.add(queue, kToyEnd, {}, {{asked, 1, 1}}, {{end, 1}});
  return b.build(end);
}

// The callback after a pass sets the value that the next pass waits for, on any SM.
TEST(HostInterpreter, AnInstructionMayWaitForTheCaller) {
  constexpr uint32_t kPasses = 50;
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    for (const uint32_t threads : kThreads) {
      for (const uint32_t asker : {0U, 1U, 2U}) {
        ToyMachine toy(asking_program(asker, kind), threads);
        const std::atomic_ref given(toy.cell(0));
        given = 1;
        EXPECT_EQ(toy.run(kPasses, [&](uint32_t pass) { given = pass + 2; }), kPasses);
        EXPECT_EQ(toy.cell(1), kPasses * (kPasses + 1) / 2);
      }
    }
  }
}

TEST(HostInterpreter, ACallerThatDoesNotGiveIsAFaultThatSaysSo) {
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    ToyMachine toy(asking_program(2, kind), 1, kShortTimeout);
    toy.cell(0) = 1;
    const Error error = error_of([&] { toy.run(2); });
    EXPECT_EQ(error.kind(), ErrorKind::kDeviceFault);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("ask"), HasSubstr("waits for what the caller gives")));
  }
}

TEST(HostInterpreter, TheHostEndsALaunchThroughTheStopWord) {
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    ToyMachine toy(relay(2, 4, 1, kind), 2);
    const uint32_t passes = toy.run(100'000, [&](uint32_t pass) {
      if (pass == 5) std::atomic_ref(toy.stop).store(1);
    });
    EXPECT_GE(passes, 6U);
    EXPECT_LT(passes, 100'000U);
    EXPECT_EQ(toy.cell(0), passes * 4);
    toy.stop = 0;
    EXPECT_EQ(toy.run(2), 2U);
  }
}

constexpr double kNotForever = 60;  // seconds, on a busy machine

// SM 1's second instruction needs two increments of a counter that gets only one.
Program stuck_program(QueueKind kind = QueueKind::kPerSm) {
  ToyBuilder b(2, kind);
  const uint32_t end = b.counter(), one = b.counter();
  const uint32_t other = kind == QueueKind::kGlobal ? 0 : 1;
  b.add(other, kToyAdd, {.in = 0, .out = 0, .value = 1}, {}, {{one, 1}});
  b.add(other, kToyAdd, {.in = 0, .out = 1}, {{one, 2, 1}}, {});
  b.add(0, kToyEnd, {}, {}, {{end, 1}});
  return b.build(end);
}

TEST(HostInterpreter, AWaitThatNothingSatisfiesIsAFaultThatNamesIt) {
  for (const uint32_t threads : {1U, 2U}) {
    ToyMachine toy(stuck_program(), threads, kShortTimeout);
    Error error(ErrorKind::kRuntime, "");
    const double seconds = seconds_of([&] { error = error_of([&] { toy.run(1); }); });
    EXPECT_EQ(error.kind(), ErrorKind::kDeviceFault);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("SM 1"), HasSubstr("pc 1"), HasSubstr("add"),
                                    HasSubstr("counter 1"), HasSubstr("has 1"), HasSubstr("needs 2")));
    EXPECT_GE(seconds, kShortTimeout);
    EXPECT_LT(seconds, kNotForever);
  }
}

TEST(HostInterpreter, AStuckGlobalQueueIsAFaultToo) {
  for (const uint32_t threads : {1U, 3U}) {
    ToyMachine toy(stuck_program(QueueKind::kGlobal), threads, kShortTimeout);
    const Error error = error_of([&] { toy.run(1); });
    EXPECT_EQ(error.kind(), ErrorKind::kDeviceFault);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("pc 1"), HasSubstr("counter 1"), HasSubstr("needs 2")));
  }
}

TEST(HostInterpreter, APassThatNothingEndsIsAFaultAtTheGate) {
  ToyBuilder b(2);
  const uint32_t gate = b.counter(), never = b.counter();
  b.add(0, kToyAdd, {}, {}, {});
  b.add(1, kToyEnd, {}, {{never, 1, 1}}, {{gate, 1}});
  for (const uint32_t threads : {1U, 2U}) {
    ToyMachine toy(b.build(gate), threads, kShortTimeout);
    const Error error = error_of([&] { toy.run(1); });
    EXPECT_EQ(error.kind(), ErrorKind::kDeviceFault);
    EXPECT_THAT(error.what(), HasSubstr("counter"));
  }
}

TEST(HostInterpreter, RunsAgainAfterAFault) {
  ToyMachine toy(stuck_program(), 2, kShortTimeout);
  EXPECT_EQ(error_of([&] { toy.run(1); }).kind(), ErrorKind::kDeviceFault);
  EXPECT_EQ(error_of([&] { toy.run(1); }).kind(), ErrorKind::kDeviceFault);
  toy.program.waits[0].threshold = 1;  // nothing runs, so the program may be corrected
  toy.cell(0) = 0;
  EXPECT_EQ(toy.run(7), 7U);
  EXPECT_EQ(toy.cell(1), 7U);
}

TEST(HostInterpreter, AnExceptionFromTheCallbackEndsTheLaunch) {
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    ToyMachine toy(relay(3, 9, 1, kind), 3);
    EXPECT_THROW(toy.run(1000,
                         [](uint32_t pass) {
                           if (pass == 3) throw std::domain_error("mine");
                         }),
                 std::domain_error);
    toy.cell(0) = 0;
    EXPECT_EQ(toy.run(10), 10U);
    EXPECT_EQ(toy.cell(0), 90U);
  }
}

TEST(HostInterpreter, AnExceptionFromAnInstructionEndsTheLaunch) {
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    for (const uint32_t threads : {1U, 2U}) {
      ToyBuilder b(2, kind);
      const uint32_t end = b.counter(), thrown = b.counter();
      b.add(kind == QueueKind::kGlobal ? 0 : 1, kToyThrow, {.in = 4}, {}, {{thrown, 1}});
      b.add(0, kToyEnd, {}, {{thrown, 1, 1}}, {{end, 1}});
      ToyMachine toy(b.build(end), threads);
      toy.cell(4) = 1;
      EXPECT_THROW(toy.run(1), std::length_error);
      toy.cell(4) = 0;
      EXPECT_EQ(toy.run(3), 3U);
    }
  }
}

// Activity of a launch that threw must not count as progress of the next launch.
TEST(HostInterpreter, FindsAStallAfterALaunchThatThrew) {
  ToyMachine toy(stuck_program(), 1, kShortTimeout);
  EXPECT_THROW(toy.run(1, [](uint32_t) { throw std::domain_error("mine"); }), std::domain_error);
  EXPECT_EQ(error_of([&] { toy.run(1); }).kind(), ErrorKind::kDeviceFault);
}

TEST(HostInterpreter, ASlowInstructionIsNotAStall) {
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    ToyBuilder b(2, kind);
    const uint32_t end = b.counter(), slow = b.counter();
    b.add(kind == QueueKind::kGlobal ? 0 : 1, kToyAdd, {.value = 1, .delay_us = kLongerThanTimeout}, {},
          {{slow, 1}});
    b.add(0, kToyEnd, {}, {{slow, 1, 1}}, {{end, 1}});
    ToyMachine toy(b.build(end), 2, kShortTimeout);
    EXPECT_EQ(toy.run(2), 2U);
  }
}

TEST(HostInterpreter, ASlowCallbackIsNotAStall) {
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    ToyMachine toy(relay(2, 4, 1, kind), 2, kShortTimeout);
    const auto dawdle = [](uint32_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(kLongerThanTimeout));
    };
    EXPECT_EQ(toy.run(2, dawdle), 2U);
  }
}

TEST(HostInterpreter, RefusesWhatItCouldNotRun) {
  const Program good = relay(2, 3, 1);
  PassControl control;
  std::vector<uint32_t> cells(kToyCells);
  uint32_t stop = 0;
  HostMemory memory(good);
  memory.bind({0}, cells.data());
  memory.bind({1}, &control);
  const auto refusal = [&](const Program& program, const HostMemory& bound) {
    const Error e = error_of([&] { HostInterpreter(program, toy_isa(), bound, {}); });
    EXPECT_EQ(e.kind(), ErrorKind::kRuntime);
    return std::string(e.what());
  };
  EXPECT_THAT(refusal(good, memory), HasSubstr("not bound"));
  Program of_one_tensor = good;
  of_one_tensor.tensors.resize(1);
  EXPECT_THAT(refusal(good, HostMemory(of_one_tensor)), HasSubstr("not bound"));
  memory.bind({2}, &stop);
  Program unknown = good;
  unknown.instructions[1].opcode = 77;
  EXPECT_THAT(refusal(unknown, memory), HasSubstr("instruction 1: opcode"));
  Program nameless = good;
  nameless.tensors[1].name = "other";
  EXPECT_THAT(refusal(nameless, memory), HasSubstr(state_tensor::kControl));
  Program broken = good;
  broken.waits[0].counter = 1000;
  EXPECT_THAT(refusal(broken, memory), HasSubstr("counter"));
}

}  // namespace
}  // namespace serval::testing

#include "profiler/trace/recorded.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "profiler/trace/align_ranks.h"
#include "tests/profiler/sound_trace.h"
#include "tests/profiler/toy_traces.h"
#include "tests/profiler/trace_builder.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

// An SM that runs one instruction in each pass, whose signal opens the gate.
TraceProgram one_instruction() {
  TraceBuilder b(1);
  b.add("op", 0, {}, {b.counter()}, 64);
  return b.trace().program;
}

// Rings with hand-written events of passes.
class Rings {
 public:
  explicit Rings(uint32_t sms, uint32_t capacity = 64) : rings_(sms, kNumSmRoles, capacity) {}

  void clock(uint32_t sm, ClockSync begin, ClockSync end) { rings_.clocks[sm] = {begin, end}; }
  void write(uint32_t sm, EventKind kind, uint64_t ticks, uint32_t pass, uint32_t instruction = 0,
             uint32_t argument = 0, uint8_t pages = kNoPageSample) {
    const size_t ring = index_of_role(sm, info_of(kind).role);
    const uint32_t n = rings_.written[ring]++;
    rings_.events[ring * rings_.capacity + n % rings_.capacity] = {
        static_cast<uint32_t>(ticks), instruction, argument, static_cast<uint16_t>(pass),
        static_cast<uint8_t>(kind),   pages};
  }
  void write_pass(uint32_t sm, uint64_t ticks, uint32_t pass, uint32_t instruction = 0) {
    write(sm, EventKind::kInputsReady, ticks, pass, instruction, kNoCounter);
    write(sm, EventKind::kComputeBegin, ticks + 10, pass, instruction);
    write(sm, EventKind::kComputeEnd, ticks + 50, pass, instruction, 5);
    write(sm, EventKind::kSignalled, ticks + 60, pass, instruction);
  }
  EventRings& rings() { return rings_; }

 private:
  EventRings rings_;
};

Trace trace_of_rings(TraceProgram program, Rings& rings) {
  return trace_of(std::move(program), rings.rings(), TraceSource::kDevice, {});
}

std::string error_of(TraceProgram program, Rings& rings) {
  try {
    trace_of_rings(std::move(program), rings);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Recorded, EventsBecomeExecutionsAndWindows) {
  Rings rings(1);
  rings.clock(0, {1000, 1000}, {1400, 1400});
  rings.write_pass(0, 1100, 0);
  rings.write_pass(0, 1200, 1);
  const Trace trace = trace_of_rings(one_instruction(), rings);
  check_trace(trace, "recorded");
  ASSERT_EQ(trace.windows.size(), 2U);
  EXPECT_EQ(trace.windows[0].begin_ns, 0);
  EXPECT_EQ(trace.windows[0].end_ns, 160);
  EXPECT_EQ(trace.windows[1].end_ns, 260);
  ASSERT_EQ(trace.executions.size(), 2U);
  EXPECT_EQ(trace.executions[1].time(EventKind::kComputeBegin), 210);
  EXPECT_EQ(trace.executions[1].starved_ns, 5);
  EXPECT_EQ(trace.executions[1].bytes, 64U) << "by the cost, where nothing was counted";
  EXPECT_FALSE(trace.executions[1].has(EventKind::kLoadBegin));
}

TEST(Recorded, ASignalThatWasNotedFirstEndsTheStores) {
  Rings rings(1);
  rings.clock(0, {1000, 1000}, {1400, 1400});
  rings.write_pass(0, 1100, 0);  // signals at 1160
  rings.write(0, EventKind::kStoreBegin, 1170, 0);
  rings.write(0, EventKind::kStored, 1175, 0);
  const Trace trace = trace_of_rings(one_instruction(), rings);
  check_trace(trace, "recorded");
  EXPECT_EQ(trace.executions[0].time(EventKind::kStored), trace.executions[0].time(EventKind::kSignalled));
}

TEST(Recorded, TicksOfDifferentSmsComeToOneClock) {
  TraceBuilder b(2);
  const uint32_t gate = b.counter();
  b.add("fast clock", 0, {}, {});
  b.add("slow clock", 1, {}, {gate});
  Rings rings(2);
  rings.clock(0, {7'000'000, 5000}, {7'002'000, 6000});  // two ticks per nanosecond
  rings.clock(1, {10, 5000}, {510, 6000});               // half a tick
  rings.write_pass(0, 7'000'000, 0, 0);
  rings.write_pass(1, 10, 0, 1);
  const Trace trace = trace_of_rings(b.trace().program, rings);
  EXPECT_EQ(trace.executions[0].time(EventKind::kComputeEnd), 25);
  EXPECT_EQ(trace.executions[1].time(EventKind::kComputeEnd), 100);
  EXPECT_EQ(trace.executions[1].starved_ns, 10);
}

TEST(Recorded, ClocksOfGpusAreBroughtTogetherAndItSaysHowFar) {
  TraceBuilder b(2);
  b.share(2);
  const uint32_t there = b.counter(), back = b.counter(), gate = b.counter();
  b.counter();
  b.add("push", 0, {}, {there});
  b.add("end", 0, {{back, 1, 1}}, {gate, gate + 1});
  b.add("answer", 1, {{there, 1, 1}}, {back});
  b.gate(gate);
  Rings rings(2);
  rings.clock(0, {0, 0}, {1000, 1000});
  rings.clock(1, {0, 70'000}, {1000, 71'000});  // 70 us ahead
  rings.write_pass(0, 100, 0, 0);               // signals at 160
  rings.write_pass(1, 180, 0, 2);               // signals at 240
  rings.write_pass(0, 260, 0, 1);
  const Trace trace = trace_of_rings(b.trace().program, rings);
  check_trace(trace, "recorded");
  const auto ready = [&](size_t e) { return trace.executions[e].time(EventKind::kInputsReady); };
  EXPECT_NEAR(static_cast<double>(ready(2) - ready(0)), 80, 20);
  EXPECT_EQ(trace.metadata.at(kClocksMetadata), "GPU 1: 0.0 us");
}

TEST(Recorded, ClocksMayCountBeyond32Bits) {
  constexpr uint64_t kAlmost = 0xffff'ffe0;
  Rings rings(1);
  rings.clock(0, {kAlmost, 0}, {kAlmost + 1000, 1000});
  rings.write_pass(0, kAlmost, 0);  // its end exceeds 32 bits
  const Trace trace = trace_of_rings(one_instruction(), rings);
  EXPECT_EQ(trace.windows[0].end_ns, 60);
}

TEST(Recorded, RingsThatWereOverwrittenGiveThePassesTheyStillHold) {
  Rings rings(1, 8);
  rings.clock(0, {0, 0}, {100'000, 100'000});
  for (uint32_t pass = 0; pass < 100; ++pass) rings.write_pass(0, pass * 100, pass);
  const Trace trace = trace_of_rings(one_instruction(), rings);
  // The consumers' ring holds four passes; the first of them may have lost an event.
  ASSERT_EQ(trace.windows.size(), 3U);
  EXPECT_EQ(trace.windows.front().pass, 97U);
  EXPECT_EQ(trace.windows.back().pass, 99U);
  EXPECT_EQ(trace.windows.back().length_ns(), 100);
}

TEST(Recorded, WhatHadBegunOfThePassBehindIsKept) {
  Rings rings(1);
  rings.clock(0, {0, 0}, {1000, 1000});
  rings.write_pass(0, 100, 0);
  rings.write(0, EventKind::kLoadBegin, 120, 1);
  const Trace trace = trace_of_rings(one_instruction(), rings);
  ASSERT_EQ(trace.executions.size(), 2U);
  EXPECT_EQ(trace.executions[1].pass, 1U);
  EXPECT_EQ(trace.executions[1].time(EventKind::kLoadBegin), 120);
}

TEST(Recorded, LoadersCountBytesAndSamplePages) {
  Rings rings(1);
  rings.clock(0, {0, 0}, {1000, 1000});
  rings.write(0, EventKind::kLoadBegin, 5, 0, 0, 0, pack_pages(0, 9));
  rings.write(0, EventKind::kLoadIssued, 20, 0, 0, 7, pack_pages(2, 7));
  rings.write(0, EventKind::kLastLanded, 40, 0, 0, 12345, pack_pages(0, 100));
  rings.write_pass(0, 100, 0);
  const Trace trace = trace_of_rings(one_instruction(), rings);
  EXPECT_EQ(trace.executions[0].bytes, 12345U);
  EXPECT_EQ(trace.executions[0].room_ns, 7);
  ASSERT_EQ(trace.samples.size(), 3U);
  EXPECT_EQ(trace.samples[1].bytes_in_flight, 2 * kPageBytes);
  EXPECT_EQ(trace.samples[1].free_pages, 7U);
  EXPECT_EQ(trace.samples[2].free_pages, kMaxSampledPages);
}

TEST(Recorded, NamesWhatTheProgramDoesNotHave) {
  Rings no_pass(1);
  EXPECT_THAT(error_of(one_instruction(), no_pass), HasSubstr("no pass is complete"));
  Rings beyond(1);
  beyond.write_pass(0, 0, 0, 7);
  EXPECT_THAT(error_of(one_instruction(), beyond), HasSubstr("SM 0: instruction 7; limit: 1"));
  Rings unknown(1);
  unknown.write_pass(0, 0, 0);
  unknown.rings().events[0].kind = kNumEventKinds;
  unknown.rings().written[0] = 1;
  EXPECT_THAT(error_of(one_instruction(), unknown), HasSubstr("SM 0: event 14"));
}

// --- the host interpreter's recorder

// Five SMs pass a value on, ten times.
Program relay(QueueKind kind = QueueKind::kPerSm) {
  constexpr uint32_t kSms = 5, kSteps = 50;
  ToyBuilder b(kSms, kind);
  uint32_t before = b.counter();
  for (uint32_t i = 0; i < kSteps; ++i) {
    const uint32_t after = b.counter();
    const std::vector<Wait> waits = i == 0 ? std::vector<Wait>{} : std::vector<Wait>{{before, 1, 1}};
    b.add(kind == QueueKind::kGlobal ? 0 : i % kSms, kToyAdd, {.in = i, .out = i + 1, .value = i}, waits,
          {{after, 1}});
    before = after;
  }
  const uint32_t gate = b.counter();
  b.add(0, kToyEnd, {}, {{before, 1, 1}}, {{gate, 1}});
  return b.build(gate);
}

TEST(HostRecorder, RecordsEveryInstructionOfEveryPass) {
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    for (const uint32_t threads : {1U, 3U, 8U}) {
      ToyMachine machine(relay(kind), threads);
      const Trace trace = record_toy(machine, 4, 4);
      expect_sound(trace, 4);
      for (const Execution& x : trace.executions) {
        if (x.pass > trace.windows.back().pass) continue;
        for (const EventKind event : {EventKind::kInputsReady, EventKind::kPrepared, EventKind::kComputeBegin,
                                      EventKind::kComputeEnd, EventKind::kStored, EventKind::kSignalled})
          EXPECT_TRUE(x.has(event));
      }
    }
  }
}

TEST(HostRecorder, KeepsTheLastPassesOfALongLaunch) {
  ToyMachine machine(relay(), 2);
  const Trace trace = record_toy(machine, 300, 3);
  EXPECT_GE(trace.windows.size(), 3U);
  EXPECT_LT(trace.windows.size(), 300U);
  EXPECT_EQ(trace.windows.back().pass, 299U);
  expect_sound(trace, trace.windows.size());
}

TEST(HostRecorder, EachLaunchBeginsWithEmptyRings) {
  ToyMachine machine(relay(), 2);
  record_toy(machine, 3, 8);
  machine.run(2);
  const Trace trace =
      trace_of(toy_trace_program(machine.program), machine.interpreter().events(), TraceSource::kHost, {});
  EXPECT_EQ(trace.windows.size(), 2U);
}

TEST(HostRecorder, NamesTheCounterThatWasWaitedFor) {
  ToyMachine machine(relay(), 5);
  const Trace trace = record_toy(machine, 2, 2);
  for (const Execution& x : trace.executions) {
    if (!x.has(EventKind::kWaitBegin) || !x.has(EventKind::kInputsReady)) continue;
    const TraceInstruction& i = trace.program.instructions[x.instruction];
    const bool own = i.wait_count > 0 && trace.program.waits[i.wait_begin].counter == x.last_counter;
    EXPECT_TRUE(own || x.last_counter == trace.program.gate_counter);
  }
}

TEST(HostRecorder, IsOffUnlessAskedFor) {
  ToyMachine machine(relay(), 2);
  machine.interpreter().record(64);
  machine.interpreter().record(0);
  EXPECT_EQ(machine.run(3), 3U);
}

}  // namespace
}  // namespace serval::testing

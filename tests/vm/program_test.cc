#include "vm/program.h"

#include <functional>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/vm/toy_isa.h"
#include "vm/base/error.h"
#include "vm/state/parts.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

static_assert(sizeof(Instruction) == 128 && alignof(Instruction) == 16);
static_assert(offsetof(Instruction, opcode) == 0 && offsetof(Instruction, tag) == 2);
static_assert(offsetof(Instruction, wait_count) == 4 && offsetof(Instruction, signal_count) == 6);
static_assert(offsetof(Instruction, wait_begin) == 8 && offsetof(Instruction, signal_begin) == 12);
static_assert(offsetof(Instruction, operands) == 16);
static_assert(sizeof(Wait) == 12 && sizeof(Signal) == 8 && sizeof(Counter) == 8);

TEST(Instruction, KeepsItsOperandsAndClearsTheRest) {
  struct Operands {
    uint32_t a;
    float b;
  };
  Instruction i;
  i.operands.fill(std::byte{0xff});
  i.set(Operands{7, 2.5F});
  EXPECT_EQ(i.as<Operands>().a, 7U);
  EXPECT_EQ(i.as<Operands>().b, 2.5F);
  for (size_t n = sizeof(Operands); n < kOperandBytes; ++n) EXPECT_EQ(i.operands[n], std::byte{0});
}

TEST(Counter, IsReachedAcrossTheWrap) {
  constexpr uint32_t kMax = std::numeric_limits<uint32_t>::max();
  EXPECT_TRUE(counter_reached(0, 0));
  EXPECT_TRUE(counter_reached(5, 4));
  EXPECT_FALSE(counter_reached(4, 5));
  EXPECT_FALSE(counter_reached(kMax, 0));  // 0 is the next value
  EXPECT_TRUE(counter_reached(0, kMax));
  EXPECT_TRUE(counter_reached(2, kMax - 2));
  EXPECT_FALSE(counter_reached(kMax - 2, 2));
  EXPECT_FALSE(counter_reached(0x7fffffff, 0x80000000));
  EXPECT_TRUE(counter_reached(0x80000000, 0x7fffffff));
}

Program small_program() {
  ToyBuilder b(2);
  const uint32_t done = b.counter(), end = b.counter();
  b.add(0, kToyAdd, {}, {}, {{done, 2}});
  b.add(1, kToyEnd, {}, {{done, 2, 1}}, {{end, 1}});
  return b.build(end);
}

std::string refusal(const std::function<void(Program&)>& damage) {
  Program p = small_program();
  damage(p);
  try {
    check_structure(p);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kRuntime);
    return e.what();
  }
  return "accepted";
}

TEST(CheckStructure, AcceptsASoundProgram) {
  EXPECT_EQ(refusal([](Program&) {}), "accepted");
}

TEST(CheckStructure, LimitsTheDevices) {
  EXPECT_THAT(refusal([](Program& p) { p.num_devices = 0; }), HasSubstr("devices: 0; limit: 1 to 8"));
  EXPECT_THAT(refusal([](Program& p) { p.num_devices = 9; }), HasSubstr("devices: 9; limit: 1 to 8"));
}

// The small program with its two SMs as two devices, each with a gate.
Program two_devices() {
  Program p = small_program();
  p.num_devices = 2;
  p.machine.sms = 1;
  p.counters.push_back({.increments_per_pass = 1, .scope = CounterScope::kSystem, .device = 1});
  p.counters[0].device = 1;
  p.counters[0].scope = p.counters[1].scope = CounterScope::kSystem;
  p.signals.push_back({2, 1});
  ++p.instructions[1].signal_count;
  return p;
}

std::string refusal_of_two(const std::function<void(Program&)>& damage) {
  return refusal([&](Program& p) {
    p = two_devices();
    damage(p);
  });
}

TEST(CheckStructure, TakesProgramsOfSeveralDevices) {
  EXPECT_EQ(refusal_of_two([](Program&) {}), "accepted");
  EXPECT_THAT(refusal_of_two([](Program& p) { p.machine.sms = 2; }), HasSubstr("queues: 2, expected 4"));
  EXPECT_THAT(refusal_of_two([](Program& p) { p.queue_kind = QueueKind::kGlobal; }),
              HasSubstr("queues: one for all SMs; 2 devices need a queue an SM"));
}

TEST(CheckStructure, WantsAGateOnEachDevice) {
  EXPECT_THAT(refusal_of_two([](Program& p) { p.gate_counter = 2; }), HasSubstr("gate: counter 2; limit: 2"));
  EXPECT_THAT(refusal_of_two([](Program& p) { p.counters[2].device = 0; }),
              HasSubstr("gate of device 1: counter 2 is on device 0"));
  EXPECT_THAT(refusal_of_two([](Program& p) {
                --p.instructions[1].signal_count;
                p.counters[2].increments_per_pass = 0;
              }),
              HasSubstr("gate: no signal increments"));
}

TEST(CheckStructure, LetsDevicesHaveTensorsOfOneName) {
  const auto add = [](Program& p, uint8_t device) {
    p.tensors.push_back(p.tensors[0]);
    p.tensors.back().device = device;
  };
  EXPECT_EQ(refusal_of_two([&](Program& p) { add(p, 1); }), "accepted");
  EXPECT_THAT(refusal_of_two([&](Program& p) { add(p, 0); }), HasSubstr("an earlier tensor has this name"));
  EXPECT_THAT(refusal_of_two([&](Program& p) { add(p, 2); }), HasSubstr("device 2; limit: 1"));
}

TEST(Program, FindsATensorOfADevice) {
  Program p = two_devices();
  p.tensors.push_back(p.tensors[0]);
  p.tensors.back().device = 1;
  EXPECT_EQ(p.find_tensor("cells"), TensorId{0});
  EXPECT_EQ(p.find_tensor("cells", 1), TensorId{3});
  EXPECT_EQ(name_in(p, p.tensors[3]), "cells@1");
  EXPECT_EQ(name_in(small_program(), p.tensors[0]), "cells");
}

TEST(Program, NumbersSmsDeviceByDevice) {
  Program p = two_devices();
  p.machine.sms = 4;
  EXPECT_EQ(p.num_sms(), 8U);
  EXPECT_EQ(p.device_of_queue(3), 0U);
  EXPECT_EQ(p.device_of_queue(4), 1U);
  EXPECT_EQ(sm_name(p, 6), "rank 1 SM 2");
  EXPECT_EQ(sm_name(small_program(), 6), "SM 6");
}

TEST(CheckStructure, LimitsTheSms) {
  EXPECT_THAT(refusal([](Program& p) { p.machine.sms = 0; }), HasSubstr("SM"));
  // A global queue does not grow with the machine, so no other check would reject this value.
  EXPECT_THAT(refusal([](Program& p) {
                p.queue_kind = QueueKind::kGlobal;
                p.queue_begin = {0, 2};
                p.machine.sms = 0xffffffff;
              }),
              HasSubstr("4294967295"));
}

TEST(CheckStructure, LimitsTheRowsAndSequences) {
  EXPECT_EQ(refusal([](Program& p) { p.limits.rows = kLargestRows; }), "accepted");
  EXPECT_THAT(refusal([](Program& p) { p.limits.rows = 0; }), HasSubstr("limits: 0 rows; limit: 1 to 8192"));
  EXPECT_THAT(refusal([](Program& p) { p.limits.rows = kLargestRows + 1; }), HasSubstr("8193 rows"));
  EXPECT_EQ(refusal([](Program& p) { p.limits.sequences = kLargestSequences; }), "accepted");
  EXPECT_THAT(refusal([](Program& p) { p.limits.sequences = 0; }),
              HasSubstr("0 sequences; limit: 1 to 1024"));
  EXPECT_THAT(refusal([](Program& p) { p.limits.sequences = kLargestSequences + 1; }),
              HasSubstr("1025 sequences"));
}

TEST(CheckStructure, WantsQueuesThatPartitionTheInstructions) {
  EXPECT_THAT(refusal([](Program& p) { p.queue_begin.clear(); }), HasSubstr("queues"));
  EXPECT_THAT(refusal([](Program& p) { p.queue_begin = {1, 1, 2}; }), HasSubstr("do not cover"));
  EXPECT_THAT(refusal([](Program& p) { p.queue_begin = {0, 1, 1}; }), HasSubstr("do not cover"));
  EXPECT_THAT(refusal([](Program& p) { p.queue_begin = {0, 1, 3}; }), HasSubstr("do not cover"));
  EXPECT_THAT(refusal([](Program& p) { p.queue_begin = {0, 3, 2}; }), HasSubstr("overlap"));
  EXPECT_THAT(refusal([](Program& p) { p.queue_begin = {0, 1, 1, 2}; }), HasSubstr("queues: 3, expected 2"));
  EXPECT_THAT(refusal([](Program& p) { p.queue_kind = QueueKind::kGlobal; }), HasSubstr("expected 1"));
}

TEST(CheckStructure, WantsWaitsAndSignalsWithinTheirTables) {
  EXPECT_THAT(refusal([](Program& p) { p.instructions[1].wait_begin = 1; }),
              HasSubstr("instruction 1: waits"));
  EXPECT_THAT(refusal([](Program& p) { p.instructions[0].wait_count = 2; }),
              HasSubstr("instruction 0: waits"));
  EXPECT_THAT(refusal([](Program& p) { p.instructions[0].wait_begin = 0xffffffff; }), HasSubstr("waits"));
  EXPECT_THAT(refusal([](Program& p) { p.instructions[1].signal_count = 0xffff; }), HasSubstr("signals"));
  EXPECT_THAT(refusal([](Program& p) { p.instructions[1].signal_begin = 3; }), HasSubstr("signals"));
}

TEST(CheckStructure, WantsWaitsAndSignalsThatNoTwoInstructionsShare) {
  EXPECT_THAT(refusal([](Program& p) { p.instructions[0].wait_count = 1; }),
              HasSubstr("waits: 2 claimed by the instructions; limit: 1"));
  EXPECT_THAT(refusal([](Program& p) {
                p.instructions[1].signal_begin = 0;
                p.instructions[1].signal_count = 2;
              }),
              HasSubstr("signals: 3 claimed by the instructions; limit: 2"));
}

TEST(CheckStructure, WantsCountersThatExist) {
  EXPECT_THAT(refusal([](Program& p) { p.waits[0].counter = 2; }), HasSubstr("wait 0: counter 2; limit: 2"));
  EXPECT_THAT(refusal([](Program& p) { p.signals[1].counter = 9; }), HasSubstr("signal 1: counter 9"));
  EXPECT_THAT(refusal([](Program& p) { p.gate_counter = 2; }), HasSubstr("gate: counter 2"));
}

TEST(CheckStructure, WantsIncrementsThatAddUp) {
  EXPECT_THAT(refusal([](Program& p) { p.counters[0].increments_per_pass = 3; }),
              HasSubstr("counter 0: 3 increments a pass, its signals add up to 2"));
  EXPECT_THAT(refusal([](Program& p) { p.signals[0].increment = 1; }), HasSubstr("add up to 1"));
}

TEST(CheckStructure, WantsAGateThatOpens) {
  EXPECT_THAT(refusal([](Program& p) {
                p.counters.push_back({});
                p.gate_counter = 2;
              }),
              HasSubstr("gate: no signal increments"));
}

TEST(CheckStructure, WantsDevicesThatExist) {
  EXPECT_THAT(refusal([](Program& p) { p.counters[1].device = 1; }), HasSubstr("counter 1: device 1"));
  EXPECT_THAT(refusal([](Program& p) { p.tensors[0].device = 1; }), HasSubstr("'cells': device 1"));
}

TEST(CheckStructure, WantsScopesThatInterpretersHonour) {
  EXPECT_EQ(refusal([](Program& p) { p.counters[0].scope = CounterScope::kBlock; }), "accepted");
  EXPECT_THAT(refusal([](Program& p) { p.counters[1].scope = CounterScope::kSystem; }),
              HasSubstr("counter 1: system scope, but there is one device"));
}

TEST(CheckStructure, WantsEveryTensorToHaveANameOfItsOwn) {
  EXPECT_THAT(refusal([](Program& p) { p.tensors[2].name = p.tensors[0].name; }),
              HasSubstr("tensor 2 'cells': an earlier tensor has this name"));
}

TEST(CheckStructure, WantsThePartsOfTheStateAsTheyAre) {
  constexpr const char* kControl = "tensor 1 'state.control'";
  EXPECT_THAT(refusal([](Program& p) { --p.tensors[1].cols; }), HasSubstr(kControl));
  EXPECT_THAT(refusal([](Program& p) { ++p.tensors[1].rows; }), HasSubstr(kControl));
  EXPECT_THAT(refusal([](Program& p) { p.tensors[1].dtype = DType::kF32; }), HasSubstr(kControl));
  EXPECT_THAT(refusal([](Program& p) { p.tensors[1].kind = TensorKind::kActivation; }), HasSubstr(kControl));
  EXPECT_THAT(refusal([](Program& p) { p.tensors[0].name = state_tensor::kSampled; }),
              HasSubstr("tensor 0 'state.sampled'"));
}

TEST(CheckStructure, WantsABlockTableOfTheProgramsContext) {
  const auto add_table = [](Program& p, uint32_t context) {
    p.tensors.push_back(*state_part(state_tensor::kBlockTable, {.max_context = context}));
  };
  EXPECT_EQ(refusal([&](Program& p) {
              p.limits.max_context = 65;
              add_table(p, 128);
            }),
            "accepted");
  EXPECT_THAT(refusal([&](Program& p) {
                p.limits.max_context = 64;
                add_table(p, 128);
              }),
              HasSubstr("'state.block_table': i32 [16, 2] of kind 4 as row-major, expected i32 [16, 1]"));
}

TEST(CheckStructure, LimitsTheLimitsOfTheState) {
  EXPECT_THAT(refusal([](Program& p) { p.limits.vocab = kMaxStateLimit + 1; }), HasSubstr("limits.vocab"));
  EXPECT_THAT(refusal([](Program& p) { p.limits.max_context = ~0U; }), HasSubstr("limits.max_context"));
  EXPECT_THAT(refusal([](Program& p) { p.limits.kv_blocks = ~0U; }), HasSubstr("limits.kv_blocks"));
}

TEST(CheckStructure, WantsAnOrderThatSuitsRowsAndDevices) {
  const auto of_one_row = [](Order order) {
    return refusal([&](Program& p) {
      p.tensors.clear();  // a part of the state has the program's rows
      p.limits.rows = 1;
      p.order = order;
    });
  };
  EXPECT_EQ(of_one_row(Order::kVectorInTileOrder), "accepted");
  EXPECT_EQ(of_one_row(Order::kTile), "accepted");
  EXPECT_THAT(of_one_row(static_cast<Order>(kNumOrders)), HasSubstr("order: 3; limit: 2"));
  EXPECT_THAT(refusal([](Program& p) { p.order = Order::kVectorInTileOrder; }),
              HasSubstr("order: vector in tile order, in passes of 16 rows; limit: 1"));
  EXPECT_THAT(refusal([](Program& p) {
                p.limits.rows = 1;
                p.num_devices = 2;
                p.order = Order::kVectorInTileOrder;
              }),
              HasSubstr("order: vector in tile order, on 2 devices; limit: 1"));
}

TEST(CheckStructure, WantsWholeHeadsOrNone) {
  const auto with = [](HeadShape heads) { return refusal([&](Program& p) { p.heads = heads; }); };
  EXPECT_EQ(with({}), "accepted");
  EXPECT_EQ(with({64, 8, 2}), "accepted");
  EXPECT_EQ(with({128, 3, 3}), "accepted");
  for (const uint32_t head_dim : {0U, 32U, 63U, 96U, 127U, 256U})
    EXPECT_THAT(with({head_dim, 8, 2}), HasSubstr("heads.head_dim: " + std::to_string(head_dim)));
  EXPECT_THAT(with({64, 8, 0}), HasSubstr("heads.kv_heads: 0; limit: 1 to 1048576"));
  EXPECT_THAT(with({64, 8, 1U << 21}), HasSubstr("heads.kv_heads"));
  EXPECT_THAT(with({64, 0, 2}), HasSubstr("heads.q_heads: 0; limit: 1 to 1048576"));
  EXPECT_THAT(with({64, ~0U, 1}), HasSubstr("heads.q_heads"));
  EXPECT_THAT(with({64, 7, 2}), HasSubstr("heads.q_heads: 7, expected a multiple of 2 KV heads"));
  EXPECT_THAT(with({64, 1, 2}), HasSubstr("heads.q_heads: 1"));
}

TEST(CheckStructure, WantsTensorsWhoseSizeIsANumber) {
  constexpr uint64_t kHuge = uint64_t{1} << 32;
  EXPECT_THAT(refusal([](Program& p) { p.tensors[0].rows = 0; }), HasSubstr("'cells'"));
  EXPECT_THAT(refusal([](Program& p) { p.tensors[0].cols = 0; }), HasSubstr("'cells'"));
  // 2^62 codes, and as many scales.
  EXPECT_THAT(refusal([](Program& p) {
                p.tensors[0].rows = uint64_t{1} << 62;
                p.tensors[0].cols = 1;
                p.tensors[0].dtype = DType::kE4M3;
              }),
              HasSubstr("larger than"));
  EXPECT_THAT(refusal([](Program& p) { p.tensors[0].rows = p.tensors[0].cols = kHuge; }),
              HasSubstr("'cells'"));
  EXPECT_THAT(refusal([](Program& p) { p.tensors[0].rows = ~uint64_t{0}; }), HasSubstr("'cells'"));
}

// Wrap-safe comparison is correct only while counter and target are less than half the range apart.
TEST(CheckStructure, WantsCountersThatTheWrapLeavesComparable) {
  EXPECT_THAT(refusal([](Program& p) {
                p.signals[0].increment = 0x80000000;
                p.counters[0].increments_per_pass = 0x80000000;
              }),
              HasSubstr("counter 0: 2147483648 increments a pass; limit:"));
}

TEST(Program, FindsTensorsByName) {
  const Program p = small_program();
  EXPECT_EQ(p.find_tensor("cells"), TensorId{0});
  EXPECT_EQ(p.find_tensor("cell"), std::nullopt);
}

}  // namespace
}  // namespace serval::testing

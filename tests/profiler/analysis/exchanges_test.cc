#include "profiler/analysis/exchanges.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/profiler/trace_builder.h"

namespace serval::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// Executions of two_gpu_trace()'s first token.
constexpr uint32_t kReduce = 1, kState = 2, kPushOfPeer = 3, kReduceOfPeer = 4;

std::vector<PeerWait> waits_of(const Trace& trace) {
  return peer_waits(trace, slices_of(trace));
}

TEST(Exchanges, OfOneGpuThereAreNone) {
  EXPECT_THAT(waits_of(two_sm_trace().trace()), IsEmpty());
}

TEST(Exchanges, WhatConsumersWaitWhileOnlyThePeersSignalIsMissingIsExposed) {
  const std::vector<PeerWait> waits = waits_of(two_gpu_trace().trace());
  ASSERT_THAT(waits, SizeIs(6)) << "both reduce and state, in two tokens";
  // GPU 0 is idle from 100 on. Its own push signals at 120, the peer's at 320, which it sees at 370.
  const PeerWait& wait = waits[0];
  EXPECT_EQ(wait.from, kPushOfPeer);
  EXPECT_EQ(wait.to, kReduce);
  EXPECT_EQ(wait.sent_ns, 320);
  EXPECT_EQ(wait.seen_ns, 370);
  EXPECT_EQ(wait.exposed_ns, 370 - 120);
  EXPECT_EQ(wait.hidden_ns, 0);
  EXPECT_TRUE(wait.awaited);
}

TEST(Exchanges, WhatComesWhileConsumersHaveOtherWorkIsHidden) {
  const std::vector<PeerWait> waits = waits_of(two_gpu_trace().trace());
  // GPU 0's push signals at 120. GPU 1's consumers are busy until 300, and then wait for the signal of their
  // own push.
  const PeerWait& wait = waits[2];
  EXPECT_EQ(wait.to, kReduceOfPeer);
  EXPECT_EQ(wait.sent_ns, 120);
  EXPECT_EQ(wait.seen_ns, 340);
  EXPECT_EQ(wait.exposed_ns, 0) << "its own signal came last";
  EXPECT_EQ(wait.hidden_ns, 300 - 120);
  EXPECT_FALSE(wait.awaited);
}

TEST(Exchanges, WhatTheSameGpuSignalsLaterHidesThePeers) {
  const std::vector<PeerWait> waits = waits_of(two_gpu_trace().trace());
  EXPECT_EQ(waits[1].to, kState);
  EXPECT_EQ(waits[1].from, kReduceOfPeer);
  EXPECT_EQ(waits[1].exposed_ns, 0);
}

TEST(Exchanges, AWaitForRoomToPushIntoIsNone) {
  Trace trace = two_gpu_trace().trace();
  constexpr uint32_t kReduceInstruction = 1;
  for (TracePush& push : trace.program.pushes) {
    if (push.instruction == kReduceInstruction) push.operands = 1;  // the operand that its wait guards
  }
  const std::vector<PeerWait> waits = waits_of(trace);
  EXPECT_THAT(waits, SizeIs(4));
  for (const PeerWait& wait : waits) EXPECT_NE(trace.executions[wait.to].instruction, kReduceInstruction);
}

TEST(Exchanges, ClocksThatAreALittleApartGiveNoNegativeTimes) {
  Trace trace = two_gpu_trace().trace();
  trace.executions[kPushOfPeer].set(EventKind::kSignalled, 380);
  for (const PeerWait& wait : waits_of(trace)) {
    EXPECT_GE(wait.seen_ns, wait.sent_ns);
    EXPECT_GE(wait.exposed_ns, 0);
    EXPECT_GE(wait.hidden_ns, 0);
  }
}

}  // namespace
}  // namespace serval::testing

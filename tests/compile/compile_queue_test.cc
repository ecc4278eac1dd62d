// Compiling programs while others run: order, threads and errors.
#include "engine/compile/compile_queue.h"

#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "gtest/gtest.h"

#include "engine/compile/compile_model.h"
#include "tests/llama/tiny_model.h"
#include "vm/base/error.h"

namespace serval {
namespace {

// The number of SMs identifies the program.
ValidProgram compiled(uint32_t sms) {
  return compile_model(testing::tiny_config(), host_machine(sms), {.context = 64, .sequences = 1});
}

CompileQueue::Job job(uint32_t sms, std::atomic<int>* begun = nullptr) {
  return [=](const std::stop_token&) {
    if (begun != nullptr) ++*begun;
    return compiled(sms);
  };
}

// A task that signals `begun` and waits for `may_continue`.
struct BlockedTask {
  std::promise<void> begun, may_continue;

  CompileQueue::Job job(uint32_t sms) {
    return [this, sms](const std::stop_token&) {
      begun.set_value();
      may_continue.get_future().wait();
      return compiled(sms);
    };
  }
};

TEST(CompileQueue, CompilesEachProgramOnce) {
  std::atomic<int> begun = 0;
  CompileQueue queue({job(1, &begun), job(2, &begun), job(3, &begun)});
  for (const int times : {1, 2}) {
    SCOPED_TRACE(times);
    for (const uint32_t i : {2U, 0U, 1U}) EXPECT_EQ(queue.program(i).machine.sms, i + 1);
  }
  EXPECT_EQ(begun, 3);
}

TEST(CompileQueue, CompilesARequestedProgramWhileAnotherIsBeingCompiled) {
  BlockedTask first;
  CompileQueue queue({first.job(1), job(2), job(3)});
  first.begun.get_future().wait();
  EXPECT_EQ(queue.program(2).machine.sms, 3U) << "on this thread: the queue's is held up";
  first.may_continue.set_value();
  EXPECT_EQ(queue.program(0).machine.sms, 1U);
}

TEST(CompileQueue, WaitsForAProgramThatIsBeingCompiled) {
  BlockedTask first;
  CompileQueue queue({first.job(1)});
  first.begun.get_future().wait();
  auto wanted = std::async(std::launch::async, [&] { return queue.program(0).machine.sms; });
  first.may_continue.set_value();
  EXPECT_EQ(wanted.get(), 1U);
}

TEST(CompileQueue, RethrowsAProgramsErrorOnEachUse) {
  const auto fails = [](const std::stop_token&) -> ValidProgram { throw Error(ErrorKind::kRuntime, "race"); };
  CompileQueue queue({fails, job(2)});
  for (const int times : {1, 2}) {
    SCOPED_TRACE(times);
    try {
      queue.program(0);
      FAIL() << "it has no program";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "race");
    }
  }
  EXPECT_EQ(queue.program(1).machine.sms, 2U);
}

TEST(CompileQueue, EndsWithTheCurrentJobWhichMayStopEarly) {
  std::promise<void> begun;
  std::atomic<int> others = 0;
  {
    const auto goes_on_for_ever = [&](const std::stop_token& stop) -> ValidProgram {
      begun.set_value();
      while (!stop.stop_requested()) std::this_thread::yield();
      throw Error(ErrorKind::kRuntime, "stopped");
    };
    const CompileQueue queue({goes_on_for_ever, job(2, &others)});
    begun.get_future().wait();
  }
  EXPECT_EQ(others, 0);
}

TEST(CompilePlan, IsNotProvenIfItIsStopped) {
  const CompilePlan plan =
      plan_program(testing::tiny_config(), host_machine(2), {.context = 64, .sequences = 1}, {});
  std::stop_source stop;
  EXPECT_EQ(compile_plan(plan, stop.get_token())->machine.sms, 2U);
  stop.request_stop();
  EXPECT_THROW(compile_plan(plan, stop.get_token()), Error);
}

}  // namespace
}  // namespace serval

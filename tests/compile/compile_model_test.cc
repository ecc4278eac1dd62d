// Compiling a model gives a valid program.
#include "engine/compile/compile_model.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/llama/tiny_model.h"
#include "vm/base/error.h"

namespace serval {
namespace {

constexpr uint32_t kSms = 4;
constexpr ProgramLimits kLimits{.context = 300, .sequences = 3};

Machine gpu() {
  Machine machine = h200_machine();
  machine.sms = kSms;
  return machine;
}

Program compiled(const Machine& machine, const ScheduleOptions& schedule) {
  return *compile_model(testing::tiny_config(), machine, kLimits, schedule);
}

TEST(CompileModel, HoldsWhatTheLimitsSay) {
  const Program program = compiled(gpu(), {});
  EXPECT_EQ(program.limits.max_context, 300U);
  EXPECT_EQ(program.limits.kv_blocks, 3U * 5U) << "blocks of 64 tokens for three sequences";
  EXPECT_EQ(program.machine, gpu());
}

TEST(CompileModel, TakesThePolicyAndTheQueueThatAreAskedFor) {
  for (const Policy policy : kPolicies)
    EXPECT_EQ(compiled(gpu(), {.policy = policy}).metadata.at("policy"), name_of(policy));
  EXPECT_EQ(compiled(gpu(), {.queue_kind = QueueKind::kGlobal}).queue_kind, QueueKind::kGlobal);
}

TEST(CompileModel, AsksTheSimulatorForAGpuOnly) {
  const Machine host = host_machine(kSms);
  EXPECT_EQ(serialise(compiled(host, {.simulate = true})), serialise(compiled(host, {})));
  const std::string best = compiled(gpu(), {.simulate = true}).metadata.at("policy");
  EXPECT_TRUE(enumerator_named<Policy>(best).has_value()) << best;
}

TEST(CompileModel, RefusesLimitsThatTheModelOrTheMachineDoesNotHave) {
  const auto refuses = [](uint32_t sms, uint32_t context) {
    try {
      compile_model(testing::tiny_config(), host_machine(sms), {.context = context, .sequences = 1});
      return false;
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kUsage;
    }
  };
  EXPECT_TRUE(refuses(0, 300));
  EXPECT_TRUE(refuses(kMaxSms + 1, 300));
  EXPECT_TRUE(refuses(kSms, 1025)) << "the model was made for 1,024 tokens";
  EXPECT_FALSE(refuses(kSms, 1024));
}

TEST(ValidProgram, IsOneThatTheValidatorHasAccepted) {
  Program program = compiled(gpu(), {});
  EXPECT_NO_THROW(ValidProgram{program});
  program.counters.at(program.gate_counter).increments_per_pass += 1;
  EXPECT_THROW(ValidProgram{program}, Error);
}

}  // namespace
}  // namespace serval

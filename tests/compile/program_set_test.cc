// A set of programs: which one a pass runs, and what they must have in common.
#include "engine/compile/program_set.h"

#include <functional>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/llama/tiny_model.h"
#include "vm/base/error.h"

namespace serval {
namespace {

using ::testing::HasSubstr;

constexpr ProgramLimits kLimits{.context = 300, .sequences = 2};

ValidProgram compiled(uint32_t sms, const ProgramLimits& limits = kLimits,
                      const LlamaConfig& model = testing::tiny_config()) {
  return compile_model(model, host_machine(sms), limits);
}

std::string refusal(const std::function<void()>& call, ErrorKind kind = ErrorKind::kRuntime) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "accepted";
}

TEST(ProgramSet, RunsTheSmallestThatHoldsThePass) {
  const ProgramSet set({{16, compiled(4)}, {1, compiled(2)}, {4, compiled(3)}});
  ASSERT_EQ(set.size(), 3U);
  for (const auto& [rows, sms] : {std::pair{0U, 2U}, {1U, 2U}, {2U, 3U}, {4U, 3U}, {5U, 4U}, {16U, 4U}})
    EXPECT_EQ(set.program(set.class_of(rows)).machine.sms, sms) << rows;
  EXPECT_EQ(set.widest().machine.sms, 4U);
  EXPECT_EQ(refusal([&] { (void)set.class_of(17); }, ErrorKind::kUsage), "pass: 17 rows; limit: 16");
}

TEST(ProgramSet, NeedsProgramsOfDifferentSizes) {
  EXPECT_THAT(refusal([] { ProgramSet({}); }), HasSubstr("there is none"));
  EXPECT_THAT(refusal([] {
                ProgramSet({{4, compiled(2)}, {4, compiled(3)}});
              }),
              HasSubstr("two are for 4 rows"));
}

TEST(ProgramSet, SharesLimitsAndWhatOutlivesAPass) {
  ProgramLimits longer = kLimits;
  longer.context = 400;
  EXPECT_THAT(refusal([&] {
                ProgramSet({{4, compiled(2)}, {16, compiled(2, longer)}});
              }),
              HasSubstr("their limits differ"));
  LlamaConfig wider = testing::tiny_config();
  wider.intermediate_size += 16;
  EXPECT_THAT(refusal([&] {
                ProgramSet({{4, compiled(2)}, {16, compiled(2, kLimits, wider)}});
              }),
              HasSubstr("tensor 'model.layers.0.mlp.gate_proj.weight' is not the same"));
}

// They share one state, made for the largest: a program of fewer rows uses the first ones.
TEST(ProgramSet, LetsRowsDiffer) {
  const auto of_rows = [](uint32_t rows) {
    return compiled(2, {.context = 300, .sequences = 2, .rows = rows});
  };
  const ProgramSet set({{4, of_rows(4)}, {48, of_rows(48)}, {2, of_rows(16)}});
  EXPECT_EQ(set.widest().limits.rows, 48U);
  EXPECT_EQ(set.program(set.class_of(2)).limits.rows, 16U) << "it may have more than its class";
  EXPECT_EQ(refusal([&] {
              ProgramSet({{5, of_rows(4)}});
            }),
            "programs of a model: a program of 4 rows is for 5");
  EXPECT_EQ(refusal([&] {
              ProgramSet({{4, of_rows(48)}, {16, of_rows(16)}});
            }),
            "programs of a model: the one for most rows has not the most");
}

TEST(ProgramSet, LetsActivationsDiffer) {
  const ValidProgram few = compiled(2), many = compiled(132);
  const auto partial = [](const ValidProgram& program) {
    return program->tensors[program->find_tensor("partial")->index];
  };
  ASSERT_NE(partial(few), partial(many));
  EXPECT_NO_THROW(ProgramSet({{4, few}, {16, many}}));
}

TEST(CompilePrograms, MakesOneForEachClassAndOneForAllRows) {
  const uint32_t classes[] = {4, 1};
  const ProgramSet set = compile_programs(testing::tiny_config(), host_machine(2), kLimits, {}, classes);
  ASSERT_EQ(set.size(), 3U);
  EXPECT_EQ(set.rows(0), 1U);
  EXPECT_EQ(set.rows(1), 4U);
  EXPECT_EQ(set.rows(2), kDefaultRows);
  const uint32_t all[] = {kDefaultRows};
  EXPECT_THAT(refusal([&] { compile_programs(testing::tiny_config(), host_machine(2), kLimits, {}, all); },
                      ErrorKind::kUsage),
              HasSubstr("row class: 16; limit: 1 to 15"));
}

}  // namespace
}  // namespace serval

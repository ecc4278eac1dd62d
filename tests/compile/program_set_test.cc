// A set of programs: the choice of a pass's program, and the properties that all programs must share.
#include "engine/compile/program_set.h"

#include <functional>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "instructions/isa.h"
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
    EXPECT_EQ(set.program(set.class_of(rows, false)).machine.sms, sms) << rows;
  EXPECT_EQ(set.widest().machine.sms, 4U);
  EXPECT_EQ(refusal([&] { (void)set.class_of(17, false); }, ErrorKind::kUsage), "pass: 17 rows; limit: 16");
}

LlamaConfig config_for_tiles() {
  LlamaConfig config = testing::tiny_config();
  config.hidden_size = 128;
  config.intermediate_size = 192;
  return config;
}

ValidProgram program_of(uint32_t rows, uint32_t tile_rows) {
  const ProgramLimits limits{
      .context = 300, .sequences = 2, .rows = rows, .tile_rows = tile_rows, .batch_invariant = true};
  return compiled(2, limits, config_for_tiles());
}

// Passes of the two arithmetic classes use different programs.
TEST(ProgramSet, TakesTilesForPromptsAndForMoreRowsThanVectorsHave) {
  const ProgramSet set({{16, program_of(16, 0)}, {32, program_of(32, 64)}, {100, program_of(100, 64)}});
  const auto rows = [&](uint32_t row_bound, bool reads_prompts) {
    return set.rows(set.class_of(row_bound, reads_prompts));
  };
  EXPECT_EQ(rows(1, false), 16U);
  EXPECT_EQ(rows(16, false), 16U);
  EXPECT_EQ(rows(17, false), 32U);
  EXPECT_EQ(rows(33, false), 100U);
  EXPECT_EQ(rows(1, true), 32U);
  EXPECT_EQ(rows(33, true), 100U);
}

TEST(ProgramSet, TakesTheOneArithmeticClassThatThereIs) {
  const ProgramSet vectors({{4, program_of(4, 0)}, {16, program_of(16, 0)}});
  EXPECT_EQ(vectors.rows(vectors.class_of(3, true)), 4U);
  const ProgramSet tiles({{4, program_of(4, 64)}, {32, program_of(32, 64)}});
  EXPECT_EQ(tiles.rows(tiles.class_of(3, false)), 4U);
}

TEST(ProgramSet, NeedsProgramsOfDifferentSizes) {
  EXPECT_THAT(refusal([] { ProgramSet(std::vector<RowClass>{}); }), HasSubstr("there is none"));
  EXPECT_THAT(refusal([] {
                ProgramSet({{4, compiled(2)}, {4, compiled(3)}});
              }),
              HasSubstr("two are for 4 rows"));
  EXPECT_NO_THROW(ProgramSet({{16, program_of(16, 0)}, {16, program_of(16, 64)}}))
      << "of two arithmetic classes";
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

// Programs share the state of the largest one. A program with fewer rows uses the first rows.
TEST(ProgramSet, LetsRowsDiffer) {
  const auto of_rows = [](uint32_t rows) {
    return compiled(2, {.context = 300, .sequences = 2, .rows = rows});
  };
  const ProgramSet set({{4, of_rows(4)}, {48, of_rows(48)}, {2, of_rows(16)}});
  EXPECT_EQ(set.widest().limits.rows, 48U);
  EXPECT_EQ(set.program(set.class_of(2, false)).limits.rows, 16U) << "it may have more than its class";
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

// For the programs of 4, 16 and all rows: v if it multiplies vectors, t if it multiplies tiles.
std::string arithmetic_of(const Model& model, const ProgramLimits& limits) {
  const uint32_t classes[] = {4, kDefaultRows};
  const ProgramSet set = compile_programs(model, host_machine(2), limits, {}, classes);
  std::string out;
  for (const Program* program : set.outlines()) out += program->order == Order::kTile ? 't' : 'v';
  return out;
}

TEST(CompilePrograms, MultipliesWithVectorsUpToSixteenRows) {
  EXPECT_EQ(arithmetic_of(config_for_tiles(), {.context = 300, .rows = 64, .tile_rows = 64}), "vvt");
}

TEST(CompilePrograms, MultipliesOnlyTilesIfBatchInvariant) {
  EXPECT_EQ(arithmetic_of(config_for_tiles(),
                          {.context = 300, .rows = 64, .tile_rows = 64, .batch_invariant = true}),
            "ttt");
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

TEST(CompilePrograms, MakesTheSameInTheBackground) {
  const uint32_t classes[] = {4, kDefaultRows};
  const ProgramLimits limits{.context = 300, .rows = 64, .tile_rows = 64};
  const auto set_of = [&](CompileTime when) {
    return compile_programs(config_for_tiles(), host_machine(2), limits, {}, classes, when);
  };
  const ProgramSet at_once = set_of(CompileTime::kAtOnce), later = set_of(CompileTime::kInBackground);
  EXPECT_TRUE(at_once.is_complete());
  EXPECT_FALSE(later.is_complete());
  EXPECT_EQ(at_once.rows(at_once.first_compiled()), 64U);
  EXPECT_EQ(later.rows(later.first_compiled()), 4U);
  ASSERT_EQ(later.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(later.rows(i), at_once.rows(i));
    EXPECT_EQ(later.outline(i).tensors, at_once.program(i).tensors) << "before it is compiled";
    EXPECT_EQ(later.outline(i).limits, at_once.program(i).limits);
    EXPECT_EQ(serialise(later.program(i)), serialise(at_once.program(i)));
  }
  for (const uint32_t rows : {1U, 4U, 5U, 16U, 17U, 64U}) {
    for (const bool reads_prompts : {false, true})
      EXPECT_EQ(later.class_of(rows, reads_prompts), at_once.class_of(rows, reads_prompts)) << rows;
  }
}

}  // namespace
}  // namespace serval

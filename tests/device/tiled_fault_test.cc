// Programs of tiles that cannot end, or that fail in the middle, for every instruction that real programs of
// tiles have: the launch ends with a report that names the place, and the next launch has the right results.
#include <chrono>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/compile/gpu_programs.h"
#include "instructions/isa.h"
#include "tests/device/model_on_gpu.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr double kStallTimeout_s = 0.1;                  // valid launches here take less than a millisecond
constexpr uint32_t kContext = kPlannedLeafTokens + 320;  // attention has leaves to merge

// A kernel (instructions/sm90/kernels.def), with a program and a pass for it. With few SMs, one SM multiplies
// all K splits of a matrix; with many, each has one. With three, gate and up have wide tiles if the kernel
// has them.
struct Case {
  const char* name;
  LlamaConfig config;
  uint32_t sms;
  uint32_t rows;
  uint32_t rows_of_sequence;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};
std::vector<Case> cases() {
  const LlamaConfig small = tiny_parts_config(), large = tiny_large_heads_config(),
                    norms = tiny_head_norms_config();
  return {{"Tiles64Heads64", small, 40, 64, 16},     {"Decode64Heads64", small, 7, 64, 1},
          {"Tiles256Heads64", small, 7, 300, 100},   {"Decode256Heads64", small, 40, 300, 1},
          {"Tiles64Heads128", large, 3, 64, 16},     {"Decode64Heads128", large, 40, 64, 1},
          {"Tiles256Heads128", large, 40, 300, 100}, {"Decode256Heads128", large, 7, 300, 1},
          {"Tiles64HeadNorms", norms, 40, 64, 16},   {"Decode64HeadNorms", norms, 3, 64, 1},
          {"Tiles256HeadNorms", norms, 7, 300, 100}, {"Decode256HeadNorms", norms, 40, 300, 1},
          {"TileOrderHeads64", small, 40, 1, 1},     {"TileOrderHeads128", large, 7, 1, 1}};
}

ValidProgram compile_case(const Case& c) {
  Machine machine = h200_machine();
  machine.sms = c.sms;
  const ProgramLimits limits{
      .context = kContext, .sequences = c.rows / c.rows_of_sequence, .rows = c.rows, .batch_invariant = true};
  return compile_gpu_program(c.config, machine, limits, {}, c.rows, c.rows_of_sequence > 1);
}

// The index of one of the instruction's waits for other instructions of the same pass.
std::optional<size_t> wait_within_pass(const Program& program, const Instruction& instruction) {
  for (size_t w = instruction.wait_begin; w < size_t{instruction.wait_begin} + instruction.wait_count; ++w) {
    if (program.waits[w].threshold > 0) return w;
  }
  return std::nullopt;
}

// For each opcode with such waits, the middle one of the program's instructions.
std::map<uint16_t, size_t> waiting_instructions(const Program& program) {
  std::map<uint16_t, std::vector<size_t>> all;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (wait_within_pass(program, program.instructions[i])) all[program.instructions[i].opcode].push_back(i);
  }
  std::map<uint16_t, size_t> middle;
  for (const auto& [opcode, places] : all) middle[opcode] = places[places.size() / 2];
  return middle;
}

class TiledFault : public ::testing::TestWithParam<Case> {
 protected:
  // The report of a launch of a broken program. Afterwards the compiled program must have the same results as
  // before.
  std::string fault_of(const Program& broken) {
    std::string report = "no fault";
    const auto begin = std::chrono::steady_clock::now();
    try {
      model_.run(*model_.bind(broken, kStallTimeout_s));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kDeviceFault);
      report = error.what();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    EXPECT_EQ(model_.run(*sound_), expected_);
    return report;
  }
  const Program& program() const { return model_.program(); }
  std::string place_of(size_t instruction, uint16_t opcode) const {
    return fmt::format("instruction {} ({})", instruction, op_name(opcode));
  }

 private:
  ModelOnGpu model_{GetParam().config, compile_case(GetParam()), GetParam().rows_of_sequence};
  const std::unique_ptr<DeviceInterpreter> sound_ = model_.bind(model_.program());
  const std::vector<uint32_t> expected_ = model_.run(*sound_);
};
INSTANTIATE_TEST_SUITE_P(Kernels, TiledFault, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.name); });

// These are instructions that all programs of tiles have; others depend on the model and the machine.
TEST_P(TiledFault, ThresholdThatIsNeverReachedIsNamed) {
  std::set<std::string> stalled;
  for (const auto& [opcode, instruction] : waiting_instructions(program())) {
    SCOPED_TRACE(op_name(opcode));
    Program broken = program();
    Wait& wait = broken.waits[*wait_within_pass(broken, broken.instructions[instruction])];
    wait.threshold = broken.counters[wait.counter].increments_per_pass + 1;
    EXPECT_THAT(fault_of(broken), AllOf(HasSubstr(place_of(instruction, opcode)),
                                        HasSubstr(fmt::format("waits for counter {}:", wait.counter)),
                                        HasSubstr(fmt::format("of {}", wait.threshold))));
    stalled.insert(op_name(opcode));
  }
  EXPECT_THAT(stalled, IsSupersetOf({"planned_attention", "planned_merge", "gate_up_silu", "lm_head",
                                     "sample", "advance"}));
  const bool norms = GetParam().config.qk_norm;
  EXPECT_THAT(stalled, IsSupersetOf(norms ? std::vector<std::string>{"qkv_project", "qk_norm_rope"}
                                          : std::vector<std::string>{"qkv_rope"}));
  EXPECT_TRUE(stalled.contains("matvec_residual") ||
              (stalled.contains("matvec_part") && stalled.contains("add_parts")));
}

// A controller finds a record with an unknown opcode, whatever the SMs are doing at that time: replaces each
// record of two SMs' queues in turn, a few times, because the timing of each launch differs.
TEST_P(TiledFault, LaunchesThatAreGivenUpLeaveNothingBehind) {
  constexpr uint16_t kNoOpcode = std::numeric_limits<uint16_t>::max();
  constexpr int kTimes = 3;
  for (const uint32_t sm : {0U, GetParam().sms / 2}) {
    for (uint32_t at = program().queue_begin[sm]; at < program().queue_begin[sm + 1]; ++at) {
      SCOPED_TRACE(fmt::format("SM {}, in place of {}", sm, op_name(program().instructions[at].opcode)));
      Program broken = program();
      broken.instructions[at].opcode = kNoOpcode;
      for (int time = 0; time < kTimes; ++time) {
        ASSERT_THAT(fault_of(broken),
                    AllOf(HasSubstr(place_of(at, kNoOpcode)), HasSubstr("opcode is unknown")));
      }
    }
  }
}

}  // namespace
}  // namespace serval::testing

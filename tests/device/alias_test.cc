// Records that name one tensor for two operands, which the validator refuses (Validator::check_aliases): on a
// GPU, too, they end, and those whose result does not depend on timing give another answer.
#include <cstddef>
#include <functional>
#include <vector>

#include "gtest/gtest.h"

#include "engine/compile/gpu_programs.h"
#include "instructions/isa.h"
#include "scheduler/validate.h"
#include "tests/device/model_on_gpu.h"

namespace serval::testing {
namespace {

class Aliases : public ::testing::Test {
 protected:
  struct Answer {
    bool refused;        // by the validator
    size_t differences;  // logits that differ from the sound program's
  };
  // Changes the operands of all instructions with this type, and runs the program that results.
  template <class Op>
  static Answer run(const LlamaConfig& config, uint32_t rows, uint32_t sms,
                    const std::function<void(Op&)>& change) {
    Machine machine = h200_machine();
    machine.sms = sms;
    const ProgramLimits limits{.context = 200, .sequences = 4, .rows = rows};
    ModelOnGpu model(config, compile_gpu_program(config, machine, limits, {}, rows, true), rows / 4);
    const std::vector<uint32_t> expected = model.run(*model.bind(model.program()));
    Program changed = model.program();
    size_t found = 0;
    for (Instruction& i : changed.instructions) {
      if (i.opcode != static_cast<uint16_t>(kOpcodeOf<Op>)) continue;
      Op op = i.as<Op>();
      change(op);
      i.set(op);
      ++found;
    }
    EXPECT_GT(found, 0U) << "the program has no such instruction";
    const std::vector<uint32_t> logits = model.run(*model.bind(changed));
    size_t differences = 0;
    for (size_t i = 0; i < expected.size(); ++i) differences += logits[i] != expected[i] ? 1 : 0;
    return {validate(changed).has_value(), differences};
  }
};

TEST_F(Aliases, KeysAndValuesInOneCache) {
  const Answer answer = run<QkvRope>(tiny_config(), 4, 7, [](QkvRope& op) { op.v_cache = op.k_cache; });
  EXPECT_TRUE(answer.refused);
  EXPECT_GT(answer.differences, 0U);
}

// Some SMs read what others have already overwritten: how many depends on timing.
TEST_F(Aliases, ProductThatReadsItsOutput) {
  const Answer answer =
      run<MatvecResidual>(tiny_config(), 4, 7, [](MatvecResidual& op) { op.input = op.weighted; });
  EXPECT_TRUE(answer.refused);
}

TEST_F(Aliases, PartThatIsTheResidual) {
  const Answer answer = run<AddParts>(tiny_parts_config(), 64, 40, [](AddParts& op) {
    const TensorId before = op.part0;
    for (TensorId* part : {&op.part0, &op.part1, &op.part2, &op.part3}) {
      if (*part == before) *part = op.residual;
    }
  });
  EXPECT_TRUE(answer.refused);
  EXPECT_GT(answer.differences, 0U);
}

TEST_F(Aliases, LogitsThatAreSavedOverThemselves) {
  EXPECT_TRUE(run<Sample>(tiny_config(), 4, 7, [](Sample& op) { op.saved = op.logits; }).refused);
}

}  // namespace
}  // namespace serval::testing

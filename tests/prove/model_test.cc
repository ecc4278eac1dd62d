// Proves of valid programs that they compute the model, and reports the first difference if they do not.
#include <fmt/format.h>
#include <functional>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "instructions/isa.h"
#include "models/llama/graph.h"
#include "models/program_proof.h"
#include "scheduler/validate.h"
#include "tests/prove/draft.h"
#include "tests/prove/rewrite.h"
#include "tests/scheduler/graphs.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

LlamaConfig biased_config() {
  LlamaConfig config = tiny_config();
  config.num_layers = 2;
  config.qkv_bias = true;
  return config;
}

Program program_of(const LlamaConfig& model, QueueKind queue = QueueKind::kPerSm) {
  constexpr uint32_t kSms = 3;
  const Graph graph = build_llama_graph(model, {.sms = kSms, .context = 200});
  return compile_as(graph, {Policy::kZigZag, queue, kSms});
}

TensorId tensor_named(const Program& program, const std::string& name) {
  return program.find_tensor(name).value();
}

// Changes all records of an operation and layer, so that they agree: the program stays valid.
template <class Op>
void expect_difference(const LlamaConfig& model, uint16_t layer,
                       const std::function<void(Op&, const Program&)>& change, const char* words) {
  Program program = program_of(model);
  for (Instruction& i : program.instructions) {
    if (i.opcode != static_cast<uint16_t>(kOpcodeOf<Op>) || i.tag != layer) continue;
    Op op = i.as<Op>();
    change(op, program);
    i.set(op);
  }
  const std::optional<Violation> violation = validate(program);
  EXPECT_FALSE(violation) << violation->message;
  const std::optional<Violation> difference = difference_from(program, model);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->rule, Rule::kModel);
  EXPECT_THAT(difference->message, HasSubstr(words));
  EXPECT_EQ(difference->message.find('\n'), std::string::npos);
  try {
    require_model(program, model);
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
}

// The program without the records of an operation.
Program without(const Program& program, Opcode opcode) {
  Draft draft(program);
  for (std::vector<Step>& queue : draft.queues) {
    std::erase_if(queue,
                  [&](const Step& step) { return step.record.opcode == static_cast<uint16_t>(opcode); });
  }
  draft.count_increments_and_follow();
  return draft.assemble();
}

TEST(ProgramProof, HoldsHoweverAProgramIsPlacedAndItsCountersAreUsed) {
  const LlamaConfig model = biased_config();
  for (const QueueKind queue : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    const Program original = program_of(model, queue);
    EXPECT_NO_THROW(require_model(original, model));
    for (uint32_t seed = 0; seed < 20; ++seed) {
      RandomOrder random(seed);
      const auto kind = static_cast<Rewrite>(random.below(kNumRewrites));
      std::optional<Program> again = rewrite(original, kind, random);
      if (!again || again->machine.sms != original.machine.sms) continue;
      const std::optional<Violation> difference = difference_from(*again, model);
      EXPECT_FALSE(difference) << name_of(kind) << ": " << difference->message;
    }
  }
}

// An instruction that is cut in two computes what it did.
TEST(ProgramProof, HoldsHoweverAStageIsCut) {
  const LlamaConfig model = biased_config();
  Draft draft(program_of(model));
  for (std::vector<Step>& queue : draft.queues) {
    for (size_t i = 0; i < queue.size(); ++i) {
      if (queue[i].record.opcode != static_cast<uint16_t>(Opcode::kGateUpSilu)) continue;
      auto op = queue[i].record.as<GateUpSilu>();
      if (op.num_units < 2) continue;
      Step rest = queue[i];
      --op.num_units;
      queue[i].record.set(op);
      op.first_unit += op.num_units;
      op.num_units = 1;
      rest.record.set(op);
      queue.insert(queue.begin() + static_cast<std::ptrdiff_t>(++i), rest);
    }
  }
  draft.count_increments_and_follow();
  const Program program = draft.assemble();
  ASSERT_FALSE(validate(program));
  const std::optional<Violation> difference = difference_from(program, model);
  EXPECT_FALSE(difference) << difference->message;
}

TEST(ProgramProof, NamesAWeightOfAnotherLayer) {
  expect_difference<GateUpSilu>(
      biased_config(), 1,
      [](GateUpSilu& op, const Program& program) {
        op.gate = tensor_named(program, "model.layers.0.mlp.gate_proj.weight");
      },
      "(gate_up_silu of layer 1): gate differs from model tiny");
}

TEST(ProgramProof, NamesAnotherNorm) {
  expect_difference<MatvecResidual>(
      biased_config(), 1,
      [](MatvecResidual& op, const Program& program) {
        op.norm = tensor_named(program, "model.norm.weight");
      },
      "(matvec_residual of layer 1): norm differs from model tiny");
}

TEST(ProgramProof, NamesBiasesThatAreLeftOut) {
  expect_difference<QkvRope>(
      biased_config(), 0, [](QkvRope& op, const Program&) { op.q_bias = op.k_bias = op.v_bias = {}; },
      "(qkv_rope of layer 0): q_bias differs from model tiny");
}

TEST(ProgramProof, NamesAnotherEpsilon) {
  expect_difference<GateUpSilu>(
      biased_config(), 0, [](GateUpSilu& op, const Program&) { op.epsilon *= 2; },
      "(gate_up_silu of layer 0): epsilon differs from model tiny");
}

TEST(ProgramProof, NamesTheCacheOfAnotherLayer) {
  expect_difference<Attention>(
      biased_config(), 1,
      [](Attention& op, const Program& program) { op.v_cache = tensor_named(program, "cache.0.v"); },
      "(attention of layer 1): v_cache differs from model tiny");
}

// No record reads the rows of the next pass: only a comparison of what a pass leaves finds that.
TEST(ProgramProof, NamesARowThatIsNotAdvanced) {
  const LlamaConfig model = biased_config();
  const std::optional<Violation> difference =
      difference_from(without(program_of(model), Opcode::kAdvance), model);
  ASSERT_TRUE(difference);
  EXPECT_THAT(difference->message,
              HasSubstr("state.rows: after a pass it holds other values than in model tiny"));
}

TEST(ProgramProof, NamesEachOperationThatIsLeftOut) {
  const LlamaConfig model = biased_config();
  const Program program = program_of(model);
  std::set<uint16_t> opcodes;
  for (const Instruction& i : program.instructions) opcodes.insert(i.opcode);
  EXPECT_GE(opcodes.size(), 9u);
  for (const uint16_t opcode : opcodes) {
    SCOPED_TRACE(op_info(opcode).name);
    const std::optional<Violation> difference =
        difference_from(without(program, static_cast<Opcode>(opcode)), model);
    ASSERT_TRUE(difference);
    EXPECT_EQ(difference->rule, Rule::kModel);
  }
}

TEST(ProgramProof, NamesAModelWithOtherTensors) {
  const Program program = program_of(biased_config());
  const std::optional<Violation> difference = difference_from(program, tiny_untied_config());
  ASSERT_TRUE(difference);
  EXPECT_THAT(difference->message, HasSubstr("model: not compiled from model tiny-untied: "));
}

TEST(ProgramProof, HoldsForProgramsInTileOrder) {
  const LlamaConfig model = tiny_parts_config();
  const Graph graph = build_llama_graph(model, {.sms = 2, .context = 200, .rows = 1, .tile_order = true});
  const Program program = compile_as(graph, {Policy::kList, QueueKind::kPerSm, 2});
  EXPECT_NO_THROW(require_model(program, model));
}

}  // namespace
}  // namespace serval::testing

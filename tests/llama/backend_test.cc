// A sequence's bits do not depend on how it is computed: SMs, placement, threads, chunks, launches, other
// sequences, blocks.
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "instructions/isa.h"
#include "tests/llama/decoder.h"
#include "tests/llama/masked_passes.h"
#include "tests/llama/spoilt_model.h"
#include "tests/llama/stop.h"
#include "tests/llama/tiny_model.h"
#include "tests/sample.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kContext = 320;  // two attention leaves

std::shared_ptr<const ModelWeights> weights() {
  static const auto made = std::make_shared<const ModelWeights>(ModelWeights::random(tiny_config(), 3));
  return made;
}

Decoder make_decoder(const BackendOptions& options) {
  return {tiny_config(), weights(), options};
}
Decoder make_decoder(uint32_t sms, uint32_t threads = 1) {
  return make_decoder(host_options(kContext, sms, threads));
}

Sequence sequence(size_t prompt, uint32_t num_tokens, uint32_t id = 0) {
  return {random_tokens(tiny_config(), prompt, id + 1), num_tokens, id % 2 == 0 ? 0.9F : 0.0F,
          id % 3 == 0 ? 1.2F : 1.0F, id};
}

// One prompt crosses the end of a block, the other the end of a leaf.
const std::vector<Sequence>& two_sequences() {
  static const std::vector<Sequence> made = {sequence(57, 14), sequence(250, 14, 1)};
  return made;
}

const std::vector<Answer>& expected() {
  static const std::vector<Answer> made = make_decoder(1).answer(two_sequences());
  return made;
}

TEST(HostBackend, SmsPolicyQueuesAndThreadsDoNotShow) {
  uint32_t number = 0;
  for (const uint32_t sms : {1U, 2U, 7U, 132U}) {
    for (const uint32_t threads : {1U, 2U}) {
      std::vector<BackendOptions> ways(1, host_options(kContext, sms, threads));
      ways.front().schedule.queue_kind = QueueKind::kGlobal;
      for (const Policy policy : kPolicies) {
        ways.push_back(host_options(kContext, sms, threads));
        ways.back().schedule.policy = policy;
      }
      for (const BackendOptions& way : ways) {
        if (!in_sample(number++)) continue;
        SCOPED_TRACE(fmt::format("{} SMs, {} threads, {}", sms, threads,
                                 way.schedule.policy ? name_of(*way.schedule.policy) : "global queue"));
        ASSERT_EQ(make_decoder(way).answer(two_sequences()), expected());
      }
    }
  }
}

// Passes of up to 4 rows run another program than chunks of prompts: it is for fewer SMs, so with smaller
// activations, and placed differently.
TEST(HostBackend, TheProgramThatAPassRunsDoesNotShow) {
  const auto compiled = [](uint32_t sms, Policy policy) {
    return compile_model(tiny_config(), host_machine(sms), {.context = kContext}, {.policy = policy});
  };
  Decoder decoder(bind_host_backend(
      ProgramSet({{kDefaultRows, compiled(7, Policy::kList)}, {4, compiled(3, Policy::kRoundRobin)}}),
      tiny_config(), weights(), host_options(kContext, 7, 2)));
  const auto sms = [&] { return decoder.program().machine.sms; };
  EXPECT_EQ(sms(), 7U) << "before the first run";
  for (const uint32_t chunk : {16U, 5U, 3U})
    EXPECT_EQ(decoder.answer(two_sequences(), {.chunk = chunk}), expected()) << chunk;
  EXPECT_EQ(sms(), 3U) << "two rows";
  decoder.answer({sequence(5, 1)});
  EXPECT_EQ(sms(), 7U) << "five rows";
}

TEST(HostBackend, RowClassesShareOneState) {
  BackendOptions options = host_options(kContext, 7, 2);
  options.limits.rows = 256;
  options.row_classes = {1, 16, 48};
  Decoder decoder = make_decoder(options);
  for (const uint32_t chunk : {1U, 16U, 40U, 250U}) {
    EXPECT_EQ(decoder.answer(two_sequences(), {.chunk = chunk}), expected()) << chunk;
    EXPECT_EQ(decoder.program().limits.rows, 16U) << "two rows";
  }
  decoder.answer({sequence(250, 1)}, {.chunk = 250});
  EXPECT_EQ(decoder.program().limits.rows, 256U);
  decoder.answer({sequence(3, 3)}, {.chunk = 40});
  EXPECT_EQ(decoder.program().limits.rows, 1U);
}

// Programs of tiles sum the squares of a residual in larger groups. Their results differ only by rounding,
// and their bits do not depend on the rows of a tile or the number of SMs.
void expect_tiles_not_to_show(LlamaConfig config) {
  config.hidden_size = 128;
  config.intermediate_size = 192;
  const auto weights = std::make_shared<const ModelWeights>(ModelWeights::random(config, 3));
  const std::vector<int32_t> tokens = random_tokens(config, 250, 1);
  const auto logits_of = [&](uint32_t sms, uint32_t rows, uint32_t tile_rows) {
    BackendOptions options = host_options(kContext, sms);
    options.limits.rows = rows;
    options.limits.tile_rows = tile_rows;
    return Decoder(config, weights, options).force(tokens);
  };
  const auto tiled = logits_of(7, 250, 64), vectors = logits_of(7, 16, 0);
  ASSERT_EQ(tiled.size(), vectors.size());
  for (size_t t = 0; t < tiled.size(); ++t) {
    for (size_t i = 0; i < tiled[t].size(); ++i) ASSERT_NEAR(tiled[t][i], vectors[t][i], 0.05) << t;
  }
  EXPECT_EQ(logits_of(3, 250, 8), tiled);
  EXPECT_EQ(logits_of(1, 100, 256), tiled);
}

TEST(HostBackend, TilesOfRowsDoNotShow) {
  expect_tiles_not_to_show(tiny_config());
}

TEST(HostBackend, TilesOfRowsDoNotShowInModelsWithNormsOfHeads) {
  LlamaConfig config = tiny_config();
  config.qk_norm = true;
  expect_tiles_not_to_show(config);
}

TEST(HostBackend, PolicyQueueAndThreadsDoNotShowInTilesOfRows) {
  const LlamaConfig config = tiny_parts_config();
  const auto weights = std::make_shared<const ModelWeights>(ModelWeights::random(config, 3));
  const std::vector<Sequence> sequences = {{random_tokens(config, 70, 1), 4, 0.9F, 1.2F, 0},
                                           {random_tokens(config, 40, 2), 4, 0, 1, 1}};
  const auto answers = [&](uint32_t threads, const ScheduleOptions& schedule) {
    BackendOptions options = host_options(kContext, 7, threads);
    options.limits.rows = 64;
    options.limits.tile_rows = 16;
    options.schedule = schedule;
    return Decoder(config, weights, options).answer(sequences, {.chunk = 64});
  };
  const std::vector<Answer> expected = answers(1, {});
  for (const uint32_t threads : {1U, 2U}) {
    for (const Policy policy : kPolicies)
      EXPECT_EQ(answers(threads, {.policy = policy}), expected) << threads << ", " << name_of(policy);
    EXPECT_EQ(answers(threads, {.queue_kind = QueueKind::kGlobal}), expected) << threads << ", global queue";
  }
}

// K splits on several SMs have the same bits as on one SM.
TEST(HostBackend, PartsOfColumnsDoNotShow) {
  const LlamaConfig config = tiny_parts_config();
  const auto weights = std::make_shared<const ModelWeights>(ModelWeights::random(config, 3));
  const std::vector<int32_t> tokens = random_tokens(config, 90, 1);
  const auto logits_of = [&](uint32_t sms, uint32_t rows, bool spread) {
    BackendOptions options = host_options(kContext, sms, 2);
    options.limits.rows = rows;
    options.limits.tile_rows = 64;
    Decoder decoder(config, weights, options);
    const auto has = [&](Opcode opcode) {
      return std::ranges::any_of(decoder.program().instructions, [&](const Instruction& i) {
        return i.opcode == static_cast<uint16_t>(opcode);
      });
    };
    EXPECT_EQ(has(Opcode::kMatvecPart), spread);
    EXPECT_EQ(has(Opcode::kAddParts), spread);
    EXPECT_EQ(has(Opcode::kMatvecResidual), !spread);
    return decoder.force(tokens);
  };
  const auto one = logits_of(1, 250, false);
  EXPECT_EQ(logits_of(2, 17, false), one);
  EXPECT_EQ(logits_of(7, 17, true), one);
  EXPECT_EQ(logits_of(40, 250, true), one);
}

TEST(HostBackend, CompilesAProgramForEachRowClass) {
  BackendOptions options = host_options(kContext, 7);
  options.row_classes = {4};
  Decoder decoder = make_decoder(options);
  const Program* const widest = &decoder.program();
  EXPECT_EQ(decoder.answer(two_sequences()), expected());
  EXPECT_NE(&decoder.program(), widest);
  options.row_classes = {kDefaultRows};
  EXPECT_THROW(make_decoder(options), Error);
}

TEST(HostBackend, RunsWhileOtherProgramsAreCompiled) {
  BackendOptions options = host_options(kContext, 7);
  options.limits.rows = 256;
  options.row_classes = {1, 16, 48};
  options.programs = CompileTime::kInBackground;
  for (const uint32_t chunk : {250U, 40U, 1U}) {
    Decoder decoder = make_decoder(options);
    EXPECT_EQ(decoder.program().limits.rows, 1U) << "before the first run";
    EXPECT_EQ(decoder.answer(two_sequences(), {.chunk = chunk}), expected()) << chunk;
    EXPECT_EQ(decoder.program().limits.rows, 16U) << "two rows";
  }
}

// One half of a matrix is multiplied twice and the other half not at all, so the reader of that product reads
// unwritten data.
TEST(HostBackend, EndsPassesWhoseProgramDoesNotProveItself) {
  const auto planned = [](uint32_t rows) {
    return PlannedClass{
        rows, plan_program(tiny_config(), host_machine(2), {.context = kContext, .rows = rows}, {})};
  };
  std::vector<PlannedClass> classes;
  classes.push_back(planned(2));
  classes.push_back(planned(kDefaultRows));
  const auto half = std::ranges::find(classes.back().plan.graph.nodes,
                                      static_cast<uint16_t>(Opcode::kGateUpSilu), &Instruction::opcode);
  ASSERT_EQ(half[0].opcode, half[1].opcode);
  half[0] = half[1];
  Decoder decoder(
      bind_host_backend(ProgramSet(std::move(classes)), tiny_config(), weights(), host_options(kContext, 2)));
  for (const int times : {1, 2}) {
    SCOPED_TRACE(times);
    EXPECT_THROW(decoder.answer({sequence(5, 1)}, {.chunk = 5}), Error);
    EXPECT_EQ(decoder.answer(two_sequences(), {.chunk = 1}), expected()) << "by the other program";
  }
}

TEST(HostBackend, ChunksOfAPromptDoNotShow) {
  Decoder decoder = make_decoder(7);
  for (const uint32_t chunk : {1U, 5U, 16U}) {
    EXPECT_EQ(decoder.answer(two_sequences(), {.chunk = chunk}), expected()) << chunk;
  }
}

TEST(HostBackend, LaunchesOfManyPassesAreLikeManyLaunches) {
  for (const QueueKind kind : {QueueKind::kPerSm, QueueKind::kGlobal}) {
    BackendOptions options = host_options(kContext, 7, 2);
    options.schedule.queue_kind = kind;
    Decoder decoder = make_decoder(options);
    for (const uint32_t passes : {2U, 5U, 13U, 100U}) {
      const std::vector<Answer> found = decoder.answer(two_sequences(), {.passes = passes});
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].tokens, expected()[i].tokens) << passes;
        EXPECT_EQ(found[i].log_probabilities, expected()[i].log_probabilities) << passes;
      }
    }
  }
}

TEST(HostBackend, NeighboursDoNotShow) {
  std::vector<Sequence> sixteen;
  for (uint32_t i = 0; i < kDefaultSequences; ++i) sixteen.push_back(sequence(1 + 17 * i, 3 + i % 6, i));
  for (const uint32_t sms : {2U, 132U}) {
    Decoder decoder = make_decoder(sms, 2);
    const std::vector<Answer> together = decoder.answer(sixteen);
    for (uint32_t i = 0; i < kDefaultSequences; ++i) {
      ASSERT_EQ(together[i].tokens.size(), sixteen[i].num_tokens);
      if (!in_sample(i)) continue;
      EXPECT_EQ(decoder.answer({sixteen[i]}), std::vector{together[i]}) << "alone in slot 0: " << i;
      EXPECT_EQ(decoder.answer({sixteen[i]}, {.first_slot = 15 - i}), std::vector{together[i]});
    }
  }
}

// The limits of a pass only change the program's shape, not its numbers.
TEST(HostBackend, RowsAndSequencesOfTheProgramDoNotShow) {
  for (const auto& [rows, sequences] : {std::pair{2U, 16U}, {48U, 16U}, {256U, 70U}}) {
    for (const uint32_t sms : {2U, 132U}) {
      BackendOptions options = host_options(kContext, sms, 2);
      options.limits.rows = rows;
      options.limits.sequences = sequences;
      Decoder decoder = make_decoder(options);
      SCOPED_TRACE(fmt::format("{} rows, {} sequences, {} SMs", rows, sequences, sms));
      EXPECT_EQ(decoder.answer(two_sequences(), {.chunk = rows}), expected());
      EXPECT_EQ(decoder.answer(two_sequences(), {.chunk = 1, .first_slot = sequences - 2}), expected());
    }
  }
}

TEST(HostBackend, RunsProgramsOfOneRow) {
  BackendOptions options = host_options(kContext, 7);
  options.limits.rows = 1;
  Decoder decoder = make_decoder(options);
  for (size_t i = 0; i < two_sequences().size(); ++i)
    EXPECT_EQ(decoder.answer({two_sequences()[i]}, {.chunk = 1}), std::vector{expected()[i]});
}

TEST(HostBackend, DecodesHundredsOfSequencesAsOneByOne) {
  constexpr uint32_t kSequences = 200;
  std::vector<Sequence> many;
  for (uint32_t i = 0; i < kSequences; ++i) many.push_back(sequence(1 + i % 9, 3 + i % 4, i));
  BackendOptions options = host_options(kContext, 7, 2);
  options.limits.rows = 256;
  options.limits.sequences = kSequences;
  Decoder decoder = make_decoder(options);
  const std::vector<Answer> together = decoder.answer(many, {.chunk = 256, .passes = 64});
  Decoder sixteen = make_decoder(7);
  for (uint32_t i = 0; i < kSequences; i += 13)
    EXPECT_EQ(sixteen.answer({many[i]}, {.passes = 64}), std::vector{together[i]}) << i;
}

TEST(HostBackend, KvBlocksMayLieAnywhere) {
  Decoder decoder = make_decoder(2);
  for (const uint32_t seed : {1U, 2U, 3U}) {
    decoder.shuffle_blocks(seed);
    EXPECT_EQ(decoder.answer(two_sequences()), expected());
  }
}

TEST(HostBackend, RunsItselfAgainToTheSameBits) {
  Decoder decoder = make_decoder(7, 2);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(decoder.answer(two_sequences()), expected());
}

TEST(HostBackend, ItsProgramStaysAsItWasCompiled) {
  for (const bool replay : {false, true}) {
    BackendOptions options = host_options(kContext, 7, 2);
    if (replay) options.interleaving = 1;
    Decoder decoder = make_decoder(options);
    const std::vector<std::byte> before = serialise(decoder.program());
    decoder.answer(two_sequences());
    EXPECT_EQ(serialise(decoder.program()), before);
  }
}

ProgramSet one_program(const Program& program) {
  return ProgramSet({{kDefaultRows, ValidProgram(program)}});
}

std::unique_ptr<Backend> make_spoilt(const SpoiltWeights& weights) {
  auto on_host = std::make_shared<const ModelWeights>(
      ModelWeights::materialise(std::make_shared<const SpoiltWeights>(weights)));
  return make_host_backend(tiny_untied_config(), std::move(on_host), host_options(kContext, 3, 2));
}

TEST(HostBackend, ASequenceWhoseLogitsAreNotFiniteEndsAlone) {
  expect_only_the_spoilt_sequence_to_end(make_spoilt);
}

TEST(HostBackend, OneLogitThatIsNotFiniteEndsASequence) {
  expect_one_spoilt_logit_to_end_all(make_spoilt);
}

TEST(HostBackend, RefusesAProgramThatIsNotProven) {
  const BackendOptions options = host_options(kContext, 2);
  Program program = make_decoder(options).program();
  EXPECT_NO_THROW(bind_host_backend(one_program(program), tiny_config(), weights(), options));
  const auto wait =
      std::find_if(program.waits.begin(), program.waits.end(), [](const Wait& w) { return w.threshold > 1; });
  ASSERT_NE(wait, program.waits.end());
  --wait->threshold;
  try {
    bind_host_backend(one_program(program), tiny_config(), weights(), options);
    ADD_FAILURE() << "it was bound";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    EXPECT_THAT(error.what(), HasSubstr("race"));
  }
}

// A program of one row in tile order has the images of programs of tiles, and their bits.
TEST(HostBackend, BindsAProgramOfOneRowInTileOrder) {
  const LlamaConfig config = tiny_parts_config();
  const auto of_parts = std::make_shared<const ModelWeights>(ModelWeights::random(config, 3));
  const ProgramLimits limits{
      .context = kContext, .rows = 1, .tile_rows = 32, .batch_invariant = true, .tile_order = true};
  const ValidProgram program = compile_model(config, host_machine(2), limits);
  ASSERT_EQ((*program).order, Order::kVectorInTileOrder);
  Decoder row(bind_host_backend(ProgramSet({{1, program}}), config, of_parts, host_options(kContext, 2)));
  BackendOptions options = host_options(kContext, 2);
  options.limits.rows = 17;
  options.limits.tile_rows = 32;
  options.limits.batch_invariant = true;
  const std::vector<Sequence> one = {{.prompt = {5, 36, 67, 98}, .num_tokens = 3}};
  EXPECT_EQ(row.answer(one, {.chunk = 1}), Decoder(config, of_parts, options).answer(one, {.chunk = 4}));
}

// The line with which a program that was changed is refused, or a model that is not the program's.
std::string refusal(const std::function<void(Program&)>& change, const LlamaConfig& config = tiny_config()) {
  const BackendOptions options = host_options(kContext, 2);
  Program program = make_decoder(options).program();
  change(program);
  try {
    bind_host_backend(one_program(program), config, weights(), options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    return error.what();
  }
  return "bound";
}

// It has the model's tensors and limits, is valid, and computes something else.
TEST(HostBackend, RefusesAProgramThatComputesSomethingElse) {
  const auto norm_of_another_layer = [](Program& program) {
    const TensorId other = program.find_tensor("model.layers.1.input_layernorm.weight").value();
    for (Instruction& i : program.instructions) {
      if (i.opcode != static_cast<uint16_t>(Opcode::kEmbed)) continue;
      auto op = i.as<Embed>();
      op.norm = other;
      i.set(op);
    }
  };
  EXPECT_THAT(refusal(norm_of_another_layer), HasSubstr("(embed): norm differs from model tiny"));
}

Tensor& tensor(Program& program, const char* name) {
  return program.tensors.at(program.find_tensor(name).value().index);
}

TEST(HostBackend, RefusesLimitsThatTheRecordsDoNotHave) {
  EXPECT_THAT(refusal([](Program& p) { p.limits.max_context = 64; }), HasSubstr("state.adjustments"));
  EXPECT_THAT(refusal([](Program& p) { --p.limits.max_context; }), HasSubstr("rope: tensor 'rope'"));
  EXPECT_THAT(refusal([](Program& p) { ++p.limits.kv_blocks; }), HasSubstr("k_cache: tensor 'cache.0.k'"));
  EXPECT_THAT(refusal([](Program& p) { --p.limits.vocab; }),
              HasSubstr("vocab: 203, the program's limit is 202"));
}

TEST(HostBackend, RefusesHeadsAndOrdersThatAreNotTheModels) {
  EXPECT_THAT(refusal([](Program& p) { p.heads.q_heads *= 2; }), HasSubstr("expected"));
  EXPECT_THAT(refusal([](Program& p) { p.order = Order::kTile; }), HasSubstr("expected"));
}

TEST(HostBackend, RefusesAProgramOfAnotherModel) {
  const auto as_it_is = [](Program&) {};
  EXPECT_THAT(refusal(as_it_is, tiny_untied_config()), HasSubstr("limits.vocab: 203, the model has 64"));
  LlamaConfig config = tiny_config();
  config.max_position = 256;
  EXPECT_THAT(refusal(as_it_is, config), HasSubstr("limits.max_context: 320; limit: 1 to 256"));
  config = tiny_config();
  config.num_layers = 2;
  EXPECT_THAT(refusal(as_it_is, config), HasSubstr("the model has no tensor of this name"));
  config.num_layers = 4;
  EXPECT_THAT(refusal(as_it_is, config), HasSubstr("is missing"));
}

TEST(HostBackend, RefusesAWeightUnderANormsName) {
  EXPECT_THAT(refusal([](Program& p) {
                std::swap(tensor(p, "model.norm.weight").name, tensor(p, "model.embed_tokens.weight").name);
              }),
              HasSubstr("weight': bf16 ["));
}

TEST(HostBackend, RefusesTensorsThatTheModelHasNot) {
  EXPECT_THAT(refusal([](Program& p) { tensor(p, "mlp").name = "ml"; }), HasSubstr("'mlp' is missing"));
  EXPECT_THAT(refusal([](Program& p) { p.tensors.push_back({.name = "more", .rows = 1, .cols = 1}); }),
              HasSubstr("'more': the model has no tensor of this name"));
}

TEST(HostBackend, RefusesRowOrdersAndHeadsThatAreNotTheModels) {
  constexpr const char* kQuery = "model.layers.0.self_attn.q_proj.weight";
  EXPECT_THAT(refusal([](Program& p) { tensor(p, kQuery).row_order = RowOrder::kSequential; }),
              HasSubstr("row order 0"));
  EXPECT_THAT(refusal([](Program& p) { tensor(p, kQuery).head_dim = 0; }), HasSubstr("head_dim 0"));
}

TEST(HostBackend, RefusesImagesThatAreNotTheModels) {
  constexpr const char* kQuery = "model.layers.0.self_attn.q_proj.weight";
  EXPECT_THAT(refusal([](Program& p) { tensor(p, kQuery).image = Image::kRowMajor; }),
              HasSubstr("as row-major, expected bf16"));
  EXPECT_THAT(refusal([](Program& p) { tensor(p, "mlp").image = Image::kSlabs; }),
              HasSubstr("as slabs, expected bf16"));
  EXPECT_THAT(refusal([](Program& p) { tensor(p, "cache.0.k").image = Image::kRowMajor; }),
              HasSubstr("as row-major, expected bf16"));
}

TEST(HostBackend, TakesTensorsInAnyOrder) {
  EXPECT_EQ(refusal([](Program& p) {
              std::swap(p.tensors[0], p.tensors[1]);
              for (Instruction& i : p.instructions) {
                for (const FieldInfo& f : op_info(i.opcode).fields) {
                  uint32_t index = 0;
                  std::memcpy(&index, i.operands.data() + f.offset, sizeof index);
                  if (f.kind != FieldKind::kTensor || index > 1) continue;
                  index = 1 - index;
                  std::memcpy(i.operands.data() + f.offset, &index, sizeof index);
                }
              }
            }),
            "bound");
}

TEST(HostBackend, RunsTheSamePassesCheckedToTheSameBits) {
  for (const bool interleaved : {false, true}) {
    BackendOptions options = host_options(kContext, 2);
    options.checked = true;
    if (interleaved) options.interleaving = 1;
    EXPECT_EQ(make_decoder(options).answer(two_sequences()), expected());
  }
}

// Results must not depend on previous content of memory, here the caches and activations of longer sequences.
TEST(HostBackend, LeftoversOfOtherSequencesDoNotShow) {
  Decoder decoder = make_decoder(7);
  decoder.answer({sequence(300, 10, 5), sequence(290, 10, 6)});
  EXPECT_EQ(decoder.answer(two_sequences()), expected());
}

TEST(HostBackend, LetsTheNextStateBeWrittenWhileALaunchRuns) {
  BackendOptions interleaved = host_options(kContext, 7);
  interleaved.interleaving = 2;
  BackendOptions checked = host_options(kContext, 2);
  checked.checked = true;
  for (const BackendOptions& options : {host_options(kContext, 7, 2), interleaved, checked})
    EXPECT_EQ(make_decoder(options).answer_ahead(two_sequences()), expected());
}

TEST(HostBackend, WaitsForMasksWhileALaunchRuns) {
  BackendOptions global = host_options(kContext, 7, 2), interleaved = host_options(kContext, 7);
  global.schedule.queue_kind = QueueKind::kGlobal;
  interleaved.interleaving = 2;
  for (const BackendOptions& options :
       {host_options(kContext, 7), host_options(kContext, 132, 3), global, interleaved}) {
    const auto backend = make_host_backend(tiny_config(), weights(), options);
    expect_launches_to_wait_for_masks(*backend, 40);
    expect_a_mask_for_any_position_to_stay(*backend, 10);
    expect_launches_to_wait_for_masks(*backend, 1);
  }
}

TEST(HostBackend, AMaskThatDoesNotComeIsAFault) {
  BackendOptions options = host_options(kContext, 2);
  options.stall_timeout_s = 0.5;
  expect_a_mask_that_does_not_come_to_be_a_fault(*make_host_backend(tiny_config(), weights(), options));
}

class BadState : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> backend = make_host_backend(tiny_config(), weights(), host_options(kContext, 1));
  void expect_refused(uint32_t passes = 1) {
    try {
      backend->run({.passes = passes}, {});
      ADD_FAILURE() << "ran";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kUsage);
    }
  }
};

TEST_F(BadState, IsRefusedBeforeAnythingRuns) {
  StateBlock& state = backend->state();
  state.rows[2] = {.active = 1, .wants_logits = 1, .slot = 1, .token = 203, .position = 0};
  state.slots[1].end_position = kContext;
  expect_refused();
  state.rows[2].token = 5;
  expect_refused(0);
  expect_refused(kMostLaunchPasses + 1);
  backend->state().block_table[backend->blocks_per_sequence()] = -1;
  expect_refused();
  backend->state().block_table[backend->blocks_per_sequence()] = 0;
  backend->run({.passes = 1}, {});
  EXPECT_EQ(state.output[0][2].valid, 1U);
  EXPECT_EQ(state.output[0][2].position, 1U);
}

TEST_F(BadState, IsRefusedWhenItIsPreparedAndItsTokensWhenItRuns) {
  StateBlock& state = backend->state();
  state.rows[0] = {.active = 1, .wants_logits = 1, .slot = 0, .token = 0, .position = 0};
  state.slots[0].end_position = kContext + 1;
  EXPECT_THROW(backend->prepare({.passes = 1}), Error);
  state.slots[0].end_position = kContext;
  for (const int32_t token : {-1, 203}) {
    state.rows[0].token = 0;
    backend->prepare({.passes = 1});
    state.rows[0].token = token;
    EXPECT_THROW(backend->run({.passes = 1, .is_prepared = true}, {}), Error);
  }
}

TEST_F(BadState, OfALaterBlockIsRefusedToo) {
  StateBlock& state = backend->state();
  state.rows[0] = {.active = 1, .wants_logits = 1, .slot = 0, .token = 1, .position = 63};
  state.slots[0].end_position = kContext;
  backend->state().block_table[1] = 1 << 30;
  expect_refused(2);
  backend->run({.passes = 1}, {});
}

TEST(HostBackend, StopsBetweenPasses) {
  const auto backend = make_host_backend(tiny_config(), weights(), host_options(kContext, 7, 2));
  expect_to_stop_between_passes(*backend, kContext);
}

}  // namespace
}  // namespace serval::testing

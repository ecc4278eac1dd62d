// Compares every instruction of the ISA, run by the device interpreter as a program of its own, with the
// host's handler on the same inputs: random tensors, random rows, instances of random sizes on random SMs. A
// new instruction fails here until tests/instructions/scene.h has a stage for it.
#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

#include "instructions/planned_attention/plan_launch.h"
#include "tests/device/device_bench.h"
#include "tests/device/op_comparison.h"
#include "tests/instructions/scene.h"
#include "tests/instructions/scene_of_ranks.h"
#include "vm/layout/e4m3_slab_image.h"
#include "vm/layout/units.h"
#include "vm/state/masks.h"

namespace serval::testing {
namespace {

// Attention's list says whether the kernels for single rows may run. For instructions that do not read it,
// they always may.
bool single_rows(const Scene& scene, const std::vector<Instruction>& instances) {
  if (scene.shape.tile_rows == 0) return false;
  if (instances.front().opcode != static_cast<uint16_t>(Opcode::kPlannedAttention))
    return instances.size() % 2 == 0;
  return has_single_rows(*scene.bench.data<const AttentionList>(scene.t.items));
}

// Runs the instances on the GPU and copies the results to the scene's memory.
void run_on_gpu(Scene& scene, const std::vector<Instruction>& instances, uint32_t sms) {
  DeviceBench device(scene.bench);
  device.pair_rows(scene.t.wq, scene.shape.head_dim);
  device.pair_rows(scene.t.wk, scene.shape.head_dim);
  device.upload();
  ASSERT_EQ(device.run({instances}, sms,
                       {scene.row_bound(), 1, scene.logit_bound(), single_rows(scene, instances)}),
            1U);
}

// If a row has a mask, the logit of a token that it forbids is -infinity afterwards, or unchanged if it was
// adjusted temporarily. The host does not write logits.
void expect_masked(Scene& scene, const Memory& before, Memory& device) {
  const auto* was = reinterpret_cast<const float*>(before[scene.t.logits.index].data());
  auto* logits = reinterpret_cast<float*>(device[scene.t.logits.index].data());
  for (const uint32_t r : scene.active_rows()) {
    const PassRow& row = scene.rows()[r];
    const uint32_t extras = scene.slots()[row.slot].extras;
    if (!row_wants_logits(row) || (extras & kMasksTokens) == 0) continue;
    const bool adjusts = (extras & kAdjustsLogits) != 0;
    for (uint32_t token = 0; token < scene.shape.vocab; ++token) {
      if (mask_allows(scene.mask(row.slot), token)) continue;
      const size_t at = size_t{r} * scene.shape.vocab + token;
      const bool is_back = adjusts && logits[at] == was[at];
      if (is_back) continue;
      EXPECT_EQ(logits[at], -std::numeric_limits<float>::infinity()) << "row " << r << ", token " << token;
      logits[at] = was[at];
    }
  }
}

void compare_pass(Scene& scene, Opcode opcode, Random& random, Tally& tally) {
  const Stage stage = scene.stage(opcode);
  scene.poison_outputs(stage);
  const std::vector<Instruction> instances = split(stage, random);
  const Cover written = written_by(scene.bench, scene.view(), instances);
  const Memory before = scene.bench.memory;
  ASSERT_NO_FATAL_FAILURE(run_on_gpu(scene, instances, random.pick<uint32_t>({1, 3, 132})));
  Memory found = scene.bench.memory;
  scene.bench.memory = before;
  scene.bench.run(instances);
  if (opcode == Opcode::kSample) expect_masked(scene, before, found);
  compare(scene.bench, written, found, scene.bench.memory, before, tally);
  if (opcode == Opcode::kLmHead) {
    expect_units_of_logits(scene.bench, scene.t.logits, scene.t.unit_softmax,
                           {scene.rows(), scene.shape.rows}, found);
  }
}

// Residual rows that are not multiples of a panel; one that exceeds the shared memory for 16 rows; inputs of
// attention's projection that exceed it with fewer rows; both head dimensions; a vocabulary that is not a
// multiple of 8.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {.hidden = 272,
       .intermediate = 48,
       .head_dim = 64,
       .q_heads = 8,
       .kv_heads = 2,
       .vocab = 203,
       .max_context = 300,
       .splits = 2,
       .epsilon = 1e-5F},
      {.hidden = 1040,
       .intermediate = 1040,
       .head_dim = 128,
       .q_heads = 3,
       .kv_heads = 3,
       .vocab = 61,
       .max_context = 130,
       .splits = 16,
       .epsilon = 1e-6F},
      {.hidden = 3072,
       .intermediate = 272,
       .head_dim = 64,
       .q_heads = 4,
       .kv_heads = 1,
       .vocab = 1001,
       .max_context = 70,
       .splits = 1,
       .epsilon = 1e-5F},
      {.hidden = 144,
       .intermediate = 16,
       .head_dim = 128,
       .q_heads = 64,
       .kv_heads = 8,
       .vocab = 9,
       .max_context = 66,
       .splits = 7,
       .epsilon = 1e-5F},
      {.hidden = 272,
       .intermediate = 144,
       .head_dim = 128,
       .q_heads = 112,
       .kv_heads = 16,
       .vocab = 300,
       .max_context = 64,
       .splits = 1,
       .epsilon = 1e-3F},
  };
  return all;
}

class Ops : public ::testing::TestWithParam<uint16_t> {};

TEST_P(Ops, HaveTheHostsResults) {
  const auto opcode = static_cast<Opcode>(GetParam());
  Random random(4711 + GetParam());
  Tally tally(opcode);
  for (const Shape& shape : shapes()) {
    Scene scene(shape, random);
    ASSERT_GT(scene.stages().size(), GetParam()) << "tests/instructions/scene.cc has no such stage";
    ASSERT_EQ(scene.stage(opcode).opcode, opcode) << "tests/instructions/scene.cc: stages out of order";
    for (const uint32_t rows : {1U, 2U, 3U, 5U, 8U, 16U}) {
      SCOPED_TRACE(fmt::format("{}; {} rows", shape.text(), rows));
      std::vector<uint32_t> positions(rows);
      for (uint32_t& p : positions) p = random.below(shape.max_context);
      scene.new_pass(random, positions);
      scene.arrange_rows(random);
      ASSERT_NO_FATAL_FAILURE(compare_pass(scene, opcode, random, tally));
    }
    SCOPED_TRACE(shape.text() + "; chunks of prompts");
    scene.new_pass(random);
    ASSERT_NO_FATAL_FAILURE(compare_pass(scene, opcode, random, tally));
  }
  tally.finish(op_name(GetParam()));
}

// Instructions that multiply with weights in codes, or write the fp16 that such a product reads.
constexpr Opcode kOfCodes[] = {Opcode::kEmbed,          Opcode::kQkvRope,    Opcode::kAttentionMerge,
                               Opcode::kMatvecResidual, Opcode::kGateUpSilu, Opcode::kLmHead,
                               Opcode::kQkvProject};
constexpr DType kCodes[] = {DType::kE4M3, DType::kInt4G32, DType::kInt4G64, DType::kInt4G128};

class OpsOnCodes : public ::testing::TestWithParam<std::tuple<Opcode, DType>> {
 protected:
  // With columns that are whole groups of the type.
  static Shape in_codes(Shape shape, DType type) {
    const uint32_t group = std::max(group_of(type), kTileDim);
    for (uint32_t* cols : {&shape.hidden, &shape.intermediate}) *cols = (*cols + group - 1) / group * group;
    shape.weights = type;
    return shape;
  }
};

TEST_P(OpsOnCodes, HaveTheHostsResults) {
  const auto [opcode, type] = GetParam();
  Random random(2003 + static_cast<uint32_t>(opcode));
  Tally tally(opcode);
  for (const Shape& shape : shapes()) {
    Scene scene(in_codes(shape, type), random);
    for (const uint32_t rows : {1U, 2U, 5U, 8U, 16U}) {
      SCOPED_TRACE(fmt::format("{}; {} rows", scene.shape.text(), rows));
      std::vector<uint32_t> positions(rows);
      for (uint32_t& p : positions) p = random.below(shape.max_context);
      scene.new_pass(random, positions);
      scene.arrange_rows(random);
      ASSERT_NO_FATAL_FAILURE(compare_pass(scene, opcode, random, tally));
    }
  }
  EXPECT_GT(tally.values(), 0U);
  tally.finish(fmt::format("{}, {}", op_name(static_cast<uint16_t>(opcode)), name_of(type)));
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<Opcode, DType>>& instance) {
  const auto [opcode, type] = instance.param;
  std::string name = fmt::format("{}_{}", op_name(static_cast<uint16_t>(opcode)), name_of(type));
  std::ranges::replace(name, ':', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Isa, OpsOnCodes,
                         ::testing::Combine(::testing::ValuesIn(kOfCodes), ::testing::ValuesIn(kCodes)),
                         name_of_case);

// Turns rows of the scene into drafts of the rows before them, some right and some wrong, and gives their
// sequences few different tokens, so that n-grams occur again.
void add_drafts(Scene& scene, Random& random) {
  constexpr uint32_t kTokens = 3;
  const auto token = [&] { return static_cast<int32_t>(random.below(kTokens)); };
  auto* sampled = scene.bench.data<SampledToken>(scene.t.sampled);
  for (uint32_t r = 0, count = 1; r < kDefaultRows; r += count) {
    count = 1;
    PassRow& first = scene.rows()[r];
    if (!row_wants_logits(first) || random.chance(0.2)) continue;
    SequenceSlot& slot = scene.slots()[first.slot];
    const uint32_t room = std::min(random.below(8), kDefaultRows - r - 1);
    const uint32_t drafts = random.below(room + 1);
    slot.presence_penalty = slot.frequency_penalty = 0;
    slot.repetition_penalty = 1;
    slot.masked = slot.num_top = 0;
    slot.num_stop_tokens = random.below(2);
    slot.stop_tokens[0] = token();
    slot.end_position = random.between(first.position, scene.shape.max_context);
    slot.history_length = first.position + 1;
    slot.drafts = {.most = room,
                   .least = random.below(3),
                   .ngram_min = random.between(1, 4),
                   .ngram_max = random.between(1, kMaxNgram),
                   .accept_rate = random.chance(0.2) ? 0.7F : -1,
                   .misses = random.below(3),
                   .pause = random.below(3) * random.below(2)};
    slot.extras = extras_of(slot);
    for (int32_t& known : scene.history(first.slot)) known = token();
    first.drafts = room;
    first.adds = 0;  // a program that pools has no drafts
    for (uint32_t i = 0; i <= room; ++i) {
      PassRow& row = scene.rows()[r + i];
      if (i > drafts) row = PassRow{};  // as in the first pass of a launch
      if (i > 0 && i <= drafts)
        row = {.active = 1, .wants_logits = 1, .slot = first.slot, .position = first.position + i};
      row.token = token();
      if (i > 0 && random.chance(0.6)) row.token = sampled[r + i - 1].token;
      sampled[r + i].token = token();
    }
    count = 1 + room;
  }
}

TEST(OpsOnDrafts, AdvanceHasTheHostsResults) {
  Random random(77);
  Tally tally(Opcode::kAdvance);
  for (const bool is_long : {false, true}) {
    for (Shape shape : std::span(shapes()).first(is_long ? 1 : shapes().size())) {
      if (is_long) shape.max_context = 9'000;
      Scene scene(shape, random);
      for (uint32_t repetition = 0; repetition < 6; ++repetition) {
        SCOPED_TRACE(fmt::format("{}; {}", shape.text(), repetition));
        std::vector<uint32_t> positions(kDefaultRows);
        for (uint32_t& p : positions) p = random.below(shape.max_context);
        scene.new_pass(random, positions);
        add_drafts(scene, random);
        ASSERT_NO_FATAL_FAILURE(compare_pass(scene, Opcode::kAdvance, random, tally));
      }
    }
  }
}

// Shapes for programs that multiply tiles of rows. Widths and vocabularies that are not multiples of a tile;
// heads of 64, where a tile has a key's and a value's.
const std::vector<Shape>& tiled_shapes() {
  static const std::vector<Shape> all = {
      {.hidden = 320,
       .intermediate = 192,
       .head_dim = 64,
       .q_heads = 8,
       .kv_heads = 2,
       .vocab = 203,
       .max_context = 300,
       .splits = 2,
       .epsilon = 1e-5F,
       .rows = 256,
       .sequences = 100,
       .tile_rows = 256},
      {.hidden = 1088,
       .intermediate = 1088,
       .head_dim = 128,
       .q_heads = 3,
       .kv_heads = 3,
       .vocab = 500,
       .max_context = 130,
       .splits = 16,
       .epsilon = 1e-6F,
       .rows = 600,
       .sequences = 300,
       .tile_rows = 256},
      {.hidden = 576,
       .intermediate = 1536,
       .head_dim = 64,
       .q_heads = 9,
       .kv_heads = 3,
       .vocab = 128,
       .max_context = 64,
       .splits = 1,
       .epsilon = 1e-5F,
       .rows = 48,
       .sequences = 16,
       .tile_rows = 256},
      // An odd number of half tiles of gate and up, and columns that are not a multiple of a panel.
      {.hidden = 1600,
       .intermediate = 1472,
       .head_dim = 128,
       .q_heads = 6,
       .kv_heads = 2,
       .vocab = 300,
       .max_context = 200,
       .splits = 3,
       .epsilon = 1e-5F,
       .rows = 64,
       .sequences = 40,
       .tile_rows = 256},
      // Inputs of attention's projection with up to four K splits, the last one shorter, and with two.
      {.hidden = 192,
       .intermediate = 128,
       .head_dim = 128,
       .q_heads = 31,
       .kv_heads = 1,
       .vocab = 97,
       .max_context = 90,
       .splits = 2,
       .epsilon = 1e-5F,
       .rows = 300,
       .sequences = 64,
       .tile_rows = 256},
      {.hidden = 1536,
       .intermediate = 64,
       .head_dim = 64,
       .q_heads = 18,
       .kv_heads = 2,
       .vocab = 90,
       .max_context = 70,
       .splits = 1,
       .epsilon = 1e-5F,
       .rows = 64,
       .sequences = 64,
       .tile_rows = 256},
      // Eight tiles of rows.
      {.hidden = 128,
       .intermediate = 192,
       .head_dim = 64,
       .q_heads = 2,
       .kv_heads = 1,
       .vocab = 61,
       .max_context = 400,
       .splits = 1,
       .epsilon = 1e-5F,
       .rows = 2048,
       .sequences = 512,
       .tile_rows = 256},
  };
  return all;
}

constexpr Opcode kTiled[] = {Opcode::kEmbed,      Opcode::kQkvRope,    Opcode::kQkvProject,
                             Opcode::kQkNormRope, Opcode::kMatvecPart, Opcode::kAddParts,
                             Opcode::kGateUpSilu, Opcode::kLmHead,     Opcode::kMatvecResidual,
                             Opcode::kSample,     Opcode::kAdvance,    Opcode::kPool};

std::string name_of_op(const ::testing::TestParamInfo<Opcode>& instance) {
  return op_name(static_cast<uint16_t>(instance.param));
}

class TiledOps : public ::testing::TestWithParam<Opcode> {};

TEST_P(TiledOps, HaveTheHostsResults) {
  const Opcode opcode = GetParam();
  Random random(815 + static_cast<uint32_t>(opcode));
  Tally tally(opcode, true);
  for (const Shape& shape : tiled_shapes()) {
    Shape whole = shape;
    whole.rows_of_sample = 7;
    Scene scene(whole, random);
    tally.take(whole);
    SCOPED_TRACE(whole.text());
    constexpr int kRandomPasses = 3;
    for (int pass = 0; pass < kRandomPasses; ++pass) {
      scene.new_pass(random);
      scene.arrange_rows(random);
      ASSERT_NO_FATAL_FAILURE(compare_pass(scene, opcode, random, tally));
    }
    SCOPED_TRACE("one row");
    scene.new_pass(random, {random.below(whole.max_context)});
    scene.arrange_rows(random);
    ASSERT_NO_FATAL_FAILURE(compare_pass(scene, opcode, random, tally));
  }
  tally.finish(op_name(static_cast<uint16_t>(opcode)));
}

INSTANTIATE_TEST_SUITE_P(Isa, TiledOps, ::testing::ValuesIn(kTiled), name_of_op);

// … with weights in codes, which meet activations in fp16.
constexpr Opcode kTiledOfCodes[] = {Opcode::kEmbed,         Opcode::kQkvRope,    Opcode::kQkvProject,
                                    Opcode::kMatvecPart,    Opcode::kGateUpSilu, Opcode::kLmHead,
                                    Opcode::kMatvecResidual};

class TiledOpsOnCodes : public ::testing::TestWithParam<std::tuple<Opcode, DType>> {};

TEST_P(TiledOpsOnCodes, HaveTheHostsResults) {
  const auto [opcode, type] = GetParam();
  Random random(991 + static_cast<uint32_t>(opcode));
  Tally tally(opcode, true);
  for (const Shape& shape : tiled_shapes()) {
    Shape in_codes = shape;
    // Widths stay such that a last panel's second half begins within a group, where they can.
    const uint32_t group = std::max(group_of(type), 64U);
    for (uint32_t* cols : {&in_codes.hidden, &in_codes.intermediate})
      *cols = (*cols + group - 1) / group * group;
    if (in_codes.q_heads * in_codes.head_dim % group != 0) in_codes.q_heads += in_codes.kv_heads;
    in_codes.weights = type;
    Scene scene(in_codes, random);
    tally.take(in_codes);
    SCOPED_TRACE(in_codes.text());
    constexpr int kRandomPasses = 2;
    for (int pass = 0; pass < kRandomPasses; ++pass) {
      scene.new_pass(random);
      scene.arrange_rows(random);
      ASSERT_NO_FATAL_FAILURE(compare_pass(scene, opcode, random, tally));
    }
    SCOPED_TRACE("one row");
    scene.new_pass(random, {random.below(in_codes.max_context)});
    scene.arrange_rows(random);
    ASSERT_NO_FATAL_FAILURE(compare_pass(scene, opcode, random, tally));
  }
  EXPECT_GT(tally.values(), 0U);
  tally.finish(fmt::format("{}, {}", op_name(static_cast<uint16_t>(opcode)), name_of(type)));
}

INSTANTIATE_TEST_SUITE_P(Isa, TiledOpsOnCodes,
                         ::testing::Combine(::testing::ValuesIn(kTiledOfCodes), ::testing::ValuesIn(kCodes)),
                         name_of_case);

// Products in which e4m3 weights meet e4m3 activations, and the instruction that makes these. Widths with one
// panel and several, a vocabulary that is no multiple of a tile, tiles of 8 units, K splits.
constexpr Opcode kOnE4M3Inputs[] = {Opcode::kQuantiseRows,  Opcode::kQkvRope,    Opcode::kQkvProject,
                                    Opcode::kMatvecPart,    Opcode::kGateUpSilu, Opcode::kLmHead,
                                    Opcode::kMatvecResidual};

std::vector<Shape> shapes_with_e4m3_inputs() {
  std::vector<Shape> shapes;
  for (const Shape& shape : tiled_shapes()) {
    if (shape.rows <= kMostWideTileRows) continue;
    Shape& added = shapes.emplace_back(shape);
    constexpr uint32_t kCols = e4m3_slab_image::kColsOfSlab;
    for (uint32_t* cols : {&added.hidden, &added.intermediate}) *cols = (*cols + kCols - 1) / kCols * kCols;
    if (added.q_heads * added.head_dim % kCols != 0) added.q_heads += added.kv_heads;
    added.weights = DType::kE4M3;
    added.e4m3_inputs = true;
  }
  return shapes;
}

class OpsOnE4M3Inputs : public ::testing::TestWithParam<Opcode> {};

TEST_P(OpsOnE4M3Inputs, HaveTheHostsResults) {
  const Opcode opcode = GetParam();
  Random random(4343 + static_cast<uint32_t>(opcode));
  Tally tally = Tally::of_e4m3();
  for (const Shape& shape : shapes_with_e4m3_inputs()) {
    Scene scene(shape, random);
    tally.take(shape);
    SCOPED_TRACE(shape.text());
    constexpr int kRandomPasses = 3;
    for (int pass = 0; pass < kRandomPasses; ++pass) {
      scene.new_pass(random);
      scene.arrange_rows(random);
      ASSERT_NO_FATAL_FAILURE(compare_pass(scene, opcode, random, tally));
    }
  }
  tally.finish(op_name(static_cast<uint16_t>(opcode)));
}

INSTANTIATE_TEST_SUITE_P(Isa, OpsOnE4M3Inputs, ::testing::ValuesIn(kOnE4M3Inputs), name_of_op);

// Makes all rows that may want logits pieces of a few prompts, whose hidden states are added up.
void pool_prompts(Scene& scene, Random& random) {
  scene.new_pass(random);
  const uint32_t slots = random.between(1, std::min(3U, scene.shape.sequences));
  for (uint32_t r = 0; r < scene.shape.rows; ++r) {
    PassRow& row = scene.rows()[r];
    const bool is_pooled = r < scene.shape.logit_rows() && random.chance(0.9);
    row = {1, is_pooled ? 1U : 0U, r % slots, 7, r / slots};
    row.adds = is_pooled && (r >= slots || random.chance(0.5)) ? 1 : 0;
  }
}

TEST(Pool, AddsUpTheRowsOfPromptsAsTheHostDoes) {
  Random random(99);
  for (const auto& all : {shapes(), tiled_shapes()}) {
    for (const Shape& shape : all) {
      SCOPED_TRACE(shape.text());
      Scene scene(shape, random);
      Tally tally(Opcode::kPool, shape.tile_rows > 0);
      pool_prompts(scene, random);
      ASSERT_NO_FATAL_FAILURE(compare_pass(scene, Opcode::kPool, random, tally));
      tally.finish("pool");
    }
  }
}

// Single rows in tile order: partial panels, K splits of different lengths, more chains than warps.
const std::vector<Shape>& shapes_in_tile_order() {
  static const std::vector<Shape> all = {
      {.hidden = 320,
       .intermediate = 192,
       .head_dim = 64,
       .q_heads = 8,
       .kv_heads = 2,
       .vocab = 203,
       .max_context = 300,
       .splits = 2,
       .epsilon = 1e-5F,
       .rows = 1,
       .tile_order = true},
      {.hidden = 1088,
       .intermediate = 1088,
       .head_dim = 128,
       .q_heads = 24,
       .kv_heads = 3,
       .vocab = 500,
       .max_context = 130,
       .splits = 16,
       .epsilon = 1e-6F,
       .rows = 1,
       .tile_order = true},
      {.hidden = 4160,
       .intermediate = 64,
       .head_dim = 128,
       .q_heads = 31,
       .kv_heads = 1,
       .vocab = 61,
       .max_context = 90,
       .splits = 1,
       .epsilon = 1e-5F,
       .rows = 1,
       .tile_order = true},
  };
  return all;
}

// Other instructions of such programs are tested elsewhere: attention with tiles in
// planned_attention_test.cu, and the rest as parts of whole models in tiled_model_test.cc.
constexpr Opcode kInTileOrder[] = {Opcode::kEmbed, Opcode::kQkvRope, Opcode::kMatvecResidual,
                                   Opcode::kGateUpSilu, Opcode::kLmHead};

class TileOrderOps : public ::testing::TestWithParam<Opcode> {};

TEST_P(TileOrderOps, HaveTheHostsResults) {
  const Opcode opcode = GetParam();
  Random random(923 + static_cast<uint32_t>(opcode));
  Tally tally(opcode, true);
  for (const Shape& shape : shapes_in_tile_order()) {
    Scene scene(shape, random);
    tally.take(shape);
    SCOPED_TRACE(shape.text());
    constexpr int kPasses = 6;
    for (int pass = 0; pass < kPasses; ++pass) {
      scene.new_pass(random, {random.below(shape.max_context)});
      ASSERT_NO_FATAL_FAILURE(compare_pass(scene, opcode, random, tally));
    }
  }
  tally.finish(op_name(static_cast<uint16_t>(opcode)));
}

INSTANTIATE_TEST_SUITE_P(Isa, TileOrderOps, ::testing::ValuesIn(kInTileOrder), name_of_op);

// Without those that only programs of tiles have (planned attention: planned_attention_test.cu) and those
// that only programs of several devices have (ops_of_ranks_test.cc).
std::vector<uint16_t> ops_of_few_rows() {
  constexpr Opcode kOfTiles[] = {Opcode::kPlannedAttention, Opcode::kPlannedMerge, Opcode::kMatvecPart,
                                 Opcode::kAddParts, Opcode::kQuantiseRows};
  std::vector<uint16_t> ops;
  for (uint16_t op = 0; op < kNumOpcodes; ++op) {
    const bool is_of_tiles = std::ranges::find(kOfTiles, Opcode{op}) != std::end(kOfTiles);
    if (!is_of_tiles && !is_of_ranks_alone(Opcode{op})) ops.push_back(op);
  }
  return ops;
}
INSTANTIATE_TEST_SUITE_P(Isa, Ops, ::testing::ValuesIn(ops_of_few_rows()),
                         [](const auto& instance) { return std::string(op_name(instance.param)); });

}  // namespace
}  // namespace serval::testing

// Compares the instructions of several ranks with the host. The device interpreter runs each as a program of
// its own on 2 and 4 ranks in parallel (one GPU for each if there are enough), and the host's handler runs on
// the same inputs: random tensors and rows, different weights on each rank, instances of random sizes. A new
// instruction that pushes fails here until tests/instructions/scene_of_ranks.cc has a stage for it.
#include <fmt/format.h>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "engine/device/gpu.h"
#include "tests/device/device_bench.h"
#include "tests/device/gpus_of_ranks.h"
#include "tests/device/op_comparison.h"
#include "tests/instructions/scene_of_ranks.h"

namespace serval::testing {
namespace {

// Runs the instances on the GPUs and copies the results to the scene's memory.
void run_on_gpus(SceneOfRanks& scene, const std::vector<std::vector<Instruction>>& instances,
                 Random& random) {
  const std::vector<int> gpus = gpus_of_ranks(scene.ranks());
  const uint32_t all_sms = find_gpus(gpus).front().sms;  // of a rank; also enables peer access
  DeviceBench device(scene.bench, gpus);
  const Scene& lead = scene.lead();
  for (uint32_t rank = 0; rank < scene.ranks(); ++rank) {
    device.pair_rows(scene.on(lead.t.wq, rank), lead.shape.head_dim);
    device.pair_rows(scene.on(lead.t.wk, rank), lead.shape.head_dim);
  }
  device.upload();
  const uint32_t sms = random.pick<uint32_t>({1, 3, all_sms});
  const bool single_rows =
      lead.shape.tile_rows > 0 && random.chance(0.5);  // no instruction here depends on it
  ASSERT_EQ(device.run(instances, sms, {lead.row_bound(), 1, lead.logit_bound(), single_rows}), 1U);
}

void compare_pass(SceneOfRanks& scene, Opcode opcode, Random& random, Tally& tally) {
  const std::vector<std::vector<Instruction>> of_ranks = scene.split(opcode, random);
  const std::vector<Instruction> instances = joined(of_ranks);
  ASSERT_FALSE(instances.empty()) << "no rank has anything to do";
  poison_outputs(scene.bench, instances);
  const Cover written = written_by(scene.bench, scene.lead().view(), instances);
  const Memory before = scene.bench.memory;
  ASSERT_NO_FATAL_FAILURE(run_on_gpus(scene, of_ranks, random));
  const Memory found = scene.bench.memory;
  scene.bench.memory = before;
  scene.bench.run(instances);
  compare(scene.bench, written, found, scene.bench.memory, before, tally);
  if (opcode == Opcode::kLmHead) {
    const Scene& lead = scene.lead();
    expect_units_of_logits(scene.bench, scene.on(lead.t.logits, 0), scene.on(lead.t.unit_softmax, 0),
                           {lead.rows(), lead.shape.rows}, found);
  }
}

// Sizes of a rank's share. Slices of 40 columns and more; inputs of 16 rows and of fewer that do not fit into
// shared memory at once; vocabularies that are not multiples of 8, one with fewer units than ranks.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {.hidden = 288,
       .intermediate = 16,
       .head_dim = 64,
       .q_heads = 4,
       .kv_heads = 1,
       .vocab = 203,
       .max_context = 90,
       .splits = 1,
       .epsilon = 1e-5F},
      {.hidden = 1056,
       .intermediate = 16,
       .head_dim = 128,
       .q_heads = 9,
       .kv_heads = 1,
       .vocab = 61,
       .max_context = 66,
       .splits = 1,
       .epsilon = 1e-6F},
      {.hidden = 3072,
       .intermediate = 16,
       .head_dim = 64,
       .q_heads = 2,
       .kv_heads = 1,
       .vocab = 1001,
       .max_context = 64,
       .splits = 1,
       .epsilon = 1e-5F},
      {.hidden = 160,
       .intermediate = 16,
       .head_dim = 128,
       .q_heads = 56,
       .kv_heads = 1,
       .vocab = 10,
       .max_context = 64,
       .splits = 1,
       .epsilon = 1e-3F},
  };
  return all;
}

// Shapes for programs of tiles. Slices of 64 columns and more, in groups of 8, 16 and 32 units; an odd number
// of heads of 64; up to four K splits of Q, K and V, the last one shorter; products of more than a panel; 1
// to 2,048 rows.
const std::vector<Shape>& tiled_shapes() {
  static const std::vector<Shape> all = {
      {.hidden = 512,
       .intermediate = 64,
       .head_dim = 64,
       .q_heads = 3,
       .kv_heads = 1,
       .vocab = 203,
       .max_context = 128,
       .splits = 1,
       .epsilon = 1e-5F,
       .rows = 600,
       .sequences = 64,
       .tile_rows = 256},
      {.hidden = 2304,
       .intermediate = 64,
       .head_dim = 128,
       .q_heads = 3,
       .kv_heads = 1,
       .vocab = 300,
       .max_context = 66,
       .splits = 1,
       .epsilon = 1e-6F,
       .rows = 70,
       .sequences = 32,
       .tile_rows = 256},
      {.hidden = 256,
       .intermediate = 64,
       .head_dim = 64,
       .q_heads = 2,
       .kv_heads = 1,
       .vocab = 61,
       .max_context = 128,
       .splits = 1,
       .epsilon = 1e-5F,
       .rows = 2048,
       .sequences = 128,
       .tile_rows = 256},
      {.hidden = 4096,
       .intermediate = 64,
       .head_dim = 128,
       .q_heads = 2,
       .kv_heads = 1,
       .vocab = 10,
       .max_context = 64,
       .splits = 1,
       .epsilon = 1e-5F,
       .rows = 33,
       .sequences = 16,
       .tile_rows = 256},
      {.hidden = 1280,
       .intermediate = 64,
       .head_dim = 128,
       .q_heads = 9,
       .kv_heads = 1,
       .vocab = 128,
       .max_context = 64,
       .splits = 1,
       .epsilon = 1e-3F,
       .rows = 9,
       .sequences = 16,
       .tile_rows = 256},
  };
  return all;
}

// An instruction and the number of ranks.
struct Case {
  Opcode opcode;
  uint32_t ranks;
};
std::vector<Case> cases(const std::vector<Opcode>& ops) {
  std::vector<Case> all;
  for (const Opcode opcode : ops) {
    for (const uint32_t ranks : {2U, 4U}) all.push_back({opcode, ranks});
  }
  return all;
}
std::string name_of(const Case& c) {
  return fmt::format("{}On{}Ranks", op_name(static_cast<uint16_t>(c.opcode)), c.ranks);
}
void PrintTo(const Case& c, std::ostream* out) {
  *out << name_of(c);
}

constexpr uint32_t kAnyRows = 0;  // chunks of prompts among single rows

class OpsOfRanks : public ::testing::TestWithParam<Case> {
 protected:
  // Runs passes of the given numbers of rows on a scene of each shape. Prints the figures of all.
  void compare_passes(const std::vector<Shape>& of_scenes, const std::vector<uint32_t>& rows_of_passes,
                      bool tiled) const {
    const auto [opcode, ranks] = GetParam();
    Random random(1234 + 10 * static_cast<uint32_t>(opcode) + ranks);
    Tally tally(opcode, tiled);
    for (const Shape& shape : of_scenes) {
      SceneOfRanks scene(ranks, shape, random);
      tally.take(shape);
      for (const uint32_t rows : rows_of_passes) {
        SCOPED_TRACE(fmt::format("{}; {} rows", shape.text(), rows));
        std::vector<uint32_t> positions(rows);
        for (uint32_t& p : positions) p = random.below(shape.max_context);
        scene.new_pass(random, positions);
        ASSERT_NO_FATAL_FAILURE(compare_pass(scene, opcode, random, tally));
      }
    }
    tally.finish(name_of(GetParam()) + (tiled ? ", tiles" : ""));
  }
};
class TiledOpsOfRanks : public OpsOfRanks {};

TEST_P(OpsOfRanks, HaveTheHostsResults) {
  compare_passes(shapes(), {1, 2, 5, 8, 16, kAnyRows}, false);
}

TEST_P(TiledOpsOfRanks, HaveTheHostsResults) {
  compare_passes(tiled_shapes(), {kAnyRows, kAnyRows, 1}, true);
}

// Without those that only programs of tiles have.
std::vector<Opcode> ops_of_few_rows() {
  std::vector<Opcode> ops = ops_of_ranks();
  std::erase_if(ops, [](Opcode op) { return op == Opcode::kProjectPart || op == Opcode::kRopeParts; });
  return ops;
}
INSTANTIATE_TEST_SUITE_P(Isa, OpsOfRanks, ::testing::ValuesIn(cases(ops_of_few_rows())),
                         [](const auto& instance) { return name_of(instance.param); });
INSTANTIATE_TEST_SUITE_P(Isa, TiledOpsOfRanks, ::testing::ValuesIn(cases(ops_of_ranks())),
                         [](const auto& instance) { return name_of(instance.param); });

}  // namespace
}  // namespace serval::testing

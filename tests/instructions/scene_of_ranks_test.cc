// The exchange instructions on scenes of 2 and 4 ranks: instances write exactly what they declare, on any
// rank, and the bits do not depend on the division of a stage into instances.
#include "tests/instructions/scene_of_ranks.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "gtest/gtest.h"

#include "tests/sample.h"

namespace serval::testing {
namespace {

using Memory = std::vector<std::vector<std::byte>>;

const uint32_t kScenes = sampled(4);

// Slices of one unit and more, or of one group of 64 columns and more; sometimes fewer units of tokens than
// ranks.
Shape shape_of(uint32_t ranks, bool tiles, Random& random) {
  Shape shape = random_shape(random, {.max_hidden = 16,
                                      .max_intermediate = 64,
                                      .max_kv_heads = 1,
                                      .max_context = 100,
                                      .rows = {16, 48, 70}});
  shape.rows_of_sample = 1;
  if (tiles) {
    shape.tile_rows = 256;
    shape.hidden = random.between(1, 6) * ranks * kSquareColsOfTiles;
  } else {
    shape.rows = kDefaultRows;
    shape.hidden = random.between(1, 9) * ranks * kTileDim;
  }
  shape.vocab = random.pick<uint32_t>({9, 64, shape.vocab});
  return shape;
}

template <class Fn>
void over_scenes(Fn&& fn) {
  for (uint64_t seed = 0; seed < kScenes; ++seed) {
    for (const uint32_t ranks : {2U, 4U}) {
      for (const bool tiles : {false, true}) {
        Random random(9000 + seed);
        SceneOfRanks scene(ranks, shape_of(ranks, tiles, random), random);
        scene.new_pass(random);
        const Memory before = scene.bench.memory;
        for (const Opcode opcode : ops_of_ranks()) {
          SCOPED_TRACE(std::string(op_name(static_cast<uint16_t>(opcode))) + " on " + std::to_string(ranks) +
                       " ranks; " + scene.lead().shape.text());
          fn(scene, opcode, random);
          scene.bench.memory = before;
        }
      }
    }
  }
}

Memory after(SceneOfRanks& scene, const Memory& before, const std::vector<Instruction>& instances) {
  scene.bench.memory = before;
  scene.bench.run(instances);
  return scene.bench.memory;
}

TEST(OpsOfRanks, HaveTheSameBitsHoweverTheyAreDivided) {
  over_scenes([](SceneOfRanks& scene, Opcode opcode, Random& random) {
    const std::vector<Instruction> whole = scene.whole(opcode);
    poison_outputs(scene.bench, whole);
    const Memory before = scene.bench.memory;
    const Memory once = after(scene, before, whole);
    for (int n = 0; n < 3; ++n)
      EXPECT_TRUE(after(scene, before, joined(scene.split(opcode, random))) == once) << "split " << n;
  });
}

// Elements that instances declare as written must not be poison afterwards, except for a bit pattern that a
// number may have; all other elements must be unchanged.
TEST(OpsOfRanks, WriteWhatTheySayOnAllRanks) {
  std::map<Opcode, size_t> elements;
  over_scenes([&](SceneOfRanks& scene, Opcode opcode, Random& random) {
    const std::vector<Instruction> instances = joined(scene.split(opcode, random));
    poison_outputs(scene.bench, instances);
    const Memory before = scene.bench.memory;
    const Cover written = written_by(scene.bench, scene.lead().view(), instances);
    scene.bench.run(instances);
    for (uint32_t t = 0; t < before.size(); ++t) {
      const Tensor& tensor = scene.bench.tensor({t});
      const size_t bytes = size_of(tensor.dtype);
      size_t left = 0, changed = 0;
      for (size_t i = 0; i < written[t].size(); ++i) {
        const std::byte* now = scene.bench.memory[t].data() + i * bytes;
        const bool same = std::memcmp(now, before[t].data() + i * bytes, bytes) == 0;
        const bool poison = std::all_of(now, now + bytes, [](std::byte b) { return b == kPoison; });
        if (written[t][i] == 0 && !same) ++changed;
        if (written[t][i] != 0 && poison && tensor.dtype != DType::kBytes) ++left;
        elements[opcode] += written[t][i] != 0 ? 1 : 0;
        EXPECT_LE(written[t][i], 1) << tensor.name << ": an element that two instances write";
      }
      EXPECT_EQ(left, 0U) << tensor.name << ": elements that were left out";
      EXPECT_EQ(changed, 0U) << tensor.name << ": elements that are not the instances'";
    }
  });
  for (const Opcode opcode : ops_of_ranks())
    EXPECT_GT(elements[opcode], 0U) << op_name(static_cast<uint16_t>(opcode));
}

TEST(OpsOfRanks, LeaveTheSameOnAllRanksOfWhatAllRead) {
  over_scenes([](SceneOfRanks& scene, Opcode opcode, Random& random) {
    if (opcode != Opcode::kReduceResidual) return;
    poison_outputs(scene.bench, scene.whole(opcode));
    scene.bench.run(joined(scene.split(opcode, random)));
    for (const TensorId id : {scene.lead().t.weighted, scene.lead().t.squares}) {
      for (uint32_t rank = 1; rank < scene.ranks(); ++rank)
        EXPECT_TRUE(scene.bench.memory[scene.on(id, rank).index] ==
                    scene.bench.memory[scene.on(id, 0).index]);
    }
  });
}

}  // namespace
}  // namespace serval::testing

// A row's bits are independent of the instance that computes it and of the other rows: they are the same for
// any division of a stage into instances in any order, any number of splits, among 16 rows or alone, in any
// row of the pass, and in every run.
#include <algorithm>
#include <cstring>

#include "gtest/gtest.h"

#include "tests/instructions/scene.h"
#include "tests/sample.h"
#include "vm/layout/row_bytes.h"
#include "vm/layout/row_tiles.h"

namespace serval::testing {
namespace {

const ShapeLimits kSmall = {
    .max_hidden = 160, .max_intermediate = 160, .max_kv_heads = 3, .rows = {1, 16, 48, 256}, .tiles = true};
const uint32_t kScenes = sampled(12);

using Memory = std::vector<std::vector<std::byte>>;

Scene make_scene(uint64_t seed, Random& random) {
  random = Random(seed);
  Scene s(random_shape(random, kSmall), random);
  s.new_pass(random);
  return s;
}

// The memory after these instances have run on `before`, with outputs poisoned first.
Memory after(Scene& s, const Memory& before, const Stage& stage, const std::vector<Instruction>& instances) {
  s.bench.memory = before;
  s.poison_outputs(stage);
  s.bench.run(instances);
  return s.bench.memory;
}

TEST(Invariance, AnySplitIntoInstancesGivesTheBitsOfOne) {
  for (uint64_t seed = 0; seed < kScenes; ++seed) {
    Random random(0);
    Scene s = make_scene(seed, random);
    const Memory before = s.bench.memory;
    for (const Stage& stage : s.stages()) {
      const Memory once = after(s, before, stage, whole(stage));
      std::vector<Instruction> single;
      for (uint32_t unit = 0; unit < stage.units; ++unit) single.push_back(stage.make(unit, 1));
      EXPECT_EQ(after(s, before, stage, single), once) << stage.name() << ": " << s.shape.text();
      for (int n = 0; n < 4; ++n) {
        EXPECT_EQ(after(s, before, stage, split(stage, random)), once)
            << stage.name() << ": " << s.shape.text();
      }
    }
  }
}

TEST(Invariance, RunningAStageAgainGivesTheSameBits) {
  Random random(0);
  Scene s = make_scene(100, random);
  const Memory before = s.bench.memory;
  for (const Stage& stage : s.stages()) {
    const Memory once = after(s, before, stage, whole(stage));
    for (int n = 0; n < 5; ++n) EXPECT_EQ(after(s, before, stage, whole(stage)), once) << stage.name();
  }
}

TEST(Invariance, AnyNumberOfLanesGivesTheSameAttention) {
  for (uint64_t seed = 200; seed < 200 + kScenes; ++seed) {
    Random random(seed);
    ShapeLimits limits = kSmall;
    limits.max_context = 3000;
    limits.max_kv_heads = 2;
    Scene s(random_shape(random, limits), random);
    s.new_pass(random);
    std::vector<std::byte> first;
    for (const uint32_t splits : {1U, 2U, 7U, 16U}) {
      const Stage attention = s.attention(splits), merge = s.merge(splits);
      s.poison_outputs(attention);
      s.poison_outputs(merge);
      s.bench.run(split(attention, random));
      s.bench.run(split(merge, random));
      if (first.empty()) first = s.bench.memory[s.t.attended.index];
      EXPECT_EQ(s.bench.memory[s.t.attended.index], first) << splits << " splits: " << s.shape.text();
    }
  }
}

// The leaves may be assigned to one record or divided among many.
TEST(Invariance, AnyNumberOfRecordsGivesTheSamePlannedAttention) {
  for (uint64_t seed = 250; seed < 250 + kScenes / 2; ++seed) {
    Random random(seed);
    ShapeLimits limits = kSmall;
    limits.max_context = 6000;
    limits.max_kv_heads = 2;
    limits.rows = {16, 48};
    Shape shape = random_shape(random, limits);
    shape.sequences = 3;
    Scene s(shape, random);
    s.new_pass(random);
    std::vector<std::byte> first;
    for (const uint32_t records : {1U, 2U, 7U, 24U}) {
      s.plan(records);
      s.poison_outputs(s.stage(Opcode::kPlannedAttention));
      s.bench.run(split(s.stage(Opcode::kPlannedAttention), random));
      s.bench.run(split(s.stage(Opcode::kPlannedMerge), random));
      if (first.empty()) first = s.bench.memory[s.t.attended.index];
      EXPECT_EQ(s.bench.memory[s.t.attended.index], first) << records << " records: " << s.shape.text();
    }
  }
}

// Tensors whose rows correspond to rows of the pass: row r to row r; for partial results, which have several
// rows for each row of the pass, row i × whole_row_tiles(rows) + r.
bool has_pass_rows(const Scene& s, uint32_t tensor) {
  const Tensor& t = s.bench.program.tensors[tensor];
  if (tensor == s.t.places.index || tensor == s.t.saved.index) return false;
  return t.kind == TensorKind::kActivation || tensor == s.t.rows.index || tensor == s.t.sampled.index ||
         tensor == s.t.top.index;
}

// Swaps two rows of the pass with all their data.
void swap_rows(Scene& s, uint32_t a, uint32_t b) {
  if (a == b) return;
  for (uint32_t i = 0; i < s.bench.memory.size(); ++i) {
    if (!has_pass_rows(s, i)) continue;
    const Tensor& t = s.bench.program.tensors[i];
    const size_t row = row_bytes_of(t.dtype, t.cols);
    const bool has_each = t.rows == s.shape.rows || t.rows == s.shape.logit_rows();
    const uint64_t stride = has_each ? t.rows : whole_row_tiles(s.shape.rows);
    if (a >= stride || b >= stride) continue;  // logits, which one of the rows may not want
    for (uint64_t base = 0; base < t.rows; base += stride) {
      std::byte* at = s.bench.memory[i].data() + base * row;
      std::swap_ranges(at + a * row, at + (a + 1) * row, at + b * row);
    }
  }
}

void leave_alone(Scene& s, uint32_t row) {
  for (uint32_t r = 0; r < s.shape.rows; ++r) {
    if (r != row) s.rows()[r].active = 0;
  }
}

// Elements of `written` that differ between two memories.
size_t differences(const Scene& s, const Cover& written, const Memory& a, const Memory& b) {
  size_t count = 0;
  for (uint32_t i = 0; i < a.size(); ++i) {
    const size_t size = size_of(s.bench.program.tensors[i].dtype);
    for (size_t e = 0; e < written[i].size(); ++e) {
      if (written[i][e] != 0 && std::memcmp(&a[i][e * size], &b[i][e * size], size) != 0) ++count;
    }
  }
  return count;
}

// All stages except advance and push_state, whose outputs concern the whole pass (see advance_test.cc), and
// planned_merge, which reads the places that a plan has chosen for these rows.
TEST(Invariance, ARowsBitsDoNotDependOnItsNeighboursOrItsPlace) {
  size_t compared = 0;
  for (uint64_t seed = 300; seed < 300 + kScenes; ++seed) {
    Random random(0);
    Scene s = make_scene(seed, random);
    const Memory before = s.bench.memory;
    const std::vector<uint32_t> active = s.active_rows();
    for (const Stage& stage : s.stages()) {
      if (stage.opcode == Opcode::kAdvance || stage.opcode == Opcode::kPushState ||
          stage.opcode == Opcode::kPlannedMerge)
        continue;
      const Memory together = after(s, before, stage, split(stage, random));
      for (int n = 0; n < 3; ++n) {
        const uint32_t r = random.pick(active);
        const uint32_t place =
            random.below(s.rows()[r].wants_logits != 0 ? s.shape.logit_rows() : s.shape.rows);
        s.bench.memory = before;
        leave_alone(s, r);
        const Cover written = written_by(s.bench, s.view(), whole(stage));
        swap_rows(s, r, place);
        s.plan(s.shape.records);
        s.poison_outputs(stage);
        s.bench.run(split(stage, random));
        swap_rows(s, r, place);
        EXPECT_EQ(differences(s, written, s.bench.memory, together), 0U)
            << stage.name() << " row " << r << " alone in row " << place << ": " << s.shape.text();
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, size_t{kScenes} * (kNumOpcodes - 3) * 3);
}

}  // namespace
}  // namespace serval::testing

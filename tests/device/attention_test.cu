// Compares attention and its merge on the GPU with the host's handlers, which formula_test.cc
// (tests/instructions) compares with the formulas in double.
#include <cmath>
#include <cstdio>
#include <cstring>

#include "gtest/gtest.h"

#include "instructions/attention/device.cuh"
#include "instructions/attention_merge/device.cuh"
#include "tests/device/run_group_op.cuh"
#include "vm/base/bf16.h"
#include "vm/layout/kv_cache.h"
#include "vm/layout/row_tiles.h"

namespace serval::testing {
namespace {

// Host and GPU round weights to bf16 that differ in their last bits, so a weight near the middle between two
// bf16 numbers may be rounded to either.
constexpr double kMostNmse = 1e-8;
constexpr double kMostOff = 2e-3;        // of a leaf's value, relative to the tensor's largest value
constexpr double kMostScalarOff = 4e-5;  // of the largest score and the sum, relative
constexpr double kMostFlips = 0.002;     // fraction of bf16 outputs that differ from the host's

const ShapeLimits kSmall = {.max_hidden = 16, .max_intermediate = 16, .max_kv_heads = 2, .max_context = 700};

TensorId partial_of(const Stage& stage) {
  return stage.make(0, 1).as<Attention>().partial;
}

bool poisoned(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return bits == 0xFFFFFFFF;
}

struct Difference {
  double square = 0, power = 0, most = 0, largest = 0, scalar = 0;
  size_t values = 0, misplaced = 0;

  void add_value(float host, float gpu) {
    const double off = std::abs(double{host} - gpu);
    square += off * off;
    power += double{host} * host;
    most = std::fmax(most, off);
    if (!(off < HUGE_VAL)) most = HUGE_VAL;
    largest = std::fmax(largest, std::abs(host));
    ++values;
  }
  void add_scalar(float host, float gpu) {
    const double off = std::abs(double{host} - gpu) / std::fmax(1, std::abs(host));
    scalar = off < HUGE_VAL ? std::fmax(scalar, off) : HUGE_VAL;
  }
  void judge(const char* name) const {
    std::printf("[ figures  ] %s: %zu values, NMSE %.2g, most off %.2g of the largest, scalars %.2g\n", name,
                values, square / power, most / largest, scalar);
    EXPECT_EQ(misplaced, 0U) << name << ": written by one of host and GPU only";
    EXPECT_GT(values, 0U) << name;
    EXPECT_LE(square, kMostNmse * power) << name;
    EXPECT_LE(most, kMostOff * largest) << name;
    EXPECT_LE(scalar, kMostScalarOff) << name;
  }
};

// Compares partial results of host and GPU, including the poison that must remain in all other places.
void compare_partial(const Shape& shape, const std::vector<float>& host, const float* gpu, Difference& out) {
  const uint32_t stride = shape.head_dim + PartialLayout::kExtra;
  for (size_t i = 0; i < host.size(); ++i) {
    if (poisoned(host[i]) != poisoned(gpu[i])) {
      ++out.misplaced;
    } else if (!poisoned(host[i])) {
      if (i % stride < shape.head_dim) {
        out.add_value(host[i], gpu[i]);
      } else {
        out.add_scalar(host[i], gpu[i]);
      }
    }
  }
}

// Runs the stage on the host, then on the GPU; the GPU's results remain in the bench.
void run_attention(Scene& s, const Stage& stage, Difference& out) {
  const TensorId partial = partial_of(stage);
  s.poison_outputs(stage);
  s.bench.run(whole(stage));
  const float* data = s.bench.data<const float>(partial);
  const std::vector<float> host(data, data + s.bench.memory[partial.index].size() / sizeof(float));
  s.poison_outputs(stage);
  GpuBench gpu(s.bench);
  gpu.upload();
  gpu.run<Attention>(whole(stage), s.t.rows);
  gpu.download(partial);
  compare_partial(s.shape, host, s.bench.data<const float>(partial), out);
}

TEST(DeviceAttention, AgreesWithTheHostOverRandomPasses) {
  SERVAL_NEEDS_GPU();
  Difference difference;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    Scene s(random_shape(random, kSmall), random);
    s.new_pass(random);
    SCOPED_TRACE(s.shape.text());
    run_attention(s, s.stage(Opcode::kAttention), difference);
    if (HasFatalFailure()) return;
  }
  difference.judge("attention");
}

Shape shape_of(uint32_t head_dim, uint32_t kv_heads, uint32_t group_heads, uint32_t max_context,
               uint32_t splits) {
  return {.hidden = 16,
          .intermediate = 16,
          .head_dim = head_dim,
          .q_heads = kv_heads * group_heads,
          .kv_heads = kv_heads,
          .vocab = 3,
          .max_context = max_context,
          .splits = splits,
          .epsilon = 1e-5F};
}

// Makes the first `rows` rows one chunk of the sequence in the first active row's slot; it ends at that row's
// position.
void make_chunk(Scene& s, uint32_t rows) {
  const uint32_t last = s.active_rows().front();
  const PassRow end = s.rows()[last];
  for (uint32_t r = 0; r < kDefaultRows; ++r) s.rows()[r].active = 0;
  for (uint32_t i = 0; i < rows; ++i) {
    s.rows()[i] = end;
    s.rows()[i].position = end.position + 1 - rows + i;
  }
}

TEST(DeviceAttention, AgreesForEveryGroupSizeAndChunk) {
  SERVAL_NEEDS_GPU();
  Difference difference;
  for (const uint32_t head_dim : {64U, 128U}) {
    for (uint32_t group = 1; group <= 16; ++group) {
      Random random(1000 * head_dim + group);
      Scene s(shape_of(head_dim, 1 + group % 2, group, 600, 1 + group % 5), random);
      s.new_pass(random, {255 + 5 * group % 64});
      make_chunk(s, 1 + group * 7 % 16);
      SCOPED_TRACE(s.shape.text());
      run_attention(s, s.stage(Opcode::kAttention), difference);
      if (HasFatalFailure()) return;
    }
  }
  difference.judge("attention, chunks");
}

TEST(DeviceAttention, AgreesInLongContexts) {
  SERVAL_NEEDS_GPU();
  Difference difference;
  for (const uint32_t splits : {1U, 3U, 16U}) {
    for (const uint32_t head_dim : {64U, 128U}) {
      Random random(splits + head_dim);
      Scene s(shape_of(head_dim, 2, 4, 5003, splits), random);
      s.new_pass(random, {5002, 4095, 4096, 2047 + random.below(900), 0});
      run_attention(s, s.stage(Opcode::kAttention), difference);
      if (HasFatalFailure()) return;
    }
  }
  difference.judge("attention, long");
}

// The bits of a row's leaves, independent of their places in the splits.
std::vector<float> leaves_of(const Scene& s, uint32_t splits, TensorId partial, uint32_t row) {
  const uint32_t group = s.shape.q_heads / s.shape.kv_heads;
  const PartialLayout layout{splits, group, s.shape.head_dim, whole_row_tiles(s.shape.rows)};
  const float* data = s.bench.data<const float>(partial);
  const PassRow& r = s.rows()[row];
  std::vector<float> out;
  for (uint32_t head = 0; head < s.shape.q_heads; ++head) {
    for (uint32_t leaf = 0; leaf < leaves_for_tokens(r.position + 1); ++leaf) {
      const uint64_t at =
          layout.row(head / group, layout.split_of(r.slot, leaf), row) * layout.cols(s.shape.max_context) +
          layout.col(leaf, head % group);
      out.insert(out.end(), data + at, data + at + s.shape.head_dim + PartialLayout::kExtra);
    }
  }
  return out;
}

std::vector<float> gpu_leaves(Scene& s, uint32_t splits, uint32_t row) {
  const Stage stage = s.attention(splits);
  s.poison_outputs(stage);
  GpuBench gpu(s.bench);
  gpu.upload();
  gpu.run<Attention>(whole(stage), s.t.rows);
  gpu.download(partial_of(stage));
  return leaves_of(s, splits, partial_of(stage), row);
}

TEST(DeviceAttention, BitsDependNeitherOnLanesNorOnNeighbours) {
  SERVAL_NEEDS_GPU();
  for (const uint32_t head_dim : {64U, 128U}) {
    for (const uint32_t group : {1U, 4U, 7U}) {
      Random random(head_dim + group);
      Scene s(shape_of(head_dim, 2, group, 900, 16), random);
      s.new_pass(random, {770});
      make_chunk(s, 16);
      const uint32_t watched = 3;
      const auto together = gpu_leaves(s, 16, watched);
      for (const uint32_t splits : {1U, 2U, 7U}) {
        const auto other = gpu_leaves(s, splits, watched);
        ASSERT_EQ(std::memcmp(together.data(), other.data(), together.size() * sizeof(float)), 0)
            << splits << " splits, " << s.shape.text();
      }
      for (uint32_t r = 0; r < kDefaultRows; ++r) s.rows()[r].active = r == watched ? 1 : 0;
      const auto alone = gpu_leaves(s, 16, watched);
      ASSERT_EQ(std::memcmp(together.data(), alone.data(), together.size() * sizeof(float)), 0)
          << s.shape.text();
    }
  }
}

// Compares outputs of host and GPU: counts those that differ, and none may differ by more than one step of
// bf16.
void run_merge(Scene& s, const Stage& stage, Random& random, size_t& outputs, size_t& flips) {
  const TensorId to = s.t.attended;
  s.poison_outputs(stage);
  s.bench.run(whole(stage));
  const auto host = s.bench.memory[to.index];
  s.poison_outputs(stage);
  GpuBench gpu(s.bench);
  gpu.upload();
  gpu.run<AttentionMerge>(split(stage, random), s.t.rows);
  gpu.download(to);
  const auto* a = reinterpret_cast<const uint16_t*>(host.data());
  const auto* b = s.bench.data<const uint16_t>(to);
  for (size_t i = 0; i < host.size() / sizeof(uint16_t); ++i) {
    if (a[i] == b[i]) {
      outputs += a[i] != 0xFFFF ? 1 : 0;
      continue;
    }
    ++flips;
    // Near 0, where sums cancel, a small difference is many steps of bf16.
    ASSERT_NEAR(bf16_to_float(a[i]), bf16_to_float(b[i]), std::abs(bf16_to_float(a[i])) / 128 + 1e-5)
        << s.shape.text();
  }
}

TEST(DeviceAttentionMerge, AgreesWithTheHost) {
  SERVAL_NEEDS_GPU();
  size_t outputs = 0, flips = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    ShapeLimits limits = kSmall;
    limits.max_context = 3000;
    Scene s(random_shape(random, limits), random);
    s.new_pass(random);
    run_merge(s, s.stage(Opcode::kAttentionMerge), random, outputs, flips);
    if (HasFatalFailure()) return;
  }
  std::printf("[ figures  ] merge: %zu outputs, %zu differ\n", outputs, flips);
  EXPECT_LE(static_cast<double>(flips), kMostFlips * static_cast<double>(outputs));
}

TEST(DeviceAttentionMerge, HoldsUpTo512Leaves) {
  SERVAL_NEEDS_GPU();
  size_t outputs = 0, flips = 0;
  for (const uint32_t splits : {7U, 16U}) {
    const uint32_t head_dim = splits == 7 ? 64 : 128, longest = 512 * kLeafTokens;
    Random random(splits);
    Scene s(shape_of(head_dim, 1, 2, longest, splits), random);
    s.new_pass(random, {longest - 1, longest - 1 - 300 * kLeafTokens, 16 * kLeafTokens, 8 * kLeafTokens - 1});
    run_merge(s, s.stage(Opcode::kAttentionMerge), random, outputs, flips);
    if (HasFatalFailure()) return;
  }
  std::printf("[ figures  ] merge, long: %zu outputs, %zu differ\n", outputs, flips);
  EXPECT_LE(static_cast<double>(flips), kMostFlips * static_cast<double>(outputs));
}

// Short runs of channels (few heads) and long ones (many heads) take different code paths, with the same
// bits.
TEST(DeviceAttentionMerge, BitsDependNotOnHowHeadsAreDealtOut) {
  SERVAL_NEEDS_GPU();
  Random random(5);
  for (const uint32_t head_dim : {64U, 128U}) {
    Scene s(shape_of(head_dim, 2, 4, 20000, 16), random);
    s.new_pass(random, {19999, 5000, 255, 256});
    const Stage stage = s.stage(Opcode::kAttentionMerge);
    std::vector<std::byte> first;
    for (const uint32_t heads : {1U, 3U, 8U}) {
      s.poison_outputs(stage);
      GpuBench gpu(s.bench);
      gpu.upload();
      std::vector<Instruction> records;
      for (uint32_t h = 0; h < 8; h += heads) records.push_back(stage.make(h, std::min(heads, 8 - h)));
      gpu.run<AttentionMerge>(records, s.t.rows);
      gpu.download(s.t.attended);
      if (first.empty()) first = s.bench.memory[s.t.attended.index];
      ASSERT_EQ(first, s.bench.memory[s.t.attended.index]) << heads;
    }
  }
}

}  // namespace
}  // namespace serval::testing

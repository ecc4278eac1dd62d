// Compares planned attention and its merge on the GPU with the host's handlers, which formula_test.cc
// (tests/instructions) compares with the formula in double.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "gtest/gtest.h"

#include "tests/device/planned_attention_pass.cuh"

namespace serval::testing {
namespace {

// Host and GPU round weights to bf16 that differ in their last bits, so one near the middle between two bf16
// numbers may be rounded to either; the same holds for outputs.
constexpr double kMostNmse = 2e-6;
constexpr double kMostOff = 0.01;  // relative to the largest output
constexpr uint32_t kLeaf = kPlannedLeafTokens;

class Difference {
 public:
  void add(const Output& host, const Output& gpu) {
    ASSERT_EQ(host.size(), gpu.size());
    for (size_t i = 0; i < host.size(); ++i) {
      const double a = bf16_to_float(host[i]), b = bf16_to_float(gpu[i]), off = std::abs(a - b);
      square_ += off * off;
      power_ += a * a;
      most_ = off < HUGE_VAL ? std::fmax(most_, off) : HUGE_VAL;
      largest_ = std::fmax(largest_, std::abs(a));
    }
    values_ += host.size();
  }
  void judge(const char* name) const {
    std::printf("[ figures  ] %s: %zu values, NMSE %.2g, most off %.2g of the largest\n", name, values_,
                square_ / power_, most_ / largest_);
    EXPECT_LE(square_, kMostNmse * power_) << name;
    EXPECT_LE(most_, kMostOff * largest_) << name;
  }

 private:
  double square_ = 0, power_ = 0, most_ = 0, largest_ = 0;
  size_t values_ = 0;
};

template <template <uint32_t> class Config>
void compare(AttentionPass pass, uint32_t records, Difference& difference,
             uint32_t places = kAttentionPlaces) {
  difference.add(host_attention(pass), gpu_attention<Config>(pass, records, places));
}

TEST(DevicePlannedAttention, AgreesForEveryGroupSizeAndRaggedEnd) {
  Difference difference;
  for (const uint32_t head_dim : {64U, 128U}) {
    for (uint32_t group = 1; group <= 8; ++group) {
      SCOPED_TRACE(group);
      const AttentionPass pass({head_dim, 2, group},
                               {{1},
                                {63},
                                {64, 64},
                                {65, 2},
                                {200 + group, 40},
                                {kLeaf - 1, 5},
                                {kLeaf + 1, 3},
                                {kLeaf + 276, 100}},
                               group);
      compare<LargeScratch>(pass, 5, difference);
      compare<SmallScratch>(pass, 3, difference);
      if (HasFailure()) return;
    }
  }
  difference.judge("group sizes");
}

TEST(DevicePlannedAttention, AgreesInLongContexts) {
  Difference difference;
  for (const uint32_t head_dim : {64U, 128U}) {
    compare<LargeScratch>(AttentionPass({head_dim, 2, 4}, {{40000}, {9000, 3}, {4097, 70}, {17}}, head_dim),
                          gpu_sms(), difference);
    compare<SmallScratch>(AttentionPass({head_dim, 1, 5}, {{5000, 20}, {2048, 1}}, head_dim), 7, difference);
  }
  difference.judge("long contexts");
}

TEST(DevicePlannedAttention, AgreesForPrompts) {
  Difference difference;
  compare<LargeScratch>(AttentionPass({128, 2, 4}, {{2048, 2048}}, 1, 3), gpu_sms(), difference);
  compare<LargeScratch>(AttentionPass({64, 2, 4}, {{700, 700}, {3000, 1000}, {1, 1}}, 2), gpu_sms(),
                        difference);
  difference.judge("prompts");
}

TEST(DevicePlannedAttention, AgreesOverRandomPasses) {
  Difference difference;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    const Heads heads{below(2) == 0 ? 64U : 128U, 1 + below(3), 1 + below(8)};
    std::vector<Sequence> sequences(1 + below(40));
    for (Sequence& s : sequences) {
      s.tokens = 1 + below(below(4) == 0 ? 4000 : 500);
      s.rows = below(3) == 0 ? 1 + below(std::min(s.tokens, 90U)) : 1;
    }
    SCOPED_TRACE(seed);
    const uint32_t records = 1 + below(gpu_sms());
    compare<LargeScratch>(AttentionPass(heads, sequences, seed), records, difference, 1 + below(300));
    if (HasFailure()) return;
  }
  difference.judge("random passes");
}

// Compares with each row of the sequences alone.
TEST(DevicePlannedAttention, BitsDependNeitherOnNeighboursNorOnDealing) {
  for (const uint32_t head_dim : {64U, 128U}) {
    const Heads heads{head_dim, 2, 4};
    const AttentionPass pass(heads, {{3000}, {kLeaf + 476, 50}, {80}, {kLeaf + 6, 9}}, head_dim);
    const Output together = gpu_attention<LargeScratch>(pass, gpu_sms());
    EXPECT_EQ(gpu_attention<LargeScratch>(pass, 1), together);
    EXPECT_EQ(gpu_attention<LargeScratch>(pass, 7, 40), together);
    EXPECT_EQ(gpu_attention<SmallScratch>(pass, 11), together);
    const size_t cols = heads.q_cols();
    for (size_t r = 0; r < pass.rows.size(); ++r) {
      AttentionPass alone = pass;
      alone.rows = {pass.rows[r]};
      alone.q.assign(pass.q.begin() + r * cols, pass.q.begin() + (r + 1) * cols);
      const Output bits = gpu_attention<LargeScratch>(alone, r % 2 == 0 ? 1 : 20);
      ASSERT_TRUE(std::equal(bits.begin(), bits.end(), together.begin() + r * cols)) << r;
    }
  }
}

// The order of `rows` rows in which groups of `together` consecutive rows are reversed.
std::vector<size_t> in_groups(size_t rows, size_t together) {
  std::vector<size_t> order;
  for (size_t begin = (rows - 1) / together * together;; begin -= together) {
    for (size_t r = begin; r < std::min(begin + together, rows); ++r) order.push_back(r);
    if (begin == 0) return order;
  }
}
template <class Value>
std::vector<Value> reordered(const std::vector<Value>& values, const std::vector<size_t>& order) {
  const size_t cols = values.size() / order.size();
  std::vector<Value> to;
  for (const size_t r : order)
    to.insert(to.end(), values.begin() + r * cols, values.begin() + (r + 1) * cols);
  return to;
}

// Consecutive rows of a sequence are queries of one full tile. If groups come in another order, each group is
// an item of its own, whose few query heads use a narrow tile.
template <template <uint32_t> class Config>
void compare_narrow(const Heads& heads, uint32_t together, uint32_t records) {
  const AttentionPass full(heads, {{70, 70}, {1040, 40}, {3090, 45}, {129, 33}}, heads.head_dim);
  const std::vector<size_t> order = in_groups(full.rows.size(), together);
  AttentionPass narrow = full;
  narrow.rows = reordered(full.rows, order);
  narrow.q = reordered(full.q, order);
  const Output expected = reordered(gpu_attention<Config>(full, records), order);
  const Output got = gpu_attention<Config>(narrow, records);
  const size_t cols = heads.q_cols();
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], expected[i]) << "row " << order[i / cols] << ", column " << i % cols;
}
TEST(DevicePlannedAttention, NarrowTilesHaveTheBitsOfFullOnes) {
  for (const uint32_t head_dim : {64U, 128U}) {
    for (const uint32_t group : {1U, 2U, 4U, 7U, 8U}) {
      const uint32_t most = device::planned::kNarrowRows / group;
      for (const uint32_t together : std::set<uint32_t>{1, (most + 1) / 2, most}) {
        SCOPED_TRACE(std::to_string(head_dim) + " channels, " + std::to_string(group) + " heads, " +
                     std::to_string(together) + " rows together");
        for (const uint32_t records : {1U, 5U, gpu_sms()}) {
          compare_narrow<LargeScratch>({head_dim, 2, group}, together, records);
          compare_narrow<SmallScratch>({head_dim, 1, group}, together, records);
        }
        if (HasFailure()) return;
      }
    }
  }
}

// In these kernels a warpgroup has up to two heads of its own, and only the used part of a last block is
// loaded.
TEST(DevicePlannedAttention, KernelsOfSingleRowsHaveTheBitsOfOthers) {
  std::vector<Sequence> sequences = {{1},     {63},        {64},   {65},  {kLeaf - 1},
                                     {kLeaf}, {kLeaf + 1}, {2500}, {5000}};
  for (uint32_t n = 0; n < 40; ++n) sequences.push_back({1 + n * 37 % 500});
  for (const uint32_t head_dim : {64U, 128U}) {
    for (const uint32_t kv_heads : {1U, 2U, 3U, 5U, 8U}) {
      for (const uint32_t group : {1U, 2U, 3U, 4U, 7U, 8U}) {
        SCOPED_TRACE(std::to_string(head_dim) + " channels, " + std::to_string(kv_heads) + " x " +
                     std::to_string(group) + " heads");
        const AttentionPass pass({head_dim, kv_heads, group}, sequences, group);
        const Output expected = gpu_attention<LargeScratch>(pass, gpu_sms());
        for (const uint32_t records : {1U, 7U, gpu_sms()}) {
          ASSERT_EQ(gpu_attention<SingleRows>(pass, records), expected) << records;
          ASSERT_EQ(gpu_attention<SmallSingleRows>(pass, records), expected) << records;
        }
      }
    }
  }
}

// An SM that is told to exit, during streams or before its inputs are complete, exits after its pages have
// landed: the GPU remains usable by the process.
template <template <uint32_t> class Config>
void leave_and_go_on() {
  for (const uint32_t group : {4U, 8U}) {
    const AttentionPass pass({128, 8, group}, std::vector<Sequence>(40, {300}), group);
    const Output before = gpu_attention<LargeScratch>(pass, gpu_sms());
    {
      GpuAttention<Config> faulty(pass, gpu_sms() - 1, kAttentionPlaces, 2, true);
      for (uint32_t launch = 0; launch < 100; ++launch)
        ASSERT_NO_FATAL_FAILURE(faulty.run_into_fault()) << launch;
    }
    EXPECT_EQ(gpu_attention<Config>(pass, gpu_sms()), before);
  }
}
TEST(DevicePlannedAttention, LeavesInTheMidst) {
  leave_and_go_on<LargeScratch>();
}
TEST(DevicePlannedAttention, LeavesInTheMidstOfSingleRows) {
  leave_and_go_on<SingleRows>();
}

// Rows that have ended since the list was made are not written.
TEST(DevicePlannedAttention, LeavesOutRowsThatAreNoMoreActive) {
  AttentionPass pass({64, 2, 3}, {{300}, {400, 30}, {kLeaf + 176}, {70}}, 9);
  GpuAttention<LargeScratch> gpu(pass, 4, kAttentionPlaces);
  std::vector<PassRow> rows = pass.rows;
  for (const size_t ended : {0UL, 3UL, 30UL, 31UL}) rows[ended].active = 0;
  gpu.write_rows(rows);
  gpu.run();
  const Output got = gpu.output(), all = gpu_attention<LargeScratch>(pass, 4);
  const size_t cols = pass.heads.q_cols();
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], rows[i / cols].active != 0 ? all[i] : kUnwritten) << i / cols;
  }
}

// --- speed: SERVAL_BENCHMARK=1 prints figures, which are not checked

bool benchmarks() {
  return std::getenv("SERVAL_BENCHMARK") != nullptr;
}

template <template <uint32_t> class Config = LargeScratch>
double microseconds(const AttentionPass& pass, uint32_t layers) {
  GpuAttention<Config> gpu(pass, gpu_sms(), kAttentionPlaces, layers);
  std::vector<double> times;
  for (int n = 0; n < 7; ++n) times.push_back(gpu.run());
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] / layers;
}

TEST(DevicePlannedAttention, SpeedOfPrompts) {
  if (!benchmarks()) GTEST_SKIP() << "SERVAL_BENCHMARK=1 measures";
  for (const uint32_t tokens : {2048U, 8192U, 32768U}) {
    const Heads heads{128, 8, 4};
    const uint32_t rows = std::min(tokens, 2048U);
    // In chunks of 2,048 rows, as the engine reads prompts; of 16 chunks, 4 are timed and represent all.
    double us = 0;
    const uint32_t step = tokens > 8192 ? 5 : 1, stands_for = tokens > 8192 ? 4 : 1;
    for (uint32_t end = rows; end <= tokens; end += step * rows) {
      AttentionPass pass(heads, {{end, rows}}, 1, 1, false);
      us += microseconds(pass, 10) * stands_for;
    }
    const double operations = 2.0 * tokens * tokens * heads.q_cols();
    std::printf("[ figures  ] prompt of %u in chunks of %u: %.0f us, %.0f TFLOP/s\n", tokens, rows, us,
                operations / us / 1e6);
  }
}

TEST(DevicePlannedAttention, SpeedOfManySequences) {
  if (!benchmarks()) GTEST_SKIP() << "SERVAL_BENCHMARK=1 measures";
  const auto measure = [](const char* name, const std::vector<Sequence>& sequences) {
    for (const uint32_t head_dim : {64U, 128U}) {
      const AttentionPass pass({head_dim, 8, 4}, sequences, 1, 1, false);
      double bytes = 0;
      for (const Sequence& s : sequences) bytes += 2.0 * s.tokens * 8 * head_dim * 2;
      for (const bool single : {false, true}) {
        const double us = single ? microseconds<SingleRows>(pass, 10) : microseconds(pass, 10);
        std::printf("[ figures  ] %s, heads of %u%s: %.1f us, %.0f GB/s\n", name, head_dim,
                    single ? ", a kernel of single rows" : "", us, bytes / us / 1e3);
      }
    }
  };
  measure("256 sequences of 1,000", std::vector<Sequence>(256, {1000}));
  measure("256 sequences of 128", std::vector<Sequence>(256, {128}));
  measure("64 sequences of 128", std::vector<Sequence>(64, {128}));
  measure("1 sequence of 32,768", {{32768}});
  std::vector<Sequence> mixed(200, {500});
  mixed.push_back({100000});
  measure("100,000 among 200 of 500", mixed);
}

}  // namespace
}  // namespace serval::testing

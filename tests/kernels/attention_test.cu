// The forward pass of kernels/attention.h against plain loops in fp32.
#include "tests/kernels/attention_case.cuh"

namespace serval::testing {
namespace {

using kernels::AttentionShape;

// A block for each row of queries: scores in shared memory, then a thread for each channel.
__global__ void attend_plainly(const Bf16* q, const Bf16* k, const Bf16* v, float* out, float* log_sums,
                               float scale, AttentionShape s) {
  extern __shared__ float scores[];
  const uint32_t row = blockIdx.x, head = blockIdx.y, kv_head = head / (s.heads / s.kv_heads);
  const uint32_t keys = s.causal ? row + 1 : s.length;
  const Bf16* const query = q + (size_t{head} * s.length + row) * s.head_dim;
  for (uint32_t key = threadIdx.x; key < keys; key += blockDim.x) {
    float sum = 0;
    for (uint32_t i = 0; i < s.head_dim; ++i)
      sum += element_value(query[i]) * element_value(k[(size_t{kv_head} * s.length + key) * s.head_dim + i]);
    scores[key] = sum * scale;
  }
  __syncthreads();
  float most = -INFINITY, total = 0, sum = 0;
  for (uint32_t key = 0; key < keys; ++key) most = fmaxf(most, scores[key]);
  for (uint32_t key = 0; key < keys; ++key) {
    const float weight = expf(scores[key] - most);
    total += weight;
    sum += weight * element_value(v[(size_t{kv_head} * s.length + key) * s.head_dim + threadIdx.x]);
  }
  out[(size_t{head} * s.length + row) * s.head_dim + threadIdx.x] = sum / total;
  if (threadIdx.x == 0) log_sums[size_t{head} * s.length + row] = most + logf(total);
}

struct Results {
  std::vector<uint16_t> out;
  std::vector<float> log_sums;
  bool operator==(const Results&) const = default;
};
Results run(const AttentionCase& c) {
  const GuardedArray<uint16_t> out(c.elements(c.shape.heads));
  const GuardedArray<float> log_sums(c.rows());
  kernels::attention(words(c.q), words(c.k), words(c.v), out.data(), log_sums.data(), c.scale, c.shape,
                     nullptr);
  SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
  return {out.download(), log_sums.download()};
}
void expect_right(const AttentionCase& c, const Results& got) {
  const DeviceArray<float> out(got.out.size()), log_sums(got.log_sums.size());
  attend_plainly<<<dim3(c.shape.length, c.shape.batch * c.shape.heads), c.shape.head_dim,
                   c.shape.length * sizeof(float)>>>(c.q.data(), c.k.data(), c.v.data(), out.data(),
                                                     log_sums.data(), c.scale, c.shape);
  SERVAL_CUDA_CHECK(cudaGetLastError());
  SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
  const std::vector<float> want = out.download(), sums = log_sums.download();
  // Weights are rounded to bf16 before they are multiplied, results after.
  expect_bf16(
      got.out, [&](size_t i) { return want[i]; }, 1.0F / 128, 4e-3F);
  float most = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const float difference = std::abs(got.log_sums[i] - sums[i]);
    most = difference <= most ? most : difference;  // a NaN stays
  }
  EXPECT_LE(most, 1e-3F) << "of the logarithms of sums";
}

void expect_attention(uint32_t head_dim, bool causal) {
  Random random(head_dim + causal);
  const std::vector<AttentionShape> shapes = {
      {1, 1, 1, 128, head_dim, causal},  {1, 1, 1, 1, head_dim, causal},   {1, 2, 1, 5, head_dim, causal},
      {2, 2, 2, 65, head_dim, causal},   {1, 4, 2, 127, head_dim, causal}, {2, 2, 2, 192, head_dim, causal},
      {1, 2, 2, 257, head_dim, causal},  {3, 4, 4, 129, head_dim, causal}, {2, 8, 2, 300, head_dim, causal},
      {1, 32, 8, 777, head_dim, causal}, {1, 8, 8, 4000, head_dim, causal}};
  for (const AttentionShape& shape : shapes) {
    for (const double spread : {0.3, 3.0}) {
      const AttentionCase c(shape, spread, random);
      SCOPED_TRACE(c.name());
      expect_right(c, run(c));
    }
  }
}
TEST(Attention, HeadsOf64) {
  SERVAL_NEEDS_GPU();
  expect_attention(64, false);
}
TEST(Attention, HeadsOf64Causal) {
  SERVAL_NEEDS_GPU();
  expect_attention(64, true);
}
TEST(Attention, HeadsOf128) {
  SERVAL_NEEDS_GPU();
  expect_attention(128, false);
}
TEST(Attention, HeadsOf128Causal) {
  SERVAL_NEEDS_GPU();
  expect_attention(128, true);
}
// A case whose scores are `level(key)`, for every second row its negative, and a little more.
template <class Level>
AttentionCase with_levels(const AttentionShape& shape, bool turns_rows, Random& random, Level&& level) {
  AttentionCase c(shape, 0.3, random);
  constexpr float kQuery = 16;  // channel 0 of the queries; that of the keys makes the level
  std::vector<Bf16> q = c.q.download(), k = c.k.download();
  for (size_t i = 0; i < q.size(); i += shape.head_dim)
    q[i] = from_float<Bf16>(turns_rows && i / shape.head_dim % 2 == 1 ? -kQuery : kQuery);
  for (size_t i = 0; i < k.size(); i += shape.head_dim)
    k[i] = from_float<Bf16>(level(static_cast<uint32_t>(i / shape.head_dim % shape.length)) /
                            (kQuery * c.scale));
  c.q = DeviceArray<Bf16>(std::span<const Bf16>(q));
  c.k = DeviceArray<Bf16>(std::span<const Bf16>(k));
  return c;
}
// Sums are scaled only when a maximum has grown by a factor of 2^8, that is by 5.55, since the last time. A
// block has 128 keys. Rows of one warp grow and fall, so only some of them need it.
TEST(Attention, ScalesSumsWhenScoresGrowSlowlyOrQuickly) {
  SERVAL_NEEDS_GPU();
  Random random(11);
  for (const uint32_t head_dim : {64U, 128U}) {
    for (const bool causal : {false, true}) {
      const auto expect = [&](const char* name, auto&& level) {
        SCOPED_TRACE(std::string(name) + ", heads of " + std::to_string(head_dim) +
                     (causal ? ", causal" : ""));
        const AttentionCase c = with_levels({1, 4, 2, 1500, head_dim, causal}, true, random, level);
        expect_right(c, run(c));
      };
      expect("slowly", [](uint32_t key) { return 0.01F * static_cast<float>(key); });
      expect("quickly", [](uint32_t key) { return 0.1F * static_cast<float>(key); });
      expect("in steps just below the limit",
             [](uint32_t key) { return 5.4F * static_cast<float>(key / 128); });
      expect("in steps just above the limit",
             [](uint32_t key) { return 5.7F * static_cast<float>(key / 128); });
      expect("at one key", [](uint32_t key) { return key == 700 ? 60.0F : 0.0F; });
    }
  }
}
// The first keys hardly count, or not at all: scores of minus infinity, as after an overflow.
TEST(Attention, IgnoresFirstKeysWithLowScores) {
  SERVAL_NEEDS_GPU();
  Random random(12);
  for (const uint32_t head_dim : {64U, 128U}) {
    for (const uint32_t hidden : {1U, 128U, 300U}) {
      for (const float low : {-100.0F, -3e38F}) {
        SCOPED_TRACE(std::to_string(hidden) + " keys, heads of " + std::to_string(head_dim));
        const AttentionCase c = with_levels({1, 4, 2, 700, head_dim, false}, false, random,
                                            [&](uint32_t key) { return key < hidden ? low : 0.0F; });
        expect_right(c, run(c));
      }
    }
  }
}
TEST(Attention, GivesTheSameBitsInEveryRun) {
  SERVAL_NEEDS_GPU();
  Random random(9);
  const AttentionCase c({2, 16, 4, 2500, 128, true}, 1, random);
  const Results first = run(c);
  for (int again = 0; again < 3; ++again) EXPECT_TRUE(run(c) == first);
}
TEST(Attention, RefusesOtherShapes) {
  auto* p = reinterpret_cast<uint16_t*>(4096);
  const auto message = [&](const AttentionShape& shape) -> std::string {
    try {
      kernels::attention(p, p, p, p, nullptr, 1, shape, nullptr);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message({1, 1, 1, 8, 96, false}), "attention: head_dim is 96; it must be 64 or 128");
  EXPECT_EQ(message({1, 6, 4, 8, 64, false}), "attention: heads is 6; it must be a positive multiple of 4");
  EXPECT_EQ(message({1, 1, 1, 0, 64, false}), "attention: batch, length and kv_heads must be at least 1");
}

}  // namespace
}  // namespace serval::testing

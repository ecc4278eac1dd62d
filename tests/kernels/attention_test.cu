// The forward pass of kernels/attention.h against plain loops in fp32.
#include "kernels/attention_launch.cuh"
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
// kOptions: those of launch_attention().
template <auto... kOptions>
Results run(const AttentionCase& c) {
  const GuardedArray<uint16_t> out(c.elements(c.shape.heads));
  const GuardedArray<float> log_sums(c.rows());
  kernels::launch_attention<kOptions...>(words(c.q), words(c.k), words(c.v), out.data(), log_sums.data(),
                                         c.scale, c.shape, nullptr);
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

template <auto... kOptions>
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
      expect_right(c, run<kOptions...>(c));
    }
  }
}
TEST(Attention, HeadsOf64) {
  SERVAL_NEEDS_GPU();
  expect_attention<3>(64, false);
}
TEST(Attention, HeadsOf64Causal) {
  SERVAL_NEEDS_GPU();
  expect_attention<3>(64, true);
}
TEST(Attention, VariantsOfHeadsOf64) {
  SERVAL_NEEDS_GPU();
  for (const bool causal : {false, true}) {
    expect_attention<3, 128, false>(64, causal);
    expect_attention<2>(64, causal);
    expect_attention<2, 192>(64, causal);
  }
}
TEST(Attention, HeadsOf128) {
  SERVAL_NEEDS_GPU();
  expect_attention<3>(128, false);
}
TEST(Attention, HeadsOf128Causal) {
  SERVAL_NEEDS_GPU();
  expect_attention<3>(128, true);
}
TEST(Attention, HeadsOf128WithEarlyWaits) {
  SERVAL_NEEDS_GPU();
  for (const bool causal : {false, true}) expect_attention<3, 128, false>(128, causal);
}
TEST(Attention, GivesTheSameBitsInEveryRun) {
  SERVAL_NEEDS_GPU();
  Random random(9);
  const AttentionCase c({2, 16, 4, 2500, 128, true}, 1, random);
  const Results first = run<3>(c);
  for (int again = 0; again < 3; ++again) EXPECT_TRUE(run<3>(c) == first);
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

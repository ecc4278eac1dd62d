// The attention of kernels/attention.h against plain loops in fp32.
#include "kernels/attention.h"
#include "tests/kernels/reference.cuh"

namespace serval::testing {
namespace {

using kernels::AttentionShape;

// A block for each row of queries: scores in shared memory, then a thread for each channel.
__global__ void attend_plainly(const Bf16* q, const Bf16* k, const Bf16* v, float* out, float scale,
                               AttentionShape s) {
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
}

constexpr uint16_t kCanary = 0x7FC1;  // a NaN
constexpr size_t kGuard = 4096;       // elements after the results that must stay

struct Case {
  AttentionShape shape;
  float scale;
  DeviceArray<Bf16> q, k, v;

  // Scores have a deviation of `spread` about.
  Case(const AttentionShape& s, double spread, Random& random)
      : shape(s),
        scale(static_cast<float>(spread * 3 / std::sqrt(s.head_dim))),
        q(make(s.heads, random)),
        k(make(s.kv_heads, random)),
        v(make(s.kv_heads, random)) {}
  DeviceArray<Bf16> make(uint32_t heads, Random& random) const {
    const std::vector<Bf16> all =
        random_numbers<Bf16>(size_t{shape.batch} * heads * shape.length * shape.head_dim, 1, random);
    return DeviceArray<Bf16>(std::span<const Bf16>(all));
  }
  size_t results() const { return size_t{shape.batch} * shape.heads * shape.length * shape.head_dim; }
  std::vector<uint16_t> run() const {
    const DeviceArray<uint16_t> out{
        std::span<const uint16_t>(std::vector<uint16_t>(results() + kGuard, kCanary))};
    const auto words = [](const DeviceArray<Bf16>& of) {
      return reinterpret_cast<const uint16_t*>(of.data());
    };
    kernels::attention(words(q), words(k), words(v), out.data(), scale, shape, nullptr);
    SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
    std::vector<uint16_t> got = out.download();
    for (size_t i = results(); i < got.size(); ++i) EXPECT_EQ(got[i], kCanary) << "after the results";
    got.resize(results());
    return got;
  }
  std::vector<float> want() const {
    const DeviceArray<float> out(results());
    attend_plainly<<<dim3(shape.length, shape.batch * shape.heads), shape.head_dim,
                     shape.length * sizeof(float)>>>(q.data(), k.data(), v.data(), out.data(), scale, shape);
    SERVAL_CUDA_CHECK(cudaGetLastError());
    SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
    return out.download();
  }
};

void expect_attention(uint32_t head_dim, bool causal) {
  Random random(head_dim + causal);
  const std::vector<AttentionShape> shapes = {
      {1, 1, 1, 128, head_dim, causal}, {1, 1, 1, 1, head_dim, causal},    {1, 2, 1, 5, head_dim, causal},
      {2, 2, 2, 65, head_dim, causal},  {1, 4, 2, 127, head_dim, causal},  {3, 4, 4, 129, head_dim, causal},
      {2, 8, 2, 300, head_dim, causal}, {1, 32, 8, 777, head_dim, causal}, {1, 8, 8, 4000, head_dim, causal}};
  for (const AttentionShape& shape : shapes) {
    for (const double spread : {0.3, 3.0}) {
      SCOPED_TRACE("heads " + std::to_string(shape.heads) + ", length " + std::to_string(shape.length) +
                   ", head_dim " + std::to_string(head_dim));
      const Case c(shape, spread, random);
      const std::vector<float> want = c.want();
      // Weights are rounded to bf16 before they are multiplied, results after.
      expect_bf16(
          c.run(), [&](size_t i) { return want[i]; }, 1.0F / 128, 4e-3F);
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
TEST(Attention, GivesTheSameBitsInEveryRun) {
  SERVAL_NEEDS_GPU();
  Random random(9);
  const Case c({2, 16, 4, 2500, 128, true}, 1, random);
  const std::vector<uint16_t> first = c.run();
  for (int again = 0; again < 3; ++again) EXPECT_TRUE(c.run() == first);
}
TEST(Attention, RefusesOtherShapes) {
  auto* p = reinterpret_cast<uint16_t*>(4096);
  const auto message = [&](const AttentionShape& shape) -> std::string {
    try {
      kernels::attention(p, p, p, p, 1, shape, nullptr);
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

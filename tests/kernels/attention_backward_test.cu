// The backward pass of kernels/attention.h against its formulas in fp32, on the forward pass's results.
#include "tests/kernels/attention_case.cuh"

namespace serval::testing {
namespace {

using kernels::AttentionShape;

struct Inputs {
  const Bf16 *q, *k, *v, *out, *d_out;
  float scale;
  AttentionShape shape;

  __device__ const Bf16* query_row(const Bf16* matrix, uint32_t head, uint32_t row) const {
    return matrix + (size_t{head} * shape.length + row) * shape.head_dim;
  }
  __device__ const Bf16* key_row(const Bf16* matrix, uint32_t head, uint32_t row) const {
    return query_row(matrix, head / (shape.heads / shape.kv_heads), row);
  }
  __device__ float product(const Bf16* a, const Bf16* b) const {
    float sum = 0;
    for (uint32_t i = 0; i < shape.head_dim; ++i) sum += element_value(a[i]) * element_value(b[i]);
    return sum;
  }
};

// The weights p and ds of a row of queries, for each key: [heads, length, length]. A block has a row.
__global__ void weights_plainly(const Inputs in, float* p, float* ds) {
  const uint32_t row = blockIdx.x, head = blockIdx.y, length = in.shape.length;
  const uint32_t keys = in.shape.causal ? row + 1 : length;
  p += (size_t{head} * length + row) * length;
  ds += (size_t{head} * length + row) * length;
  const Bf16* const d_out = in.query_row(in.d_out, head, row);
  for (uint32_t key = threadIdx.x; key < length; key += blockDim.x) {
    const float score = in.product(in.query_row(in.q, head, row), in.key_row(in.k, head, key)) * in.scale;
    p[key] = key < keys ? score : -INFINITY;
  }
  __syncthreads();
  float most = -INFINITY, total = 0;
  for (uint32_t key = 0; key < keys; ++key) most = fmaxf(most, p[key]);
  for (uint32_t key = 0; key < keys; ++key) total += expf(p[key] - most);
  __syncthreads();
  const float delta = in.product(d_out, in.query_row(in.out, head, row));
  for (uint32_t key = threadIdx.x; key < length; key += blockDim.x) {
    p[key] = expf(p[key] - most) / total;
    ds[key] = p[key] * (in.product(d_out, in.key_row(in.v, head, key)) - delta) * in.scale;
  }
}
// dq of a row: a thread for each channel.
__global__ void query_gradients_plainly(const Inputs in, const float* ds, float* dq) {
  const uint32_t row = blockIdx.x, head = blockIdx.y, length = in.shape.length;
  float sum = 0;
  for (uint32_t key = 0; key < length; ++key)
    sum += ds[(size_t{head} * length + row) * length + key] *
           element_value(in.key_row(in.k, head, key)[threadIdx.x]);
  dq[(size_t{head} * length + row) * in.shape.head_dim + threadIdx.x] = sum;
}
// dk and dv of a row of keys, over all heads of queries that share them.
__global__ void key_gradients_plainly(const Inputs in, const float* p, const float* ds, float* dk,
                                      float* dv) {
  const uint32_t key = blockIdx.x, kv_head = blockIdx.y, length = in.shape.length;
  const uint32_t group = in.shape.heads / in.shape.kv_heads;
  float of_k = 0, of_v = 0;
  for (uint32_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (uint32_t row = 0; row < length; ++row) {
      const size_t at = (size_t{head} * length + row) * length + key;
      of_k += ds[at] * element_value(in.query_row(in.q, head, row)[threadIdx.x]);
      of_v += p[at] * element_value(in.query_row(in.d_out, head, row)[threadIdx.x]);
    }
  }
  const size_t to = (size_t{kv_head} * length + key) * in.shape.head_dim + threadIdx.x;
  dk[to] = of_k;
  dv[to] = of_v;
}

struct Results {
  std::vector<uint16_t> dq, dk, dv;
  bool operator==(const Results&) const = default;
};

struct Backward : AttentionCase {
  DeviceArray<Bf16> out, d_out;
  DeviceArray<float> log_sums;

  Backward(const AttentionShape& s, double spread, Random& random)
      : AttentionCase(s, spread, random),
        out(elements(s.heads)),
        d_out(make(s.heads, random)),
        log_sums(rows()) {
    kernels::attention(words(q), words(k), words(v), reinterpret_cast<uint16_t*>(out.data()), log_sums.data(),
                       scale, shape, nullptr);
    SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
  }
  Results run() const {
    const GuardedArray<uint16_t> dq(elements(shape.heads)), dk(elements(shape.kv_heads)),
        dv(elements(shape.kv_heads));
    const GuardedArray<float> scratch(kernels::attention_backward_scratch(shape));
    kernels::attention_backward({words(q), words(k), words(v), words(out), words(d_out), log_sums.data(),
                                 dq.data(), dk.data(), dv.data()},
                                scratch.data(), scale, shape, nullptr);
    SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
    scratch.download();
    return {dq.download(), dk.download(), dv.download()};
  }
  // Results of the formulas.
  void want(std::vector<float>& dq, std::vector<float>& dk, std::vector<float>& dv) const {
    const Inputs in{q.data(), k.data(), v.data(), out.data(), d_out.data(), scale, shape};
    const dim3 query_rows(shape.length, shape.batch * shape.heads);
    const dim3 key_rows(shape.length, shape.batch * shape.kv_heads);
    const DeviceArray<float> p(rows() * shape.length), ds(rows() * shape.length);
    const DeviceArray<float> of_q(elements(shape.heads)), of_k(elements(shape.kv_heads)),
        of_v(elements(shape.kv_heads));
    weights_plainly<<<query_rows, 128>>>(in, p.data(), ds.data());
    query_gradients_plainly<<<query_rows, shape.head_dim>>>(in, ds.data(), of_q.data());
    key_gradients_plainly<<<key_rows, shape.head_dim>>>(in, p.data(), ds.data(), of_k.data(), of_v.data());
    SERVAL_CUDA_CHECK(cudaGetLastError());
    SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
    dq = of_q.download();
    dk = of_k.download();
    dv = of_v.download();
  }
};

// p and ds are rounded to bf16 before they are multiplied, so errors grow with the values of the row.
void expect_gradient(const char* name, const std::vector<uint16_t>& got, const std::vector<float>& want,
                     uint32_t head_dim) {
  SCOPED_TRACE(name);
  std::vector<float> of_row(want.size() / head_dim);  // root mean squares
  for (size_t row = 0; row < of_row.size(); ++row) {
    float squares = 0;
    for (size_t i = row * head_dim; i < (row + 1) * head_dim; ++i) squares += want[i] * want[i];
    of_row[row] = std::sqrt(squares / static_cast<float>(head_dim));
  }
  size_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const float v = bf16_to_float(got[i]), w = want[i];
    if (std::abs(v - w) <= 1e-4F + std::abs(w) / 100 + of_row[i / head_dim] / 40) continue;
    if (wrong++ == 0)
      ADD_FAILURE() << "row " << i / head_dim << ", column " << i % head_dim << " is " << v << ", not " << w;
  }
  EXPECT_EQ(wrong, 0U) << "of " << got.size() << " elements";
}
void expect_gradients(const AttentionShape& shape, double spread, Random& random) {
  const Backward c(shape, spread, random);
  SCOPED_TRACE(c.name() + ", spread " + std::to_string(spread));
  const Results got = c.run();
  std::vector<float> dq, dk, dv;
  c.want(dq, dk, dv);
  expect_gradient("dq", got.dq, dq, shape.head_dim);
  expect_gradient("dk", got.dk, dk, shape.head_dim);
  expect_gradient("dv", got.dv, dv, shape.head_dim);
}
void expect_all(uint32_t head_dim, bool causal) {
  Random random(head_dim + causal);
  const std::vector<AttentionShape> shapes = {
      {1, 1, 1, 128, head_dim, causal}, {1, 1, 1, 256, head_dim, causal}, {1, 1, 1, 1, head_dim, causal},
      {1, 2, 1, 5, head_dim, causal},   {2, 2, 2, 64, head_dim, causal},  {2, 2, 2, 65, head_dim, causal},
      {1, 4, 2, 127, head_dim, causal}, {3, 4, 4, 129, head_dim, causal}, {1, 3, 1, 192, head_dim, causal},
      {2, 8, 2, 300, head_dim, causal}, {2, 8, 8, 777, head_dim, causal}, {1, 8, 4, 1400, head_dim, causal}};
  for (const AttentionShape& shape : shapes) {
    for (const double spread : {0.3, 3.0}) expect_gradients(shape, spread, random);
  }
}
TEST(AttentionBackward, HeadsOf64) {
  SERVAL_NEEDS_GPU();
  expect_all(64, false);
}
TEST(AttentionBackward, HeadsOf64Causal) {
  SERVAL_NEEDS_GPU();
  expect_all(64, true);
}
TEST(AttentionBackward, HeadsOf128) {
  SERVAL_NEEDS_GPU();
  expect_all(128, false);
}
TEST(AttentionBackward, HeadsOf128Causal) {
  SERVAL_NEEDS_GPU();
  expect_all(128, true);
}
TEST(AttentionBackward, GivesTheSameBitsInEveryRun) {
  SERVAL_NEEDS_GPU();
  Random random(9);
  for (const bool causal : {false, true}) {
    const Backward c({2, 16, 4, 2500, 128, causal}, 1, random);
    const Results first = c.run();
    for (int again = 0; again < 3; ++again) EXPECT_TRUE(c.run() == first);
  }
}
TEST(AttentionBackward, RefusesOtherShapes) {
  auto* p = reinterpret_cast<uint16_t*>(4096);
  auto* f = reinterpret_cast<float*>(4096);
  const auto message = [&](const AttentionShape& shape, float* scratch) -> std::string {
    try {
      kernels::attention_backward({p, p, p, p, p, f, p, p, p}, scratch, 1, shape, nullptr);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message({1, 1, 1, 8, 96, false}, f), "attention_backward: head_dim is 96; it must be 64 or 128");
  EXPECT_EQ(message({1, 1, 1, 8, 64, false}, nullptr),
            "attention_backward: scratch must be an address in GPU memory that is a multiple of 16 bytes");
}

}  // namespace
}  // namespace serval::testing

// The products of kernels/gemm.h against plain loops on the GPU. Operands are mostly small integers, whose
// sums are exact in every order, so each result must be the nearest bf16.
#include "kernels/gemm_launch.cuh"
#include "tests/kernels/reference.cuh"

namespace serval::testing {
namespace {

using kernels::GemmShape;

template <class T>
inline constexpr uint32_t kMostInteger = std::is_same_v<T, E4m3> ? 2 : 4;

template <class T>
struct Product {
  GemmShape shape;
  DeviceArray<T> a, b;
  GuardedResults c;

  Product(GemmShape s, const std::vector<T>& left, const std::vector<T>& right)
      : shape(s), a(std::span<const T>(left)), b(std::span<const T>(right)), c(size_t{s.m} * s.n) {}

  template <uint32_t kBlocks>
  std::vector<uint16_t> run(float scale) const {
    kernels::launch_gemm<T, kBlocks>(a.data(), b.data(), reinterpret_cast<Bf16*>(c.data()), scale, shape,
                                     nullptr);
    return c.take();
  }
};

template <class T, uint32_t kBlocks>
void expect_exact(GemmShape shape) {
  SCOPED_TRACE(std::to_string(shape.m) + " x " + std::to_string(shape.n) + " x " + std::to_string(shape.k));
  Random random(shape.m * 31 + shape.n * 7 + shape.k);
  const Product<T> product(shape, small_integers<T>(size_t{shape.m} * shape.k, kMostInteger<T>, random),
                           small_integers<T>(size_t{shape.n} * shape.k, kMostInteger<T>, random));
  const std::vector<float> want =
      plain_product(product.a.data(), product.b.data(), shape.m, shape.n, shape.k);
  const float scale = std::is_same_v<T, E4m3> ? 0.5F : 1;  // exact
  expect_bf16(
      product.template run<kBlocks>(scale), [&](size_t i) { return want[i] * scale; }, 0, 0);
}

template <class T, uint32_t kBlocks = 2>
void expect_all(const std::vector<GemmShape>& shapes) {
  for (const GemmShape& shape : shapes) expect_exact<T, kBlocks>(shape);
}

const std::vector<GemmShape> kWhole = {{256, 256, 128}, {128, 256, 512}, {512, 768, 1024}};
const std::vector<GemmShape> kRagged = {{1, 8, 16},      {1, 256, 128},    {129, 8, 128},    {130, 264, 144},
                                        {255, 248, 272}, {300, 520, 1008}, {1000, 1000, 464}};
// More tiles than blocks: each block has several tasks, and stages go round many times.
const std::vector<GemmShape> kMany = {{4096, 4096, 256}, {2000, 7000, 128}, {256, 256, 16384}};

TEST(GemmBf16, WholeTiles) {
  SERVAL_NEEDS_GPU();
  expect_all<Bf16>(kWhole);
}
TEST(GemmBf16, RaggedShapes) {
  SERVAL_NEEDS_GPU();
  expect_all<Bf16>(kRagged);
}
TEST(GemmBf16, ManyTasksAndSteps) {
  SERVAL_NEEDS_GPU();
  expect_all<Bf16>(kMany);
}
TEST(GemmBf16, WithoutClusters) {
  SERVAL_NEEDS_GPU();
  expect_all<Bf16, 1>(kWhole);
  expect_all<Bf16, 1>(kRagged);
  expect_all<Bf16, 1>(kMany);
}
TEST(GemmE4m3, WholeTiles) {
  SERVAL_NEEDS_GPU();
  expect_all<E4m3>(kWhole);
}
TEST(GemmE4m3, RaggedShapes) {
  SERVAL_NEEDS_GPU();
  expect_all<E4m3>(kRagged);
}
TEST(GemmE4m3, ManyTasksAndSteps) {
  SERVAL_NEEDS_GPU();
  expect_all<E4m3>({{4096, 4096, 256}, {2000, 7000, 128}, {256, 256, 8192}});
}

TEST(GemmE4m3, WithoutClusters) {
  SERVAL_NEEDS_GPU();
  expect_all<E4m3, 1>(kWhole);
  expect_all<E4m3, 1>(kRagged);
  expect_all<E4m3, 1>({{4096, 4096, 256}, {2000, 7000, 128}, {256, 256, 8192}});
}

// Arbitrary numbers: sums in another order than the reference's.
template <class T>
void expect_near(float relative, float absolute) {
  constexpr GemmShape kShape{384, 512, 1024};
  Random random(5);
  const Product<T> product(kShape, random_numbers<T>(size_t{kShape.m} * kShape.k, 1, random),
                           random_numbers<T>(size_t{kShape.n} * kShape.k, 1, random));
  const std::vector<float> want =
      plain_product(product.a.data(), product.b.data(), kShape.m, kShape.n, kShape.k);
  expect_bf16(
      product.template run<2>(1), [&](size_t i) { return want[i]; }, relative, absolute);
}
TEST(GemmBf16, ArbitraryNumbers) {
  SERVAL_NEEDS_GPU();
  expect_near<Bf16>(1.0F / 256, 1e-3F);
}
TEST(GemmE4m3, ArbitraryNumbers) {
  SERVAL_NEEDS_GPU();
  expect_near<E4m3>(1.0F / 128, 0.1F);
}

template <class T>
void expect_same_bits() {
  constexpr GemmShape kShape{2048, 3000, 2048};
  Random random(6);
  const Product<T> product(kShape, random_numbers<T>(size_t{kShape.m} * kShape.k, 1, random),
                           random_numbers<T>(size_t{kShape.n} * kShape.k, 1, random));
  const std::vector<uint16_t> first = product.template run<2>(1);
  for (int again = 0; again < 5; ++again) EXPECT_TRUE(product.template run<2>(1) == first);
  EXPECT_TRUE(product.template run<1>(1) == first) << "a cluster must not change a bit";
}
TEST(GemmBf16, GivesTheSameBitsInEveryRun) {
  SERVAL_NEEDS_GPU();
  expect_same_bits<Bf16>();
}
TEST(GemmE4m3, GivesTheSameBitsInEveryRun) {
  SERVAL_NEEDS_GPU();
  expect_same_bits<E4m3>();
}

std::string message_of(GemmShape shape, size_t offset = 0) {
  auto* p = reinterpret_cast<uint16_t*>(4096 + offset);
  try {
    kernels::gemm_bf16(p, p, p, shape, nullptr);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}
TEST(GemmBf16, RefusesWhatTheCopyEngineCannotAddress) {
  EXPECT_EQ(message_of({16, 12, 64}), "gemm_bf16: n is 12; it must be a positive multiple of 8");
  EXPECT_EQ(message_of({16, 16, 68}), "gemm_bf16: k is 68; it must be a positive multiple of 8");
  EXPECT_EQ(message_of({16, 16, 0}), "gemm_bf16: k is 0; it must be a positive multiple of 8");
  EXPECT_EQ(message_of({0, 16, 64}), "gemm_bf16: m is 0; it must be at least 1");
  EXPECT_EQ(message_of({16, 16, 64}, 2),
            "gemm_bf16: a must be an address in GPU memory that is a multiple of 16 bytes");
}
TEST(GemmE4m3, RefusesRowsThatAreNoMultipleOf16Bytes) {
  auto* p = reinterpret_cast<uint8_t*>(4096);
  EXPECT_THROW(kernels::gemm_e4m3(p, p, reinterpret_cast<uint16_t*>(p), 1, {16, 16, 72}, nullptr), Error);
}

}  // namespace
}  // namespace serval::testing

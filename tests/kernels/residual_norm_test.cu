// The norms of kernels/residual_norm.h and their variants against the formulas in double.
#include <cstring>

#include "kernels/residual_norm.cuh"
#include "tests/kernels/reference.cuh"

namespace serval::testing {
namespace {

constexpr float kEpsilon = 1e-5F;

struct Case {
  uint32_t rows, width;
  std::vector<Bf16> x, residual, weight, bias;

  Case(uint32_t r, uint32_t w, Random& random)
      : rows(r),
        width(w),
        x(random_numbers<Bf16>(size_t{r} * w, 2, random)),
        residual(random_numbers<Bf16>(size_t{r} * w, 2, random)),
        weight(random_numbers<Bf16>(w, 2, random)),
        bias(random_numbers<Bf16>(w, 2, random)) {}

  float sum(size_t i) const { return bf16_to_float(float_to_bf16(to_float(x[i]) + to_float(residual[i]))); }
  // The norms of all elements.
  std::vector<float> norms(bool centred) const {
    std::vector<float> out(x.size());
    for (size_t row = 0; row < rows; ++row) {
      const size_t first = row * width;
      double mean = 0, squares = 0;
      for (size_t i = 0; centred && i < width; ++i) mean += sum(first + i) / width;
      for (size_t i = 0; i < width; ++i) squares += (sum(first + i) - mean) * (sum(first + i) - mean);
      const double scale = 1 / std::sqrt(squares / width + kEpsilon);
      for (size_t i = 0; i < width; ++i) {
        out[first + i] = static_cast<float>((sum(first + i) - mean) * scale * to_float(weight[i]) +
                                            (centred ? to_float(bias[i]) : 0));
      }
    }
    return out;
  }
};

struct Results {
  std::vector<uint16_t> sum, out;
  bool operator==(const Results&) const = default;
};
using Kernel = void (*)(const kernels::ResidualNorm& arguments, cudaStream_t stream);
// kAhead: each block loads its next row while it reduces; otherwise it has one row.
template <bool kCentred, bool kAhead>
void norm_of(const kernels::ResidualNorm& arguments, cudaStream_t stream) {
  kernels::launch_norm<kCentred, kAhead>(arguments, stream);
}

Results run(const Case& c, Kernel kernel) {
  const auto upload = [](const std::vector<Bf16>& v) { return DeviceArray<Bf16>(std::span<const Bf16>(v)); };
  const auto x = upload(c.x), residual = upload(c.residual), weight = upload(c.weight), bias = upload(c.bias);
  const auto words = [](const DeviceArray<Bf16>& v) { return reinterpret_cast<const uint16_t*>(v.data()); };
  const DeviceArray<uint16_t> sum(c.x.size()), out(c.x.size());
  const kernels::ResidualNorm arguments{words(x),   words(residual), words(weight), words(bias), sum.data(),
                                        out.data(), c.rows,          c.width,       kEpsilon};
  kernel(arguments, nullptr);
  SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
  return {sum.download(), out.download()};
}

void expect_norms(Kernel kernel, bool centred) {
  Random random(3);
  const std::vector<std::pair<uint32_t, uint32_t>> shapes = {
      {1, 8},     {3, 64},      {9, 1000}, {300, 1024}, {17, 1032}, {5, 2048},
      {33, 2056}, {1000, 4096}, {3, 4104}, {11, 5120},  {7, 8184},  {2000, 8192}};
  for (const auto& [rows, width] : shapes) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
    const Case c(rows, width, random);
    const Results got = run(c, kernel);
    expect_bf16(
        got.sum, [&](size_t i) { return c.sum(i); }, 0, 0);
    const std::vector<float> want = c.norms(centred);
    expect_bf16(
        got.out, [&](size_t i) { return want[i]; }, 1.0F / 250, 1e-4F);
  }
}
TEST(ResidualNorm, RmsNormOfTheSum) {
  SERVAL_NEEDS_GPU();
  expect_norms(kernels::residual_rms_norm, false);
}
TEST(ResidualNorm, LayerNormOfTheSum) {
  SERVAL_NEEDS_GPU();
  expect_norms(kernels::residual_layer_norm, true);
}
TEST(ResidualNorm, ARowABlockInEveryWidth) {
  SERVAL_NEEDS_GPU();
  expect_norms(norm_of<false, false>, false);
  expect_norms(norm_of<true, false>, true);
}
TEST(ResidualNorm, ARowAheadInEveryWidth) {
  SERVAL_NEEDS_GPU();
  expect_norms(norm_of<false, true>, false);
  expect_norms(norm_of<true, true>, true);
}
TEST(ResidualNorm, GivesTheSameBitsInEveryRun) {
  SERVAL_NEEDS_GPU();
  Random random(4);
  for (const uint32_t width : {1024U, 5120U}) {
    const Case c(3001, width, random);
    for (const Kernel kernel : {kernels::residual_rms_norm, kernels::residual_layer_norm}) {
      const Results first = run(c, kernel);
      for (int again = 0; again < 3; ++again) EXPECT_TRUE(run(c, kernel) == first);
    }
  }
}
// The sum replaces the residual, the norm replaces x.
void expect_in_place(Kernel kernel, Random& random) {
  const Case c(3001, 4096, random);
  const Results want = run(c, kernel);
  const DeviceArray<Bf16> x{std::span<const Bf16>(c.x)}, residual{std::span<const Bf16>(c.residual)},
      weight{std::span<const Bf16>(c.weight)};
  auto* const sum = reinterpret_cast<uint16_t*>(residual.data());
  auto* const out = reinterpret_cast<uint16_t*>(x.data());
  kernel({out, sum, reinterpret_cast<const uint16_t*>(weight.data()), nullptr, sum, out, c.rows, c.width,
          kEpsilon},
         nullptr);
  SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
  const auto expect = [](const DeviceArray<Bf16>& got, const std::vector<uint16_t>& words) {
    const std::vector<Bf16> all = got.download();
    EXPECT_EQ(std::memcmp(all.data(), words.data(), words.size() * sizeof(uint16_t)), 0);
  };
  expect(residual, want.sum);
  expect(x, want.out);
}
TEST(ResidualNorm, WorksInPlace) {
  SERVAL_NEEDS_GPU();
  Random random(5);
  for (const Kernel kernel : {norm_of<false, false>, norm_of<false, true>}) expect_in_place(kernel, random);
}
TEST(ResidualNorm, RefusesWidthsThatItHasNoRoomFor) {
  auto* p = reinterpret_cast<uint16_t*>(4096);
  const auto message = [&](uint32_t width) -> std::string {
    try {
      kernels::residual_rms_norm({p, p, p, nullptr, p, p, 1, width, kEpsilon}, nullptr);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message(12), "residual_rms_norm: width is 12; it must be a positive multiple of 8");
  EXPECT_EQ(message(8200), "residual_rms_norm: width is 8200; it must be at most 8192");
}

}  // namespace
}  // namespace serval::testing

// fft_convolution() against the sum that defines a circular convolution, in fp64.
#include "kernels/fft_convolution.h"
#include "tests/kernels/reference.cuh"

namespace serval::testing {
namespace {

using kernels::FftConvolutionShape;

struct Convolution {
  FftConvolutionShape shape;
  std::vector<Bf16> x;
  std::vector<double> filter;  // [heads, length]

  size_t elements() const { return size_t{shape.batch} * shape.heads * shape.length; }

  // What torch.fft.rfft gives.
  std::vector<float> spectrum() const {
    const size_t length = shape.length;
    std::vector<double> cos(length), sin(length);
    for (size_t i = 0; i < length; ++i) {
      const double angle = 2 * M_PI * static_cast<double>(i) / static_cast<double>(length);
      cos[i] = std::cos(angle), sin[i] = -std::sin(angle);
    }
    std::vector<float> out;
    for (size_t head = 0; head < shape.heads; ++head) {
      std::vector<double> re(length / 2 + 1), im(length / 2 + 1);
      for (size_t n = 0; n < length; ++n) {
        const double v = filter[head * length + n];
        if (v == 0) continue;
        for (size_t k = 0, angle = 0; k <= length / 2; ++k) {
          re[k] += v * cos[angle];
          im[k] += v * sin[angle];
          angle = angle + n < length ? angle + n : angle + n - length;
        }
      }
      for (size_t k = 0; k <= length / 2; ++k) {
        out.push_back(static_cast<float>(re[k]));
        out.push_back(static_cast<float>(im[k]));
      }
    }
    return out;
  }
  std::vector<uint16_t> run(bool in_place = false) const {
    const std::vector<float> transformed = spectrum();
    const DeviceArray<float> on_gpu{std::span<const float>(transformed)};
    const DeviceArray<uint32_t> packed(shape.heads * kernels::kPackedFilterElements);
    kernels::pack_filter(on_gpu.data(), packed.data(), shape.heads, shape.length, nullptr);
    std::vector<uint16_t> input(x.size());
    std::transform(x.begin(), x.end(), input.begin(), [](Bf16 v) { return v.bits; });
    const DeviceArray<Bf16> from{std::span<const Bf16>(x)};
    const GuardedResults to = in_place ? GuardedResults(std::move(input)) : GuardedResults(x.size());
    const auto* source = in_place ? to.data() : reinterpret_cast<const uint16_t*>(from.data());
    kernels::fft_convolution(source, packed.data(), to.data(), shape, nullptr);
    return to.take();
  }
  std::vector<double> wanted() const {
    const size_t length = shape.length;
    std::vector<double> out(x.size()), twice(2 * length);
    for (size_t sequence = 0; sequence < x.size() / length; ++sequence) {
      for (size_t i = 0; i < 2 * length; ++i) twice[i] = double{to_float(x[sequence * length + i % length])};
      const double* const weights = &filter[sequence % shape.heads * length];
      for (size_t m = 0; m < length; ++m) {
        const double weight = weights[m];
        if (weight == 0) continue;
        double* const to = &out[sequence * length];
        const double* const shifted = &twice[length - m];
        for (size_t n = 0; n < length; ++n) to[n] += weight * shifted[n];
      }
    }
    return out;
  }
};

// A filter of `taps` taps at arbitrary places; all of them if it is 0.
Convolution convolution_of(FftConvolutionShape shape, size_t taps, uint64_t seed) {
  Random random(seed);
  Convolution out{shape, {}, std::vector<double>(size_t{shape.heads} * shape.length)};
  out.x = random_numbers<Bf16>(out.elements(), 1, random);
  for (size_t head = 0; head < shape.heads; ++head) {
    double* const filter = &out.filter[head * shape.length];
    for (size_t i = 0; i < (taps == 0 ? shape.length : taps); ++i)
      filter[taps == 0 ? i : random.between(0, shape.length - 1)] = random.real(-1, 1);
  }
  return out;
}
void expect_near(const Convolution& convolution, bool in_place = false) {
  const FftConvolutionShape& s = convolution.shape;
  SCOPED_TRACE(std::to_string(s.batch) + " x " + std::to_string(s.heads) + " x " + std::to_string(s.length));
  const std::vector<double> wanted = convolution.wanted();
  const std::vector<uint16_t> got = convolution.run(in_place);
  double worst = 0;
  for (size_t first = 0; first < got.size(); first += s.length) {  // each sequence beside its own size
    double most = 0, squares = 0;
    for (size_t i = first; i < first + s.length; ++i) {
      const double error = std::abs(double{bf16_to_float(got[i])} - wanted[i]);
      most = std::isnan(error) ? INFINITY : std::max(most, error);
      squares += wanted[i] * wanted[i];
    }
    worst = std::max(worst, most / std::sqrt(squares / s.length));
  }
  ::testing::Test::RecordProperty("worst_error", std::to_string(worst));
  EXPECT_LT(worst, 1.0 / 24) << "of the sequence's root mean square";
}

TEST(FftConvolution, FiltersOfOneTapShift) {
  SERVAL_NEEDS_GPU();
  expect_near(convolution_of({1, 1, 4096}, 1, 1));
  expect_near(convolution_of({1, 1, 1024}, 1, 2));
}
TEST(FftConvolution, FullFilters) {
  SERVAL_NEEDS_GPU();
  expect_near(convolution_of({2, 1, 4096}, 0, 3));
  expect_near(convolution_of({8, 2, 1024}, 0, 4));
}
TEST(FftConvolution, BatchesThatDoNotFillTiles) {
  SERVAL_NEEDS_GPU();
  for (const uint32_t batch : {3U, 5U}) expect_near(convolution_of({batch, 3, 4096}, 0, batch));
  for (const uint32_t batch : {1U, 7U, 17U, 35U}) expect_near(convolution_of({batch, 3, 1024}, 0, batch));
}
TEST(FftConvolution, MoreTasksThanBlocks) {
  SERVAL_NEEDS_GPU();
  expect_near(convolution_of({5, 150, 4096}, 3, 5));
  expect_near(convolution_of({18, 300, 1024}, 3, 6));
}
TEST(FftConvolution, WorksInPlaceAndGivesTheSameBits) {
  SERVAL_NEEDS_GPU();
  const Convolution convolution = convolution_of({9, 40, 4096}, 2, 7);
  const std::vector<uint16_t> first = convolution.run();
  for (int again = 0; again < 2; ++again) {
    EXPECT_TRUE(convolution.run() == first);
    EXPECT_TRUE(convolution.run(true) == first);
  }
}

std::string message_of(FftConvolutionShape shape, size_t offset = 0) {
  auto* p = reinterpret_cast<uint16_t*>(4096 + offset);
  try {
    kernels::fft_convolution(p, reinterpret_cast<uint32_t*>(4096), p, shape, nullptr);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}
TEST(FftConvolution, RefusesWhatItCannotCompute) {
  EXPECT_EQ(message_of({1, 1, 2048}), "fft_convolution: length is 2048; it must be 1024 or 4096");
  EXPECT_EQ(message_of({1, 0, 1024}), "fft_convolution: heads is 0; it must be at least 1");
  EXPECT_EQ(message_of({0, 1, 1024}), "fft_convolution: batch is 0; it must be at least 1");
  EXPECT_EQ(message_of({1, 1, 1024}, 2),
            "fft_convolution: x must be an address in GPU memory that is a multiple of 16 bytes");
}

}  // namespace
}  // namespace serval::testing

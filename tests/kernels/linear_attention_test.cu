// based_attention() against its formula in fp64. With small integers every number of the kernel is exact, so
// each result must be the nearest bf16: a weight, feature or token at the wrong place shows.
#include "kernels/linear_attention.h"
#include "tests/kernels/reference.cuh"

namespace serval::testing {
namespace {

using kernels::BasedShape;
constexpr size_t kDim = 16, kValues = 64;

struct Attention {
  BasedShape shape;
  std::vector<Bf16> q, k, v;

  size_t vectors() const { return size_t{shape.batch} * shape.tokens * shape.heads; }

  std::vector<uint16_t> run() const {
    const DeviceArray<Bf16> a{std::span<const Bf16>(q)}, b{std::span<const Bf16>(k)},
        c{std::span<const Bf16>(v)};
    const GuardedResults to(v.size());
    const auto bits = [](const DeviceArray<Bf16>& of) {
      return reinterpret_cast<const uint16_t*>(of.data());
    };
    kernels::based_attention(bits(a), bits(b), bits(c), to.data(), shape, nullptr);
    return to.take();
  }
  // Sums, and the roots of the sums of squares of what is added.
  struct Wanted {
    std::vector<double> sum, size;
  };
  Wanted wanted() const {
    Wanted out{std::vector<double>(v.size()), std::vector<double>(v.size())};
    std::vector<float> keys(k.size()), values(v.size());
    std::transform(k.begin(), k.end(), keys.begin(), [](Bf16 x) { return to_float(x); });
    std::transform(v.begin(), v.end(), values.begin(), [](Bf16 x) { return to_float(x); });
    for (size_t vector = 0; vector < vectors(); ++vector) {
      const size_t token = vector / shape.heads % shape.tokens;
      double query[kDim];
      for (size_t c = 0; c < kDim; ++c) query[c] = double{to_float(q[vector * kDim + c])} / 4;
      for (size_t back = 0; back <= token; ++back) {
        const size_t other = vector - back * shape.heads;
        double s = 0;
        for (size_t c = 0; c < kDim; ++c) s += query[c] * double{keys[other * kDim + c]};
        const double weight = 1 + s + s * s / 2;
        for (size_t c = 0; c < kValues; ++c) {
          const double add = weight * double{values[other * kValues + c]};
          out.sum[vector * kValues + c] += add;
          out.size[vector * kValues + c] += add * add;
        }
      }
    }
    for (double& size : out.size) size = std::sqrt(size);
    return out;
  }
};

Attention of_integers(BasedShape shape, uint64_t seed) {
  Random random(seed);
  Attention out{shape, {}, {}, {}};
  out.q.assign(out.vectors() * kDim, Bf16{});
  for (size_t vector = 0; vector < out.vectors(); ++vector) {  // three elements of ±4: scores up to 3
    for (int i = 0; i < 3; ++i)
      out.q[vector * kDim + random.between(0, kDim - 1)] =
          from_float<Bf16>(random.between(0, 1) == 0 ? 4 : -4);
  }
  out.k = small_integers<Bf16>(out.vectors() * kDim, 1, random);
  out.v = small_integers<Bf16>(out.vectors() * kValues, 1, random);
  return out;
}
Attention of_numbers(BasedShape shape, uint64_t seed) {
  Random random(seed);
  Attention out{shape, {}, {}, {}};
  out.q = random_numbers<Bf16>(out.vectors() * kDim, 2, random);
  out.k = random_numbers<Bf16>(out.vectors() * kDim, 2, random);
  out.v = random_numbers<Bf16>(out.vectors() * kValues, 1, random);
  return out;
}
void expect_exact(BasedShape shape) {
  SCOPED_TRACE(std::to_string(shape.batch) + " x " + std::to_string(shape.tokens) + " tokens, " +
               std::to_string(shape.heads) + " heads");
  const Attention attention = of_integers(shape, shape.tokens + shape.heads);
  const Attention::Wanted wanted = attention.wanted();
  expect_bf16(
      attention.run(), [&](size_t i) { return static_cast<float>(wanted.sum[i]); }, 0, 0);
}

TEST(BasedAttention, WithinAChunk) {
  SERVAL_NEEDS_GPU();
  expect_exact({1, 64, 4});
}
TEST(BasedAttention, AcrossChunks) {
  SERVAL_NEEDS_GPU();
  expect_exact({1, 128, 4});
  expect_exact({1, 256, 4});  // sums of more tokens need more bits than bf16 has
}
TEST(BasedAttention, SeveralSequencesAndHeads) {
  SERVAL_NEEDS_GPU();
  expect_exact({3, 192, 8});
  expect_exact({2, 256, 20});
}
TEST(BasedAttention, MoreTasksThanBlocks) {
  SERVAL_NEEDS_GPU();
  expect_exact({40, 128, 12});
}
TEST(BasedAttention, ArbitraryNumbersAndManyChunks) {
  SERVAL_NEEDS_GPU();
  const Attention attention = of_numbers({1, 2048, 4}, 5);
  const Attention::Wanted wanted = attention.wanted();
  const std::vector<uint16_t> got = attention.run();
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(double{bf16_to_float(got[i])} - wanted.sum[i]);
    const double share = error / (wanted.size[i] + std::abs(wanted.sum[i]));
    worst = std::isnan(share) ? INFINITY : std::max(worst, share);
  }
  RecordProperty("worst_error", std::to_string(worst));
  EXPECT_LT(worst, 1.0 / 32) << "of the root of the sum of squares of what is added";
}
TEST(BasedAttention, GivesTheSameBitsInEveryRun) {
  SERVAL_NEEDS_GPU();
  const Attention attention = of_numbers({16, 512, 20}, 6);
  const std::vector<uint16_t> first = attention.run();
  for (int again = 0; again < 3; ++again) EXPECT_TRUE(attention.run() == first);
}

std::string message_of(BasedShape shape, size_t offset = 0) {
  auto* p = reinterpret_cast<uint16_t*>(4096 + offset);
  try {
    kernels::based_attention(p, p, p, p, shape, nullptr);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}
TEST(BasedAttention, RefusesWhatItCannotCompute) {
  EXPECT_EQ(message_of({1, 100, 4}), "based_attention: tokens is 100; it must be a positive multiple of 64");
  EXPECT_EQ(message_of({1, 64, 6}), "based_attention: heads is 6; it must be a positive multiple of 4");
  EXPECT_EQ(message_of({0, 64, 4}), "based_attention: batch is 0; it must be at least 1");
  EXPECT_EQ(message_of({1, 64, 4}, 2),
            "based_attention: q must be an address in GPU memory that is a multiple of 16 bytes");
}

}  // namespace
}  // namespace serval::testing

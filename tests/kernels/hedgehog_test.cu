// hedgehog_attention() against its formula in fp64.
#include "kernels/linear_attention.h"
#include "tests/kernels/reference.cuh"

namespace serval::testing {
namespace {

using kernels::HedgehogShape;
constexpr size_t kDim = 128, kHalf = 64;

struct Attention {
  HedgehogShape shape;
  std::vector<Bf16> q, k, v, q_map, k_map;

  // `sharp`: largest element of the maps; large ones give features that are 1 in one place.
  Attention(HedgehogShape s, double sharp, uint64_t seed) : shape(s) {
    Random random(seed);
    const size_t elements = size_t{s.batch} * s.tokens * s.heads * kDim;
    q = random_numbers<Bf16>(elements, 1, random);
    k = random_numbers<Bf16>(elements, 1, random);
    v = random_numbers<Bf16>(elements, 1, random);
    q_map = random_numbers<Bf16>(s.heads * kDim * kHalf, sharp, random);
    k_map = random_numbers<Bf16>(s.heads * kDim * kHalf, sharp, random);
  }
  std::vector<uint16_t> run() const {
    std::vector<DeviceArray<Bf16>> in;
    for (const auto* of : {&q, &k, &v, &q_map, &k_map}) in.emplace_back(std::span<const Bf16>(*of));
    const GuardedResults to(v.size());
    const auto bits = [&](size_t i) { return reinterpret_cast<const uint16_t*>(in[i].data()); };
    kernels::hedgehog_attention(bits(0), bits(1), bits(2), bits(3), bits(4), to.data(), shape, nullptr);
    return to.take();
  }

  // (softmax(x map), softmax(-x map)) for each token and head.
  std::vector<double> features(const std::vector<Bf16>& x, const std::vector<Bf16>& map) const {
    std::vector<double> out(x.size());
    for (size_t vector = 0; vector < x.size() / kDim; ++vector) {
      const Bf16* const of_head = &map[vector % shape.heads * kDim * kHalf];
      double mapped[kHalf] = {}, sums[2] = {};
      for (size_t i = 0; i < kDim; ++i) {
        const double element = double{to_float(x[vector * kDim + i])};
        for (size_t c = 0; c < kHalf; ++c) mapped[c] += element * double{to_float(of_head[i * kHalf + c])};
      }
      for (size_t c = 0; c < kDim; ++c) {
        out[vector * kDim + c] = std::exp(c < kHalf ? mapped[c] : -mapped[c - kHalf]);
        sums[c / kHalf] += out[vector * kDim + c];
      }
      for (size_t c = 0; c < kDim; ++c) out[vector * kDim + c] /= sums[c / kHalf];
    }
    return out;
  }
  // Results, and the roots of the sums of squares of what is added.
  struct Wanted {
    std::vector<double> sum, size;
  };
  Wanted wanted() const {
    const std::vector<double> queries = features(q, q_map), keys = features(k, k_map);
    Wanted out{std::vector<double>(v.size()), std::vector<double>(v.size())};
    for (size_t vector = 0; vector < v.size() / kDim; ++vector) {
      double weights = 0, *const sum = &out.sum[vector * kDim], *const size = &out.size[vector * kDim];
      for (size_t back = 0; back <= vector / shape.heads % shape.tokens; ++back) {
        const size_t other = vector - back * shape.heads;
        double weight = 0;
        for (size_t c = 0; c < kDim; ++c) weight += queries[vector * kDim + c] * keys[other * kDim + c];
        weights += weight;
        for (size_t c = 0; c < kDim; ++c) {
          const double add = weight * double{to_float(v[other * kDim + c])};
          sum[c] += add;
          size[c] += add * add;
        }
      }
      for (size_t c = 0; c < kDim; ++c) sum[c] /= weights, size[c] = std::sqrt(size[c]) / weights;
    }
    return out;
  }
};

void expect_near(HedgehogShape shape, double sharp) {
  SCOPED_TRACE(std::to_string(shape.batch) + " x " + std::to_string(shape.tokens) + " tokens, " +
               std::to_string(shape.heads) + " heads, maps up to " + std::to_string(sharp));
  const Attention attention(shape, sharp, shape.tokens + shape.heads);
  const Attention::Wanted wanted = attention.wanted();
  const std::vector<uint16_t> got = attention.run();
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(double{bf16_to_float(got[i])} - wanted.sum[i]);
    const double share = error / (wanted.size[i] + std::abs(wanted.sum[i]));
    worst = std::isnan(share) ? INFINITY : std::max(worst, share);
  }
  ::testing::Test::RecordProperty("worst_error", std::to_string(worst));
  EXPECT_LT(worst, 1.0 / 24) << "of the root of the sum of squares of what is added";
}

TEST(HedgehogAttention, WithinAChunk) {
  SERVAL_NEEDS_GPU();
  expect_near({1, 64, 1}, 0.1);
  expect_near({1, 64, 2}, 1);
}
TEST(HedgehogAttention, AcrossChunks) {
  SERVAL_NEEDS_GPU();
  expect_near({1, 128, 1}, 0.1);
  expect_near({1, 512, 2}, 0.5);
}
TEST(HedgehogAttention, SeveralSequencesAndHeads) {
  SERVAL_NEEDS_GPU();
  expect_near({3, 192, 5}, 0.3);
}
TEST(HedgehogAttention, MoreTasksThanBlocks) {
  SERVAL_NEEDS_GPU();
  expect_near({21, 128, 7}, 0.3);
}
TEST(HedgehogAttention, GivesTheSameBitsInEveryRun) {
  SERVAL_NEEDS_GPU();
  const Attention attention({16, 512, 10}, 0.3, 6);
  const std::vector<uint16_t> first = attention.run();
  for (int again = 0; again < 3; ++again) EXPECT_TRUE(attention.run() == first);
}
TEST(HedgehogAttention, RefusesWhatItCannotCompute) {
  const auto message_of = [](HedgehogShape shape) -> std::string {
    auto* p = reinterpret_cast<uint16_t*>(4096);
    try {
      kernels::hedgehog_attention(p, p, p, p, p, p, shape, nullptr);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message_of({1, 100, 4}),
            "hedgehog_attention: tokens is 100; it must be a positive multiple of 64");
  EXPECT_EQ(message_of({1, 64, 0}), "hedgehog_attention: heads is 0; it must be at least 1");
}

}  // namespace
}  // namespace serval::testing

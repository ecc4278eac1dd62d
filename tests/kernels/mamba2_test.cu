// mamba2() against its recurrence in fp64, token after token. Without decays and with small integers every
// number of the kernel is exact, so each result must be the nearest bf16.
#include "kernels/mamba2.h"
#include "tests/kernels/reference.cuh"

namespace serval::testing {
namespace {

using kernels::Mamba2Shape;
constexpr size_t kDim = 64;

struct Mixing {
  Mamba2Shape shape;
  std::vector<Bf16> c, b, x;
  std::vector<float> log_decay;

  explicit Mixing(Mamba2Shape s) : shape(s) {}
  size_t vectors() const { return size_t{shape.batch} * shape.tokens * shape.groups * shape.state; }
  size_t values() const { return size_t{shape.batch} * shape.tokens * shape.heads * kDim; }
  size_t decays() const { return size_t{shape.batch} * shape.heads * shape.tokens; }

  std::vector<uint16_t> run() const {
    const DeviceArray<Bf16> on_gpu_c{std::span<const Bf16>(c)}, on_gpu_b{std::span<const Bf16>(b)},
        on_gpu_x{std::span<const Bf16>(x)};
    const DeviceArray<float> decay{std::span<const float>(log_decay)};
    const GuardedResults to(x.size());
    const auto bits = [](const DeviceArray<Bf16>& of) {
      return reinterpret_cast<const uint16_t*>(of.data());
    };
    kernels::mamba2(bits(on_gpu_c), bits(on_gpu_b), bits(on_gpu_x), decay.data(), to.data(), shape, nullptr);
    return to.take();
  }

  // Results, and the roots of the sums of squares of what is added.
  struct Wanted {
    std::vector<double> sum, size;
  };
  // One head. `squares` is the state of a recurrence with the squares of everything, an upper bound of the
  // size.
  void head(size_t batch, size_t number, Wanted& out) const {
    const size_t group = number / (shape.heads / shape.groups), state = shape.state;
    std::vector<double> h(state * kDim), squares(state * kDim);
    for (size_t token = 0; token < shape.tokens; ++token) {
      const size_t row = batch * shape.tokens + token;
      const Bf16 *keys = &b[(row * shape.groups + group) * state],
                 *queries = &c[(row * shape.groups + group) * state];
      const size_t first = (row * shape.heads + number) * kDim;
      const double decay = std::exp(double{log_decay[(batch * shape.heads + number) * shape.tokens + token]});
      for (size_t s = 0; s < state; ++s) {
        const double key = double{to_float(keys[s])}, query = double{to_float(queries[s])};
        for (size_t v = 0; v < kDim; ++v) {
          const double add = key * double{to_float(x[first + v])};
          double &sum = h[s * kDim + v], &square = squares[s * kDim + v];
          sum = decay * sum + add;
          square = decay * decay * square + add * add;
          out.sum[first + v] += query * sum;
          out.size[first + v] += query * query * square;
        }
      }
    }
  }
  Wanted wanted() const {
    Wanted out{std::vector<double>(x.size()), std::vector<double>(x.size())};
    for (size_t batch = 0; batch < shape.batch; ++batch) {
      for (size_t number = 0; number < shape.heads; ++number) head(batch, number, out);
    }
    for (double& size : out.size) size = std::sqrt(size);
    return out;
  }
};

Mixing of_integers(Mamba2Shape shape, uint64_t seed) {
  Random random(seed);
  Mixing out(shape);
  out.b = small_integers<Bf16>(out.vectors(), 1, random);
  out.x = small_integers<Bf16>(out.values(), 1, random);
  out.c = small_integers<Bf16>(out.vectors(), 1, random);
  out.log_decay.assign(out.decays(), 0);
  return out;
}
// `fast`: so many of 1,000 tokens forget everything before them.
Mixing of_numbers(Mamba2Shape shape, double most_decay, uint32_t fast, uint64_t seed) {
  Random random(seed);
  Mixing out(shape);
  out.b = random_numbers<Bf16>(out.vectors(), 1, random);
  out.x = random_numbers<Bf16>(out.values(), 1, random);
  out.c = random_numbers<Bf16>(out.vectors(), 1, random);
  for (size_t i = 0; i < out.decays(); ++i) {
    const bool forgets = random.between(0, 999) < fast;
    out.log_decay.push_back(forgets ? -300 : static_cast<float>(random.real(-most_decay, 0)));
  }
  return out;
}

std::string name_of(const Mamba2Shape& s) {
  return std::to_string(s.batch) + " x " + std::to_string(s.tokens) + " tokens, " + std::to_string(s.heads) +
         " heads, " + std::to_string(s.groups) + " groups, state of " + std::to_string(s.state);
}
void expect_exact(Mamba2Shape shape) {
  SCOPED_TRACE(name_of(shape));
  const Mixing mixing = of_integers(shape, shape.tokens + shape.heads);
  const Mixing::Wanted wanted = mixing.wanted();
  expect_bf16(
      mixing.run(), [&](size_t i) { return static_cast<float>(wanted.sum[i]); }, 0, 0);
}
void expect_near(const Mixing& mixing) {
  SCOPED_TRACE(name_of(mixing.shape));
  const Mixing::Wanted wanted = mixing.wanted();
  const std::vector<uint16_t> got = mixing.run();
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(double{bf16_to_float(got[i])} - wanted.sum[i]);
    const double share = error / (wanted.size[i] + std::abs(wanted.sum[i]) + 1e-6);
    worst = std::isnan(share) ? INFINITY : std::max(worst, share);
  }
  ::testing::Test::RecordProperty("worst_error", std::to_string(worst));
  EXPECT_LT(worst, 1.0 / 32) << "of the root of the sum of squares of what is added";
}

TEST(Mamba2, WithoutDecaysWithinAChunk) {
  SERVAL_NEEDS_GPU();
  expect_exact({1, 64, 2, 1, 64});
  expect_exact({1, 64, 2, 1, 128});
}
TEST(Mamba2, WithoutDecaysAcrossChunks) {
  SERVAL_NEEDS_GPU();
  expect_exact({1, 128, 2, 1, 64});
  expect_exact({1, 256, 2, 1, 128});  // sums of more tokens need more bits than bf16 has
}
TEST(Mamba2, SeveralSequencesHeadsAndGroups) {
  SERVAL_NEEDS_GPU();
  expect_exact({3, 192, 6, 1, 64});
  expect_exact({2, 192, 12, 3, 64});
  expect_exact({2, 128, 8, 2, 128});
}
TEST(Mamba2, MoreTasksThanBlocks) {
  SERVAL_NEEDS_GPU();
  expect_exact({23, 128, 14, 1, 64});
  expect_exact({23, 128, 12, 2, 128});
}
TEST(Mamba2, Decays) {
  SERVAL_NEEDS_GPU();
  for (const uint32_t state : {64U, 128U}) {
    expect_near(of_numbers({1, 512, 4, 1, state}, 0.02, 0, 1));
    expect_near(of_numbers({1, 512, 4, 2, state}, 0.5, 0, 2));
    expect_near(of_numbers({1, 512, 4, 1, state}, 8, 0, 3));
    expect_near(of_numbers({1, 512, 4, 1, state}, 0.1, 20, 4));
  }
}
TEST(Mamba2, GivesTheSameBitsInEveryRun) {
  SERVAL_NEEDS_GPU();
  const Mixing mixing = of_numbers({16, 512, 20, 1, 64}, 0.1, 5, 6);
  const std::vector<uint16_t> first = mixing.run();
  for (int again = 0; again < 3; ++again) EXPECT_TRUE(mixing.run() == first);
}

std::string message_of(Mamba2Shape shape, size_t offset = 0) {
  auto* p = reinterpret_cast<uint16_t*>(4096 + offset);
  try {
    kernels::mamba2(p, p, p, reinterpret_cast<float*>(4096), p, shape, nullptr);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}
TEST(Mamba2, RefusesWhatItCannotCompute) {
  EXPECT_EQ(message_of({1, 100, 4, 1, 64}), "mamba2: tokens is 100; it must be a positive multiple of 64");
  EXPECT_EQ(message_of({1, 64, 4, 1, 96}), "mamba2: state is 96; it must be 64 or 128");
  EXPECT_EQ(message_of({1, 64, 6, 2, 64}), "mamba2: heads is 6; it must be a positive multiple of 4");
  EXPECT_EQ(message_of({1, 64, 6, 0, 64}), "mamba2: groups is 0; it must be at least 1");
  EXPECT_EQ(message_of({1, 64, 4, 1, 64}, 2),
            "mamba2: c must be an address in GPU memory that is a multiple of 16 bytes");
}

}  // namespace
}  // namespace serval::testing

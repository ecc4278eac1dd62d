// rotary() and its variants against the formula in fp32.
#include "kernels/rotary.cuh"
#include "tests/kernels/reference.cuh"

namespace serval::testing {
namespace {

using kernels::RotaryShape;

// Turns x to out; both have the shape's vectors.
using Kernel = void (*)(const uint16_t* x, const float* cos, const float* sin, uint16_t* out,
                        RotaryShape shape, cudaStream_t stream);
// Segments of a thread: kItems of each half.
template <uint32_t kItems>
void rotary_of(const uint16_t* x, const float* cos, const float* sin, uint16_t* out, RotaryShape s,
               cudaStream_t stream) {
  const kernels::RotaryArguments arguments = kernels::rotary_arguments(x, cos, sin, out, s);
  (s.head_dim == 64 ? kernels::launch_rotary<64, kItems> : kernels::launch_rotary<128, kItems>)(arguments,
                                                                                                stream, true);
}

struct Rotation {
  RotaryShape shape;
  std::vector<Bf16> x;
  std::vector<float> cos, sin;

  Rotation(RotaryShape s, Random& random)
      : shape(s), x(random_numbers<Bf16>(size_t{s.tokens} * s.heads * s.head_dim, 3, random)) {
    for (size_t i = 0; i < size_t{s.positions} * s.head_dim / 2; ++i) {
      const double angle = random.real(-3, 3);
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  float want(size_t i) const {
    const size_t half = shape.head_dim / 2, channel = i % shape.head_dim, first = i - channel;
    const size_t token = i / shape.head_dim / shape.heads, pair = channel % half;
    const size_t angle = token % shape.positions * half + pair;
    const float u = to_float(x[first + pair]), v = to_float(x[first + pair + half]);
    return channel < half ? u * cos[angle] - v * sin[angle] : v * cos[angle] + u * sin[angle];
  }
  // In place, or to another array.
  std::vector<uint16_t> run(Kernel kernel, bool in_place) const {
    const DeviceArray<Bf16> from{std::span<const Bf16>(x)};
    const DeviceArray<float> c{std::span<const float>(cos)}, s{std::span<const float>(sin)};
    const DeviceArray<uint16_t> to(x.size());
    auto* source = reinterpret_cast<uint16_t*>(from.data());
    kernel(source, c.data(), s.data(), in_place ? source : to.data(), shape, nullptr);
    SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
    if (!in_place) return to.download();
    std::vector<uint16_t> out(x.size());
    SERVAL_CUDA_CHECK(cudaMemcpy(out.data(), source, out.size() * 2, cudaMemcpyDeviceToHost));
    return out;
  }
};

void expect_rotations(Kernel kernel) {
  Random random(1);
  for (const RotaryShape& shape : {RotaryShape{1, 1, 64, 1},
                                   {1, 1, 128, 1},
                                   {7, 3, 128, 7},
                                   {100, 5, 64, 33},
                                   {513, 8, 128, 171},
                                   {4000, 32, 64, 1000},
                                   {2048, 32, 128, 2048}}) {
    SCOPED_TRACE(std::to_string(shape.tokens) + " tokens, " + std::to_string(shape.heads) + " heads of " +
                 std::to_string(shape.head_dim));
    const Rotation rotation(shape, random);
    // Half a unit in the last place of the result, and fused products of the formula.
    expect_bf16(
        rotation.run(kernel, false), [&](size_t i) { return rotation.want(i); }, 1.0F / 256, 1e-5F);
  }
}
TEST(Rotary, TurnsEachPair) {
  SERVAL_NEEDS_GPU();
  expect_rotations(kernels::rotary);
}
TEST(Rotary, TurnsEachPairWithFourAThread) {
  SERVAL_NEEDS_GPU();
  expect_rotations(rotary_of<4>);
}
TEST(Rotary, TurnsEachPairWithEightAThread) {
  SERVAL_NEEDS_GPU();
  expect_rotations(rotary_of<8>);
}
TEST(Rotary, WorksInPlaceAndGivesTheSameBits) {
  SERVAL_NEEDS_GPU();
  Random random(2);
  const Rotation rotation({3001, 16, 128, 500}, random);
  const std::vector<uint16_t> first = rotation.run(kernels::rotary, false);
  for (const Kernel kernel : {kernels::rotary, rotary_of<4>, rotary_of<8>}) {
    for (int again = 0; again < 3; ++again) EXPECT_TRUE(rotation.run(kernel, again > 0) == first);
  }
}
TEST(Rotary, RefusesOtherHeads) {
  auto* p = reinterpret_cast<uint16_t*>(4096);
  auto* f = reinterpret_cast<float*>(4096);
  EXPECT_THROW(kernels::rotary(p, f, f, p, {1, 1, 96, 1}, nullptr), Error);
  EXPECT_THROW(kernels::rotary(p, f, f, p, {1, 0, 64, 1}, nullptr), Error);
  EXPECT_THROW(kernels::rotary(p + 1, f, f, p, {1, 1, 64, 1}, nullptr), Error);
}

}  // namespace
}  // namespace serval::testing

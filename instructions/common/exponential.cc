#include "instructions/common/exponential.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "instructions/common/each_cpu.h"

// Compiled without fused multiply-add, so that all CPUs round alike.
namespace serval {
namespace {

constexpr size_t kLanes = 8;
typedef double Doubles __attribute__((vector_size(kLanes * sizeof(double))));
typedef uint64_t Words __attribute__((vector_size(kLanes * sizeof(uint64_t))));
typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));

// exp(x) = 2^k × exp(r), where k is a whole number and |r| <= ln 2 / 2.
SERVAL_INLINE void exponentials_of_8(float* x) {
  constexpr double kLog2OfE = 1.4426950408889634, kLn2 = 0.6931471805599453;
  constexpr double kLeast = -104;  // its exponential is 0 in float
  // Adding it to a much smaller number rounds that to an integer, in the lowest bits.
  constexpr double kRounds = 0x1.8p52;
  constexpr uint64_t kExponentBias = 1023;
  constexpr int kFractionBits = 52;
  Floats floats;
  std::memcpy(&floats, x, sizeof floats);
  Doubles v = __builtin_convertvector(floats, Doubles);
  v = v < kLeast ? Doubles{} + kLeast : v;  // a NaN stays a NaN
  const Doubles shifted = v * kLog2OfE + kRounds;
  const Doubles r = v - (shifted - kRounds) * kLn2;
  // Taylor series; the rest is below 2e-10.
  Doubles p = Doubles{} + 1.0 / 40320;
  for (const double coefficient : {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1.0, 1.0})
    p = p * r + coefficient;
  Words bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + kExponentBias) << kFractionBits;
  Doubles power;
  std::memcpy(&power, &bits, sizeof power);
  floats = __builtin_convertvector(p * power, Floats);
  std::memcpy(x, &floats, sizeof floats);
}

}  // namespace

SERVAL_FOR_EACH_CPU
void exponentials(float* x, size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) exponentials_of_8(x + i);
  if (i == count) return;
  float last[kLanes] = {};
  std::copy(x + i, x + count, last);
  exponentials_of_8(last);
  std::copy(last, last + (count - i), x + i);
}

}  // namespace serval

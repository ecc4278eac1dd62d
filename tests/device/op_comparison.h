// Compares the memory that a GPU has left with the host's, and checks that nothing else has changed.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "instructions/common/unit_softmax.h"
#include "tests/instructions/scene.h"
#include "vm/base/bf16.h"
#include "vm/layout/page_image.h"
#include "vm/layout/units.h"

namespace serval::testing {

inline constexpr double kMostNmse = 2e-5;
// Limit for an fp32 result, relative to the largest magnitude in its tensor: sums in a different order.
inline constexpr double kMostSumError = 0x1p-20;
// Limit for a GEMM's outputs for each 1,024 columns: one chain of additions, in which the tensor cores
// truncate instead of rounding.
inline constexpr double kMostChainError = 0x1p-18;
// Limit for results of earlier bf16 roundings, for example of attention's probabilities: occasionally one is
// rounded the other way.
inline constexpr double kMostRoundedError = 0x1p-12;
// … of a GEMM of e4m3, whose sums keep some 13 bits.
inline constexpr double kMostE4M3SumError = 0x1p-9;
// Additional limits for results of 16 bits, relative to their values.
inline constexpr double kBf16Ulp = 0x1p-7;
inline constexpr double kFp16Ulp = 0x1p-10;
inline constexpr float kMostLogProbabilityError = 1e-4F;

using Memory = std::vector<std::vector<std::byte>>;  // one buffer a tensor

inline double value_of(DType dtype, const std::byte* from) {
  if (dtype == DType::kBF16 || dtype == DType::kF16) {
    uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof bits);
    return dtype == DType::kF16 ? fp16_to_float(bits) : bf16_to_float(bits);
  }
  float value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Accumulates the differences from the host over all cases of an instruction.
class Tally {
 public:
  explicit Tally(Opcode opcode, bool tiled = false)
      : most_f32_error_(opcode == Opcode::kAttention ? kMostRoundedError
                        : tiled                      ? kMostChainError
                                                     : kMostSumError) {}
  // For products of e4m3 with e4m3.
  static Tally of_e4m3() { return Tally(kMostE4M3SumError); }
  // Sets the shape of the results that follow.
  void take(const Shape& shape) {
    if (shape.tile_rows > 0 || shape.tile_order)
      chain_panels_ =
          page_image::panels(std::max({shape.hidden, shape.intermediate, shape.q_heads * shape.head_dim}));
  }
  void add(DType dtype, const std::vector<double>& device, const std::vector<double>& host) {
    double largest = 0;
    for (const double h : host) largest = std::max(largest, std::abs(h));
    if (largest == 0) return;
    for (size_t i = 0; i < host.size(); ++i) {
      const double off = std::abs(device[i] - host[i]);
      const double ulp = dtype == DType::kF16 ? kFp16Ulp : kBf16Ulp;
      const double allowed = dtype == DType::kF32 ? most_f32_error_ * chain_panels_ * largest
                                                  : most_rounded_error_ * largest + ulp * std::abs(host[i]);
      if (!(off <= allowed)) ++too_far_;
      largest_share_ = std::max(largest_share_, off / allowed);
      square_ += off * off / (largest * largest);
      power_ += host[i] * host[i] / (largest * largest);
    }
    values_ += host.size();
  }
  // Number of results that were compared.
  size_t values() const { return values_; }
  void finish(const std::string& name) const {
    if (values_ == 0) return;
    fmt::print("[ figures  ] {}: {} values, NMSE {:.2g}, largest error {:.2g} of what is allowed\n", name,
               values_, square_ / power_, largest_share_);
    EXPECT_EQ(too_far_, 0U) << name;
    EXPECT_LE(square_, kMostNmse * power_) << name;
  }

 private:
  explicit Tally(double most_error) : most_f32_error_(most_error), most_rounded_error_(most_error) {}

  const double most_f32_error_, most_rounded_error_ = kMostRoundedError;
  uint32_t chain_panels_ = 1;
  size_t values_ = 0, too_far_ = 0;
  double square_ = 0, power_ = 0, largest_share_ = 0;
};

inline void expect_same_samples(const std::vector<std::byte>& device, const std::vector<std::byte>& host) {
  for (size_t at = 0; at < host.size(); at += sizeof(SampledToken)) {
    SampledToken d, h;
    std::memcpy(&d, device.data() + at, sizeof d);
    std::memcpy(&h, host.data() + at, sizeof h);
    EXPECT_EQ(d.token, h.token) << "row " << at / sizeof(SampledToken);
    if (std::memcmp(&d, &h, sizeof d) == 0) continue;
    EXPECT_NEAR(d.log_probability, h.log_probability, kMostLogProbabilityError);
  }
}

// The LM head's sums of a unit must be those of the logits that it wrote.
inline void expect_units_of_logits(const Bench& bench, TensorId logits_of, TensorId units_of,
                                   std::span<const PassRow> rows, const Memory& device) {
  constexpr double kUlp = 0x1p-22;  // rounding of an exponent, and of a few operations after it
  const auto vocab = static_cast<uint32_t>(bench.tensor(logits_of).cols);
  const auto* logits = reinterpret_cast<const float*>(device[logits_of.index].data());
  const auto* units = reinterpret_cast<const UnitSoftmax*>(device[units_of.index].data());
  for (uint32_t r = 0; r < rows.size(); ++r) {
    if (!row_wants_logits(rows[r])) continue;
    for (uint32_t u = 0; u < vocabulary_units(vocab); ++u) {
      const float* first = logits + size_t{r} * vocab + size_t{u} * kUnitRows;
      const UnitSoftmax want = unit_softmax({first, std::min(kUnitRows, vocab - u * kUnitRows)});
      const UnitSoftmax& got = units[r * vocabulary_units(vocab) + u];
      EXPECT_EQ(got.largest, want.largest) << "row " << r << ", unit " << u;
      EXPECT_EQ((std::bit_cast<uint32_t>(got.sum) ^ std::bit_cast<uint32_t>(want.sum)) & kFirstOfUnitMask,
                0U);
      EXPECT_NEAR(got.sum, want.sum, (4 + std::abs(want.largest)) * kUlp * want.sum)
          << "row " << r << ", unit " << u;
    }
  }
}

// Numbers must be close to the host's, everything else equal, and memory that the instances may not write
// unchanged. Not compared: scratch memory, which the host does not use, and what expect_units_of_logits()
// checks.
inline void compare(const Bench& bench, const Cover& written, const Memory& device, const Memory& host,
                    const Memory& before, Tally& tally) {
  for (uint32_t t = 0; t < host.size(); ++t) {
    const Tensor& tensor = bench.tensor({t});
    if (is_immutable(tensor.kind) || tensor.name == "saved") continue;
    if (tensor.name == state_tensor::kSampled || tensor.name == state_tensor::kTop) {
      expect_same_samples(device[t], host[t]);
      continue;
    }
    const bool is_written = std::ranges::any_of(written[t], [](uint8_t times) { return times != 0; });
    if (!is_written && device[t] == before[t]) continue;
    const size_t bytes = size_of(tensor.dtype);
    const bool is_number =
        tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kF32;
    std::vector<double> found, wanted;
    size_t changed = 0;
    for (size_t i = 0; i < written[t].size(); ++i) {
      const std::byte* d = device[t].data() + i * bytes;
      if (written[t][i] != 0 && tensor.name == "unit_softmax") continue;
      if (written[t][i] != 0 && is_number) {
        found.push_back(value_of(tensor.dtype, d));
        wanted.push_back(value_of(tensor.dtype, host[t].data() + i * bytes));
      } else {
        const Memory& same = written[t][i] != 0 ? host : before;
        if (std::memcmp(d, same[t].data() + i * bytes, bytes) != 0) ++changed;
      }
    }
    EXPECT_EQ(changed, 0U) << name_in(bench.program, tensor) << ": elements that are not the host's";
    tally.add(tensor.dtype, found, wanted);
  }
}

}  // namespace serval::testing

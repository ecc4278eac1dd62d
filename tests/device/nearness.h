// Measures how close the GPU's logits are to the host's.
#pragma once

#include <cstddef>
#include <fmt/format.h>
#include <span>

#include "gtest/gtest.h"

namespace serval::testing {

// Both round to bf16 at the same points but sum in different orders, so that occasionally one rounds up and
// the other down. A rounding changes a value by up to 2^-9, and few of a layer's roundings differ. An error
// of 1 % of the logits allows for that, but not for one wrong vector among some thousands.
inline constexpr double kMostNmse = 1e-4;

class Nearness {
 public:
  // Adds logits of one or more positions.
  void add(std::span<const float> found, std::span<const float> host) {
    ASSERT_EQ(found.size(), host.size());
    for (size_t i = 0; i < host.size(); ++i) {
      const double off = double{found[i]} - host[i];
      square_ += off * off;
      power_ += double{host[i]} * host[i];
    }
    values_ += host.size();
  }
  double nmse() const { return square_ / power_; }
  void judge(const char* what = "logits") const {
    fmt::print("[ figures  ] {}: {} values, NMSE against the host {:.2g}\n", what, values_, square_ / power_);
    EXPECT_GT(power_, 0) << what;
    EXPECT_LE(square_, kMostNmse * power_) << what;
  }

 private:
  double square_ = 0, power_ = 0;
  size_t values_ = 0;
};

}  // namespace serval::testing

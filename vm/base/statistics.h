// Statistics for reports of all kinds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace serval {

// Median of at least one value; for an even number, the mean of the two in the middle.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// 0 for no values.
inline double mean(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Standard deviation. kValues: of the values themselves (divides by n). kSample: an estimate for the
// population that they are a sample of (divides by n - 1). 0 if the divisor is 0.
enum class DeviationOf { kValues, kSample };
inline double deviation(std::span<const double> values, DeviationOf of) {
  const size_t divisor = of == DeviationOf::kSample && !values.empty() ? values.size() - 1 : values.size();
  if (divisor == 0) return 0;
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / static_cast<double>(divisor));
}

// The percentile, interpolated linearly between two values; 0 for no values.
inline double percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = percent / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

// Largest value over the mean, minus one; 0 if all are 0.
template <class Number>
double imbalance_of(const std::vector<Number>& values) {
  double sum = 0, most = 0;
  for (const Number v : values) {
    sum += static_cast<double>(v);
    most = std::max(most, static_cast<double>(v));
  }
  return sum > 0 ? most * static_cast<double>(values.size()) / sum - 1 : 0;
}

}  // namespace serval

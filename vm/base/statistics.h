// Two figures that reports of all kinds need.
#pragma once

#include <algorithm>
#include <vector>

namespace serval {

// Of at least one value; of an even number, the mean of the two in the middle.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The largest over the mean, minus one; 0 where all are 0.
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

#include "engine/torch/fidelity.h"

#include <algorithm>
#include <cmath>

namespace serval {
namespace {

double log_of_sum(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

double relative_error(std::span<const float> got, std::span<const float> reference) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double d = static_cast<double>(got[i]) - reference[i];
    difference += d * d;
    size += static_cast<double>(reference[i]) * reference[i];
  }
  return std::sqrt(difference / size);
}

// With d = ln p − ln q, Σ p d = Σ p (d + e^−d − 1), because both distributions sum to 1. The second form has
// no negative terms, so there is no cancellation for close distributions.
double kl_divergence(std::span<const float> got, std::span<const float> reference) {
  const double got_log_sum = log_of_sum(got), reference_log_sum = log_of_sum(reference);
  double sum = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double log_p = reference[i] - reference_log_sum;
    const double d = log_p - (got[i] - got_log_sum);
    sum += std::exp(log_p) * (d + std::expm1(-d));
  }
  return sum;
}

size_t top(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double ratio(double ours, double theirs) {
  return ours == theirs ? 1.0 : ours / theirs;
}

}  // namespace

PositionError compare_position(std::span<const float> got, std::span<const float> reference) {
  return {relative_error(got, reference), kl_divergence(got, reference), top(got) == top(reference)};
}

Fidelity compare_logits(std::span<const float> got, std::span<const float> reference, size_t vocab) {
  const size_t positions = reference.size() / vocab;
  Fidelity sum;
  size_t agreeing = 0;
  for (size_t p = 0; p < positions; ++p) {
    const PositionError error =
        compare_position(got.subspan(p * vocab, vocab), reference.subspan(p * vocab, vocab));
    sum.mean_relative += error.relative;
    sum.mean_kl += error.kl;
    agreeing += error.same_top ? 1 : 0;
    // The negated comparison makes NaN worse than any number; the first NaN is kept.
    if (p == 0 || (!(error.kl <= sum.worst.kl) && !std::isnan(sum.worst.kl))) {
      sum.worst_position = p;
      sum.worst = error;
    }
  }
  const auto count = static_cast<double>(positions);
  sum.mean_relative /= count;
  sum.mean_kl /= count;
  sum.top1_agreement = static_cast<double>(agreeing) / count;
  return sum;
}

FidelityRatio fidelity_ratio(const Fidelity& ours, const Fidelity& reference_bf16) {
  return {ratio(ours.mean_relative, reference_bf16.mean_relative),
          ratio(ours.mean_kl, reference_bf16.mean_kl)};
}

}  // namespace serval

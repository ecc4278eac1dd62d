// The error of one set of logits relative to another: the measures and the gate of numerical fidelity.
#pragma once

#include <cstddef>
#include <span>

namespace serval {

// For one position, computed in double from fp32 logits.
struct PositionError {
  double relative = 0;    // ‖got − reference‖ / ‖reference‖, Euclidean
  double kl = 0;          // Σ p ln(p / q), p the reference's softmax and q ours, in nats
  bool same_top = false;  // both have the same largest logit (the first of equal ones)
};

PositionError compare_position(std::span<const float> got, std::span<const float> reference);

struct Fidelity {
  double mean_relative = 0;
  double mean_kl = 0;
  double top1_agreement = 0;  // fraction of the positions
  size_t worst_position = 0;  // the one with the largest KL divergence
  PositionError worst;
};

// Both are [positions, vocab] with at least one position. Logits that are not finite make the means not
// finite.
Fidelity compare_logits(std::span<const float> got, std::span<const float> reference, size_t vocab);

// Limit of our error relative to that of the reference's own bf16 pass, both measured against its fp32 pass.
inline constexpr double kFidelityBound = 1.05;

struct FidelityRatio {
  double relative = 0;
  double kl = 0;
  // False if a value is NaN.
  bool within_gate() const { return relative <= kFidelityBound && kl <= kFidelityBound; }
};

FidelityRatio fidelity_ratio(const Fidelity& ours, const Fidelity& reference_bf16);

}  // namespace serval

// How far one set of logits is from another: the measures and the gate of the numerics.
#pragma once

#include <cstddef>
#include <span>

namespace serval {

// Of one position, computed in double from fp32 logits.
struct PositionError {
  double relative = 0;    // ‖got − reference‖ / ‖reference‖, Euclidean
  double kl = 0;          // Σ p ln(p / q), p the reference's softmax and q ours, in nats
  bool same_top = false;  // the largest logit is the same token's (the first among equals)
};

PositionError compare_position(std::span<const float> got, std::span<const float> reference);

struct Fidelity {
  double mean_relative = 0;
  double mean_kl = 0;
  double top1_agreement = 0;  // share of the positions
  size_t worst_position = 0;  // that of the largest KL divergence
  PositionError worst;
};

// Both [positions, vocab]; at least one position. A logit that is not finite makes the means so too.
Fidelity compare_logits(std::span<const float> got, std::span<const float> reference, size_t vocab);

// Ours may be this much worse than the reference's own bf16 pass, both measured against its fp32 pass.
inline constexpr double kFidelityBound = 1.05;

struct FidelityRatio {
  double relative = 0;
  double kl = 0;
  // False where a figure is not a number.
  bool within_gate() const { return relative <= kFidelityBound && kl <= kFidelityBound; }
};

FidelityRatio fidelity_ratio(const Fidelity& ours, const Fidelity& reference_bf16);

}  // namespace serval

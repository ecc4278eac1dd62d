#include "instructions/sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "instructions/common/unit_softmax.h"
#include "instructions/sample/random.h"

namespace serval {
namespace {

constexpr float kSmallest = -std::numeric_limits<float>::infinity();

float clean(float logit) {
  return std::isnan(logit) ? kSmallest : logit;
}

bool before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// How far a logit is below the largest; equal ones, infinite ones included, are not at all.
float shortfall(float logit, float largest) {
  return logit == largest ? 0.0F : logit - largest;
}

float log_probability(std::span<const float> logits, int32_t token) {
  float largest = kSmallest;
  for (const float x : logits) largest = std::max(largest, clean(x));
  double sum = 0;
  for (const float x : logits) sum += share_if_finite(x, std::exp(shortfall(clean(x), largest)));
  return shortfall(clean(logits[static_cast<size_t>(token)]), largest) - static_cast<float>(std::log(sum));
}

void penalise_repetition(const SequenceSlot& slot, std::vector<Candidate>& candidates) {
  if (slot.repetition_penalty == 1.0F) return;
  const uint32_t window = std::min<uint32_t>(slot.history_length, kHistoryTokens);
  for (uint32_t i = 0; i < window; ++i) {
    const int32_t token = slot.history[i];
    if (std::find(slot.history, slot.history + i, token) != slot.history + i)
      continue;  // once, however often seen
    if (token < 0 || static_cast<size_t>(token) >= candidates.size()) continue;
    float& logit = candidates[static_cast<size_t>(token)].logit;
    logit = logit > 0 ? logit / slot.repetition_penalty : logit * slot.repetition_penalty;
  }
}

// Sorts the candidates that top-k leaves, all of them if it is off.
void keep_top_k(int32_t k, std::vector<Candidate>& candidates) {
  const size_t keep = k <= 0 ? candidates.size() : std::min(candidates.size(), static_cast<size_t>(k));
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(keep), candidates.end(),
                    before);
  candidates.resize(keep);
}

// Fills in softmax(logit / temperature) over the candidates, which are in order.
void soften(float temperature, std::vector<Candidate>& candidates) {
  const float largest = candidates.front().logit;
  double sum = 0;
  for (Candidate& c : candidates) {
    c.probability = std::exp(shortfall(c.logit, largest) / temperature);
    sum += c.probability;
  }
  for (Candidate& c : candidates) c.probability = static_cast<float>(c.probability / sum);
}

void keep_top_p(float p, std::vector<Candidate>& candidates) {
  if (p >= 1.0F) return;
  double sum = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    sum += candidates[i].probability;
    if (sum >= p) {
      candidates.resize(i + 1);
      return;
    }
  }
}

void keep_min_p(float p, std::vector<Candidate>& candidates) {
  if (p <= 0.0F) return;
  const float least = p * candidates.front().probability;
  size_t keep = 1;
  while (keep < candidates.size() && candidates[keep].probability >= least) ++keep;
  candidates.resize(keep);
}

int32_t draw(float u, const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& c : candidates) {
    sum += c.probability;
    if (u < sum) return c.token;
  }
  return candidates.back().token;  // rounding left the sum below u
}

}  // namespace

SampledToken sample_token(std::span<const float> logits, const SequenceSlot& slot, uint32_t position,
                          std::vector<Candidate>& candidates) {
  candidates.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) candidates[i] = {static_cast<int32_t>(i), clean(logits[i]), 0};
  penalise_repetition(slot, candidates);
  int32_t token = 0;
  if (slot.temperature <= 0.0F) {
    token = std::min_element(candidates.begin(), candidates.end(), before)->token;
  } else {
    constexpr float kNeutral = 1.0F;  // top-p and min-p look at the untempered distribution
    keep_top_k(slot.top_k, candidates);
    soften(kNeutral, candidates);
    keep_top_p(slot.top_p, candidates);
    keep_min_p(slot.min_p, candidates);
    soften(slot.temperature, candidates);
    token = draw(uniform(slot.seed, slot.sequence, position), candidates);
  }
  return {token, log_probability(logits, token)};
}

}  // namespace serval

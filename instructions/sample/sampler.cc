#include "instructions/sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "instructions/common/unit_softmax.h"
#include "instructions/sample/random.h"
#include "instructions/sample/row/adjust.h"
#include "vm/state/masks.h"

namespace serval {
namespace {

constexpr float kSmallest = -std::numeric_limits<float>::infinity();

float clean(float logit) {
  return std::isnan(logit) ? kSmallest : logit;
}

bool before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// Distance of a logit below the largest; 0 for equal ones, also for infinite ones.
float shortfall(float logit, float largest) {
  return logit == largest ? 0.0F : logit - largest;
}

struct LogSoftmax {
  float largest;
  float log_sum;  // of exp(logit - largest)

  float of(float logit) const { return shortfall(clean(logit), largest) - log_sum; }
};

LogSoftmax log_softmax(std::span<const float> logits) {
  float largest = kSmallest;
  for (const float x : logits) largest = std::max(largest, clean(x));
  double sum = 0;
  for (const float x : logits) sum += share_if_finite(x, std::exp(shortfall(clean(x), largest)));
  return {largest, static_cast<float>(std::log(sum))};
}

// Changes the candidates' logits. Ids outside the vocabulary are ignored.
class Adjuster {
 public:
  Adjuster(const SequenceSlot& slot, std::vector<Candidate>& candidates)
      : slot_(slot), candidates_(candidates) {}

  void add_biases(std::span<const TokenBias> biases) {
    for (const TokenBias& b : biases) change(b.token, [&](float logit) { return logit + b.bias; });
  }
  // `history`: the slot's last tokens.
  void penalise(std::span<const int32_t> history) {
    for_each_count(last(history, repetition_begin(slot_)), [&](int32_t token, uint32_t) {
      change(token, [&](float logit) { return repetition_penalised(logit, slot_.repetition_penalty); });
    });
    for_each_count(last(history, generation_begin(slot_)), [&](int32_t token, uint32_t count) {
      change(token, [&](float logit) {
        return count_penalised(logit, count, slot_.frequency_penalty, slot_.presence_penalty);
      });
    });
  }
  void ban_stop_tokens() {
    for (const int32_t token :
         std::span(slot_.stop_tokens).first(std::min<size_t>(slot_.num_stop_tokens, kMaxStopTokens)))
      change(token, [](float) { return kSmallest; });
  }

 private:
  template <class Fn>
  void change(int32_t token, Fn&& fn) {
    if (token < 0 || static_cast<size_t>(token) >= candidates_.size()) return;
    float& logit = candidates_[static_cast<size_t>(token)].logit;
    logit = fn(logit);
  }
  // The tokens from position `begin` on.
  std::span<const int32_t> last(std::span<const int32_t> history, uint32_t begin) const {
    return history.last(std::min<size_t>(history.size(), slot_.history_length - begin));
  }
  template <class Fn>
  static void for_each_count(std::span<const int32_t> tokens, Fn&& fn) {
    std::vector<int32_t> sorted(tokens.begin(), tokens.end());
    std::sort(sorted.begin(), sorted.end());
    for (auto begin = sorted.begin(); begin != sorted.end();) {
      const auto end = std::upper_bound(begin, sorted.end(), *begin);
      fn(*begin, static_cast<uint32_t>(end - begin));
      begin = end;
    }
  }

  const SequenceSlot& slot_;
  std::vector<Candidate>& candidates_;
};

void adjust(const SequenceSlot& slot, const SlotAdjustments& adjustments, uint32_t position,
            std::vector<Candidate>& candidates) {
  Adjuster adjuster(slot, candidates);
  adjuster.add_biases(adjustments.biases);
  adjuster.penalise(adjustments.history);
  if (position < slot.first_stop) adjuster.ban_stop_tokens();
}

void ban_masked(std::span<const uint32_t> mask, std::vector<Candidate>& candidates) {
  for (Candidate& c : candidates) {
    if (!mask_allows(mask, static_cast<uint32_t>(c.token))) c.logit = kSmallest;
  }
}

void list_candidates(std::span<const float> logits, std::vector<Candidate>& candidates) {
  candidates.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) candidates[i] = {static_cast<int32_t>(i), clean(logits[i]), 0};
}

// Sorts the candidates and keeps the first k; all of them if top-k is off.
void keep_top_k(int32_t k, std::vector<Candidate>& candidates) {
  const size_t keep = k <= 0 ? candidates.size() : std::min(candidates.size(), static_cast<size_t>(k));
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(keep), candidates.end(),
                    before);
  candidates.resize(keep);
}

// Fills in softmax(logit / temperature) over the sorted candidates.
void apply_temperature(float temperature, std::vector<Candidate>& candidates) {
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
  int32_t last = candidates.front().token;  // if rounding leaves the sum below u
  for (const Candidate& c : candidates) {
    sum += c.probability;
    if (u < sum) return c.token;
    if (c.probability > 0) last = c.token;
  }
  return last;
}

}  // namespace

SampledToken sample_token(std::span<const float> logits, const SequenceSlot& slot, uint32_t position,
                          std::vector<Candidate>& candidates, const SlotAdjustments& adjustments) {
  list_candidates(logits, candidates);
  if ((slot.extras & kAdjustsLogits) != 0) adjust(slot, adjustments, position, candidates);
  if ((slot.extras & kMasksTokens) != 0) ban_masked(adjustments.mask, candidates);
  int32_t token = 0;
  if (slot.temperature <= 0.0F) {
    token = std::min_element(candidates.begin(), candidates.end(), before)->token;
  } else {
    constexpr float kNeutral = 1.0F;  // top-p and min-p use the untempered distribution
    keep_top_k(slot.top_k, candidates);
    apply_temperature(kNeutral, candidates);
    keep_top_p(slot.top_p, candidates);
    keep_min_p(slot.min_p, candidates);
    apply_temperature(slot.temperature, candidates);
    token = draw(uniform(slot.seed, slot.sequence, position), candidates);
  }
  return score_token(logits, token);
}

SampledToken score_token(std::span<const float> logits, int32_t token) {
  return {token, log_softmax(logits).of(logits[static_cast<size_t>(token)])};
}

uint32_t list_top(std::span<const float> logits, uint32_t num_top, std::vector<Candidate>& candidates,
                  TopTokens& top) {
  const size_t count = std::min<size_t>({num_top, kMaxTopTokens, logits.size()});
  if (count == 0) return 0;
  const LogSoftmax softmax = log_softmax(logits);
  list_candidates(logits, candidates);
  keep_top_k(static_cast<int32_t>(count), candidates);
  for (size_t i = 0; i < count; ++i) top.token[i] = {candidates[i].token, softmax.of(candidates[i].logit)};
  return static_cast<uint32_t>(count);
}

}  // namespace serval

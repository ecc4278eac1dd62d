// How a token is drawn from logits, in llama.cpp's order: biases, repetition penalty, frequency and presence
// penalties, mask, top-k, top-p, min-p, temperature, draw.
#pragma once

#include <span>
#include <vector>

#include "vm/state/adjustments.h"
#include "vm/state/output.h"
#include "vm/state/slots.h"

namespace serval {

struct Candidate {
  int32_t token;
  float logit;
  float probability;
};

// What a sequence has beside its slot, as far as SequenceSlot::extras says so.
struct SlotAdjustments {
  std::span<const TokenBias> biases;  // the slot's num_biases
  std::span<const int32_t> history;  // its last tokens, of its history_length: all that its penalties look at
  std::span<const uint32_t> mask = {};  // of all tokens of the vocabulary (vm/state/masks.h)
};

// Draws the token at `position` of the slot's sequence from logits [vocabulary]; `candidates` is scratch
// memory.
//
// A bias is added to its token's logit. Repetition penalty: the logit of each of the last repeat_last_n
// tokens, prompt included, is divided by it if positive, else multiplied by it. Frequency and presence
// penalties: of a token that was generated n > 0 times, n × frequency + presence is subtracted. At positions
// before first_stop, stop tokens get -infinity. So do tokens that the mask does not allow. NaN logits count
// as -infinity, before all this.
//
// temperature <= 0 takes the largest logit then, the lowest id among equals. Otherwise candidates are ordered
// by logit (descending, then id); top-k keeps the first k; top-p the shortest prefix whose probability
// reaches p; min-p those with at least that share of the first one's probability; at least one stays. The
// rest are softened by the temperature, and the first whose cumulative probability exceeds the draw is taken.
// The log-probability is the token's under the softmax of the logits as they came; NaN if one of them is NaN
// or infinite.
SampledToken sample_token(std::span<const float> logits, const SequenceSlot& slot, uint32_t position,
                          std::vector<Candidate>& candidates, const SlotAdjustments& adjustments = {});

// The first num_top candidates of the logits as they came, up to kMaxTopTokens and to the vocabulary, with
// their log-probabilities. Returns how many they are.
uint32_t list_top(std::span<const float> logits, uint32_t num_top, std::vector<Candidate>& candidates,
                  TopTokens& top);

}  // namespace serval

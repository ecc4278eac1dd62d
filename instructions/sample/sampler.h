// Drawing a token from logits, in llama.cpp's order: biases, repetition penalty, frequency and presence
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

// A sequence's data besides its slot; SequenceSlot::extras says which of it is used.
struct SlotAdjustments {
  std::span<const TokenBias> biases;    // the slot's num_biases
  std::span<const int32_t> history;     // the last of its history_length: all that penalties consider
  std::span<const uint32_t> mask = {};  // one bit for each token of the vocabulary (vm/state/masks.h)
};

// Draws the token at `position` of the slot's sequence from logits [vocabulary]; `candidates` is scratch
// memory.
//
// A bias is added to its token's logit. Repetition penalty: the logit of each of the last repeat_last_n
// tokens, including the prompt, is divided by it if positive, otherwise multiplied by it. Frequency and
// presence penalties: n × frequency + presence is subtracted from the logit of a token that was generated n >
// 0 times. At positions before first_stop, stop tokens get -infinity, and so do tokens that the mask does not
// allow. Before all this, NaN logits are replaced by -infinity.
//
// temperature <= 0 takes the largest of these logits, the lowest id among equals. Otherwise candidates are
// ordered by logit (descending, then id). top-k keeps the first k; top-p the shortest prefix whose
// probability reaches p; min-p those with at least that share of the first one's probability; at least one
// stays. The temperature is applied to the rest, and the first candidate whose cumulative probability exceeds
// the draw is taken. The log-probability is the token's under the softmax of the original logits; NaN if one
// of them is NaN or infinite.
SampledToken sample_token(std::span<const float> logits, const SequenceSlot& slot, uint32_t position,
                          std::vector<Candidate>& candidates, const SlotAdjustments& adjustments = {});

// The token with its log-probability under the softmax of the logits, as sample_token() computes it. It must
// be in the vocabulary.
SampledToken score_token(std::span<const float> logits, int32_t token);

// Lists the first num_top candidates of the original logits with their log-probabilities, at most
// kMaxTopTokens and the vocabulary. Returns their number.
uint32_t list_top(std::span<const float> logits, uint32_t num_top, std::vector<Candidate>& candidates,
                  TopTokens& top);

}  // namespace serval

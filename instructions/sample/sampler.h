// How a token is drawn from logits, in llama.cpp's order: repetition penalty, top-k, top-p, min-p,
// temperature, draw.
#pragma once

#include <span>
#include <vector>

#include "vm/state/output.h"
#include "vm/state/slots.h"

namespace serval {

struct Candidate {
  int32_t token;
  float logit;
  float probability;
};

// Draws the token at `position` of the slot's sequence from logits [vocabulary]; `candidates` is scratch
// memory.
//
// Penalty: the logit of each token in the history window is divided by it if positive, else multiplied by it.
// temperature <= 0 takes the largest logit then, the lowest id among equals. Otherwise candidates are ordered
// by logit (descending, then id); top-k keeps the first k; top-p the shortest prefix whose probability
// reaches p; min-p those with at least that share of the first one's probability; at least one stays. The
// rest are softened by the temperature, and the first whose cumulative probability exceeds the draw is taken.
// NaN logits count as the smallest. The log-probability is the token's under the softmax of the logits as
// they came; NaN if one of them is NaN or infinite.
SampledToken sample_token(std::span<const float> logits, const SequenceSlot& slot, uint32_t position,
                          std::vector<Candidate>& candidates);

}  // namespace serval

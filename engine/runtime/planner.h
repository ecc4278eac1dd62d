// What the rows of one pass are for: a pure function of how far each sequence is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace serval {

// How far a sequence is, in tokens.
struct SequenceProgress {
  uint32_t computed = 0;       // positions that are in the KV cache; the next row runs this one
  uint32_t prompt_length = 0;  // at least 1
  bool generates = true;       // false: nothing is sampled after the prompt
};

struct PlannedRow {
  uint32_t sequence = 0;  // index into what was planned for
  uint32_t position = 0;
  bool wants_logits = false;
};

struct PassPlan {
  std::vector<PlannedRow> rows;
  // Every prompt is finished by this pass, so that further passes need nothing from the host.
  bool prompts_complete = true;
};

// At most `max_rows` rows for at most as many sequences, in order of arrival: first one for every sequence
// that generates, then chunks of the prompts of the others until the pass is full. The rows of a prompt are
// consecutive positions, and only its last token wants logits. Every sequence that generates moves in every
// pass, and if none does, the oldest prompt moves.
PassPlan plan_pass(std::span<const SequenceProgress> sequences, uint32_t max_rows);

}  // namespace serval

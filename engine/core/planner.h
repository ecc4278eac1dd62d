// Plans the next launch: a pure function of each sequence's progress and of the available blocks.
//
// Invariants, which tests/engine/planner_test.cc checks over random workloads:
// - A pass has at most max_rows rows, max_logit_rows of which want logits. Those of a sequence are
// consecutive positions that are not in the KV cache yet.
// - Every sequence that generates has a row in every pass, and so has the first one that still reads its
// prompt: neither kind waits for the other. So the time between two tokens of a sequence is that of a pass of
// max_rows rows, whatever the length of the prompts that arrive.
// - The blocks that a launch needs are available before it begins. If they are not, the last sequence
// releases its blocks, never the first: so the first always finishes, and then the next becomes the first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "vm/state/limits.h"

namespace serval {

// A running sequence. Positions and lengths in tokens.
struct SequenceView {
  uint32_t computed = 0;  // positions in the KV cache; the next row runs this position
  uint32_t length = 1;    // known tokens, more than `computed`
  uint32_t end = 1;       // limit of positions; at least `length` if it generates
  uint32_t blocks = 0;    // KV blocks that it holds, at least those for `length`
  bool generates = true;  // false: nothing is sampled after the prompt
  // Known tokens that are read like a prompt: the prompt and, after it gave its blocks back, the tokens
  // generated before. Once they are read it generates, with length = computed + 1.
  uint32_t prompt = 0;
  // Positions [score_begin, score_end) of these: their rows want the log-probability of the token after them,
  // or to be pooled.
  uint32_t score_begin = 0, score_end = 0;
  uint32_t drafts = 0;  // limit of its drafts in a pass (vm/state/slots.h)
};

struct CoreView {
  std::span<const SequenceView> running;  // in service order: by priority, then by arrival
  uint32_t available_blocks = 0;          // held by no sequence
};

struct PlannerLimits {
  uint32_t max_rows = 1;                     // in a pass
  uint32_t max_logit_rows = kMostLogitRows;  // of these; at least max_sequences
  uint32_t max_sequences = 1;                // running together; at most max_rows
  uint32_t max_passes = 1;                   // in a launch
  uint32_t max_draft_rows = 0;               // in a pass with drafts, at most max_rows; 0: no pass has drafts
  bool drafts_by_model = false;              // engine/core/draft_model.h; a launch with them has one pass
};

// Returns whether a sequence that needs `blocks` of the available blocks for its known tokens may join
// `running` others. One more block must remain for each running sequence, itself included, so that they can
// go on. A sequence may always join if none runs.
bool may_join(size_t running, uint32_t available_blocks, const PlannerLimits& limits, uint32_t blocks);

struct PlannedRow {
  uint32_t sequence = 0;  // index into CoreView::running
  uint32_t position = 0;
  bool draws = false;  // the sequence generates and this is its last known token
  // Wants the log-probability of the token after this one, which is known; or its hidden state to be pooled.
  bool scores = false;
  uint32_t drafts = 0;  // number of the next rows that are for its drafts
  bool is_draft = false;
  bool wants_logits() const { return draws || scores || is_draft; }
};

struct PassPlan {
  // The last sequence in service order must release its blocks and be evaluated again later; then plan again.
  // All other fields are empty.
  std::optional<uint32_t> give_back;
  // Rows of the first pass: one for every sequence that generates, then pieces of prompts in service order
  // until the pass is full, or the next row wants logits and no more rows may. If no row reads a prompt,
  // further passes need nothing from the host, and rows for drafts follow each sequence's row where there is
  // room.
  std::vector<PlannedRow> rows;
  bool reads_prompts = false;  // some rows are positions of prompts
  uint32_t passes = 1;         // limit for this launch
  uint32_t drafts = 0;         // limit of each sequence's drafts in a pass
};

// There must be at least one sequence. A single one never needs more blocks than it holds and are available.
PassPlan plan(const CoreView& view, const PlannerLimits& limits);

// Returns whether the held and available blocks are enough for a launch of `passes` passes, each with up to
// `drafts` drafts of each sequence.
bool blocks_suffice(const CoreView& view, uint32_t passes, uint32_t drafts = 0);

// Blocks that the sequence needs for a launch of `passes` passes in which it is read completely, each with up
// to `drafts` drafts.
uint32_t blocks_for_launch(const SequenceView& sequence, uint32_t passes, uint32_t drafts = 0);

// Tokens that a sequence can still get. It must generate and have read its prompt.
constexpr uint32_t tokens_to_end(const SequenceView& sequence) {
  return sequence.end - sequence.length + 1;
}

// A sequence's progress after a launch of `passes` passes with `rows` rows of it in the first, provided that
// no token ends it; none if its length does. The tokens of that launch are not known yet.
std::optional<SequenceView> after_launch(SequenceView sequence, uint32_t rows, uint32_t passes);

}  // namespace serval

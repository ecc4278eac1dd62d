// What the next launch does: a pure function of how far each sequence is and of what blocks are available.
//
// Invariants, which tests/engine/planner_test.cc checks over random workloads:
// - A pass has at most max_rows rows, and of a sequence consecutive positions that are not in the KV cache
//   yet.
// - Every sequence that generates has a row in every pass, and the first that still reads has one: neither
//   kind waits for the other. So the time between two tokens of a sequence is that of a pass of max_rows
//   rows, however long the prompts are that arrive.
// - Blocks that a launch needs are available before it begins. Where they are not, the last sequence gives
//   its blocks back, never the first: so the first always gets to its end, and the others become the first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace serval {

// A running sequence. Positions and lengths in tokens.
struct SequenceView {
  uint32_t computed = 0;  // positions that are in the KV cache; the next row runs this one
  uint32_t length = 1;    // tokens that are known, more than computed
  uint32_t end = 1;       // positions are < end; at least length where it generates
  uint32_t blocks = 0;    // KV blocks that it holds, at least those of `length`
  bool generates = true;  // false: nothing is sampled after the prompt
  // Of the known tokens, those that are read: the prompt's, and what it had generated before it gave its
  // blocks back. Behind them it generates: one more is known than is computed.
  uint32_t prompt = 0;
};

struct CoreView {
  std::span<const SequenceView> running;  // in the order of service: by priority, then by arrival
  uint32_t available_blocks = 0;          // that no sequence holds
};

struct PlannerLimits {
  uint32_t max_rows = 1;       // of a pass
  uint32_t max_sequences = 1;  // that run together; at most max_rows
  uint32_t max_passes = 1;     // of a launch
};

// Whether a sequence may join `running` others if it needs `blocks` of the available blocks for the tokens
// that it has. Beside them one block must remain for each sequence, itself included, to go on with. Where
// nothing runs it may join whatever it needs.
bool may_join(size_t running, uint32_t available_blocks, const PlannerLimits& limits, uint32_t blocks);

struct PlannedRow {
  uint32_t sequence = 0;  // index into CoreView::running
  uint32_t position = 0;
  bool wants_logits = false;  // of a sequence's last known token, where it generates
};

struct PassPlan {
  // This one, the last in the order of service, gives its blocks back and waits to be evaluated again; then
  // plan again. All else is empty.
  std::optional<uint32_t> give_back;
  // Of the first pass: first one of every sequence that generates, then pieces of those that read, in the
  // order of service, until the pass is full. Where none of them is a prompt's, further passes need nothing
  // from the host.
  std::vector<PlannedRow> rows;
  bool reads_prompts = false;  // some of them are positions of prompts
  uint32_t passes = 1;         // of this launch, at most
};

// There is at least one sequence, and one alone never needs more blocks than it holds and are available.
PassPlan plan(const CoreView& view, const PlannerLimits& limits);

// Whether the blocks that the sequences hold and those that are available are enough for a launch of so many
// passes.
bool blocks_suffice(const CoreView& view, uint32_t passes);

// Blocks that the sequence needs for a launch of `passes` passes in which it is read to its end.
uint32_t blocks_for_launch(const SequenceView& sequence, uint32_t passes);

// Of a sequence that generates and has been read: tokens that it can still get.
constexpr uint32_t tokens_to_end(const SequenceView& sequence) {
  return sequence.end - sequence.length + 1;
}

// What a launch of `passes` passes leaves of a sequence that has `rows` in the first, unless a token ends it;
// none if its length does. The last of its tokens are not known before.
std::optional<SequenceView> after_launch(SequenceView sequence, uint32_t rows, uint32_t passes);

}  // namespace serval

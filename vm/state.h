// The state block: everything that changes from pass to pass. Programs are immutable and read it at run time.
//
// The host fills it before a launch; within a launch only the `advance` instruction writes rows, slots,
// control and output, and only `sample` writes sampled. The layout is shared with the GPU, so every struct is
// trivially copyable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace serval {

inline constexpr int kMaxRows = 16;            // rows of a pass: tokens computed together
inline constexpr int kMaxSlots = kMaxRows;     // sequences a state block can hold
inline constexpr int kMaxStopTokens = 16;      // per sequence
inline constexpr int kHistoryTokens = 64;      // window of the repetition penalty
inline constexpr int kMaxLaunchPasses = 4096;  // passes in one launch (the output table's length)

// One row of a pass: one token of one sequence.
struct PassRow {
  uint32_t active = 0;        // 0: the row is skipped everywhere
  uint32_t wants_logits = 0;  // 0: an inner token of a prompt, no LM head and no sampling
  uint32_t slot = 0;          // which sequence slot and block-table row it belongs to
  int32_t token = 0;          // id in the vocabulary
  uint32_t position = 0;      // tokens before it in its sequence
  uint32_t reserved[3] = {};
};
static_assert(sizeof(PassRow) == 32);

enum class FinishReason : uint32_t {
  kNone = 0,
  kStopToken = 1,  // an end-of-sequence token was sampled
  kLength = 2,     // the next position would be beyond `end_position`
  kNotFinite = 3,  // a logit was NaN or infinite: the token means nothing
};

// Sampling parameters and history of one sequence.
struct SequenceSlot {
  uint64_t seed = 0;             // key of the random numbers, with `sequence` and the position
  uint32_t sequence = 0;         // distinguishes sequences that share a seed
  float temperature = 0;         // <= 0: greedy
  int32_t top_k = 0;             // <= 0: off
  float top_p = 1;               // >= 1: off
  float min_p = 0;               // <= 0: off
  float repetition_penalty = 1;  // 1: off
  uint32_t end_position = 0;     // positions are < end_position: a sequence ends when it would need that one
  uint32_t num_stop_tokens = 0;
  int32_t stop_tokens[kMaxStopTokens] = {};
  uint32_t history_length = 0;  // tokens seen so far; the ring holds the last min(length, kHistoryTokens)
  uint32_t reserved = 0;
  int32_t history[kHistoryTokens] = {};  // token t is at t mod kHistoryTokens
};
static_assert(sizeof(SequenceSlot) == 48 + 4 * kMaxStopTokens + 4 * kHistoryTokens);

// What `sample` found for a row.
struct SampledToken {
  int32_t token = 0;
  float log_probability = 0;  // natural log under the model's own softmax, before penalties and temperature;
                              // NaN if, and only if, a logit of the row is NaN or infinite
};

// What `advance` publishes for a row of a pass: entry [pass][row] of the output table.
struct OutputToken {
  uint32_t valid = 0;  // 1 if this row sampled a token in this pass
  uint32_t slot = 0;
  int32_t token = 0;
  float log_probability = 0;
  uint32_t position = 0;  // of the sampled token
  FinishReason finish = FinishReason::kNone;
};
static_assert(sizeof(OutputToken) == 24);

inline constexpr uint32_t kKeepRunning = 0xffffffff;

// Written by `advance` at the end of each pass; `last_pass` is read at the gate before the next. It is
// written once a launch, so an SM that reads it late (after a later pass has decided) still runs the passes
// the others ran.
struct PassControl {
  uint32_t passes_done = 0;           // in this launch; the index of the pass in flight
  uint32_t passes_wanted = 0;         // set by the host, 1 to kMaxLaunchPasses
  uint32_t last_pass = kKeepRunning;  // the launch ends after this pass
  uint32_t stopped_by_host = 0;
};

struct StateBlock {
  PassRow rows[kMaxRows];
  SequenceSlot slots[kMaxSlots];
  SampledToken sampled[kMaxRows];
  PassControl control;
  OutputToken output[kMaxLaunchPasses][kMaxRows];
};
static_assert(std::is_trivially_copyable_v<StateBlock>);

// What an exact footprint depends on. A null pointer to one asks for the bound over all states.
struct StateView {
  const PassRow* rows;         // [kMaxRows]
  const int32_t* block_table;  // [kMaxSlots][blocks_per_sequence]
  uint32_t blocks_per_sequence;
};

// Names under which the parts of the state stand in a program's tensor table.
namespace state_tensor {
inline constexpr const char* kRows = "state.rows";
inline constexpr const char* kSlots = "state.slots";
inline constexpr const char* kSampled = "state.sampled";
inline constexpr const char* kControl = "state.control";
inline constexpr const char* kOutput = "state.output";
inline constexpr const char* kHostStop = "state.host_stop";      // one word the host may set at any time
inline constexpr const char* kBlockTable = "state.block_table";  // int32 [kMaxSlots][blocks of a sequence]
}  // namespace state_tensor

}  // namespace serval

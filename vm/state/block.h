// The state block: everything that changes from pass to pass. Programs are immutable and read it at run time.
//
// The host fills it before a launch, and masks also during one. Within a launch only `advance` writes rows,
// slots, control and output, and only `sample` or `pool` writes sampled. The GPU shares the parts, so all of
// them are trivially copyable; their sizes follow from the program's limits (vm/state/limits.h).
//
// Several programs of one model (row classes) share one state block, made for the one with most rows. They
// share slots, block table and control. A program of fewer rows uses the first rows of `rows`, `sampled` and
// `top`; the other rows are not active while it runs (check.h). Its output table begins at the block's and
// has its own number of rows a pass: output_of().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "vm/layout/row_tiles.h"
#include "vm/state/adjustments.h"
#include "vm/state/attention.h"
#include "vm/state/control.h"
#include "vm/state/limits.h"
#include "vm/state/masks.h"
#include "vm/state/output.h"
#include "vm/state/rows.h"
#include "vm/state/slots.h"

namespace serval {

// Byte offsets of the parts in one piece of memory: first the parts that are copied to a GPU and back (rows,
// sampled, control, slots), then those that are only copied to it, then those that the GPU accesses in the
// host's memory.
struct StateLayout {
  explicit StateLayout(const StateLimits& limits);

  static constexpr size_t kAlignment = 128;  // of the memory and of each part: a GPU's cache line

  size_t rows;         // PassRow [whole_row_tiles(limits.rows)]: the device interpreter copies whole tiles
  size_t sampled;      // SampledToken [limits.rows]
  size_t control;      // PassControl
  size_t slots;        // SequenceSlot [limits.sequences]
  size_t block_table;  // int32 [limits.sequences][blocks_per_sequence]
  size_t attention;    // attention_list_bytes(limits.rows)
  size_t adjustments;  // adjustment_bytes(limits.max_context) [limits.sequences]
  size_t output;       // OutputToken [output_tokens(limits.rows)]
  size_t top;          // TopTokens [logit_rows(limits)]
  size_t masks;        // uint32 [limits.sequences][mask_pitch(limits.vocab)]
  size_t pooled;       // float [limits.sequences][limits.pooled_cols]
  size_t bytes;        // in all
  uint32_t blocks_per_sequence;

  // Offset of the part with this name in the tensor table; none for the host's stop word, which is not in the
  // block.
  std::optional<size_t> offset_of(std::string_view tensor) const;
  // True if programs access the part at this offset in the host's block, not in a copy.
  bool is_in_host_memory(size_t offset) const { return offset >= output; }
};

// The host's state block. Movable; not thread-safe.
class StateBlock {
 public:
  // Limits must satisfy check_structure (vm/program.h). All parts are zero or have their types' initial
  // values.
  explicit StateBlock(const StateLimits& limits);
  // Uses memory that outlives it: StateLayout(limits).bytes, aligned to kAlignment.
  StateBlock(const StateLimits& limits, std::byte* memory);

  const StateLimits limits;
  const StateLayout layout;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> own_;  // null: the memory is not owned
  std::byte* memory_;

  StateBlock(const StateLimits& limits, std::unique_ptr<std::byte, Free> own, std::byte* memory);

 public:
  const std::span<PassRow> rows;          // [limits.rows]
  const std::span<SampledToken> sampled;  // [limits.rows]
  PassControl& control;
  const std::span<SequenceSlot> slots;     // [limits.sequences]
  const std::span<int32_t> block_table;    // [limits.sequences][layout.blocks_per_sequence] ids of KV blocks
  AttentionList& attention;                // with attention_items(limits.rows) items
  const std::span<std::byte> adjustments;  // see biases_of() and history_of()
  OutputTable
      output;  // of the running program: limits.rows rows, until it is set to output_of() another program
  const std::span<TopTokens> top;   // [logit_rows(limits)]
  const std::span<uint32_t> masks;  // see mask_of()
  const std::span<float> pooled;    // see pooled_of()

  // Output table of a program of up to limits.rows rows.
  OutputTable output_of(uint32_t program_rows) const { return {output.tokens, program_rows}; }
  std::span<int32_t> blocks_of(uint32_t slot) const {
    return block_table.subspan(size_t{slot} * layout.blocks_per_sequence, layout.blocks_per_sequence);
  }
  std::span<TokenBias> biases_of(uint32_t slot) const {
    return {reinterpret_cast<TokenBias*>(adjustment_table().of(slot)), kMaxLogitBiases};
  }
  std::span<int32_t> history_of(uint32_t slot) const {
    return {reinterpret_cast<int32_t*>(adjustment_table().of(slot) + kHistoryOffset), limits.max_context};
  }
  std::span<uint32_t> mask_of(uint32_t slot) const {
    return masks.subspan(size_t{slot} * mask_pitch(limits.vocab), mask_words(limits.vocab));
  }
  // The hidden state, or the sum of hidden states, of the slot's sequence (vm/state/rows.h); empty in
  // programs that generate.
  std::span<const float> pooled_of(uint32_t slot) const {
    return pooled.subspan(size_t{slot} * limits.pooled_cols, limits.pooled_cols);
  }
  // Publishes mask_of() the slot for the token at `position`, or for any (kAnyPosition). May be called while
  // a launch runs; its `sample` may then read the mask until the token's pass has ended.
  void publish_mask(uint32_t slot, uint32_t position) const {
    mask_position(slot).store(position, std::memory_order_release);
  }
  // True if mask_of() the slot is for the token at `position`.
  bool has_mask(uint32_t slot, uint32_t position) const {
    return mask_is_for(mask_position(slot).load(std::memory_order_acquire), position);
  }
  // Address of the part with this name in the tensor table; null if it is not in the block.
  void* part(std::string_view tensor) const;
  std::byte* memory() const { return memory_; }

 private:
  AdjustmentTable<std::byte> adjustment_table() const { return {adjustments.data(), limits.max_context}; }
  std::atomic_ref<uint32_t> mask_position(uint32_t slot) const {
    return std::atomic_ref(masks[size_t{slot} * mask_pitch(limits.vocab) + mask_words(limits.vocab)]);
  }
};

}  // namespace serval

// The state block: everything that changes from pass to pass. Programs are immutable and read it at run time.
//
// The host fills it before a launch, and masks also within one; within a launch only the `advance`
// instruction writes rows, slots, control and output, and only `sample` writes sampled. The parts are shared
// with the GPU, so all of them are trivially copyable; their sizes follow from the limits of the program
// (vm/state/limits.h).
//
// Several programs of one model (row classes) share one state block, made for the one of most rows. Slots,
// block table and control are the same for all of them. A program of fewer rows has tensors of fewer rows for
// rows and sampled, which are the first of the block's; rows beyond are not active while it runs (check.h).
// Of `top` it has the first rows, too. Its output table begins where the block's does and has its own number
// of rows a pass: output_of().
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

// Where the parts lie in one piece of memory, in bytes from its beginning: first what goes to a GPU and comes
// back (rows, sampled, control, slots), then what only goes there, then what the GPU writes into the host's
// memory itself, or reads there.
struct StateLayout {
  explicit StateLayout(const StateLimits& limits);

  static constexpr size_t kAlignment = 128;  // of the memory and of each part: a GPU's lines

  size_t rows;         // PassRow [whole_row_tiles(limits.rows)]: the interpreter on a GPU copies whole tiles
  size_t sampled;      // SampledToken [limits.rows]
  size_t control;      // PassControl
  size_t slots;        // SequenceSlot [limits.sequences]
  size_t block_table;  // int32 [limits.sequences][blocks_per_sequence]
  size_t attention;    // attention_list_bytes(limits.rows)
  size_t adjustments;  // adjustment_bytes(limits.max_context) [limits.sequences]
  size_t output;       // OutputToken [output_tokens(limits.rows)]
  size_t top;          // TopTokens [logit_rows(limits)]
  size_t masks;        // uint32 [limits.sequences][mask_pitch(limits.vocab)]
  size_t bytes;        // in all
  uint32_t blocks_per_sequence;

  // Of a part by its name in the tensor table; none for the host's stop word, which is not in the block.
  std::optional<size_t> offset_of(std::string_view tensor) const;
  // Of the part at this offset: programs write or read it in the host's own block, not in a copy.
  bool stays_with_host(size_t offset) const { return offset >= output; }
};

// The host's state block. Movable; not thread-safe.
class StateBlock {
 public:
  // Limits as check_structure (vm/program.h) accepts them. All parts begin as zero, or as their types say.
  explicit StateBlock(const StateLimits& limits);
  // In memory that outlives it: StateLayout(limits).bytes, aligned to kAlignment.
  StateBlock(const StateLimits& limits, std::byte* memory);

  const StateLimits limits;
  const StateLayout layout;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> own_;  // null: the memory is somebody else's
  std::byte* memory_;

  StateBlock(const StateLimits& limits, std::unique_ptr<std::byte, Free> own, std::byte* memory);

 public:
  const std::span<PassRow> rows;          // [limits.rows]
  const std::span<SampledToken> sampled;  // [limits.rows]
  PassControl& control;
  const std::span<SequenceSlot> slots;     // [limits.sequences]
  const std::span<int32_t> block_table;    // [limits.sequences][layout.blocks_per_sequence] ids of KV blocks
  AttentionList& attention;                // with attention_items(limits.rows) items
  const std::span<std::byte> adjustments;  // biases_of() and history_of() the slots
  OutputTable
      output;  // of the program that runs: of limits.rows rows, until it is set to output_of() another
  const std::span<TopTokens> top;   // [logit_rows(limits)]
  const std::span<uint32_t> masks;  // mask_of() the slots

  // Of a program of up to limits.rows rows.
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
  // What mask_of() the slot has is for the token at `position`, or for any (kAnyPosition). Also while a
  // launch runs, whose `sample` may read the mask from now on, until the token's pass has ended.
  void give_mask(uint32_t slot, uint32_t position) const {
    mask_position(slot).store(position, std::memory_order_release);
  }
  // Whether mask_of() the slot may be read for the token at `position`.
  bool has_mask(uint32_t slot, uint32_t position) const {
    return mask_is_for(mask_position(slot).load(std::memory_order_acquire), position);
  }
  // A part by its name in the tensor table; null for what is not in the block.
  void* part(std::string_view tensor) const;
  std::byte* memory() const { return memory_; }

 private:
  AdjustmentTable<std::byte> adjustment_table() const { return {adjustments.data(), limits.max_context}; }
  std::atomic_ref<uint32_t> mask_position(uint32_t slot) const {
    return std::atomic_ref(masks[size_t{slot} * mask_pitch(limits.vocab) + mask_words(limits.vocab)]);
  }
};

}  // namespace serval

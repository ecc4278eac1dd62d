#include "vm/state/block.h"

#include <algorithm>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "vm/layout/kv_cache.h"
#include "vm/layout/row_tiles.h"
#include "vm/state/names.h"

namespace serval {
namespace {

template <class T>
std::span<T> make_part(std::byte* memory, size_t offset, size_t count) {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= StateLayout::kAlignment);
  T* const part = reinterpret_cast<T*>(memory + offset);
  std::uninitialized_value_construct_n(part, count);
  return {part, count};
}

std::byte* allocate(size_t bytes) {
  return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{StateLayout::kAlignment}));
}

}  // namespace

StateLayout::StateLayout(const StateLimits& limits)
    : blocks_per_sequence(blocks_for_tokens(limits.max_context)) {
  size_t end = 0;
  const auto place = [&](size_t part) {
    const size_t begin = end;
    end = (begin + part + kAlignment - 1) / kAlignment * kAlignment;
    return begin;
  };
  rows = place(whole_row_tiles(limits.rows) * sizeof(PassRow));
  sampled = place(limits.rows * sizeof(SampledToken));
  control = place(sizeof(PassControl));
  slots = place(limits.sequences * sizeof(SequenceSlot));
  block_table = place(size_t{limits.sequences} * blocks_per_sequence * sizeof(int32_t));
  attention = place(attention_list_bytes(limits.rows));
  adjustments = place(limits.sequences * adjustment_bytes(limits.max_context));
  output = place(output_tokens(limits.rows) * sizeof(OutputToken));
  top = place(serval::logit_rows(limits) * sizeof(TopTokens));
  masks = place(size_t{limits.sequences} * mask_pitch(limits.vocab) * sizeof(uint32_t));
  pooled = place(size_t{limits.sequences} * limits.pooled_cols * sizeof(float));
  bytes = end;
}

std::optional<size_t> StateLayout::offset_of(std::string_view tensor) const {
  const std::pair<std::string_view, size_t> parts[] = {
      {state_tensor::kRows, rows},           {state_tensor::kSampled, sampled},
      {state_tensor::kControl, control},     {state_tensor::kSlots, slots},
      {state_tensor::kOutput, output},       {state_tensor::kBlockTable, block_table},
      {state_tensor::kAttention, attention}, {state_tensor::kAdjustments, adjustments},
      {state_tensor::kMasks, masks},         {state_tensor::kTop, top},
      {state_tensor::kPooled, pooled}};
  const auto* found = std::ranges::find(parts, tensor, &std::pair<std::string_view, size_t>::first);
  return found == std::end(parts) ? std::nullopt : std::optional(found->second);
}

void StateBlock::Free::operator()(std::byte* memory) const {
  ::operator delete (memory, std::align_val_t{StateLayout::kAlignment});
}

StateBlock::StateBlock(const StateLimits& state_limits)
    : StateBlock(state_limits, std::unique_ptr<std::byte, Free>(allocate(StateLayout(state_limits).bytes)),
                 nullptr) {}

StateBlock::StateBlock(const StateLimits& state_limits, std::byte* memory)
    : StateBlock(state_limits, nullptr, memory) {}

StateBlock::StateBlock(const StateLimits& state_limits, std::unique_ptr<std::byte, Free> own,
                       std::byte* memory)
    : limits(state_limits),
      layout(limits),
      own_(std::move(own)),
      memory_(own_ ? own_.get() : memory),
      rows(make_part<PassRow>(memory_, layout.rows, whole_row_tiles(limits.rows)).first(limits.rows)),
      sampled(make_part<SampledToken>(memory_, layout.sampled, limits.rows)),
      control(make_part<PassControl>(memory_, layout.control, 1).front()),
      slots(make_part<SequenceSlot>(memory_, layout.slots, limits.sequences)),
      block_table(make_part<int32_t>(memory_, layout.block_table,
                                     size_t{limits.sequences} * layout.blocks_per_sequence)),
      attention(make_part<AttentionList>(memory_, layout.attention, 1).front()),
      adjustments(make_part<std::byte>(memory_, layout.adjustments,
                                       limits.sequences * adjustment_bytes(limits.max_context))),
      output{make_part<OutputToken>(memory_, layout.output, output_tokens(limits.rows)).data(), limits.rows},
      top(make_part<TopTokens>(memory_, layout.top, logit_rows(limits))),
      masks(make_part<uint32_t>(memory_, layout.masks, size_t{limits.sequences} * mask_pitch(limits.vocab))),
      pooled(make_part<float>(memory_, layout.pooled, size_t{limits.sequences} * limits.pooled_cols)) {
  std::uninitialized_value_construct_n(attention.item(), attention_items(limits.rows));
}

void* StateBlock::part(std::string_view tensor) const {
  const std::optional<size_t> offset = layout.offset_of(tensor);
  return offset ? memory_ + *offset : nullptr;
}

}  // namespace serval

#include "engine/backend/state_copy.h"

#include <algorithm>
#include <cstring>

namespace serval {
namespace {

void copy_extras(const StateBlock& from, StateBlock& to, uint32_t index) {
  const SequenceSlot& slot = from.slots[index];
  if (slot.extras == 0) return;
  std::ranges::copy(from.biases_of(index).first(slot.num_biases), to.biases_of(index).begin());
  if ((slot.extras & kKeepsHistory) != 0)
    std::ranges::copy(from.history_of(index).first(slot.history_length), to.history_of(index).begin());
}

// Rows of a slot are usually consecutive, so only the last slot is compared.
template <class Call>
void for_each_slot(const StateBlock& state, const Call& call) {
  uint32_t last = ~0U;
  for (const PassRow& row : state.rows) {
    if (!row_is_active(row) || row.slot == last) continue;
    last = row.slot;
    call(row.slot);
  }
}

}  // namespace

void copy_launch(const StateBlock& from, StateBlock& to) {
  std::ranges::copy(from.rows, to.rows.begin());
  to.control = from.control;
  if (from.attention.items > 0) {
    std::memcpy(&to.attention, &from.attention,
                sizeof(AttentionList) + from.attention.items * sizeof(AttentionItem));
  }
  for_each_slot(from, [&](uint32_t slot) {
    to.slots[slot] = from.slots[slot];
    std::ranges::copy(from.blocks_of(slot), to.blocks_of(slot).begin());
    copy_extras(from, to, slot);
  });
}

void copy_result(const StateBlock& from, StateBlock& to) {
  for_each_slot(to, [&](uint32_t slot) { to.slots[slot] = from.slots[slot]; });
  std::ranges::copy(from.rows, to.rows.begin());
  to.control = from.control;
}

}  // namespace serval

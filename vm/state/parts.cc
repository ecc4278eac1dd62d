#include "vm/state/parts.h"

#include <string>

#include "vm/layout/kv_cache.h"
#include "vm/state/adjustments.h"
#include "vm/state/attention.h"
#include "vm/state/control.h"
#include "vm/state/masks.h"
#include "vm/state/names.h"
#include "vm/state/output.h"
#include "vm/state/rows.h"
#include "vm/state/slots.h"

namespace serval {

std::optional<Tensor> state_part(std::string_view name, const StateLimits& limits) {
  const auto part = [&](uint64_t rows, uint64_t cols, DType dtype = DType::kBytes) {
    return Tensor{
        .name = std::string(name), .rows = rows, .cols = cols, .dtype = dtype, .kind = TensorKind::kState};
  };
  if (name == state_tensor::kRows) return part(limits.rows, sizeof(PassRow));
  if (name == state_tensor::kSlots) return part(limits.sequences, sizeof(SequenceSlot));
  if (name == state_tensor::kSampled) return part(limits.rows, sizeof(SampledToken));
  if (name == state_tensor::kAdjustments) return part(limits.sequences, adjustment_bytes(limits.max_context));
  if (name == state_tensor::kMasks) return part(limits.sequences, mask_pitch(limits.vocab), DType::kI32);
  if (name == state_tensor::kTop) return part(logit_rows(limits), sizeof(TopTokens));
  if (name == state_tensor::kPooled && limits.pooled_cols > 0)
    return part(limits.sequences, limits.pooled_cols, DType::kF32);
  if (name == state_tensor::kControl) return part(1, sizeof(PassControl));
  if (name == state_tensor::kOutput)
    return part(launch_passes(limits.rows), limits.rows * sizeof(OutputToken));
  if (name == state_tensor::kHostStop) return part(1, sizeof(uint32_t));
  if (name == state_tensor::kBlockTable)
    return part(limits.sequences, blocks_for_tokens(limits.max_context), DType::kI32);
  if (name == state_tensor::kAttention) return part(1, attention_list_bytes(limits.rows));
  return std::nullopt;
}

std::string_view state_part_of_operand(std::string_view operand) {
  constexpr std::string_view kOfPeer = "peer_", kOfState = "state.";
  if (operand == "items") return state_tensor::kAttention;
  if (operand.starts_with(kOfPeer)) operand.remove_prefix(kOfPeer.size());
  for (const char* part :
       {state_tensor::kRows, state_tensor::kSlots, state_tensor::kSampled, state_tensor::kControl,
        state_tensor::kOutput, state_tensor::kHostStop, state_tensor::kBlockTable, state_tensor::kAdjustments,
        state_tensor::kMasks, state_tensor::kTop, state_tensor::kPooled}) {
    if (std::string_view(part).substr(kOfState.size()) == operand) return part;
  }
  return {};
}

bool lives_within_pass(const Tensor& tensor) {
  return tensor.kind == TensorKind::kActivation || tensor.name == state_tensor::kSampled;
}

}  // namespace serval

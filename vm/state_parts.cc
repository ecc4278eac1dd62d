#include "vm/state_parts.h"

#include <string>

#include "vm/kv_cache.h"
#include "vm/state.h"

namespace serval {

std::optional<Tensor> state_part(std::string_view name, const StateLimits& limits) {
  const auto part = [&](uint64_t rows, uint64_t cols, DType dtype = DType::kBytes) {
    return Tensor{
        .name = std::string(name), .rows = rows, .cols = cols, .dtype = dtype, .kind = TensorKind::kState};
  };
  if (name == state_tensor::kRows) return part(kMaxRows, sizeof(PassRow));
  if (name == state_tensor::kSlots) return part(kMaxSlots, sizeof(SequenceSlot));
  if (name == state_tensor::kSampled) return part(kMaxRows, sizeof(SampledToken));
  if (name == state_tensor::kControl) return part(1, sizeof(PassControl));
  if (name == state_tensor::kOutput) return part(kMaxLaunchPasses, kMaxRows * sizeof(OutputToken));
  if (name == state_tensor::kHostStop) return part(1, sizeof(uint32_t));
  if (name == state_tensor::kBlockTable)
    return part(kMaxSlots, blocks_for_tokens(limits.max_context), DType::kI32);
  return std::nullopt;
}

bool lives_within_pass(const Tensor& tensor) {
  return tensor.kind == TensorKind::kActivation || tensor.name == state_tensor::kSampled;
}

}  // namespace serval

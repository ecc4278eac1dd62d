#include "models/model.h"

namespace serval {

int64_t ModelShape::kv_bytes_per_token() const {
  constexpr int64_t kKeysAndValues = 2;
  return kKeysAndValues * size_of(DType::kBF16) * num_layers * num_kv_heads * head_dim;
}

int64_t Model::num_parameters() const {
  int64_t elements = 0;
  for (const WeightSpec& weight : weights()) elements += weight.copy_of.empty() ? weight.elements() : 0;
  return elements;
}

int64_t Model::weight_bytes() const {
  int64_t bytes = 0;
  for (const WeightSpec& weight : weights()) bytes += weight.bytes();
  return bytes;
}

int64_t Model::weight_bytes_per_token() const {
  int64_t bytes = 0;
  for (const WeightSpec& weight : weights()) bytes += weight.gathered ? weight.row_bytes() : weight.bytes();
  return bytes;
}

}  // namespace serval

// Engine::update_weights: tensors in memory instead of the loaded weights.
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "fmt/format.h"

#include "engine/runtime/engine_impl.h"
#include "models/checkpoint/tensor_weights.h"
#include "serval/engine.h"
#include "vm/base/error.h"
#include "vm/base/json_fields.h"

namespace serval {
namespace {

StoredType stored_type(WeightType type) {
  switch (type) {
    case WeightType::kBF16:
      return StoredType::kBF16;
    case WeightType::kF16:
      return StoredType::kF16;
    case WeightType::kF32:
      break;
  }
  return StoredType::kF32;
}

// The bytes that the shape takes; the shape is checked against the model's before they are read.
TensorView view_of(const WeightTensor& tensor) {
  TensorView view{tensor.name, stored_type(tensor.type), tensor.shape, {}};
  size_t bytes = dtype_bytes(view.dtype);
  for (const int64_t size : tensor.shape) bytes *= static_cast<size_t>(size);
  if (tensor.data == nullptr)
    throw Error(ErrorKind::kUsage, fmt::format("weights: tensor {}: no data", shown(tensor.name)));
  view.bytes = {static_cast<const std::byte*>(tensor.data), bytes};
  return view;
}

}  // namespace

void Engine::update_weights(std::span<const WeightTensor> tensors, RunningRequests running) {
  impl_->core.signals()->refuse_loop_thread("update_weights");
  Backend& backend = *impl_->parts.backend;
  const Model* model = impl_->parts.model.get();
  if (model == nullptr || !backend.updates_weights()) {
    throw Error(ErrorKind::kUsage,
                fmt::format("weights: backend {} cannot replace them; host and device can", backend.name()));
  }
  std::vector<TensorView> views;
  for (const WeightTensor& tensor : tensors) views.push_back(view_of(tensor));
  const std::unique_ptr<const WeightSource> source =
      make_tensor_weights(*model, views, impl_->parts.not_finite);
  impl_->core.between_requests([&] { backend.update_weights(*model, *source); },
                               running == RunningRequests::kCancel);
}

}  // namespace serval

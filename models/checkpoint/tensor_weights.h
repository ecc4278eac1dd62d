// Tensors in memory that replace some of a model's weights.
#pragma once

#include <memory>
#include <span>

#include "models/checkpoint/safetensors.h"
#include "models/checkpoint/weight_source.h"
#include "models/model.h"

namespace serval {

// Tensors have the names, shapes and types (BF16, F16, F32) that a checkpoint of the model has; the last two
// are rounded to the nearest bf16. The source gives only these weights (WeightSource::has()), and their bytes
// must outlive it. Reads all of them once. Throws Error(kUsage) for a name that the model does not have or
// that comes twice, for another shape or type, and for two tensors that differ where the model has one matrix
// for both names; Error(kRuntime) for values that are not finite, unless they are allowed.
std::unique_ptr<const WeightSource> make_tensor_weights(const Model& model,
                                                        std::span<const TensorView> tensors,
                                                        NotFinite not_finite = NotFinite::kRefused);

}  // namespace serval

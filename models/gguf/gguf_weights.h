// A GGUF model's tensors as weights in bf16.
#pragma once

#include <memory>

#include "models/checkpoint/weight_source.h"
#include "models/gguf/gguf_set.h"
#include "models/model.h"

namespace serval {

// Checks every name and shape; reads no weight. BF16 tensors are in place where the file aligns them, all
// others are dequantised and rounded to the nearest bf16. The converters to GGUF reorder the rows of Q and K
// of the architecture "llama" (each pair of elements that RoPE rotates becomes neighbours); that is undone.
// Throws Error(kRuntime) where a tensor is missing, of another shape than `model` asks, or one that the model
// does not use.
std::unique_ptr<const WeightSource> open_gguf_weights(std::shared_ptr<const GgufSet> files,
                                                      const Model& model,
                                                      NotFinite not_finite = NotFinite::kRefused);

}  // namespace serval

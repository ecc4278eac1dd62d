// Reads a GGUF model's tensors as weights.
#pragma once

#include <memory>

#include "models/checkpoint/stored_formats.h"
#include "models/checkpoint/weight_source.h"
#include "models/gguf/gguf_set.h"
#include "models/model.h"

namespace serval {

// Checks names and shapes; reads no weights. BF16 tensors are in place if the file aligns them; Q4_0 and Q4_1
// are kept if `model` has them in 4 bits in groups of 32; others are dequantised and rounded to the nearest
// bf16. For the architecture "llama", converters to GGUF reorder the
// rows of Q and K so that the two elements that RoPE rotates together are neighbours; read() restores the
// original order. Throws Error(kRuntime) if a tensor is missing, has a shape other than `model` expects, or
// is not used by the model.
std::unique_ptr<const WeightSource> open_gguf_weights(std::shared_ptr<const GgufSet> files,
                                                      const Model& model,
                                                      NotFinite not_finite = NotFinite::kRefused);

// 4 bits in groups of 32 if all of these matrices are Q4_0 or Q4_1. Reads no weights.
StoredFormats gguf_stored_formats(const GgufSet& files, const Model& model);

}  // namespace serval

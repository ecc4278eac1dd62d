// Weights on their way from a checkpoint, or from nowhere, to page images in GPU memory. The host never holds
// more of them than a few staging buffers.
#pragma once

#include <cstdint>
#include <span>

#include "engine/device/device_tensors.h"
#include "engine/device/gpu.h"
#include "models/checkpoint/weight_source.h"
#include "models/model.h"
#include "vm/program.h"

namespace serval {

// What upload_weights() takes of the memory of a rank's GPU while it runs, at most.
uint64_t staging_bytes(const Model& model, const Program& program, uint32_t rank);

// A rank's GPU, and the tensors that it has there.
struct UploadTarget {
  int gpu;
  const DeviceTensors* tensors;
};

// Fills the memory of all weights that `program` has on its devices: each gets its part of them
// (models/ranks.h), all at the same time. Random weights are made on the GPUs. Throws what the source and
// `progress` throw, and as cuda_check.h.
void upload_weights(const WeightSource& source, const Model& model, const Program& program,
                    std::span<const UploadTarget> targets, const LoadProgress& progress);

// Fills the memory of the model's constants for sequences of up to `context` tokens, and returns when the GPU
// has all that this thread has asked of it so far. Throws as cuda_check.h.
void upload_constants(const Model& model, uint32_t context, const UploadTarget& target);

}  // namespace serval

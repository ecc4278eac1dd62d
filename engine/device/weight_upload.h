// Uploads weights from a checkpoint, or makes random ones, as page images in GPU memory. The host holds only
// a few staging buffers of them.
#pragma once

#include <cstdint>
#include <span>

#include "engine/device/device_tensors.h"
#include "engine/device/gpu.h"
#include "models/checkpoint/weight_source.h"
#include "models/model.h"
#include "vm/program.h"

namespace serval {

// The most memory of a rank's GPU that upload_weights() uses while it runs.
uint64_t staging_bytes(const Model& model, const Program& program, uint32_t rank);

// A rank's GPU and its tensors on it.
struct UploadTarget {
  int gpu;
  const DeviceTensors* tensors;
};

// Fills `program`'s weights that the source has on all its devices in parallel; each gets its part of them
// (models/ranks.h). Random weights are made on the GPUs. Throws what the source and `progress` throw, and as
// cuda_check.h.
void upload_weights(const WeightSource& source, const Model& model, const Program& program,
                    std::span<const UploadTarget> targets, const LoadProgress& progress);

// Fills the model's constants for sequences of up to `context` tokens, and returns when all GPU work that
// this thread has enqueued so far is complete. Throws as cuda_check.h.
void upload_constants(const Model& model, uint32_t context, const UploadTarget& target);

}  // namespace serval

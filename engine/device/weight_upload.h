// Weights on their way from a checkpoint, or from nowhere, to page images in GPU memory. The host never holds
// more of them than a few staging buffers.
#pragma once

#include "engine/device/device_tensors.h"
#include "engine/device/gpu.h"
#include "models/checkpoint/weight_source.h"
#include "vm/program.h"

namespace serval {

// What upload_weights() takes of the GPU's memory while it runs, at most.
uint64_t staging_bytes(const Program& program);

// Fills the memory of all weights that `program` has. Random weights are made on the GPU. Throws what the
// source and `progress` throw, and as cuda_check.h.
void upload_weights(const WeightSource& source, const Program& program, const DeviceTensors& tensors,
                    const Gpu& gpu, const LoadProgress& progress);

}  // namespace serval

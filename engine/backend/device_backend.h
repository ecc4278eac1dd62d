// The device interpreter as a backend: one GPU runs the passes, or several that share the model. This header
// is plain C++ and may be included in a build without CUDA, where its functions throw.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/options.h"
#include "engine/compile/program_set.h"
#include "models/checkpoint/weight_source.h"
#include "models/model.h"

namespace serval {

// Returns whether the build includes CUDA.
bool device_is_built();

// CUDA's GPU indices, one for each rank.
using GpuIndices = std::vector<int>;

// Throws Error(kRuntime) with one line that gives the reason if these GPUs cannot run programs.
void check_device(const GpuIndices& gpus = {0});

// The free memory in bytes of the GPU that has the least. Throws as check_device().
uint64_t free_device_memory(const GpuIndices& gpus = {0});

// Compiles the model for the GPU and uploads the weights, page image by page image. Throws as check_device();
// Error(kOutOfMemory), before any weight is read, if weights, KV cache and activations do not fit; and
// Error(kUsage) for options out of range, such as more rows than the kernels support.
std::unique_ptr<Backend> make_device_backend(const Model& model, const WeightSource& weights,
                                             const BackendOptions& options,
                                             const LoadProgress& progress = {});
// Makes the backend from compiled programs instead and ignores the options for compiling. Throws
// Error(kRuntime), before anything is bound, unless the programs compute the model (models/program_proof.h)
// and need no more SMs than the GPU has.
std::unique_ptr<Backend> bind_device_backend(ProgramSet&& programs, const Model& model,
                                             const WeightSource& weights, const BackendOptions& options,
                                             const LoadProgress& progress = {});

}  // namespace serval

// The device interpreter as a backend: one GPU runs the passes, or several that share the model. This header
// is plain C++ and may be included where the build has no CUDA: what it declares then says so.
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

// Whether the build has CUDA.
bool device_is_built();

// CUDA's indices of GPUs, one for each rank.
using GpuIndices = std::vector<int>;

// Throws Error(kRuntime) with one line that says why these GPUs cannot run programs, if they cannot.
void check_device(const GpuIndices& gpus = {0});

// Bytes of the memory of each that are free, at least. Throws as check_device().
uint64_t free_device_memory(const GpuIndices& gpus = {0});

// Compiles the model for the GPU and brings the weights there, page image by page image. Throws as
// check_device(), Error(kOutOfMemory) if weights, KV cache and activations do not fit, before any is read,
// and Error(kUsage) for options out of range, more rows than the kernels take among them.
std::unique_ptr<Backend> make_device_backend(const Model& model, const WeightSource& weights,
                                             const BackendOptions& options,
                                             const LoadProgress& progress = {});
// The same with programs as they were compiled; of the options, what says how to compile is not read. Throws
// Error(kRuntime), before anything is bound, unless the programs are the model's (models/program_fit.h) and
// for no more SMs than the GPU has.
std::unique_ptr<Backend> bind_device_backend(ProgramSet&& programs, const Model& model,
                                             const WeightSource& weights, const BackendOptions& options,
                                             const LoadProgress& progress = {});

}  // namespace serval

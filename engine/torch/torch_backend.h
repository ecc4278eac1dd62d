// The reference model as a backend: same state block, same sampler, logits from LibTorch. It runs no program.
#pragma once

#include <memory>

#include "engine/backend/backend.h"
#include "engine/backend/options.h"
#include "engine/torch/oracle.h"

namespace serval {

// The device and the type for LibTorch.
struct TorchOptions {
  OracleDtype dtype = OracleDtype::kFp32;
  OracleDevice device = OracleDevice::kAuto;
};

// Its program() has the state's limits and no instructions. Consecutive rows of a sequence are evaluated
// together, and sequences one after the other: simple, not fast. Throws as Oracle's constructor.
std::unique_ptr<Backend> make_torch_backend(const Model& model, std::shared_ptr<const ModelWeights> weights,
                                            const BackendOptions& options, const TorchOptions& torch = {});

}  // namespace serval

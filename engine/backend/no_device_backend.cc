// Replaces device_backend.cc in a build without CUDA.
#include "engine/backend/device_backend.h"
#include "vm/base/error.h"

namespace serval {

bool device_is_built() {
  return false;
}

void check_device(const GpuIndices& /*gpus*/) {
  throw Error(ErrorKind::kRuntime, "this build has no GPU interpreter (CMake's option SERVAL_CUDA)");
}

uint64_t free_device_memory(const GpuIndices& gpus) {
  check_device(gpus);
  return 0;
}

std::unique_ptr<Backend> make_device_backend(const Model& /*model*/, const WeightSource& /*weights*/,
                                             const BackendOptions& options,
                                             const LoadProgress& /*progress*/) {
  check_device(options.gpus);
  return nullptr;
}

std::unique_ptr<Backend> bind_device_backend(ProgramSet&& /*programs*/, const Model& /*model*/,
                                             const WeightSource& /*weights*/, const BackendOptions& options,
                                             const LoadProgress& /*progress*/) {
  check_device(options.gpus);
  return nullptr;
}

}  // namespace serval

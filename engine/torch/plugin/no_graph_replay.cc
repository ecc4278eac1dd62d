// Replaces graph_replay.cc if LibTorch is built without CUDA.
#include <stdexcept>

#include "engine/torch/plugin/graph_replay.h"

namespace serval::torch_plugin {

double time_replay(const EagerLlama& /*model*/, const ServalOracleReplay& /*replay*/) {
  throw std::runtime_error("this LibTorch has no CUDA, and so no graphs to replay");
}

}  // namespace serval::torch_plugin

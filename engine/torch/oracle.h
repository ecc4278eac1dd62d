// The LibTorch reference model, loaded from libserval_torch.so when it is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/torch/oracle_api.h"
#include "models/checkpoint/weights.h"
#include "models/model.h"
#include "vm/base/enum_names.h"

namespace serval {

inline constexpr const char* kTorchPluginName = "libserval_torch.so";
inline constexpr const char* kTorchPluginVariable = "SERVAL_TORCH_PLUGIN";  // names the file itself

// The plugin's functions. Looks where the variable says; without it beside the executable, in ../lib from
// there and where Serval was installed to. What is loaded stays loaded. Thread-safe. Throws Error(kRuntime)
// with one line that says how to get the plugin, or why it cannot be loaded.
const ServalOracleApi& load_torch_plugin();

enum class OracleDtype { kFp32, kBf16 };
enum class OracleDevice { kAuto, kCpu, kCuda };  // auto: the GPU where LibTorch finds one
template <>
struct EnumNames<OracleDevice> {
  static constexpr EnumName<OracleDevice> kTable[] = {
      {OracleDevice::kAuto, "auto"}, {OracleDevice::kCpu, "cpu"}, {OracleDevice::kCuda, "cuda"}};
};

struct OracleOptions {
  OracleDtype dtype = OracleDtype::kFp32;
  OracleDevice device = OracleDevice::kAuto;
  int64_t cache_cells = 0;  // tokens that the KV cache holds, over all sequences
  uint32_t threads = 0;     // of the CPU; 0: LibTorch's choice
};

// Consecutive tokens of one sequence; cells[p] is the cache cell of position p, for all positions up to the
// last of the tokens, which is therefore cells.size() - 1. See oracle_api.h.
struct OracleTokens {
  std::span<const int32_t> tokens;
  std::span<const int64_t> cells;
  size_t num_logits = 0;  // how many of the last tokens want logits
};

// One model in one type on one device. Not thread-safe; movable. Throws what the plugin reports:
// Error(kRuntime), or Error(kOutOfMemory).
class Oracle {
 public:
  // Where LibTorch is not built for a GPU, or none is there, kAuto is the CPU.
  Oracle(const Model& model, std::shared_ptr<const ModelWeights> weights, const OracleOptions& options);

  // logits: [num_logits, vocabulary].
  void forward(const OracleTokens& input, std::span<float> logits);

  // Microseconds that a decoding step takes as a replayed CUDA graph, the mean of `replays`: `batch`
  // sequences with `context` tokens each in a cache of their own. The oracle must be on a GPU.
  double time_replay(int64_t batch, int64_t context, int64_t replays);

  std::string library() const { return api_->library(); }  // "LibTorch 1.13.1"
  const char* device() const {
    return name_of(device_ == SERVAL_ORACLE_CUDA ? OracleDevice::kCuda : OracleDevice::kCpu);
  }

 private:
  struct Destroy {
    const ServalOracleApi* api;
    void operator()(ServalOracle* oracle) const { api->destroy(oracle); }
  };

  const ServalOracleApi* api_;
  std::shared_ptr<const ModelWeights> weights_;  // the oracle may read them in place
  size_t vocab_;
  ServalOracleDevice device_;
  std::unique_ptr<ServalOracle, Destroy> oracle_;
};

}  // namespace serval

// The LibTorch reference model, loaded from libserval_torch.so on demand.
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

// Loads the plugin and returns its functions. Searches for it at the path in the variable or, if that is
// unset, next to the executable, in ../lib relative to it, and in the installation directory. It is never
// unloaded. Thread-safe. Throws Error(kRuntime) with one line that says how to get the plugin, or why it
// cannot be loaded.
const ServalOracleApi& load_torch_plugin();

enum class OracleDtype { kFp32, kBf16 };
enum class OracleDevice { kAuto, kCpu, kCuda };  // auto: the GPU if LibTorch finds one
template <>
struct EnumNames<OracleDevice> {
  static constexpr EnumName<OracleDevice> kTable[] = {
      {OracleDevice::kAuto, "auto"}, {OracleDevice::kCpu, "cpu"}, {OracleDevice::kCuda, "cuda"}};
};

struct OracleOptions {
  OracleDtype dtype = OracleDtype::kFp32;
  OracleDevice device = OracleDevice::kAuto;
  int64_t cache_cells = 0;  // tokens that fit into the KV cache, over all sequences
  uint32_t threads = 0;     // CPU threads; 0: LibTorch's choice
};

// Consecutive tokens of one sequence. cells[p] is the cache cell of position p, for all positions up to that
// of the last token, which is cells.size() - 1. See oracle_api.h.
struct OracleTokens {
  std::span<const int32_t> tokens;
  std::span<const int64_t> cells;
  size_t num_logits = 0;  // number of last tokens that want logits
};

// One model in one type on one device. Not thread-safe; movable. Throws the plugin's errors: Error(kRuntime)
// or Error(kOutOfMemory).
class Oracle {
 public:
  // kAuto is the CPU if LibTorch has no GPU support or finds no GPU.
  Oracle(const Model& model, std::shared_ptr<const ModelWeights> weights, const OracleOptions& options);

  // logits: [num_logits, vocabulary].
  void forward(const OracleTokens& input, std::span<float> logits);

  // Mean time in microseconds, over `replays` replays of a CUDA graph, of a decoding step of `batch`
  // sequences with `context` tokens each in a separate cache. The oracle must be on a GPU.
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

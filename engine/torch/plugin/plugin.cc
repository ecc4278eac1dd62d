// The exports of libserval_torch.so: oracle_api.h implemented by EagerLlama, with exceptions converted to a
// status.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <cstring>
#include <new>
#include <stdexcept>
#include <torch/version.h>

#include "engine/torch/oracle_api.h"
#include "engine/torch/plugin/eager_llama.h"
#include "engine/torch/plugin/graph_replay.h"

struct ServalOracle {
  serval::torch_plugin::EagerLlama model;
  ServalOracleConfig config;
};

namespace serval::torch_plugin {
namespace {

thread_local std::string last_error_line;

ServalOracleStatus fail(ServalOracleStatus status, const char* message) {
  // LibTorch appends its call stack in further lines.
  last_error_line.assign(message, std::strcspn(message, "\n"));
  return status;
}

// PyTorch's exception for GPU memory does not have the same name in all releases.
ServalOracleStatus status_of(const c10::Error& error) {
  const bool out_of_memory = std::strstr(error.what_without_backtrace(), "out of memory") != nullptr ||
                             std::strstr(error.what_without_backtrace(), "can't allocate memory") != nullptr;
  return out_of_memory ? SERVAL_ORACLE_OUT_OF_MEMORY : SERVAL_ORACLE_FAILED;
}

template <class Body>
ServalOracleStatus guarded(Body&& body) {
  try {
    const c10::InferenceMode no_gradients;
    body();
    return SERVAL_ORACLE_OK;
  } catch (const c10::Error& error) {
    return fail(status_of(error), error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return fail(SERVAL_ORACLE_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return fail(SERVAL_ORACLE_FAILED, error.what());
  } catch (...) {
    return fail(SERVAL_ORACLE_FAILED, "unknown exception");
  }
}

const char* library() {
  return "LibTorch " TORCH_VERSION;
}

int32_t cuda_available() {
  return at::hasCUDA() ? 1 : 0;
}

const char* last_error() {
  return last_error_line.c_str();
}

ServalOracleStatus create(const ServalOracleConfig* config, const ServalOracleWeight* weights,
                          size_t num_weights, ServalOracle** oracle) {
  return guarded([&] {
    if (config->device == SERVAL_ORACLE_CUDA && !at::hasCUDA()) {
      throw std::invalid_argument(std::string(library()) + " finds no GPU");
    }
    if (config->threads > 0) at::set_num_threads(config->threads);
    // A reference in fp32 must not use the tensor cores' 10-bit mantissa.
    at::globalContext().setAllowTF32CuBLAS(false);
    WeightTable table;
    for (size_t i = 0; i < num_weights; ++i) table.emplace(weights[i].name, weights[i]);
    *oracle = new ServalOracle{EagerLlama(*config, table), *config};
  });
}

void check(const ServalOracleConfig& config, const ServalOracleTokens& input) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
  };
  require(input.count > 0, "tokens: none given");
  require(input.first_position >= 0 && input.first_position <= config.cache_cells - input.count,
          "tokens: more positions than cells of the cache");
  require(input.num_logits >= 0 && input.num_logits <= input.count, "num_logits: more than the tokens");
  for (int64_t i = 0; i < input.count; ++i) {
    require(input.tokens[i] >= 0 && input.tokens[i] < config.vocab_size,
            "tokens: an id is outside the vocabulary");
  }
  for (int64_t p = 0; p < input.first_position + input.count; ++p) {
    require(input.cells[p] >= 0 && input.cells[p] < config.cache_cells, "cells: a cell is outside the cache");
  }
}

ServalOracleStatus forward(ServalOracle* oracle, const ServalOracleTokens* input, float* logits) {
  return guarded([&] {
    check(oracle->config, *input);
    const at::Tensor result = oracle->model.forward(*input).contiguous();
    std::memcpy(logits, result.data_ptr<float>(), static_cast<size_t>(result.numel()) * sizeof(float));
  });
}

ServalOracleStatus replay_step(ServalOracle* oracle, const ServalOracleReplay* replay, double* microseconds) {
  return guarded([&] {
    if (oracle->config.device != SERVAL_ORACLE_CUDA) throw std::invalid_argument("replay: needs a GPU");
    if (replay->batch < 1 || replay->context < 0 || replay->replays < 1)
      throw std::invalid_argument("replay: batch, context or replays out of range");
    *microseconds = time_replay(oracle->model, *replay);
  });
}

void destroy(ServalOracle* oracle) {
  delete oracle;
}

}  // namespace
}  // namespace serval::torch_plugin

extern "C" __attribute__((visibility("default"))) const ServalOracleApi* serval_oracle_api() {
  namespace plugin = serval::torch_plugin;
  static constexpr ServalOracleApi kApi = {SERVAL_ORACLE_ABI_VERSION, plugin::library, plugin::cuda_available,
                                           plugin::last_error,        plugin::create,  plugin::forward,
                                           plugin::replay_step,       plugin::destroy};
  return &kApi;
}

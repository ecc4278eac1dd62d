// Generates sequences on a GPU from one token each, with each logit vector reduced to a hash.
#pragma once

#include <bit>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "engine/backend/device_backend.h"
#include "tests/llama/configs.h"

namespace serval::testing {

// The model and the amount of text.
struct Walked {
  LlamaConfig config;
  std::function<std::unique_ptr<const WeightSource>(const LlamaConfig&)> weights;
  uint32_t sequences;
  uint32_t tokens;  // of each sequence
};

inline Walked bundled_model(uint32_t sequences, uint32_t tokens) {
  const std::filesystem::path path = std::filesystem::path(SERVAL_SOURCE_DIR) / "assets" / "serval-stories";
  return {load_config(path), [=](const LlamaConfig& config) { return open_checkpoint_weights(path, config); },
          sequences, tokens};
}

// FNV-1a over 32-bit words.
inline uint64_t hash_of(std::span<const float> logits) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const float logit : logits) hash = (hash ^ std::bit_cast<uint32_t>(logit)) * 0x100000001b3;
  return hash;
}

class LogitWalk {
 public:
  // The options' context must have room for the tokens. Each slot has its own blocks of the KV cache.
  LogitWalk(const Walked& walked, const BackendOptions& options)
      : walked_(walked),
        backend_(make_device_backend(walked.config, *walked.weights(walked.config), options)) {
    std::iota(backend_->state().block_table.begin(), backend_->state().block_table.end(), 0);
  }

  // Puts a sequence's first token into this row and slot.
  void begin(uint32_t row, uint32_t sequence) {
    constexpr float kTemperature = 0.9F;
    StateBlock& state = backend_->state();
    state.rows[row] = {
        .active = 1,
        .wants_logits = 1,
        .slot = row,
        .token = static_cast<int32_t>(sequence * 61 % static_cast<uint32_t>(walked_.config.vocab_size)),
        .position = 0};
    state.slots[row] = {.seed = 7,
                        .sequence = sequence,
                        .temperature = kTemperature,
                        .end_position = state.limits.max_context};
  }
  void end(uint32_t row) { backend_->state().rows[row] = {}; }
  // Runs one pass: each active row draws its next token.
  void run() { backend_->run({.passes = 1}, {}); }
  int32_t token(uint32_t row) { return backend_->state().output[0][row].token; }
  uint64_t hash(uint32_t row) { return hash_of(backend_->logits(static_cast<int>(row))); }

  // Hashes for every token of every sequence, `at_once` sequences at a time.
  std::vector<uint64_t> hashes(uint32_t at_once) {
    std::vector<uint64_t> out(size_t{walked_.sequences} * walked_.tokens);
    for (uint32_t first = 0; first < walked_.sequences; first += at_once) {
      for (uint32_t r = 0; r < at_once; ++r) begin(r, first + r);
      for (uint32_t token = 0; token < walked_.tokens; ++token) {
        run();
        for (uint32_t r = 0; r < at_once; ++r) out[size_t{first + r} * walked_.tokens + token] = hash(r);
      }
    }
    return out;
  }

  const Program& program() const { return backend_->program(); }

 private:
  const Walked walked_;
  const std::unique_ptr<Backend> backend_;
};

}  // namespace serval::testing

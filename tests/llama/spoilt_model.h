// A model with one weight that is NaN or infinite, and its effect on the sequences that it decodes.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "engine/backend/backend.h"
#include "models/checkpoint/weight_source.h"
#include "tests/llama/tiny_model.h"
#include "vm/base/bf16.h"
#include "vm/layout/kv_cache.h"

namespace serval::testing {

inline constexpr float kNotFiniteValues[] = {std::numeric_limits<float>::quiet_NaN(),
                                             std::numeric_limits<float>::infinity(),
                                             -std::numeric_limits<float>::infinity()};

// Random weights, except that element `index` of one tensor is `value`.
class SpoiltWeights final : public WeightSource {
 public:
  SpoiltWeights(const Model& model, const std::string& tensor, int64_t index, float value)
      : WeightSource(model),
        random_(make_random_weights(model, 3)),
        tensor_(index_of(tensor)),
        index_(index),
        value_(float_to_bf16(value)) {}

  std::string name() const override { return "spoilt"; }
  void read(size_t tensor, int64_t first, std::span<uint16_t> out) const override {
    random_->read(tensor, first, out);
    const int64_t at = index_ - first;
    if (tensor == tensor_ && at >= 0 && at < static_cast<int64_t>(out.size()))
      out[static_cast<size_t>(at)] = value_;
  }

 private:
  std::shared_ptr<const WeightSource> random_;
  size_t tensor_;
  int64_t index_;
  uint16_t value_;
};

// Decodes sequences that begin with one token each, together and greedily. Returns the output of each up to
// its end.
inline std::vector<std::vector<OutputToken>> decode_together(Backend& backend,
                                                             const std::vector<int32_t>& first_tokens,
                                                             uint32_t passes) {
  StateBlock& state = backend.state();
  std::iota(backend.state().block_table.begin(), backend.state().block_table.end(), 0);
  for (uint32_t s = 0; s < first_tokens.size(); ++s) {
    state.slots[s] = {};
    state.slots[s].end_position = passes;
    state.rows[s] = {.active = 1, .wants_logits = 1, .slot = s, .token = first_tokens[s], .position = 0};
  }
  std::vector<std::vector<OutputToken>> found(first_tokens.size());
  backend.run({.passes = passes}, [&](uint32_t pass) {
    for (size_t s = 0; s < found.size(); ++s) {
      if (state.output[pass][s].valid != 0) found[s].push_back(state.output[pass][s]);
    }
  });
  return found;
}

inline std::vector<int32_t> tokens_of(const std::vector<OutputToken>& sequence) {
  std::vector<int32_t> tokens;
  for (const OutputToken& output : sequence) tokens.push_back(output.token);
  return tokens;
}

// `make` makes a backend for tiny_untied_config() with the given weights.
template <class Make>
void expect_only_the_spoilt_sequence_to_end(const Make& make) {
  constexpr uint32_t kPasses = 6;
  const LlamaConfig config = tiny_untied_config();
  const SpoiltWeights healthy(config, "model.embed_tokens.weight", 0, 0.5F);
  const auto alone = decode_together(*make(healthy), {1, 2, 3}, kPasses);
  std::set<int32_t> met = {1, 2, 3};
  for (const auto& sequence : alone) {
    for (const int32_t token : tokens_of(sequence)) met.insert(token);
  }
  int32_t spoilt = 1;
  while (met.contains(spoilt)) ++spoilt;
  for (const float value : kNotFiniteValues) {
    SCOPED_TRACE(value);
    // In the embedding's row of a token with which one sequence begins and that no other contains.
    const SpoiltWeights weights(config, "model.embed_tokens.weight", spoilt * config.hidden_size + 5, value);
    const auto found = decode_together(*make(weights), {1, spoilt, 2, 3}, kPasses);
    ASSERT_EQ(found[1].size(), 1U);
    EXPECT_EQ(found[1][0].finish, FinishReason::kNotFinite);
    EXPECT_EQ(found[1][0].position, 1U);
    for (const size_t s : {0, 1, 2}) {
      const auto& neighbour = found[s == 0 ? 0 : s + 1];
      EXPECT_EQ(tokens_of(neighbour), tokens_of(alone[s]));
      EXPECT_EQ(neighbour.back().finish, FinishReason::kLength);
    }
  }
}

// A single value affects one logit of every row.
template <class Make>
void expect_one_spoilt_logit_to_end_all(const Make& make) {
  const LlamaConfig config = tiny_untied_config();
  for (const float value : kNotFiniteValues) {
    for (const int64_t token : {0, 13, config.vocab_size - 1}) {
      SCOPED_TRACE(std::to_string(value) + " in the LM head's row of token " + std::to_string(token));
      const SpoiltWeights weights(config, "lm_head.weight", token * config.hidden_size + 7, value);
      for (const auto& sequence : decode_together(*make(weights), {1, 2, 3}, 4)) {
        ASSERT_EQ(sequence.size(), 1U);
        EXPECT_EQ(sequence[0].finish, FinishReason::kNotFinite);
      }
    }
  }
}

}  // namespace serval::testing

// Drives a backend like the engine, without any layer in between: prompts in chunks, then decoding, keeping
// all logits.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <vector>

#include "engine/backend/host_backend.h"

namespace serval::testing {

struct Sequence {
  std::vector<int32_t> prompt;
  uint32_t num_tokens = 1;
  float temperature = 0;
  float repetition_penalty = 1;
  uint32_t id = 0;  // for the random numbers
};

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> log_probabilities;
  std::vector<std::vector<float>> logits;  // from which each token was drawn; only for launches of one pass
  friend bool operator==(const Answer&, const Answer&) = default;
};
// Printed by GoogleTest: tokens and the first logits.
void PrintTo(const Answer& answer, std::ostream* out);

struct Feeding {
  uint32_t chunk = 16;  // prompt tokens in a pass
  uint32_t passes = 1;  // of a decoding launch
  uint32_t first_slot = 0;
};

inline BackendOptions host_options(uint32_t context, uint32_t sms, uint32_t threads = 1) {
  BackendOptions options;
  options.limits.context = context;
  options.sms = sms;
  options.threads = threads;
  return options;
}

class Decoder {
 public:
  explicit Decoder(std::unique_ptr<Backend> backend);
  Decoder(const Model& model, std::shared_ptr<const ModelWeights> weights, const BackendOptions& options);

  // Puts the KV blocks in another order; 0: ascending.
  void shuffle_blocks(uint32_t seed);
  // Reads the prompts one by one, then decodes the sequences together, in consecutive slots.
  std::vector<Answer> answer(const std::vector<Sequence>& sequences, const Feeding& feeding = {});
  // Like answer() for sequences with equal numbers of tokens, one pass per launch: writes and prepares the
  // state of each launch, except the tokens, while the previous launch runs. If a launch still read that
  // state, the answers would change.
  std::vector<Answer> answer_ahead(const std::vector<Sequence>& sequences);
  // The logits after each of the given tokens.
  std::vector<std::vector<float>> force(std::span<const int32_t> tokens);
  const Program& program() const { return backend_->program(); }

 private:
  void keep_history(const Sequence& sequence, uint32_t slot, const Answer& answer);
  void feed_prompt(const Sequence& sequence, uint32_t slot, uint32_t chunk, Answer& answer);
  void begin(const Sequence& sequence, uint32_t slot);
  std::vector<Answer> read_prompts(const std::vector<Sequence>& sequences, const Feeding& feeding);
  void collect(uint32_t pass, bool logits_too, std::vector<Answer>& answers);
  std::vector<float> logits(int row);

  std::unique_ptr<Backend> backend_;
};

}  // namespace serval::testing

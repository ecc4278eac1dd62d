// Drives a backend as the engine does, but with nothing in between: prompts in chunks, then decoding, every
// logit kept.
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
  uint32_t id = 0;  // of the random numbers
};

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> log_probabilities;
  std::vector<std::vector<float>> logits;  // that each token was drawn from; only of launches of one pass
  friend bool operator==(const Answer&, const Answer&) = default;
};
// What GoogleTest prints: tokens, and the first logits that one would compare.
void PrintTo(const Answer& answer, std::ostream* out);

struct Feeding {
  uint32_t chunk = 16;  // prompt tokens a pass
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

  // KV blocks in another order; 0: ascending.
  void shuffle_blocks(uint32_t seed);
  // Decodes the sequences together, in neighbouring slots, after their prompts one by one.
  std::vector<Answer> answer(const std::vector<Sequence>& sequences, const Feeding& feeding = {});
  // The same for sequences of as many tokens each, a pass a launch: the state of each launch is written and
  // prepared while the one before runs, but for the tokens. Whatever a launch still read of it would show.
  std::vector<Answer> answer_ahead(const std::vector<Sequence>& sequences);
  // The logits after each of the tokens, which are given.
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

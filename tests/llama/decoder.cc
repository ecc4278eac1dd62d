#include "tests/llama/decoder.h"

#include <algorithm>
#include <iomanip>
#include <numeric>
#include <ostream>
#include <random>

namespace serval::testing {

void PrintTo(const Answer& answer, std::ostream* out) {
  for (size_t i = 0; i < answer.tokens.size(); ++i) {
    *out << std::setprecision(9) << "\n  " << answer.tokens[i] << " (" << answer.log_probabilities[i] << ")";
    if (i < answer.logits.size())
      *out << " logits " << answer.logits[i].at(0) << ", " << answer.logits[i].at(1) << " ...";
  }
}

Decoder::Decoder(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {
  shuffle_blocks(0);
}

Decoder::Decoder(const Model& model, std::shared_ptr<const ModelWeights> weights,
                 const BackendOptions& options)
    : Decoder(make_host_backend(model, std::move(weights), options)) {}

void Decoder::shuffle_blocks(uint32_t seed) {
  const std::span<int32_t> table = backend_->state().block_table;
  std::iota(table.begin(), table.end(), 0);
  if (seed != 0) std::shuffle(table.begin(), table.end(), std::mt19937(seed));
}

std::vector<float> Decoder::logits(int row) {
  const std::span<const float> all = backend_->logits(row);
  return {all.begin(), all.end()};
}

void Decoder::begin(const Sequence& sequence, uint32_t slot) {
  const auto length = static_cast<uint32_t>(sequence.prompt.size());
  SequenceSlot& s = backend_->state().slots[slot];
  s = {};
  s.seed = 11;
  s.sequence = sequence.id;
  s.temperature = sequence.temperature;
  s.repetition_penalty = sequence.repetition_penalty;
  s.end_position = length + sequence.num_tokens - 1;
  s.history_length = length;
  s.extras = extras_of(s);
  std::ranges::copy(sequence.prompt, backend_->state().history_of(slot).begin());
}

// A backend may run on a copy of the history; this keeps the host's up to date.
void Decoder::keep_history(const Sequence& sequence, uint32_t slot, const Answer& answer) {
  std::ranges::copy(answer.tokens,
                    backend_->state().history_of(slot).subspan(sequence.prompt.size()).begin());
}

void Decoder::feed_prompt(const Sequence& sequence, uint32_t slot, uint32_t chunk, Answer& answer) {
  StateBlock& state = backend_->state();
  const auto length = static_cast<uint32_t>(sequence.prompt.size());
  for (uint32_t at = 0; at < length; at += chunk) {
    const uint32_t rows = std::min(chunk, length - at);
    std::fill(std::begin(state.rows), std::end(state.rows), PassRow{});
    // The row that wants logits comes first: the chunk's last token.
    for (uint32_t r = 0; r < rows; ++r) {
      const uint32_t position = at + (r + rows - 1) % rows;
      state.rows[r] = {.active = 1,
                       .wants_logits = position + 1 == length ? 1U : 0U,
                       .slot = slot,
                       .token = sequence.prompt[position],
                       .position = position};
    }
    backend_->run({.passes = 1, .reads_prompts = true}, {});
    if (at + rows < length) continue;
    const OutputToken& first = state.output[0][0];
    answer.tokens.push_back(first.token);
    answer.log_probabilities.push_back(first.log_probability);
    answer.logits.push_back(logits(0));
    keep_history(sequence, slot, answer);
  }
}

// Reads the prompts, and writes the rows that follow.
std::vector<Answer> Decoder::read_prompts(const std::vector<Sequence>& sequences, const Feeding& feeding) {
  StateBlock& state = backend_->state();
  std::vector<Answer> answers(sequences.size());
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    begin(sequences[i], feeding.first_slot + i);
    feed_prompt(sequences[i], feeding.first_slot + i, feeding.chunk, answers[i]);
  }
  std::fill(std::begin(state.rows), std::end(state.rows), PassRow{});
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    state.rows[i] = {.active = sequences[i].num_tokens > 1 ? 1U : 0U,
                     .wants_logits = 1,
                     .slot = feeding.first_slot + i,
                     .token = answers[i].tokens.back(),
                     .position = static_cast<uint32_t>(sequences[i].prompt.size())};
  }
  return answers;
}

void Decoder::collect(uint32_t pass, bool logits_too, std::vector<Answer>& answers) {
  for (uint32_t i = 0; i < answers.size(); ++i) {
    const OutputToken& out = backend_->state().output[pass][i];
    if (out.valid == 0) continue;
    answers[i].tokens.push_back(out.token);
    answers[i].log_probabilities.push_back(out.log_probability);
    if (logits_too) answers[i].logits.push_back(logits(static_cast<int>(i)));
  }
}

std::vector<Answer> Decoder::answer(const std::vector<Sequence>& sequences, const Feeding& feeding) {
  StateBlock& state = backend_->state();
  std::vector<Answer> answers = read_prompts(sequences, feeding);
  const auto active = [](const PassRow& row) { return row.active != 0; };
  while (std::any_of(std::begin(state.rows), std::end(state.rows), active)) {
    backend_->run({.passes = feeding.passes},
                  [&](uint32_t pass) { collect(pass, feeding.passes == 1, answers); });
    for (uint32_t i = 0; i < sequences.size(); ++i)
      keep_history(sequences[i], feeding.first_slot + i, answers[i]);
  }
  return answers;
}

std::vector<Answer> Decoder::answer_ahead(const std::vector<Sequence>& sequences) {
  StateBlock& state = backend_->state();
  std::vector<Answer> answers = read_prompts(sequences, {});
  const size_t last = sequences.front().num_tokens - 1;
  for (size_t launch = 1; launch <= last; ++launch) {
    const auto write_next = [&] {
      if (launch == last) {
        std::ranges::fill(state.rows, PassRow{});
        std::ranges::fill(state.slots, SequenceSlot{});
        std::ranges::fill(state.history_of(0), -1);
        std::ranges::fill(state.block_table, -1);
        return;
      }
      for (uint32_t i = 0; i < sequences.size(); ++i) {
        ++state.rows[i].position;
        ++state.slots[i].history_length;
        state.rows[i].token = 0;
      }
      backend_->prepare({.passes = 1});
    };
    backend_->run(
        {.passes = 1, .is_prepared = launch > 1}, [&](uint32_t pass) { collect(pass, true, answers); },
        write_next);
    for (uint32_t i = 0; i < sequences.size(); ++i) {
      state.rows[i].token = answers[i].tokens.back();
      keep_history(sequences[i], i, answers[i]);
    }
  }
  shuffle_blocks(0);
  return answers;
}

std::vector<std::vector<float>> Decoder::force(std::span<const int32_t> tokens) {
  StateBlock& state = backend_->state();
  begin({.prompt = {tokens.begin(), tokens.end()}}, 0);
  std::vector<std::vector<float>> out;
  const size_t most = logit_rows(state.limits);
  for (size_t at = 0; at < tokens.size(); at += most) {
    const size_t rows = std::min(most, tokens.size() - at);
    std::fill(std::begin(state.rows), std::end(state.rows), PassRow{});
    for (size_t r = 0; r < rows; ++r) {
      state.rows[r] = {.active = 1,
                       .wants_logits = 1,
                       .slot = 0,
                       .token = tokens[at + r],
                       .position = static_cast<uint32_t>(at + r)};
    }
    backend_->run({.passes = 1}, {});
    for (size_t r = 0; r < rows; ++r) out.push_back(logits(static_cast<int>(r)));
  }
  return out;
}

}  // namespace serval::testing

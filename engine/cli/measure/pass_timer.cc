#include "engine/cli/measure/pass_timer.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "models/checkpoint/random_weights.h"

namespace serval::cli {

PassTimer::PassTimer(Backend& backend, uint32_t launch_passes)
    : backend_(backend),
      launch_passes_(std::min(launch_passes, serval::launch_passes(backend.limits().rows))) {
  backend_.fill_cache();
  const std::span<int32_t> blocks = backend_.state().block_table;
  // Each sequence gets its own blocks, as far as the cache has enough.
  std::iota(blocks.begin(), blocks.end(), 0);
  for (int32_t& block : blocks) block %= static_cast<int32_t>(backend_.limits().kv_blocks);
}

PassTimes PassTimer::run(const DepthTest& test) {
  PassTimes times;
  write_slots(static_cast<uint32_t>(test.batch));
  test.prompt ? run_prompt(test, times) : run_generation(test, times);
  return times;
}

// Greedy sampling, no end before the context is full.
void PassTimer::write_slots(uint32_t count) {
  StateBlock& state = backend_.state();
  for (uint32_t s = 0; s < count; ++s) {
    state.slots[s] = {};
    state.slots[s].sequence = s;
    state.slots[s].end_position = backend_.program().limits.max_context;
  }
}

int32_t PassTimer::next_token() {
  constexpr uint64_t kKey = random_tensor_key("tokens", 0);
  return static_cast<int32_t>(random_word(kKey, tokens_made_++) % backend_.program().limits.vocab);
}

// In chunks and one sequence after the other, as the engine reads prompts.
void PassTimer::run_prompt(const DepthTest& test, PassTimes& times) {
  StateBlock& state = backend_.state();
  const int rows_of_pass = static_cast<int>(state.rows.size());
  for (uint32_t slot = 0; slot < static_cast<uint32_t>(test.batch); ++slot) {
    for (int first = 0; first < test.tokens; first += rows_of_pass) {
      const int rows = std::min(rows_of_pass, test.tokens - first);
      std::fill(std::begin(state.rows), std::end(state.rows), PassRow{});
      const bool ends = first + rows == test.tokens;
      for (int r = 0; r < rows; ++r) {
        // Rows that want logits come first.
        const int token = ends ? (r + rows - 1) % rows : r;
        state.rows[static_cast<size_t>(r)] = {.active = 1,
                                              .wants_logits = ends && r == 0 ? 1U : 0U,
                                              .slot = slot,
                                              .token = next_token(),
                                              .position = static_cast<uint32_t>(test.depth + first + token)};
      }
      launch({.passes = 1, .reads_prompts = true}, times);
    }
  }
}

void PassTimer::run_generation(const DepthTest& test, PassTimes& times) {
  StateBlock& state = backend_.state();
  std::fill(std::begin(state.rows), std::end(state.rows), PassRow{});
  for (uint32_t s = 0; s < static_cast<uint32_t>(test.batch); ++s) {
    state.rows[s] = {.active = 1,
                     .wants_logits = 1,
                     .slot = s,
                     .token = next_token(),
                     .position = static_cast<uint32_t>(test.depth)};
  }
  // Each launch leaves the rows ready for the next one.
  for (auto left = static_cast<uint32_t>(test.tokens); left > 0; left -= std::min(left, launch_passes_)) {
    launch({.passes = std::min(left, launch_passes_)}, times);
  }
}

void PassTimer::launch(const Launch& launch, PassTimes& times) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  backend_.run(launch, {});
  const std::chrono::duration<double, std::micro> total = Clock::now() - begin;
  times.passes += launch.passes;
  times.total_us += total.count();
  const std::optional<double> kernel = backend_.kernel_us();
  if (kernel) times.kernel_us = times.kernel_us.value_or(0) + *kernel;
}

}  // namespace serval::cli

#include "tests/engine/fake_backend.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "gtest/gtest.h"

#include "engine/backend/device_fault.h"
#include "engine/backend/state_copy.h"
#include "instructions/advance/rule.h"
#include "vm/base/error.h"
#include "vm/layout/kv_cache.h"
#include "vm/state/masks.h"

namespace serval::testing {
namespace {

constexpr int32_t kNonsense = -12345;
constexpr uint64_t kOffsetBasis = 0xcbf29ce484222325;
constexpr uint64_t kPrime = 0x100000001b3;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * kPrime;
  return hash ^ (hash >> 29);
}

uint64_t hash_of(const SequenceSlot& slot, std::span<const int32_t> tokens) {
  uint64_t hash = kOffsetBasis;
  if (slot.temperature > 0) hash = mix(mix(hash, slot.seed), slot.sequence);
  for (const int32_t token : tokens) hash = mix(hash, static_cast<uint64_t>(token));
  return hash;
}

bool any_active(const StateBlock& state) {
  return std::any_of(std::begin(state.rows), std::end(state.rows),
                     [](const PassRow& r) { return r.active != 0; });
}

Program program_of(const FakeBackendOptions& options) {
  Program program;
  program.limits.vocab = options.vocab;
  program.limits.max_context = options.context;
  program.limits.kv_blocks = options.kv_blocks;
  program.limits.rows = options.rows;
  program.limits.sequences = options.sequences;
  program.limits.pooled_cols = options.pooled_cols;
  return program;
}

}  // namespace

ToyModel hashing_model(int32_t vocab_size, int32_t eos, uint32_t eos_period) {
  return [=](const SequenceSlot& slot, std::span<const int32_t> tokens) -> SampledToken {
    const uint64_t hash = hash_of(slot, tokens);
    const float log_probability = -static_cast<float>(hash % 1000) / 100;
    if (eos_period != 0 && (hash >> 16) % eos_period == 0) return {eos, log_probability};
    return {static_cast<int32_t>((hash >> 32) % static_cast<uint64_t>(vocab_size)), log_probability};
  };
}

float toy_log_probability(std::span<const int32_t> tokens, int32_t target) {
  return -static_cast<float>(mix(hash_of({}, tokens), static_cast<uint64_t>(target)) % 1000) / 100;
}

std::vector<float> toy_hidden_state(std::span<const int32_t> tokens, uint32_t cols) {
  std::vector<float> values(cols);
  for (uint32_t c = 0; c < cols; ++c)
    values[c] = static_cast<float>(mix(hash_of({}, tokens), c) % 1000) / 100 - 5;
  return values;
}

ToyModel scripted_model(size_t prompt_length, std::vector<int32_t> script) {
  return [prompt_length, script = std::move(script)](const SequenceSlot&,
                                                     std::span<const int32_t> tokens) -> SampledToken {
    return {script[(tokens.size() - prompt_length) % script.size()], -1};
  };
}

FakeBackend::FakeBackend(ToyModel model, const FakeBackendOptions& options)
    : model_(std::move(model)),
      options_(options),
      program_(program_of(options)),
      state_(program_.limits),
      own_(program_.limits),
      kv_(size_t{options.kv_blocks} * kKvBlockTokens, -1) {
  // The engine must not rely on memory that it has not written.
  std::ranges::fill(state_.block_table, kNonsense);
  std::ranges::fill(state_.adjustments, std::byte{0xA5});
  std::ranges::fill(state_.masks, 0);
  forget_launch();
}

void FakeBackend::forget_launch() {
  for (SequenceSlot& slot : state_.slots) slot.history_length = 77;
  for (PassRow& row : state_.rows) row.token = kNonsense;
  state_.control = {.passes_done = 77, .passes_wanted = 77, .last_pass = 77, .stopped_by_host = 77};
}

// The state must be as at prepare(), except for what may change afterwards.
void FakeBackend::check_prepared(const Launch& launch) const {
  ASSERT_TRUE(prepared_);
  EXPECT_LE(launch.passes, prepared_->launch.passes);
  EXPECT_EQ(launch.reads_prompts, prepared_->launch.reads_prompts);
  EXPECT_TRUE(std::ranges::equal(state_.rows, prepared_->rows, [](PassRow now, PassRow then) {
    now.token = then.token;
    return std::memcmp(&now, &then, sizeof now) == 0;
  }));
  const auto bytes = std::as_bytes(state_.slots), then = std::as_bytes(std::span(prepared_->slots));
  EXPECT_TRUE(std::ranges::equal(bytes, then));
  EXPECT_TRUE(std::ranges::equal(state_.block_table, prepared_->block_table));
}

void FakeBackend::prepare(const Launch& launch) {
  prepared_ = {launch,
               {state_.rows.begin(), state_.rows.end()},
               {state_.slots.begin(), state_.slots.end()},
               {state_.block_table.begin(), state_.block_table.end()}};
}

void FakeBackend::run(const Launch& launch, const std::function<void(uint32_t)>& on_pass,
                      const std::function<void()>& on_begun) {
  ASSERT_GE(launch.passes, 1u);
  ASSERT_LE(launch.passes, launch_passes(options_.rows));
  ASSERT_TRUE(launch.passes == 1 || !launch.reads_prompts) << "later passes may need another program";
  if (launches_++ == fail_before_launch_) throw Error(ErrorKind::kDeviceFault, "fake: it does not begin");
  if (launch.is_prepared) {
    ++launches_prepared_;
    check_prepared(launch);
  }
  prepared_.reset();
  copy_launch(state_, own_);
  ASSERT_TRUE(launch.passes == 1 || std::ranges::none_of(own_.rows, row_has_target));
  forget_launch();
  if (on_begun) on_begun();
  uint32_t after_stop = 0;
  for (uint32_t pass = 0; pass < launch.passes && any_active(own_); ++pass) {
    if (passes_run_ == fail_at_pass_)
      fault_on_error([this] { throw Error(fail_as_, "fake: SM 3 pc 17: no progress"); });
    if (before_pass_) before_pass_();
    run_pass(pass);
    if (on_pass) on_pass(pass);
    if (stop_ && after_stop++ == options_.stop_latency) break;
  }
  stop_ = false;
  if (after_launch_) after_launch_();
}

void FakeBackend::run_pass(uint32_t pass) {
  ++passes_run_;
  if (options_.check) check_rows();
  for (const PassRow& row : own_.rows) {
    if (row.active != 0) kv(row, row.position) = row.token;
  }
  for (size_t r = 0; r < own_.rows.size(); ++r) advance(pass, r);
}

int32_t& FakeBackend::kv(const PassRow& row, uint32_t position) {
  const int32_t block = own_.blocks_of(row.slot)[position / kKvBlockTokens];
  EXPECT_TRUE(block >= 0 && block < static_cast<int32_t>(options_.kv_blocks)) << "position " << position;
  return kv_.at(static_cast<size_t>(block) * kKvBlockTokens + position % kKvBlockTokens);
}

// Sequences may share blocks at the same index of their tables, as long as none of them writes there.
void FakeBackend::check_rows() {
  std::set<std::pair<uint32_t, uint32_t>> places;
  std::map<int32_t, std::set<uint32_t>> slots_of;  // by block
  std::map<int32_t, uint32_t> index_of;
  std::set<uint32_t> slots;
  for (const PassRow& row : own_.rows) {
    if (row.active == 0) continue;
    ASSERT_LT(row.slot, options_.sequences);
    EXPECT_LT(row.position, options_.context);
    EXPECT_TRUE(places.insert({row.slot, row.position}).second) << "two rows for one position";
    slots.insert(row.slot);
    for (uint32_t b = 0; b <= row.position / kKvBlockTokens; ++b) {
      const int32_t block = own_.blocks_of(row.slot)[b];
      slots_of[block].insert(row.slot);
      EXPECT_EQ(index_of.emplace(block, b).first->second, b) << "block " << block << " is in two places";
    }
  }
  most_sequences_ = std::max<size_t>(most_sequences_, slots.size());
  for (const PassRow& row : own_.rows) {
    if (row.active == 0) continue;
    const int32_t written = own_.blocks_of(row.slot)[row.position / kKvBlockTokens];
    EXPECT_EQ(slots_of[written].size(), 1u) << "block " << written << " is written and shared";
  }
}

std::vector<int32_t> FakeBackend::tokens_before(const PassRow& row) {
  std::vector<int32_t> tokens;
  for (uint32_t position = 0; position <= row.position; ++position) tokens.push_back(kv(row, position));
  return tokens;
}

void FakeBackend::check_history(const PassRow& row, std::span<const int32_t> tokens) const {
  const SequenceSlot& slot = own_.slots[row.slot];
  ASSERT_EQ(slot.history_length, tokens.size());
  if ((slot.extras & kKeepsHistory) == 0) return;
  const std::span<const int32_t> history = own_.history_of(row.slot).first(tokens.size());
  ASSERT_TRUE(std::ranges::equal(history, tokens));
}

// The first token from this one on that the row's mask allows. The mask must have been given; it is consumed.
int32_t FakeBackend::next_allowed(const PassRow& row, int32_t token) {
  const std::span<uint32_t> mask = state_.mask_of(row.slot);
  EXPECT_TRUE(state_.has_mask(row.slot, row.position + 1)) << "position " << row.position + 1;
  const auto vocab = static_cast<int32_t>(state_.limits.vocab);
  const bool is_released = state_.has_mask(row.slot, row.position + 2);
  for (int32_t i = 0; i < vocab && !mask_allows(mask, static_cast<uint32_t>(token)); ++i)
    token = (token + 1) % vocab;
  if (!is_released) {
    EXPECT_TRUE(mask_allows(mask, static_cast<uint32_t>(token)));
    std::ranges::fill(mask, 0);
    state_.publish_mask(row.slot, 0);
  }
  return token;
}

// What `pool` does with a row.
SampledToken FakeBackend::pool(const PassRow& row) {
  const std::vector<float> hidden = toy_hidden_state(tokens_before(row), options_.pooled_cols);
  const std::span<float> to = state_.pooled.subspan(size_t{row.slot} * hidden.size(), hidden.size());
  for (size_t c = 0; c < hidden.size(); ++c) to[c] = row.adds != 0 ? to[c] + hidden[c] : hidden[c];
  return {row.token, row.position >= spoilt_after_ ? std::numeric_limits<float>::quiet_NaN() : 0};
}

// What `sample` leaves for a row: a target, or what the model draws.
SampledToken FakeBackend::result_of(const PassRow& row) {
  if (options_.pooled_cols > 0) return pool(row);
  const std::vector<int32_t> tokens = tokens_before(row);
  if (row_has_target(row)) {
    if (row.position >= spoilt_after_) return {row.target, std::numeric_limits<float>::quiet_NaN()};
    return {row.target, toy_log_probability(tokens, row.target)};
  }
  if (options_.check) check_history(row, tokens);
  const SequenceSlot& slot = own_.slots[row.slot];
  SampledToken sampled = model_(slot, tokens);
  if ((slot.extras & kMasksTokens) != 0) sampled.token = next_allowed(row, sampled.token);
  return sampled;
}

void FakeBackend::advance(uint32_t pass, size_t r) {
  PassRow& row = own_.rows[r];
  OutputToken& output = state_.output[pass][r];
  output = {};
  if (row.active == 0) return;
  row.active = 0;
  if (row.wants_logits == 0) return;
  EXPECT_LT(r, logit_rows(own_.limits));
  const SampledToken sampled = result_of(row);
  SequenceSlot& slot = own_.slots[row.slot];
  for (uint32_t i = 0; i < slot.num_top; ++i)
    state_.top[r].token[i] = {sampled.token + static_cast<int32_t>(i), sampled.log_probability};
  const uint32_t position = row.position + 1;
  const FinishReason finish = finish_of(end_rule_of(slot), sampled, position);
  output = {1, 0, row.slot, sampled.token, sampled.log_probability, position, finish};
  if (row_has_target(row) || options_.pooled_cols > 0) return;
  const uint32_t at = slot.history_length++;
  if (keeps_token(slot.extras, at, options_.context)) own_.history_of(row.slot)[at] = sampled.token;
  row.token = sampled.token;
  row.position = position;
  row.active = finish == FinishReason::kNone;
}

}  // namespace serval::testing

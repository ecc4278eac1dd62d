#include "engine/core/draft_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "vm/layout/kv_cache.h"

namespace serval {
namespace {

// Tokens that the first pass of drafts reads before the sequence's last one: the last draft of a pass whose
// drafts were all right.
constexpr uint32_t kReadWhileDrafting = 1;

}  // namespace

DraftModel::DraftModel(Backend& backend, const DraftModelOptions& options)
    : backend_(backend),
      options_(options),
      least_log_probability_(options.p_min > 0 ? std::log(options.p_min)
                                               : -std::numeric_limits<float>::infinity()),
      pool_(backend.limits().kv_blocks, options.hash_seed),
      domains_(pool_.num_blocks()),
      slots_(backend.limits().sequences) {}

// The slot, with what is known now about its KV cache.
DraftModel::Slot& DraftModel::slot_of(const Sequence& sequence) {
  Slot& slot = slots_[sequence.slot()];
  if (!slot.chain) {
    slot = {.chain = std::make_unique<KvChain>(pool_, domains_.of(sequence.cache_salt()))};
    if (sequence.reuses_prefix()) slot.computed = slot.chain->reuse(sequence.tokens(), readable(sequence));
  }
  settle(slot, sequence);
  if (sequence.reuses_prefix()) slot.chain->publish(sequence.tokens(), slot.computed);
  return slot;
}

// After the launch that had its drafts, before any other: of these, which are in the cache, the target has
// accepted all but one of the tokens that the sequence has got.
void DraftModel::settle(Slot& slot, const Sequence& sequence) {
  if (slot.passes == 0) return;
  slot.computed = std::min(slot.length - 1 + slot.passes, sequence.length() - 1);
  slot.passes = 0;
}

void DraftModel::leave(const Sequence& sequence) {
  Slot& slot = slots_[sequence.slot()];
  if (!slot.chain) return;
  if (sequence.reuses_prefix() && !sequence.failed()) {
    slot_of(sequence);
    slot.chain->leave(sequence.tokens(), slot.computed);
  }
  slot = {};
}

// Tokens before the sequence's last one that the model's context holds.
uint32_t DraftModel::readable(const Sequence& sequence) const {
  return std::min(sequence.length() - 1, backend_.limits().max_context);
}

// The target's parameters. A sequence that ends at `end` draws no token at a later position.
void DraftModel::write_slot(const Sequence& sequence, uint32_t length, uint32_t end) {
  StateBlock& state = backend_.state();
  SequenceSlot& slot = state.slots[sequence.slot()];
  slot = sequence.slot_state();
  slot.history_length = length;
  slot.end_position = end;
  std::ranges::transform(sequence.logit_bias(), state.biases_of(sequence.slot()).begin(),
                         [](const LogitBias& b) {
                           return TokenBias{b.token, b.bias};
                         });
}

void DraftModel::write_blocks(const Sequence& sequence) {
  KvChain& chain = *slots_[sequence.slot()].chain;
  const uint32_t first = chain.take_first_changed();
  std::ranges::copy(chain.blocks().subspan(first),
                    backend_.state().blocks_of(sequence.slot()).begin() + first);
}

void DraftModel::write_row(const Sequence& sequence, uint32_t position, bool draws) {
  backend_.state().rows[rows_++] = {.active = 1,
                                    .wants_logits = draws ? 1U : 0U,
                                    .slot = sequence.slot(),
                                    .token = sequence.tokens()[position],
                                    .position = position};
}

void DraftModel::finish_rows() {
  for (uint32_t r = rows_; r < rows_written_; ++r) backend_.state().rows[r] = PassRow{};
  rows_written_ = std::exchange(rows_, 0);
}

void DraftModel::run(const Launch& launch, const std::function<void(uint32_t)>& on_pass) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    backend_.run(launch, on_pass);
  } catch (const Error& error) {
    throw Error(error.kind(), std::string("draft model: ") + error.what());
  }
  ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

// Rows for the sequence's tokens up to `end`, as many as there is room for. The slot then counts as read.
void DraftModel::take_rows(const Sequence& sequence, uint32_t end) {
  Slot& slot = slots_[sequence.slot()];
  end = std::min(end, slot.computed + backend_.limits().rows - rows_);
  write_slot(sequence, end, end);
  write_blocks(sequence);
  while (slot.computed < end) write_row(sequence, slot.computed++, /*draws=*/false);
}

void DraftModel::tell(Sequence& sequence, bool has_blocks) const {
  const uint32_t context = backend_.limits().max_context;
  if (!has_blocks || sequence.length() > context) return sequence.drafts().set_possible(0, false);
  const bool is_read = readable(sequence) <= slots_[sequence.slot()].computed + kReadWhileDrafting;
  sequence.drafts().set_possible(is_read ? context - sequence.length() + 1 : 0, !is_read);
}

void DraftModel::read(std::span<const std::unique_ptr<Sequence>> running) {
  for (const auto& sequence : running) {
    settle(slots_[sequence->slot()], *sequence);
    if (sequence->finished() || !sequence->drafts().wants_some()) continue;
    Slot& slot = slot_of(*sequence);
    const uint32_t end = readable(*sequence);
    const bool has_blocks = slot.chain->grow_to(blocks_for_tokens(end));
    const bool is_behind = slot.computed + kReadWhileDrafting < end;
    if (has_blocks && is_behind && rows_ < backend_.limits().rows) take_rows(*sequence, end);
    tell(*sequence, has_blocks);
  }
  if (rows_ == 0) return;
  finish_rows();
  run({.passes = 1, .reads_prompts = rows_written_ > backend_.draft_rows()}, {});
}

std::vector<DraftModel::Job> DraftModel::jobs_of(const PlannedLaunch& launch) {
  std::vector<Job> jobs;
  uint32_t rows = 0;
  for (const LaunchShare& share : launch.shares) {
    if (share.drafts == 0) continue;
    const Sequence& sequence = *share.sequence;
    const uint32_t length = sequence.length(), end = sequence.view().end;
    const uint32_t most = std::min({share.drafts, end - std::min(end, length), sequence.drafts().next()});
    if (most == 0 || most < options_.least) continue;
    Slot& slot = slot_of(sequence);
    if (rows + length - slot.computed > backend_.draft_rows()) continue;
    if (!slot.chain->grow_to(blocks_for_tokens(length - 1 + most))) continue;
    rows += length - slot.computed;
    jobs.push_back({.share = &share, .most = most});
  }
  return jobs;
}

// Rows that draw come first.
void DraftModel::write_jobs(const std::vector<Job>& jobs) {
  for (const Job& job : jobs) {
    const Sequence& sequence = *job.share->sequence;
    write_slot(sequence, sequence.length(), sequence.length() + job.most - 1);
    write_blocks(sequence);
    write_row(sequence, sequence.length() - 1, /*draws=*/true);
  }
  for (const Job& job : jobs) {
    const Sequence& sequence = *job.share->sequence;
    for (uint32_t p = slots_[sequence.slot()].computed; p + 1 < sequence.length(); ++p)
      write_row(sequence, p, /*draws=*/false);
  }
  finish_rows();
}

// `output` is of a pass: job number i draws in row i.
void DraftModel::add_drafts(std::vector<Job>& jobs, std::span<const OutputToken> output) {
  for (size_t i = 0; i < jobs.size(); ++i) {
    const OutputToken& token = output[i];
    Job& job = jobs[i];
    if (token.valid == 0) continue;
    ++job.passes;
    const bool is_probable = token.log_probability >= least_log_probability_;  // not if it is NaN
    // The target draws a stop token by itself, and nothing follows it.
    job.ended = job.ended || !is_probable || token.finish == FinishReason::kStopToken;
    if (!job.ended) job.drafts.push_back(token.token);
    job.ended = job.ended || token.finish != FinishReason::kNone;
  }
}

// A backend may end a launch after one pass of several.
void DraftModel::run_jobs(std::vector<Job>& jobs) {
  const auto all_ended = [&] { return std::ranges::all_of(jobs, &Job::ended); };
  const uint32_t passes = std::ranges::max_element(jobs, {}, &Job::most)->most;
  for (uint32_t done = 0; done < passes && !all_ended();) {
    const uint32_t before = done;
    run({.passes = passes - done}, [&](uint32_t pass) {
      ++done;
      add_drafts(jobs, backend_.state().output[pass]);
      if (done < passes && all_ended()) backend_.request_stop();
    });
    if (done == before)
      throw Error(ErrorKind::kDeviceFault, "draft model: a launch ended before its first pass");
  }
}

void DraftModel::draft(PlannedLaunch& launch, StateBlock& target) {
  std::vector<Job> jobs = jobs_of(launch);
  if (jobs.empty()) return;
  write_jobs(jobs);
  run_jobs(jobs);
  for (const Job& job : jobs) {
    const Sequence& sequence = *job.share->sequence;
    Slot& slot = slots_[sequence.slot()];
    slot.length = sequence.length();
    slot.passes = job.passes;
    if (job.drafts.size() < options_.least) continue;
    const uint32_t first = *job.share->logit_row + 1;
    for (uint32_t i = 0; i < job.drafts.size(); ++i) {
      target.rows[first + i] = {.active = 1,
                                .wants_logits = 1,
                                .slot = sequence.slot(),
                                .token = job.drafts[i],
                                .position = sequence.length() + i};
    }
    launch.rows += static_cast<uint32_t>(job.drafts.size());
  }
}

}  // namespace serval

#include "engine/runtime/batch_decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"

#include "vm/layout/kv_cache.h"

namespace serval {

uint32_t sequences_together(const StateLimits& limits) {
  return std::min(limits.rows, limits.sequences);
}

BatchDecoder::BatchDecoder(const DecoderContext& context)
    : context_(context), cancels_(sequences_together(context.backend.limits())) {
  running_.reserve(max_sequences());
}

bool BatchDecoder::has_room_for(const PreparedRequest& request) const {
  return running_.size() < max_sequences() &&
         blocks_for_tokens(request.positions()) <= context_.kv.unreserved();
}

uint64_t BatchDecoder::add(PreparedRequest request, uint64_t epoch) {
  if (running_.size() == max_sequences()) {
    throw Error(ErrorKind::kOutOfMemory,
                fmt::format("batch: {0} sequences are running; limit: {0}", running_.size()));
  }
  const uint32_t blocks = blocks_for_tokens(request.positions());
  std::optional<KvLease> lease = context_.kv.reserve(blocks);
  if (!lease) {
    throw Error(
        ErrorKind::kOutOfMemory,
        fmt::format(
            "KV cache: {} blocks of {} tokens needed for {} prompt tokens and up to {} new ones; {} of "
            "{} are free",
            blocks, kKvBlockTokens, request.prompt.size(), request.max_tokens, context_.kv.unreserved(),
            context_.kv.num_blocks()));
  }
  const auto place =
      std::find_if(cancels_.begin(), cancels_.end(), [](const Cancel& c) { return c.running == 0; });
  const auto cancel_index = static_cast<size_t>(place - cancels_.begin());
  const uint64_t handle = last_handle_ + 1;
  running_.push_back(
      {Sequence(handle, std::move(request), context_.text.stream(), std::move(*lease), context_.load_ms),
       epoch, cancel_index});
  place->running = handle;
  return last_handle_ = handle;
}

void BatchDecoder::cancel(uint64_t handle) noexcept {
  for (Cancel& cancel : cancels_) {
    if (cancel.running == handle) cancel.requested = handle;
  }
}

bool BatchDecoder::cancel_wanted(const Running& running) const {
  return running.epoch != context_.cancel_epoch ||
         cancels_[running.cancel_index].requested == running.sequence.handle();
}

void BatchDecoder::cancel_where_wanted() {
  for (Running& running : running_) {
    if (cancel_wanted(running)) running.sequence.cancel();
  }
}

void BatchDecoder::retire_finished() {
  for (Running& running : running_) {
    if (!running.sequence.finished()) continue;
    cancels_[running.cancel_index].running = 0;
    finished_.emplace(running.sequence.handle(), running.sequence.take());
  }
  std::erase_if(running_, [&](const Running& r) { return finished_.contains(r.sequence.handle()); });
}

Response BatchDecoder::take(uint64_t handle) {
  const auto found = finished_.find(handle);
  if (found != finished_.end()) {
    Response response = std::move(found->second);
    finished_.erase(found);
    return response;
  }
  const bool runs = std::any_of(running_.begin(), running_.end(),
                                [&](const Running& r) { return r.sequence.handle() == handle; });
  throw Error(ErrorKind::kUsage,
              fmt::format("sequence {}: {}", handle, runs ? "still running" : "unknown handle"));
}

PassPlan BatchDecoder::plan() const {
  std::vector<SequenceProgress> progress;
  for (const Running& running : running_) progress.push_back(running.sequence.progress());
  return plan_pass(progress, context_.backend.limits().rows);
}

void BatchDecoder::launch(const LaunchOptions& options, const Sink& sink) {
  cancel_where_wanted();
  retire_finished();
  if (running_.empty()) return;
  const PassPlan pass_plan = plan();
  LaunchOptions chosen = options;
  chosen.passes = std::min(chosen.passes, launch_passes(context_.backend.limits().rows));
  if (!pass_plan.prompts_complete) chosen.passes = 1;
  write_state(pass_plan, chosen.passes);
  try {
    run_passes(pass_plan, chosen, sink);
  } catch (...) {
    retire_finished();
    throw;
  }
  retire_finished();
}

void BatchDecoder::write_state(const PassPlan& plan, uint32_t passes) {
  StateBlock& state = context_.backend.state();
  std::fill(std::begin(state.rows), std::end(state.rows), PassRow{});
  for (size_t r = 0; r < plan.rows.size(); ++r) {
    const PlannedRow& row = plan.rows[r];
    Sequence& sequence = running_[row.sequence].sequence;
    sequence.hold_blocks_to(row.position + passes - 1);
    state.rows[r] = {.active = 1,
                     .wants_logits = row.wants_logits,
                     .slot = row.sequence,
                     .token = sequence.token_at(row.position),
                     .position = row.position};
  }
  for (uint32_t s = 0; s < running_.size(); ++s) {
    const Sequence& sequence = running_[s].sequence;
    state.slots[s] = sequence.slot();
    std::ranges::copy(sequence.blocks(), state.blocks_of(s).begin());
  }
}

void BatchDecoder::run_passes(const PassPlan& plan, const LaunchOptions& options, const Sink& sink) {
  // The backend's threads are under way when it calls back, so an exception waits until they are done.
  std::exception_ptr failure;
  bool stopped = false;
  uint32_t passes_done = 0;
  context_.backend.run(options.passes, [&](uint32_t pass) {
    ++passes_done;
    if (failure) return;
    try {
      if (pass == 0) finish_prompts(plan);
      hand_out(plan, pass, sink);
      cancel_where_wanted();
      stopped = launch_is_stale(options);
    } catch (...) {
      failure = std::current_exception();
    }
    if (failure || stopped) context_.backend.request_stop();
  });
  if (failure) std::rethrow_exception(failure);
  cancel_where_wanted();
  const bool none_left =
      std::all_of(running_.begin(), running_.end(), [](const Running& r) { return r.sequence.finished(); });
  if (passes_done == 0 && !none_left) {
    throw Error(ErrorKind::kDeviceFault, context_.backend.name() + ": a launch ended before its first pass");
  }
}

void BatchDecoder::finish_prompts(const PassPlan& plan) {
  std::vector<uint32_t> prompt_rows(running_.size(), 0);
  for (const PlannedRow& row : plan.rows) {
    const SequenceProgress progress = running_[row.sequence].sequence.progress();
    if (row.position < progress.prompt_length) ++prompt_rows[row.sequence];
  }
  for (size_t s = 0; s < running_.size(); ++s) {
    if (prompt_rows[s] > 0) running_[s].sequence.prompt_computed(prompt_rows[s]);
  }
}

void BatchDecoder::hand_out(const PassPlan& plan, uint32_t pass, const Sink& sink) {
  const std::span<const OutputToken> outputs = context_.backend.state().output[pass];
  for (size_t r = 0; r < plan.rows.size(); ++r) {
    const OutputToken& output = outputs[r];
    if (output.valid == 0) continue;
    Sequence& sequence = running_[plan.rows[r].sequence].sequence;
    // Tokens of a launch after a stop string or a cancellation are dropped.
    if (sequence.finished()) continue;
    const std::optional<TokenEvent> event = sequence.accept(output);
    if (event && !sink(*event)) sequence.cancel();
  }
}

bool BatchDecoder::launch_is_stale(const LaunchOptions& options) const {
  return std::any_of(running_.begin(), running_.end(), [&](const Running& running) {
    const Sequence& sequence = running.sequence;
    return sequence.finished() && (options.stop_on_finish || sequence.ended_by_host());
  });
}

}  // namespace serval

// The part of the pass loop that runs during a launch.
#include <algorithm>
#include <utility>

#include "fmt/format.h"

#include "engine/core/pass_loop.h"

namespace serval {
namespace {

double milliseconds(TimePoint begin, TimePoint end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

}  // namespace

void PassLoop::launch() {
  some_finished_ = some_ended_by_host_ = false;
  passes_done_ = 0;
  ++stats_.launches;
  for (LaunchShare& share : current_.shares) share.sequence->set_share(&share);
  // The backend's threads are running when it calls back, so an exception is rethrown only after they are
  // done.
  std::exception_ptr failure;
  const auto guarded = [&](const auto& call) {
    if (failure) return;
    try {
      call();
    } catch (...) {
      failure = std::current_exception();
      backend_.request_stop();
      release_masks();
    }
  };
  const TimePoint begin = now_();
  if (launch_ended_) {
    ++stats_.gaps;
    stats_.gap_ms += milliseconds(*launch_ended_, begin);
  }
  try {
    if (stats_.launches == fault_at_launch_)
      throw Error(ErrorKind::kDeviceFault, fmt::format("launch {}: fault_at_launch", stats_.launches));
    backend_.run(
        {.passes = current_.passes,
         .reads_prompts = current_.reads_prompts,
         .is_prepared = current_.is_prepared},
        [&](uint32_t pass) { guarded([&] { after_pass(pass); }); },
        [&] { guarded([&] { while_running(); }); });
    if (passes_done_ == 0 && !failure)
      throw Error(ErrorKind::kDeviceFault, backend_.name() + ": a launch ended before its first pass");
  } catch (...) {
    if (!failure) failure = std::current_exception();
  }
  launch_ended_ = now_();
  stats_.pass_ms += milliseconds(begin, *launch_ended_);
  stats_.kernel_ms += backend_.kernel_us().value_or(0) * 1e-3;
  for (const LaunchShare& share : current_.shares) share.sequence->set_share(nullptr);
  if (failure) return give_up(failure);
  if (!put_off_) next_.reset();
}

// Still delivers the tokens of the launch before the one that failed.
void PassLoop::give_up(const std::exception_ptr& failure) {
  next_.reset();
  try {
    if (put_off_) hand_out_put_off();
  } catch (...) {
    put_off_.reset();
  }
  fail_running(failure);
}

void PassLoop::after_pass(uint32_t pass) {
  const TimePoint now = now_();
  ++passes_done_;
  ++stats_.passes;
  if (pass == 0) stats_.rows += current_.rows;
  const PassOutput output{pass, now, backend_.state().output[pass], backend_.state().top};
  if (next_ && pass + 1 == current_.passes && is_as_expected(output)) return put_off(output);
  if (pass + 1 < current_.passes) give_masks(current_, output);
  hand_out(current_, output);
  if (launch_is_stale(now)) backend_.request_stop();
}

// Masks come before all other work on a pass's tokens: the next pass is already running and its sampler waits
// for them. That pass waits even if it was asked to be the last.
void PassLoop::give_masks(const PlannedLaunch& launch, const PassOutput& output) {
  for (const LaunchShare& share : launch.shares) {
    if (!share.logit_row || !share.sequence->is_constrained()) continue;
    const OutputToken& drawn = output.tokens[*share.logit_row];
    if (drawn.finish == FinishReason::kNone) state_.give_mask(*share.sequence, drawn);
  }
}

// The launch in flight runs on to the end of its pass; its tokens are dropped.
void PassLoop::release_masks() {
  for (const LaunchShare& share : current_.shares) {
    if (share.logit_row && share.sequence->is_constrained()) state_.release_mask(*share.sequence);
  }
}

void PassLoop::hand_out(const PlannedLaunch& launch, const PassOutput& output) {
  if (output.pass == 0) hand_out_positions(launch, output.ended);
  hand_out_tokens(launch, output);
  flush_events();
}

void PassLoop::hand_out_positions(const PlannedLaunch& launch, TimePoint now) {
  for (const LaunchShare& share : launch.shares) {
    Sequence& sequence = *share.sequence;
    // The sequence ended, or its last token was dropped, while the launch ran.
    if (sequence.finished() || sequence.computed() + share.rows > sequence.length()) continue;
    if (auto last = sequence.positions_computed(share.rows, now)) post_end(sequence, std::move(*last));
  }
}

void PassLoop::hand_out_tokens(const PlannedLaunch& launch, const PassOutput& output) {
  for (const LaunchShare& share : launch.shares) {
    if (!share.logit_row) continue;
    Sequence& sequence = *share.sequence;
    // Tokens that a launch produces after a stop string or a cancellation are dropped.
    if (sequence.finished()) continue;
    if (output.pass > 0) ++stats_.rows;
    if (sequence.channel().cancel_wanted()) {
      signals_->cancelled =
          true;  // the sequence must not go on without this token, and the flag may not be set yet
      continue;
    }
    const OutputToken& token = output.tokens[*share.logit_row];
    if (token.valid == 0)
      throw Error(ErrorKind::kDeviceFault, backend_.name() + ": a pass has ended without its token");
    static constexpr TopTokens kNoTop;
    RequestEvent event =
        sequence.accept(token, output.top.empty() ? kNoTop : output.top[*share.logit_row], output.ended);
    if (event.kind != RequestEvent::Kind::kToken) {
      post_end(sequence, std::move(event));
      continue;
    }
    ++stats_.generated_tokens;
    post(sequence, std::move(event));
    if (sequence.finished()) post_end(sequence, sequence.last_event());
  }
}

bool PassLoop::launch_is_stale(TimePoint now) const {
  if (some_ended_by_host_ || is_to_sweep(now)) return true;
  const bool room = some_finished_ || has_room();
  return (room && signals_->arrived) || (some_finished_ && !waiting_.empty());
}

void PassLoop::post(Sequence& sequence, RequestEvent event) {
  Channel& channel = sequence.channel();
  channel.post(std::move(event));
  const std::shared_ptr<EventQueue>& queue = channel.queue();
  if (queue != nullptr && (to_flush_.empty() || to_flush_.back() != queue)) to_flush_.push_back(queue);
}

void PassLoop::post_end(Sequence& sequence, RequestEvent event) {
  ++stats_.finished;
  some_finished_ = true;
  some_ended_by_host_ |= sequence.ended_by_host();
  post(sequence, std::move(event));
}

void PassLoop::flush_events() {
  for (const auto& queue : to_flush_) queue->flush();
  to_flush_.clear();
}

}  // namespace serval

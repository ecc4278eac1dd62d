// A launch of the pass loop: what is done while the backend runs passes.
#include <algorithm>
#include <utility>

#include "engine/core/pass_loop.h"

namespace serval {
namespace {

double milliseconds(TimePoint begin, TimePoint end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

}  // namespace

void PassLoop::launch(const PassPlan& plan) {
  state_.write(plan, running_);
  some_finished_ = some_ended_by_host_ = false;
  passes_done_ = 0;
  ++stats_.launches;
  // The backend's threads are under way when it calls back, so an exception waits until they are done.
  std::exception_ptr failure;
  const TimePoint begin = now_();
  if (launch_ended_) {
    ++stats_.gaps;
    stats_.gap_ms += milliseconds(*launch_ended_, begin);
  }
  const auto on_pass = [&](uint32_t pass) {
    if (failure) return;
    try {
      after_pass(plan, pass);
    } catch (...) {
      failure = std::current_exception();
      backend_.request_stop();
    }
  };
  try {
    backend_.run({.passes = plan.passes, .reads_prompts = plan.reads_prompts}, on_pass);
    if (passes_done_ == 0 && !failure)
      throw Error(ErrorKind::kDeviceFault, backend_.name() + ": a launch ended before its first pass");
  } catch (...) {
    if (!failure) failure = std::current_exception();
  }
  launch_ended_ = now_();
  stats_.pass_ms += milliseconds(begin, *launch_ended_);
  stats_.kernel_ms += backend_.kernel_us().value_or(0) * 1e-3;
  if (failure) fail_running(failure);
}

void PassLoop::after_pass(const PassPlan& plan, uint32_t pass) {
  const TimePoint now = now_();
  ++passes_done_;
  ++stats_.passes;
  if (pass == 0) stats_.rows += plan.rows.size();
  if (pass == 0) hand_out_positions(plan, now);
  hand_out_tokens(plan, pass, now);
  flush_events();
  if (launch_is_stale(now)) backend_.request_stop();
}

// The rows of a sequence are neighbours.
void PassLoop::hand_out_positions(const PassPlan& plan, TimePoint now) {
  for (size_t r = 0; r < plan.rows.size();) {
    const uint32_t index = plan.rows[r].sequence;
    uint32_t rows = 0;
    for (; r < plan.rows.size() && plan.rows[r].sequence == index; ++r) ++rows;
    Sequence& sequence = *running_[index];
    if (auto last = sequence.positions_computed(rows, now)) post_end(sequence, std::move(*last));
  }
}

void PassLoop::hand_out_tokens(const PassPlan& plan, uint32_t pass, TimePoint now) {
  const std::span<const OutputToken> outputs = backend_.state().output[pass];
  for (size_t r = 0; r < plan.rows.size(); ++r) {
    if (!plan.rows[r].wants_logits) continue;
    Sequence& sequence = *running_[plan.rows[r].sequence];
    // Tokens of a launch after a stop string are dropped, and those after a cancellation.
    if (sequence.finished()) continue;
    if (pass > 0) ++stats_.rows;
    if (sequence.channel().cancel_wanted()) {
      signals_->cancelled = true;  // which may be about to be set: the sequence does not go on like this
      continue;
    }
    const uint32_t row = state_.row_of(r);
    const OutputToken& output = outputs[row];
    if (output.valid == 0)
      throw Error(ErrorKind::kDeviceFault, backend_.name() + ": a pass has ended without its token");
    RequestEvent event = sequence.accept(output, backend_.state().top[row], now);
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
  if (some_ended_by_host_ || signals_->cancelled) return true;
  if (next_deadline_ && *next_deadline_ <= now) return true;
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

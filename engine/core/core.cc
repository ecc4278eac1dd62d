#include "engine/core/core.h"

#include <utility>

#include "engine/text/shown_tokens.h"
#include "vm/base/signals_blocked.h"

namespace serval {
namespace {

// Waits for a task of the loop. A task that the loop has dropped was still waiting at shutdown().
void wait_for(std::future<void> done) {
  try {
    done.get();
  } catch (const std::future_error&) {
    throw Error(ErrorKind::kUsage, "engine: it has been shut down meanwhile");
  }
}

}  // namespace

Core::Core(Backend& backend, const TextCodec& text, double load_ms, const PassLoopOptions& options)
    : backend_(backend),
      text_(text),
      load_ms_(load_ms),
      now_(options.now),
      loop_(backend, signals_, options),
      stats_(loop_.stats()) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

std::unique_ptr<Sequence> Core::sequence_of(Submission submission, TimePoint now) const {
  const auto special = submission.request.skip_special_tokens ? SpecialTokens::kNot : SpecialTokens::kWritten;
  const auto make = [&](uint32_t answer) {
    auto text = text_.stream(special);
    if (special == SpecialTokens::kNot)
      text = with_shown_tokens(std::move(text), submission.request.shown_tokens);
    return std::make_unique<Sequence>(submission.request, answer, submission.channel, std::move(text),
                                      load_ms_, now);
  };
  std::unique_ptr<Sequence> leader = make(0);
  for (int answer = 1; answer < submission.request.answers; ++answer)
    leader->followers.push_back(make(static_cast<uint32_t>(answer)));
  return leader;
}

bool Core::put(const std::function<void()>& what) {
  bool was_idle = false;
  {
    const std::lock_guard lock(mutex_);
    if (ending_) throw Error(ErrorKind::kUsage, "engine: it has been shut down and takes no requests");
    what();
    was_idle = std::exchange(idle_, false);
    signals_->arrived = true;
  }
  if (was_idle) wake_.notify_one();
  return !was_idle;
}

void Core::submit(std::vector<Submission> submissions) {
  const TimePoint now = now_();
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (Submission& submission : submissions) sequences.push_back(sequence_of(std::move(submission), now));
  const bool at_work = put([&] {
    for (auto& sequence : sequences) inbox_.back().sequences.push_back(std::move(sequence));
  });
  if (at_work && has_room_) backend_.request_stop();
}

void Core::cancel_all() noexcept {
  ++signals_->cancel_epoch;
  signals_->cancelled = true;
  backend_.request_stop();
}

void Core::on_loop(const std::function<void()>& call) {
  signals_->refuse_loop_thread("write_trace");
  Task task(call);
  std::future<void> done = task.get_future();
  put([&] {
    inbox_.front().calls.push_back(std::move(task));
    signals_->cancelled = true;  // ends the launch in flight
  });
  wait_for(std::move(done));
}

void Core::between_requests(const std::function<void()>& call, bool cancel) {
  Task task([&] {
    loop_.clear_cache();
    call();
  });
  std::future<void> done = task.get_future();
  put([&] {
    inbox_.back().last_call = std::move(task);
    inbox_.emplace_back();
    if (!cancel) return;
    ++signals_->cancel_epoch;
    signals_->cancelled = true;
  });
  if (cancel) backend_.request_stop();
  wait_for(std::move(done));
}

void Core::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  cancel_all();
  wake_.notify_one();
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void Core::wait_until_idle() {
  std::unique_lock lock(mutex_);
  idle_changed_.wait(lock, [this] { return idle_; });
}

EngineStats Core::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

// Under the lock: what the loop may start now. The end of the engine drops last calls, and all sequences
// come.
Core::Stage Core::take_stage() {
  Stage taken;
  std::swap(taken.sequences, inbox_.front().sequences);
  std::swap(taken.calls, inbox_.front().calls);
  while (ending_ && inbox_.size() > 1) {
    inbox_.pop_front();
    for (auto& sequence : inbox_.front().sequences) taken.sequences.push_back(std::move(sequence));
    inbox_.front().sequences.clear();
  }
  if (taken.empty() && loop_.idle() && inbox_.front().last_call.valid()) {
    taken.last_call = std::move(inbox_.front().last_call);
    inbox_.pop_front();
  }
  return taken;
}

// Waits while there is nothing to do. Returns false when the thread has to end and the inbox is empty.
bool Core::take_inbox() {
  Stage taken;
  {
    std::unique_lock lock(mutex_);
    const auto is_empty = [this] { return inbox_.size() == 1 && inbox_.front().empty(); };
    stats_ = loop_.stats();
    if (loop_.idle() && is_empty()) {
      idle_ = true;
      idle_changed_.notify_all();
      wake_.wait(lock, [&] { return ending_ || !is_empty(); });
    }
    taken = take_stage();
    signals_->arrived = false;
    if (ending_ && taken.empty()) return false;
  }
  for (auto& sequence : taken.sequences) loop_.add(std::move(sequence));
  for (Task& call : taken.calls) call();
  if (taken.last_call.valid()) taken.last_call();
  return true;
}

void Core::run() {
  signals_->loop_thread = std::this_thread::get_id();
  while (take_inbox()) {
    loop_.step();
    has_room_ = loop_.has_room();
  }
  loop_.end_all(Finish::kCancelled);
  const std::lock_guard lock(mutex_);
  stats_ = loop_.stats();
  idle_ = true;
  idle_changed_.notify_all();
}

}  // namespace serval

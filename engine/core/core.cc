#include "engine/core/core.h"

#include <future>
#include <utility>

#include "engine/text/shown_tokens.h"
#include "vm/base/signals_blocked.h"

namespace serval {
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

bool Core::put(const std::function<void(Inbox&)>& what) {
  bool was_idle = false;
  {
    const std::lock_guard lock(mutex_);
    if (ending_) throw Error(ErrorKind::kUsage, "engine: it has been shut down and takes no requests");
    what(inbox_);
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
  const bool at_work = put([&](Inbox& inbox) {
    for (auto& sequence : sequences) inbox.sequences.push_back(std::move(sequence));
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
  std::promise<void> done;
  put([&](Inbox& inbox) {
    inbox.calls.push_back([&] {
      try {
        call();
        done.set_value();
      } catch (...) {
        done.set_exception(std::current_exception());
      }
    });
    signals_->cancelled = true;  // ends the launch in flight
  });
  done.get_future().get();
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

// Waits while there is nothing to do. Returns false when the thread has to end and the inbox is empty.
bool Core::take_inbox() {
  Inbox taken;
  {
    std::unique_lock lock(mutex_);
    stats_ = loop_.stats();
    if (loop_.idle() && inbox_.empty()) {
      idle_ = true;
      idle_changed_.notify_all();
      wake_.wait(lock, [this] { return ending_ || !inbox_.empty(); });
    }
    std::swap(taken, inbox_);
    signals_->arrived = false;
    if (ending_ && taken.empty()) return false;
  }
  for (auto& sequence : taken.sequences) loop_.add(std::move(sequence));
  for (const auto& call : taken.calls) call();
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

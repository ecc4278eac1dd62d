#include "engine/core/channel.h"

#include <utility>

#include "fmt/format.h"

namespace serval {

void CoreSignals::refuse_loop_thread(const char* call) const {
  if (loop_thread.load() != std::this_thread::get_id()) return;
  throw Error(
      ErrorKind::kUsage,
      fmt::format("engine: {} was called on the engine's own thread; it would wait for itself", call));
}

void EventQueue::push(Entry entry) {
  const std::lock_guard lock(mutex_);
  entries_.push_back(std::move(entry));
}

void EventQueue::flush() {
  {
    const std::lock_guard lock(mutex_);
    if (!reader_waits_) return;
  }
  not_empty_.notify_one();
}

std::optional<EventQueue::Entry> EventQueue::pop(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  reader_waits_ = true;
  const auto has_any = [this] { return !entries_.empty(); };
  if (deadline) {
    not_empty_.wait_until(lock, *deadline, has_any);
  } else {
    not_empty_.wait(lock, has_any);
  }
  reader_waits_ = false;
  if (entries_.empty()) return std::nullopt;
  Entry entry = std::move(entries_.front());
  entries_.pop_front();
  return entry;
}

bool EventQueue::empty() const {
  const std::lock_guard lock(mutex_);
  return entries_.empty();
}

Channel::Channel(std::shared_ptr<CoreSignals> signals, EventSink sink)
    : signals_(std::move(signals)), epoch_(signals_->cancel_epoch), sink_(std::move(sink)) {}

Channel::Channel(std::shared_ptr<CoreSignals> signals, std::shared_ptr<EventQueue> queue, uint64_t request)
    : signals_(std::move(signals)),
      epoch_(signals_->cancel_epoch),
      queue_(std::move(queue)),
      request_(request) {}

void Channel::cancel() noexcept {
  cancelled_ = true;
  signals_->cancelled = true;
}

bool Channel::cancel_wanted() const noexcept {
  return cancelled_ || signals_->cancel_epoch != epoch_;
}

void Channel::post(RequestEvent event) noexcept {
  if (queue_) return queue_->push({request_, std::move(event)});
  try {
    sink_(event);
  } catch (...) {
    cancel();
  }
}

std::shared_ptr<Channel> EventReader::make_channel() {
  return std::make_shared<Channel>(signals_, queue_, ++last_request_);
}

void EventReader::open(const std::shared_ptr<Channel>& channel, uint32_t answers) {
  open_.emplace(channel->request(), Open{channel, std::vector<bool>(answers), answers});
}

bool EventReader::drop(Open& open, EventQueue::Entry& entry) {
  if (!open.channel->cancel_wanted()) return false;
  RequestEvent& event = entry.event;
  if (event.kind == RequestEvent::Kind::kToken) {
    open.lost_tokens[event.answer] = true;
    return true;
  }
  if (event.kind == RequestEvent::Kind::kFinished && open.lost_tokens[event.answer])
    event.response.finish = Finish::kCancelled;
  return false;
}

std::optional<EventQueue::Entry> EventReader::next(const char* call, const EventQueue::Deadline& deadline) {
  signals_->refuse_loop_thread(call);
  while (!open_.empty()) {
    std::optional<EventQueue::Entry> entry = queue_->pop(deadline);
    if (!entry) return std::nullopt;
    const auto open = open_.find(entry->request);
    if (drop(open->second, *entry)) continue;
    if (entry->event.kind != RequestEvent::Kind::kToken && --open->second.answers_left == 0)
      open_.erase(open);
    return entry;
  }
  return std::nullopt;
}

void EventReader::cancel(uint64_t request) noexcept {
  const auto open = open_.find(request);
  if (open != open_.end()) open->second.channel->cancel();
}

void EventReader::cancel_all() noexcept {
  for (const auto& [request, open] : open_) open.channel->cancel();
}

}  // namespace serval

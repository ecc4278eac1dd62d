#include "engine/core/expiry.h"

namespace serval {

void Expiry::watch(const Sequence& sequence) {
  const std::optional<TimePoint>& deadline = sequence.deadline();
  if (deadline && (!next_deadline_ || *deadline < *next_deadline_)) next_deadline_ = deadline;
}

bool Expiry::is_due(TimePoint now) const {
  return signals_->cancelled || (next_deadline_ && *next_deadline_ <= now);
}

bool Expiry::begin_check(TimePoint now) {
  const bool cancelled = signals_->cancelled.exchange(false);
  if (!cancelled && (!next_deadline_ || now < *next_deadline_)) return false;
  next_deadline_.reset();
  return true;
}

std::optional<Finish> Expiry::check(Sequence& sequence, TimePoint now) {
  if (sequence.channel().cancel_wanted()) return Finish::kCancelled;
  if (sequence.deadline() && *sequence.deadline() <= now) return Finish::kDeadline;
  watch(sequence);
  return std::nullopt;
}

}  // namespace serval

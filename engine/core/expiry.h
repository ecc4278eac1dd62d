// Cancellations and deadlines: whether the host must end sequences early, and which.
#pragma once

#include <memory>
#include <optional>

#include "engine/core/channel.h"
#include "engine/core/sequence.h"

namespace serval {

// One thread at a time; CoreSignals are set by others.
class Expiry {
 public:
  explicit Expiry(std::shared_ptr<CoreSignals> signals) : signals_(std::move(signals)) {}

  // From now on the sequence's deadline counts.
  void watch(const Sequence& sequence);
  // False only if no sequence has to end yet.
  bool is_due(TimePoint now) const;
  // A sequence was found cancelled, perhaps before CoreSignals::cancelled was set.
  void report_cancelled() { signals_->cancelled = true; }
  // Begins a check of all sequences, and forgets what is watched. Returns false if no sequence has to end:
  // then nothing is forgotten. Otherwise call check() for every sequence.
  bool begin_check(TimePoint now);
  // Why the sequence must end; if it need not, it is watched.
  std::optional<Finish> check(Sequence& sequence, TimePoint now);

 private:
  const std::shared_ptr<CoreSignals> signals_;
  std::optional<TimePoint> next_deadline_;  // no watched sequence has an earlier one
};

}  // namespace serval

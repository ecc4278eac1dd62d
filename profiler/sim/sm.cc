#include "profiler/sim/sm.h"

#include <algorithm>

namespace serval::sim {
namespace {

// Units of which parts have arrived and that are not stored yet: as many of one record as have room, and
// those of the groups that follow it.
uint32_t units_at_once(const SimParameters& p) {
  return static_cast<uint32_t>(std::max(p.partial_buffers, p.consumer_warps) + p.record_buffers);
}

}  // namespace

Sm::Sm(Gpu& the_gpu, uint32_t sm)
    : gpu(the_gpu),
      index(sm),
      rank(sm / the_gpu.program.machine.sms),
      device(the_gpu.devices[rank]),
      records(static_cast<size_t>(gpu.parameters.record_buffers)),
      ring(gpu.kernel.ring_pages),
      units(units_at_once(gpu.parameters)),
      controller(*this),
      loader(*this),
      preparer(*this),
      consumers(*this),
      storers(*this) {}

void Sm::settle() {
  const auto take = [this](Wake role) {
    const auto bit = static_cast<uint8_t>(role);
    const bool woken = (woken_ & bit) != 0;
    woken_ &= static_cast<uint8_t>(~bit);
    return woken;
  };
  while (woken_ != 0) {
    if (take(Wake::kController)) controller.step();
    if (take(Wake::kLoader)) loader.step();
    if (take(Wake::kPreparer)) preparer.step();
    if (take(Wake::kConsumers)) consumers.step();
    if (take(Wake::kStorers)) storers.step();
  }
}

void Sm::dispatch(Step step, uint32_t which) {
  switch (step) {
    case Step::kFetched:
      return controller.fetched();
    case Step::kIssue:
      return loader.issue_again();
    case Step::kAnswered:
      return loader.answered();
    case Step::kLanded:
      return loader.landed();
    case Step::kNoticed:
      return preparer.noticed();
    case Step::kPrepared:
      return preparer.prepared();
    case Step::kScaled:
      return preparer.scaled();
    case Step::kMultiplied:
      return consumers.multiplied(which);
    case Step::kGroupRead:
      return consumers.group_read();
    case Step::kGroupDone:
      return consumers.group_done();
    case Step::kStored:
      return storers.stored(which);
    case Step::kNextTile:
      return storers.found_next(which);
    case Step::kSignalled:
      return storers.signalled(which);
  }
}

void Sm::answer(bool page) {
  if (page) {
    loader.answer();
  } else {
    consumers.group_read();
  }
}

uint64_t Sm::oldest_record() const {
  return std::min({loader.record, preparer.record, consumers.oldest_record(), storers.oldest_record()});
}

void note(Record& record, EventKind kind, double us) {
  record.execution.set(kind, ns_of(us));
}

}  // namespace serval::sim

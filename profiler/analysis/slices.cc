#include "profiler/analysis/slices.h"

#include <algorithm>

#include "profiler/analysis/role_order.h"

namespace serval {
namespace {

using Kind = EventKind;

// Writes the slices of one role of one SM, execution after execution.
class RoleSlices {
 public:
  RoleSlices(const Trace& trace, uint32_t sm, SmRole role, std::vector<Slice>& out)
      : trace_(trace), sm_(static_cast<uint16_t>(sm)), role_(role), out_(out) {
    if (!trace.windows.empty()) free_ns_ = trace.windows.front().begin_ns;
  }
  // `next`: the execution that the role took after it, or null.
  void add(uint32_t execution, const Execution* next);

 private:
  // A role of several warps may be at two instructions at once; the later one's slices begin where the
  // earlier one's end.
  void slice(int64_t begin_ns, int64_t end_ns, SliceState state, uint32_t counter = kNoCounter) {
    if (begin_ns == kNever || end_ns <= std::max(begin_ns, last_end_ns_)) return;
    out_.push_back({std::max(begin_ns, last_end_ns_), end_ns, execution_, counter, sm_, role_, state});
    last_end_ns_ = end_ns;
  }
  void loader(const Execution& x, const Execution* next);
  void preparer(const Execution& x);
  void consumer(const Execution& x);
  void before_compute(const Execution& x);

  const Trace& trace_;
  const uint16_t sm_;
  const SmRole role_;
  std::vector<Slice>& out_;
  uint32_t execution_ = 0;
  int64_t last_end_ns_ = 0;
  int64_t free_ns_ = 0;  // when the consumers finished the execution before
};

void RoleSlices::add(uint32_t execution, const Execution* next) {
  execution_ = execution;
  const Execution& x = trace_.executions[execution];
  switch (role_) {
    case SmRole::kController:
      slice(x.time(Kind::kFetchBegin), x.time(Kind::kFetched), SliceState::kFetch);
      break;
    case SmRole::kLoader:
      loader(x, next);
      break;
    case SmRole::kPreparer:
      preparer(x);
      break;
    case SmRole::kConsumer:
      consumer(x);
      break;
    case SmRole::kStorer:
      slice(x.time(Kind::kStoreBegin), x.time(Kind::kStored), SliceState::kStore);
      slice(x.time(Kind::kStored), x.time(Kind::kSignalled), SliceState::kSignal);
      break;
  }
}

// An instruction's last pages land while the loader issues the next one's pages: its slice ends there.
void RoleSlices::loader(const Execution& x, const Execution* next) {
  const int64_t begin = x.time(Kind::kLoadBegin);
  int64_t end = x.time(Kind::kLastLanded);
  if (next != nullptr) end = std::min(end, next->time(Kind::kLoadBegin));
  const int64_t room_end = std::min(begin + x.room_ns, end);
  slice(begin, room_end, SliceState::kRoom);
  slice(room_end, end, SliceState::kLoad);
}

// A wait that has not ended when the trace ends lasts until then.
void RoleSlices::preparer(const Execution& x) {
  const bool waits_to_end = !x.has(Kind::kInputsReady) && !trace_.windows.empty();
  const int64_t ready = waits_to_end ? trace_.windows.back().end_ns : x.time(Kind::kInputsReady);
  slice(x.time(Kind::kWaitBegin), ready, SliceState::kWait, x.last_counter);
  slice(x.time(Kind::kInputsReady), x.time(Kind::kPrepared), SliceState::kLoad);
}

void RoleSlices::consumer(const Execution& x) {
  before_compute(x);
  const int64_t begin = x.time(Kind::kComputeBegin), end = x.time(Kind::kComputeEnd);
  const int64_t starved_end = std::min(begin + x.starved_ns, end);
  slice(begin, starved_end, SliceState::kLoad);
  slice(starved_end, end, SliceState::kCompute);
  free_ns_ = std::max(free_ns_, end);
}

// The time until the first product, from when the consumers were free and had the record.
void RoleSlices::before_compute(const Execution& x) {
  const int64_t begin = x.time(Kind::kComputeBegin);
  const int64_t free = std::min(std::max(free_ns_, x.time(Kind::kFetched)), begin);
  const bool pages_came_last = x.time(Kind::kFirstLanded) > x.time(Kind::kInputsReady);
  const int64_t ready = pages_came_last ? free : std::clamp(x.time(Kind::kInputsReady), free, begin);
  slice(free, ready, SliceState::kWait, x.last_counter);
  slice(ready, begin, SliceState::kLoad);
}

}  // namespace

std::vector<Slice> slices_of(const Trace& trace) {
  std::array<std::vector<std::vector<uint32_t>>, kNumSmRoles> orders;
  for (uint32_t role = 0; role < kNumSmRoles; ++role)
    orders[role] = role_order(trace, static_cast<SmRole>(role));
  std::vector<Slice> out;
  for (uint32_t sm = 0; sm < trace.program.machine.sms; ++sm) {
    for (uint32_t role = 0; role < kNumSmRoles; ++role) {
      RoleSlices slices(trace, sm, static_cast<SmRole>(role), out);
      const std::vector<uint32_t>& order = orders[role][sm];
      for (size_t n = 0; n < order.size(); ++n)
        slices.add(order[n], n + 1 < order.size() ? &trace.executions[order[n + 1]] : nullptr);
    }
  }
  return out;
}

std::vector<StateTimes> state_times(const Trace& trace, std::span<const Slice> slices,
                                    const PassWindow& window) {
  std::vector<StateTimes> out(size_t{trace.program.machine.sms} * kNumSmRoles);
  for (const Slice& s : slices) {
    const int64_t begin = std::max(s.begin_ns, window.begin_ns), end = std::min(s.end_ns, window.end_ns);
    if (begin < end) out.at(index_of_role(s.sm, s.role))[static_cast<size_t>(s.state)] += end - begin;
  }
  for (StateTimes& times : out) {
    int64_t busy = 0;
    for (const int64_t t : times) busy += t;
    times[static_cast<size_t>(SliceState::kIdle)] = window.length_ns() - busy;
  }
  return out;
}

}  // namespace serval

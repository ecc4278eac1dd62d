#include "tests/prove/rewrite.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "instructions/isa.h"
#include "tests/prove/draft.h"

namespace serval::testing {
namespace {

class Rewriter {
 public:
  Rewriter(const Program& original, RandomOrder& random)
      : draft_(original), counters_(draft_.rest.counters), random_(random) {}
  bool apply(Rewrite rewrite);
  Program result() const { return draft_.assemble(); }

 private:
  uint32_t below(size_t limit) { return static_cast<uint32_t>(random_.below(limit)); }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }
  // Calls fn(uint32_t& counter) wherever a counter is named.
  template <class Fn>
  void for_counters(Fn&& fn);
  uint32_t all_of(uint32_t counter) const { return counters_[counter].increments_per_pass; }
  uint32_t add_counter() {
    counters_.push_back({});
    return static_cast<uint32_t>(counters_.size() - 1);
  }
  bool waited_as_a_whole(uint32_t counter);
  bool signals(const Step& step, uint32_t counter) const;
  template <class Over>
  std::vector<Step*> run(std::vector<Step*> left, Over&& over) const;
  std::vector<Step*> any_order();
  bool starts_only_after(uint32_t first, uint32_t second);

  bool rename_counters();
  bool reorder_queues();
  bool place_again();
  bool split_threshold();
  bool merge_joins();
  bool scale_increments();
  bool add_waits();
  bool shuffle_lists();

  Draft draft_;
  std::vector<Counter>& counters_;
  RandomOrder& random_;
};

template <class Fn>
void Rewriter::for_counters(Fn&& fn) {
  for (Step* step : draft_.steps()) {
    for (Wait& w : step->waits) fn(w.counter);
    for (Signal& s : step->signals) fn(s.counter);
  }
  fn(draft_.rest.gate_counter);
}

// Returns whether every wait is for all increments of this pass or of the previous one.
bool Rewriter::waited_as_a_whole(uint32_t counter) {
  const std::vector<Step*> steps = draft_.steps();
  return std::all_of(steps.begin(), steps.end(), [&](const Step* step) {
    return std::all_of(step->waits.begin(), step->waits.end(), [&](const Wait& w) {
      return w.counter != counter || w.threshold == 0 || w.threshold == all_of(counter);
    });
  });
}

bool Rewriter::signals(const Step& step, uint32_t counter) const {
  return std::any_of(step.signals.begin(), step.signals.end(),
                     [&](const Signal& s) { return s.counter == counter; });
}

// Runs all instructions that can run, in list order. over(wait, count of its counter) says whether a wait is
// over.
template <class Over>
std::vector<Step*> Rewriter::run(std::vector<Step*> left, Over&& over) const {
  std::vector<Step*> out;
  std::vector<uint32_t> count(counters_.size(), 0);
  for (;;) {
    const auto next = std::find_if(left.begin(), left.end(), [&](const Step* step) {
      return std::all_of(step->waits.begin(), step->waits.end(),
                         [&](const Wait& w) { return over(w, count[w.counter]); });
    });
    if (next == left.end()) return out;
    out.push_back(*next);
    for (const Signal& s : out.back()->signals) count[s.counter] += s.increment;
    left.erase(next);
  }
}

// All instructions in an order in which they could run, ignoring queues.
std::vector<Step*> Rewriter::any_order() {
  std::vector<Step*> steps = draft_.steps();
  shuffle(steps);
  return run(std::move(steps), [](const Wait& w, uint32_t count) { return count >= w.threshold; });
}

bool Rewriter::rename_counters() {
  std::vector<uint32_t> renamed(counters_.size());
  std::iota(renamed.begin(), renamed.end(), 0U);
  shuffle(renamed);
  const std::vector<Counter> before = counters_;
  for (uint32_t c = 0; c < before.size(); ++c) counters_[renamed[c]] = before[c];
  for_counters([&](uint32_t& counter) { counter = renamed[counter]; });
  return true;
}

bool Rewriter::reorder_queues() {
  std::vector<std::vector<Step>> queues(draft_.queues.size());
  const std::vector<Step*> order = any_order();
  for (uint32_t q = 0; q < queues.size(); ++q) {
    const Step* begin = draft_.queues[q].data();
    const Step* end = begin + draft_.queues[q].size();
    for (const Step* step : order) {
      if (step >= begin && step < end) queues[q].push_back(*step);
    }
  }
  draft_.queues = std::move(queues);
  return true;
}

bool Rewriter::place_again() {
  constexpr uint32_t kMostSms = 9;
  const auto has_home = [](const Step* step) {
    return op_info(step->record.opcode).home(step->record).has_value();
  };
  if (std::ranges::any_of(draft_.steps(), has_home)) return false;  // such a record belongs to its SM
  Program& rest = draft_.rest;
  rest.machine.sms = 1 + below(kMostSms);
  rest.queue_kind = below(4) == 0 ? QueueKind::kGlobal : QueueKind::kPerSm;
  std::vector<std::vector<Step>> queues(rest.queue_kind == QueueKind::kGlobal ? 1 : rest.machine.sms);
  for (const Step* step : any_order()) queues[below(queues.size())].push_back(*step);
  draft_.queues = std::move(queues);
  return true;
}

bool Rewriter::split_threshold() {
  const uint32_t old = below(counters_.size());
  if (old == draft_.rest.gate_counter || all_of(old) < 2 || !waited_as_a_whole(old)) return false;
  const uint32_t half = add_counter();
  for (Step* step : draft_.steps()) {
    for (Signal& s : step->signals) {
      if (s.counter == old && below(2) == 0) s.counter = half;
    }
    const size_t waits = step->waits.size();
    for (size_t w = 0; w < waits; ++w) {
      if (step->waits[w].counter != old) continue;
      step->waits.push_back(step->waits[w]);
      step->waits.back().counter = half;
    }
  }
  const uint32_t before = all_of(old);
  draft_.count_increments();
  for (Step* step : draft_.steps()) {
    for (Wait& w : step->waits) {
      if ((w.counter == old || w.counter == half) && w.threshold == before) w.threshold = all_of(w.counter);
    }
  }
  return true;
}

// Returns whether no instruction that signals `second` can run before `first` is complete.
bool Rewriter::starts_only_after(uint32_t first, uint32_t second) {
  const std::vector<Step*> early = run(draft_.steps(), [&](const Wait& w, uint32_t count) {
    return count >= w.threshold && (w.counter != first || w.threshold < all_of(first));
  });
  return std::none_of(early.begin(), early.end(), [&](const Step* step) { return signals(*step, second); });
}

bool Rewriter::merge_joins() {
  const uint32_t first = below(counters_.size()), second = below(counters_.size());
  if (first == second || all_of(first) == 0 || first == draft_.rest.gate_counter) return false;
  if (!starts_only_after(first, second)) return false;
  for (Step* step : draft_.steps()) {
    for (Wait& w : step->waits) {
      if (w.counter != second) continue;
      w.counter = first;
      if (w.threshold > 0) w.threshold += all_of(first);
    }
    for (Signal& s : step->signals) {
      if (s.counter == second) s.counter = first;
    }
  }
  if (draft_.rest.gate_counter == second) draft_.rest.gate_counter = first;
  draft_.count_increments();
  return true;
}

bool Rewriter::scale_increments() {
  constexpr uint32_t kMaxFactor = 4;
  const uint32_t counter = below(counters_.size());
  const uint32_t before = all_of(counter);
  const bool each = waited_as_a_whole(counter);  // then every signal may add any amount
  const uint32_t factor = 2 + below(kMaxFactor - 1);
  for (Step* step : draft_.steps()) {
    for (Signal& s : step->signals) {
      if (s.counter == counter) s.increment *= each ? 1 + below(kMaxFactor) : factor;
    }
  }
  draft_.count_increments();
  for (Step* step : draft_.steps()) {
    for (Wait& w : step->waits) {
      if (w.counter != counter) continue;
      w.threshold = w.threshold == before ? all_of(counter) : w.threshold * factor;
    }
  }
  return true;
}

bool Rewriter::add_waits() {
  std::vector<Step*> steps = draft_.steps();
  shuffle(steps);
  constexpr uint32_t kEveryOperand = (1U << kMaxTensorOperands) - 1;
  for (Step* step : steps) {
    if (step->waits.empty()) continue;
    step->waits.push_back(
        {below(counters_.size()), 0, kEveryOperand});  // always satisfied, because of the gate
    const Wait w = step->waits[below(step->waits.size())];
    for (const Step* producer : steps) {
      if (w.threshold != all_of(w.counter) || !signals(*producer, w.counter) || producer->waits.empty())
        continue;
      step->waits.push_back(producer->waits[below(producer->waits.size())]);
      return true;
    }
  }
  return true;
}

bool Rewriter::shuffle_lists() {
  for (Step* step : draft_.steps()) {
    shuffle(step->waits);
    shuffle(step->signals);
  }
  return true;
}

bool Rewriter::apply(Rewrite rewrite) {
  switch (rewrite) {
    case Rewrite::kCountersRenamed:
      return rename_counters();
    case Rewrite::kQueuesReordered:
      return reorder_queues();
    case Rewrite::kPlacedAgain:
      return place_again();
    case Rewrite::kThresholdSplit:
      return split_threshold();
    case Rewrite::kJoinsMerged:
      return merge_joins();
    case Rewrite::kIncrementsScaled:
      return scale_increments();
    case Rewrite::kWaitsAdded:
      return add_waits();
    case Rewrite::kListsShuffled:
      return shuffle_lists();
  }
  return false;
}

}  // namespace

const char* name_of(Rewrite rewrite) {
  static constexpr const char* kNames[kNumRewrites] = {
      "counters renamed",
      "independent instructions permuted",
      "another placement or kind of queue",
      "threshold split over two counters",
      "two joins merged in one counter",
      "increments of more than one",
      "waits added that were implied",
      "waits and signals shuffled",
  };
  return kNames[static_cast<int>(rewrite)];
}

std::optional<Program> rewrite(const Program& original, Rewrite rewrite, RandomOrder& random) {
  Rewriter rewriter(original, random);
  if (!rewriter.apply(rewrite)) return std::nullopt;
  return rewriter.result();
}

}  // namespace serval::testing

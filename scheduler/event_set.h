// Sets of events of the form "counter c has reached threshold t". A counter reaches its thresholds in
// ascending order, so a set that has an event has all lower ones of its counter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/bitset.h"

namespace serval {

// How a set stores an event. Most counters have few thresholds: each is a bit. A counter with many has one
// number, the highest level reached.
struct EventMark {
  uint32_t index;
  uint32_t level;  // 0: `index` is a bit
};

class EventSet {
 public:
  bool test(EventMark event) const {
    if (event.level == 0) return bits_.test(event.index);
    return event.index < levels_.size() && levels_[event.index] >= event.level;
  }
  // The counter's lower events must be set already.
  void set(EventMark event) {
    if (event.level == 0) {
      bits_.set(event.index);
      return;
    }
    if (event.index >= levels_.size()) levels_.resize(event.index + 1, 0);
    levels_[event.index] = std::max(levels_[event.index], event.level);
  }
  void merge(const EventSet& other) {
    bits_.merge(other.bits_);
    if (other.levels_.size() > levels_.size()) levels_.resize(other.levels_.size(), 0);
    for (size_t i = 0; i < other.levels_.size(); ++i) levels_[i] = std::max(levels_[i], other.levels_[i]);
  }
  size_t bytes() const { return bits_.bytes() + levels_.size() * sizeof(uint32_t); }

  friend bool operator==(const EventSet&, const EventSet&) = default;

 private:
  Bitset bits_;
  std::vector<uint32_t> levels_;
};

}  // namespace serval

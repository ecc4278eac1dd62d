// How many drafts a sequence gets in the next launch, from what became of its drafts so far. A pass with
// draft rows takes longer than one without, so a sequence first tries drafts for a few passes. If they are
// not right often enough, it gets none for some launches, and then tries again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace serval {

class DraftControl {
 public:
  // `most` drafts in a pass; 0: never any.
  explicit DraftControl(uint32_t most = 0) : most_(most) {}

  uint32_t next() const { return launches_off_ > 0 ? 0 : most_; }
  // Limit of passes of a launch with these drafts.
  uint32_t passes() const { return tries_ ? kPassesOfTry : std::numeric_limits<uint32_t>::max(); }
  // A pass of the launch in flight is done. `right`: number of drafts that were right.
  void count_pass(uint32_t right) {
    ++passes_;
    right_ += right;
  }
  // A launch has ended. `drafts`: its limit of drafts in a pass.
  void end_launch(uint32_t drafts) {
    if (drafts == 0) {
      launches_off_ -= launches_off_ > 0 ? 1 : 0;
      return;
    }
    if (passes_ < kPassesOfTry) return;  // it has ended early
    tries_ = right_ * kPassesOfRight < passes_;
    break_ = tries_ ? std::min(2 * break_ + 1, kLongestBreak) : 0;
    launches_off_ = break_;
    passes_ = right_ = 0;
  }

 private:
  static constexpr uint32_t kPassesOfTry = 8;
  static constexpr uint32_t kPassesOfRight = 8;  // in as many, at least one draft must be right
  static constexpr uint32_t kLongestBreak = 3;   // launches

  uint32_t most_;
  bool tries_ = true;
  uint32_t break_ = 0;         // launches of the last break
  uint32_t launches_off_ = 0;  // left of it
  uint32_t passes_ = 0;        // with drafts, since they were last judged
  uint32_t right_ = 0;         // drafts in these
};

}  // namespace serval

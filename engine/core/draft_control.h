// How many drafts a sequence gets in the next launch, from what became of its drafts so far. A pass with
// draft rows takes a little longer than one without, so a sequence whose drafts are never right gets none for
// some launches, and then tries again.
#pragma once

#include <algorithm>
#include <cstdint>

namespace serval {

class DraftControl {
 public:
  // `most` drafts in a pass; 0: never any.
  explicit DraftControl(uint32_t most = 0) : most_(most) {}

  uint32_t next() const { return launches_off_ > 0 ? 0 : most_; }
  // A pass of the launch in flight is done. `right`: number of drafts that were right.
  void count_pass(uint32_t right) {
    ++passes_;
    right_ += right;
  }
  // A launch has ended. `drafts`: its limit of drafts in a pass.
  void end_launch(uint32_t drafts) {
    constexpr uint32_t kLongestBreak = 15;  // launches
    constexpr uint32_t kLeastGain = 16;     // one right draft in so many passes
    constexpr uint32_t kPassesToJudge = 8;
    if (drafts == 0) {
      launches_off_ -= launches_off_ > 0 ? 1 : 0;
    } else if (right_ * kLeastGain >= passes_) {
      break_ = 0;
    } else if (passes_ >= kPassesToJudge) {
      break_ = std::min(2 * break_ + 1, kLongestBreak);
      launches_off_ = break_;
    }
    if (drafts == 0 || passes_ >= kPassesToJudge) passes_ = right_ = 0;
  }

 private:
  uint32_t most_;
  uint32_t break_ = 0;               // launches of the last break
  uint32_t launches_off_ = 0;        // left of it
  uint32_t passes_ = 0, right_ = 0;  // with drafts, since they were last judged
};

}  // namespace serval

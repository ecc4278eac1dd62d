// How many drafts a sequence gets in the next launch, from what became of its drafts so far. A pass with
// draft rows takes longer than one without, so a sequence first tries drafts for a few passes. If they are
// not right often enough, it gets none for some launches, and then tries again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace serval {

// Limits of a sequence's drafts in a pass.
struct DraftLimits {
  uint32_t most = 0;  // 0: never any
  uint32_t least = 1;
  // A model makes them (engine/core/draft_model.h), with a pass of its own for each: so their number follows
  // how many were right, and each pass that has drafts is a launch.
  bool by_model = false;
};

class DraftControl {
 public:
  explicit DraftControl(const DraftLimits& limits = {})
      : limits_(limits), number_(limits.most), possible_(limits.by_model ? 0 : limits.most) {}

  uint32_t next() const { return wants_some() ? std::min(number_, possible_) : 0; }
  // Whether it gets drafts in the next launch if they are possible.
  bool wants_some() const { return limits_.most > 0 && off_ == 0; }
  // Limit of passes of a launch with these drafts.
  uint32_t passes() const { return tries_ ? kPassesOfTry : std::numeric_limits<uint32_t>::max(); }

  // What the draft model can do in the next launch: `possible` drafts at most. `reads`: it still reads the
  // sequence's tokens, so the next launch should be short.
  void set_possible(uint32_t possible, bool reads) {
    possible_ = possible;
    model_reads_ = reads;
  }
  bool model_reads() const { return limits_.by_model && wants_some() && model_reads_; }

  // A pass of the launch in flight is done. `right` of `drafts` drafts were right.
  void count_pass(uint32_t drafts, uint32_t right) {
    ++passes_;
    right_ += right;
    if (!limits_.by_model || drafts == 0) return;
    const uint32_t next = right == drafts ? number_ + 2 : (number_ + right + 1) / 2;
    number_ = std::clamp(next, limits_.least, limits_.most);
  }
  // A launch of `passes` passes has ended. `drafts`: its limit of drafts in a pass.
  void end_launch(uint32_t drafts, uint32_t passes) {
    if (drafts == 0) {
      off_ -= std::min(off_, limits_.by_model ? passes : 1);
      return;
    }
    if (passes_ < kPassesOfTry) return;  // it has ended early
    tries_ = right_ * kPassesOfRight < passes_;
    break_ = tries_ ? std::min(2 * break_ + 1, kLongestBreak) : 0;
    off_ = limits_.by_model ? break_ * kPassesOfBreak : break_;
    passes_ = right_ = 0;
  }

 private:
  static constexpr uint32_t kPassesOfTry = 8;
  static constexpr uint32_t kPassesOfRight = 8;   // in as many, at least one draft must be right
  static constexpr uint32_t kLongestBreak = 3;    // launches
  static constexpr uint32_t kPassesOfBreak = 64;  // as many as a long launch has

  DraftLimits limits_;
  uint32_t number_;          // of drafts in the next pass, if they are possible
  uint32_t possible_;        // in the next launch
  bool model_reads_ = true;  // until the model says otherwise
  bool tries_ = true;
  uint32_t break_ = 0;  // launches of the last break
  // What is left of the break: launches, or passes if a model makes the drafts: then others' drafts make
  // launches short.
  uint32_t off_ = 0;
  uint32_t passes_ = 0;  // with drafts, since they were last judged
  uint32_t right_ = 0;   // drafts in these
};

}  // namespace serval

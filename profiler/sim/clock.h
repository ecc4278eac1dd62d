// The queue of events: which role of which SM continues at which time.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

namespace serval::sim {

enum class Step : uint8_t {
  kFetched,     // controller: a record has been fetched
  kIssue,       // loader: checks again if it can ask for a page
  kAnswered,    // loader: the oldest page has been received
  kLanded,      // consumers: see the oldest page that has been received
  kNoticed,     // preparers: the waits are over
  kPrepared,    // preparers: activations are in place
  kScaled,      // storers: the rows' scales are known
  kMultiplied,  // consumer warp `which`: has multiplied a page
  kGroupRead,   // group: a window of its data has been read
  kGroupDone,   // group: everything has been computed
  kStored,      // storer `which`: has stored a tile
  kNextTile,    // storer `which`: may store another tile of the record
  kSignalled,   // storer `which`: has signalled an instruction's counters
};

struct Moment {
  double at;       // µs
  uint64_t order;  // decides between moments at the same time
  uint32_t sm;
  Step step;
  uint8_t which;
};

class Clock {
 public:
  double now() const { return now_; }
  void schedule(double at, uint32_t sm, Step step, uint32_t which = 0) {
    moments_.push({at, order_++, sm, step, static_cast<uint8_t>(which)});
  }
  bool empty() const { return moments_.empty(); }
  double next_at() const { return moments_.top().at; }
  Moment next() {
    const Moment moment = moments_.top();
    moments_.pop();
    now_ = moment.at;
    return moment;
  }
  void advance(double now) { now_ = now; }

 private:
  struct Later {
    bool operator()(const Moment& a, const Moment& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  double now_ = 0;
  uint64_t order_ = 0;
  std::priority_queue<Moment, std::vector<Moment>, Later> moments_;
};

}  // namespace serval::sim

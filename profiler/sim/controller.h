// The controller of an SM.
#pragma once

#include <cstdint>

#include "profiler/sim/record.h"

namespace serval::sim {

class Sm;

// Fetches records, in order of the queue, while there are slots for them.
class Controller {
 public:
  explicit Controller(Sm& sm) : sm_(sm) {}
  void step();
  void fetched();
  bool ended() const { return ended_; }

 private:
  bool take_ticket();
  void plan(Record& record);
  void count_pages(uint64_t pages);

  Sm& sm_;
  bool fetching_ = false;
  bool ended_ = false;
  uint64_t tickets_ = 0;    // of the SM's own queue
  uint32_t last_pass_ = 0;  // number of the last record's pass, plus 1
  uint64_t next_page_ = 0, next_unit_ = 0, next_panel_ = 0;
  Record next_;
};

}  // namespace serval::sim

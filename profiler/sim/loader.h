// The loader of an SM.
#pragma once

#include <cstdint>

#include "profiler/sim/record.h"

namespace serval::sim {

class Sm;

// Asks for pages, with a limited number in flight, while the ring has room.
class Loader {
 public:
  explicit Loader(Sm& sm) : sm_(sm) {}
  void step();
  void issue_again();
  void answer();  // memory has answered the oldest request
  void answered();
  void landed();

  uint64_t record = 0;

 private:
  uint32_t limit() const;
  bool room();
  void issue(Record& record);
  Page page_of(const Record& r) const;
  uint32_t next_sequence(const Record& r, const Page& page) const;
  void advance(const Record& record);
  void schedule_retry(double at);
  void sample(double at) const;

  Sm& sm_;
  uint64_t issued_ = 0, received_ = 0, answered_ = 0, landed_ = 0;  // pages
  uint32_t bytes_in_flight_ = 0;
  uint32_t limit_ = 0;  // pages that may be in flight with the next one; 0: not decided
  double busy_until_ = 0;
  double received_until_ = 0;
  bool scheduled_ = false;
  double no_room_since_ = -1;
  double room_us_ = 0;
  // Position in the record: pages issued, and the next page.
  uint32_t done_ = 0, first_unit_ = 0, panel_ = 0, unit_ = 0, matrix_ = 0;
};

}  // namespace serval::sim

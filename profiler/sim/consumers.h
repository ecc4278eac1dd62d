// The consumer warps of an SM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "profiler/sim/record.h"

namespace serval::sim {

class Sm;

// Warps that each take a page into registers and multiply it, or run a group instruction together.
class Consumers {
 public:
  explicit Consumers(Sm& sm);
  size_t warps() const { return warps_.size(); }
  void wake(uint32_t warp);
  void wake_all();
  void step();
  void issued(uint64_t page, uint32_t warp) { warps_[warp].pages.push(page); }
  void multiplied(uint32_t warp);
  void group_read();
  void group_done();

  uint64_t oldest_record() const;
  uint64_t release_panels() const;  // all warps are done with the panels before this one

 private:
  enum class State : uint8_t { kIdle, kHolding, kMultiplying };
  // Pages that have been asked for and that a warp will take: at most as many as the ring has.
  class Fifo {
   public:
    explicit Fifo(size_t size) : pages_(size) {}
    bool empty() const { return begin_ == end_; }
    uint64_t front() const { return pages_[begin_ % pages_.size()]; }
    void push(uint64_t page) { pages_[end_++ % pages_.size()] = page; }
    void pop() { ++begin_; }

   private:
    std::vector<uint64_t> pages_;
    uint64_t begin_ = 0, end_ = 0;
  };
  struct Warp {
    explicit Warp(size_t ring_pages) : pages(ring_pages) {}
    uint64_t record = 0;
    State state = State::kIdle;
    bool begun = false;
    uint32_t pages_left = 0;  // of the record
    double idle_since = 0;
    Page page;  // that it holds
    double taken_at = 0;
    uint64_t used = 0;  // it is done with the panels before this one
    Fifo pages;
  };

  void step(uint32_t index);
  void begin_record(uint32_t index, Record& r);
  bool take_page(Warp& warp, Record& r);
  void free_page(Warp& warp, double at);
  void multiply(uint32_t index, Record& r);
  void use_panels(Warp& warp, uint64_t panels);
  void end_record(Warp& warp);
  void start_group(Record& r);
  double group_us(const Record& r) const;
  uint32_t first_of_warp(uint32_t index, const Record& r) const;
  uint32_t pages_of(uint32_t index, const Record& r) const;

  Sm& sm_;
  std::vector<Warp> warps_;
  uint64_t woken_ = 0;
  double multiplying_until_ = 0;  // limited by arithmetic units that all warps share
  uint64_t group_bytes_left_ = 0;
  bool group_runs_ = false;
  bool group_held_ = false;  // has read its first window and waits for the inputs
};

}  // namespace serval::sim

// One SM: the roles, each going through the SM's instructions on its own.
//
// A role goes on as far as it can and returns; whatever another role may wait for wakes that role. Nobody
// calls a role but Sm::settle(), so roles do not nest.
#pragma once

#include <cstdint>
#include <queue>
#include <string>
#include <vector>

#include "profiler/sim/gpu.h"
#include "profiler/sim/record.h"

namespace serval::sim {

class Sm;

// Brings records, in order of the queue, as long as there are slots for them.
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
  uint64_t tickets_ = 0;    // of a queue of its own
  uint32_t last_pass_ = 0;  // + 1
  uint64_t next_page_ = 0, next_unit_ = 0, next_chunk_ = 0;
  Record next_;
};

// Asks for pages, at most some at a time, while the ring has room.
class Loader {
 public:
  explicit Loader(Sm& sm) : sm_(sm) {}
  void step();
  void issue_again();
  void landed();

  uint64_t record = 0;

 private:
  bool room();
  void issue(Record& record);
  Page page_of(const Record& r) const;
  uint32_t next_sequence(const Record& r, const Page& page) const;
  void advance(const Record& record);
  void look_again(double at);
  void sample(double at) const;

  Sm& sm_;
  uint64_t issued_ = 0, landed_ = 0;  // pages
  uint32_t bytes_in_flight_ = 0;
  double busy_until_ = 0;
  bool scheduled_ = false;
  double no_room_since_ = -1;
  double room_us_ = 0;
  // Where it is in the record: pages issued, and the next one.
  uint32_t done_ = 0, first_unit_ = 0, chunk_ = 0, unit_ = 0, matrix_ = 0;
};

// Wait for counters, then bring activations.
class Preparer {
 public:
  explicit Preparer(Sm& sm) : sm_(sm) {}
  void step();
  void counter_reached(uint32_t counter);
  void noticed();
  // What was asked for first is there: activations, or the rows' scales.
  void prepared();
  void scaled();

  bool waits_for_counters() const { return phase_ == Phase::kGate || phase_ == Phase::kWaiting; }
  uint64_t record = 0;

 private:
  enum class Phase : uint8_t { kBegin, kGate, kWaiting, kNoticing, kReading };
  struct Asked {
    uint64_t record;
    uint32_t chunks;
  };
  bool acquired(uint32_t chunks, uint32_t slots) const;
  bool begin(Record& r);
  void ask(uint32_t counter, uint64_t target);
  void ask_counters(const Record& r);
  void reached_last(uint32_t counter);
  void notice(bool waited, bool gate);
  void read_scales(Record& r);
  bool read(Record& r);
  void ask_chunks(const Record& r, uint32_t chunks);
  void end_record();

  Sm& sm_;
  Phase phase_ = Phase::kBegin;
  bool behind_gate_ = false;  // what is noticed is the gate
  uint32_t unmet_ = 0;        // counters that are waited for
  double last_change_ = -1;   // of those that were reached
  uint64_t next_chunk_ = 0;   // of activations
  uint64_t chunk_floor_ = 0;  // chunks that must be used up before any slot is written again
  // On their way: chunks, and records' scales.
  std::queue<Asked> asked_;
  std::queue<uint64_t> scales_;
  double prepared_until_ = 0, scaled_until_ = 0;
};

// Warps that take a page each into registers and multiply it, or run a group instruction together.
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
  uint64_t used_chunks() const;  // that every warp is done with

 private:
  enum class State : uint8_t { kIdle, kHolding, kMultiplying };
  // Pages that have been asked for and that a warp will take: no more than the ring has.
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
    Page page;  // in hand
    double taken_at = 0;
    uint64_t used = 0;  // chunks of activations
    Fifo pages;
  };

  void step(uint32_t index);
  void begin_record(uint32_t index, Record& r);
  bool take_page(Warp& warp, Record& r);
  void free_page(Warp& warp, double at);
  void multiply(uint32_t index, Record& r);
  void use_chunks(Warp& warp, uint64_t chunks);
  void end_record(Warp& warp);
  void start_group(Record& r);
  uint32_t first_in_turn(uint32_t index, const Record& r) const;
  uint32_t pages_of(uint32_t index, const Record& r) const;

  Sm& sm_;
  std::vector<Warp> warps_;
  uint64_t woken_ = 0;
  double multiplying_until_ = 0;  // what all warps share
  uint64_t group_bytes_left_ = 0;
  bool group_runs_ = false;
};

// Store units as they are complete; the last to be done with an instruction signals.
class Storers {
 public:
  explicit Storers(Sm& sm);
  void step();
  void stored(uint32_t storer);
  void signalled(uint32_t storer);

  uint64_t oldest_record() const;
  uint64_t stored_units() const;  // all before this one are stored
  uint64_t record_of(uint32_t storer) const { return storers_[storer].record; }

 private:
  struct Storer {
    uint64_t record = 0;
    uint32_t next_task = 0;  // of the record
    uint64_t stored = 0;
    bool begun = false;
    bool busy = false;
  };
  void step(uint32_t index);
  void take(Storer& storer, const Record& r, uint32_t task);
  void end_record(uint32_t index, Record& r);
  void next_record(Storer& storer);
  void record_execution(Record& r);

  Sm& sm_;
  std::vector<Storer> storers_;
};

enum class Wake : uint8_t { kController = 1, kLoader = 2, kPreparer = 4, kConsumers = 8, kStorers = 16 };

class Sm {
 public:
  Sm(Gpu& the_gpu, uint32_t sm);
  Sm(const Sm&) = delete;
  Sm& operator=(const Sm&) = delete;

  void wake(Wake role) { woken_ |= static_cast<uint8_t>(role); }
  // Lets every role go on that has been woken.
  void settle();
  void go_on(Step step, uint32_t which);
  void answer(bool page);  // of memory

  bool has(uint64_t record) const { return record < fetched; }
  Record& at(uint64_t record) { return records[record % records.size()]; }
  Page& page(uint64_t number) { return ring[number % ring.size()]; }
  uint64_t oldest_record() const;
  bool done() const { return controller.ended() && oldest_record() == fetched; }

  Gpu& gpu;
  const uint32_t index;
  uint64_t fetched = 0;  // records
  std::vector<Record> records;
  std::vector<Page> ring;
  Units units;
  Controller controller;
  Loader loader;
  Preparer preparer;
  Consumers consumers;
  Storers storers;

 private:
  uint8_t woken_ = static_cast<uint8_t>(Wake::kController);
};

// A time of the trace.
void note(Record& record, EventKind kind, double us);

}  // namespace serval::sim

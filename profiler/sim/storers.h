// The storers of an SM.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/sim/record.h"

namespace serval::sim {

class Sm;

// They store tiles of units as these become complete. The last storer of an instruction signals.
class Storers {
 public:
  explicit Storers(Sm& sm);
  void step();
  void stored(uint32_t storer);
  void found_next(uint32_t storer);
  void signalled(uint32_t storer);

  uint64_t oldest_record() const;
  uint64_t stored_units() const;  // all units before this one are stored
  uint64_t record_of(uint32_t storer) const { return storers_[storer].record; }

 private:
  struct Storer {
    uint64_t record = 0;
    uint32_t next_tile = 0;  // of the record
    uint64_t stored = 0;
    bool begun = false;
    bool busy = false;
  };
  void step(uint32_t index);
  uint32_t turn(uint32_t index, uint64_t record) const;
  uint32_t first_unit(const Record& r, uint32_t tile) const;
  bool complete(const Record& r, uint32_t unit) const;
  void take(Storer& storer, const Record& r, uint32_t tile);
  void end_record(uint32_t index, Record& r);
  void next_record(Storer& storer);
  void record_execution(Record& r);

  Sm& sm_;
  std::vector<Storer> storers_;
};

}  // namespace serval::sim

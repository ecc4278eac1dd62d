// Programs made by hand and a GPU of round numbers, so that times can be worked out on paper.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/sim/parameters.h"
#include "vm/program.h"

namespace serval::testing {

// Matrix-vector products are the only instructions: their units read one page each (1,024 columns).
class HandMade {
 public:
  // `sms`: of each device.
  explicit HandMade(uint32_t sms, QueueKind kind = QueueKind::kPerSm, uint32_t devices = 1);
  uint32_t counter();
  // Of system scope, on `device`.
  uint32_t counter_on(uint32_t device);
  // Adds to `queue` a product of `units` units of 8 rows.
  void add(uint32_t queue, uint32_t units, std::vector<Wait> waits, std::vector<Signal> signals);
  // Likewise; its results, 32 bytes for each unit and row, are pushed to the device that is next.
  void push(uint32_t queue, uint32_t units, std::vector<Wait> waits, std::vector<Signal> signals);
  // `gate`: the counter that the pass's last instruction signals, of several devices the first one's.
  Program build(uint32_t gate) const;

 private:
  struct Item {
    bool pushes;
    uint32_t units;
    std::vector<Wait> waits;
    std::vector<Signal> signals;
  };
  uint32_t sms_;
  QueueKind kind_;
  uint32_t devices_;
  std::vector<Counter> counters_;
  std::vector<std::vector<Item>> queues_;
};

// Memory answers after 2 µs however much is asked of it, each step of a round of synchronisation takes 1 µs;
// fetching 0.5, taking a page 0.25, multiplying it 1, storing a unit 0.5, and everything else nothing.
SimParameters round_numbers();

}  // namespace serval::testing

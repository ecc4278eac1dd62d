// Hand-made programs and a GPU with round numbers, so that times can be calculated by hand.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/sim/parameters.h"
#include "vm/program.h"

namespace serval::testing {

// Its only instructions are matrix-vector products, whose units read one page each (1,024 columns).
class HandMade {
 public:
  // `sms`: of each device.
  explicit HandMade(uint32_t sms, QueueKind kind = QueueKind::kPerSm, uint32_t devices = 1);
  uint32_t counter();
  // A counter of system scope on `device`.
  uint32_t counter_on(uint32_t device);
  // Adds a product of `units` units of 8 rows to `queue`.
  void add(uint32_t queue, uint32_t units, std::vector<Wait> waits, std::vector<Signal> signals);
  // Adds a product likewise, and pushes its results, 32 bytes for each unit and row, to the next device.
  void push(uint32_t queue, uint32_t units, std::vector<Wait> waits, std::vector<Signal> signals);
  // `gate` is the counter that the pass's last instruction signals; with several devices, the first one's.
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

// Memory answers after 2 µs under any load, and each step of a synchronisation takes 1 µs. Fetching takes
// 0.5, reading a page 0.25, multiplying it 1, storing a unit 0.5, and everything else no time.
SimParameters round_numbers();

}  // namespace serval::testing

// The preparers of an SM. They do everything together.
#pragma once

#include <cstdint>
#include <queue>

#include "profiler/sim/record.h"

namespace serval::sim {

class Sm;

// They wait for counters, then load activations.
class Preparer {
 public:
  explicit Preparer(Sm& sm) : sm_(sm) {}
  void step();
  void counter_reached(uint32_t counter);
  void noticed();
  // The oldest request has arrived: activations, or the rows' scales.
  void prepared();
  void scaled();

  bool waits_for_counters() const { return phase_ == Phase::kGate || phase_ == Phase::kWaiting; }
  uint64_t record = 0;

 private:
  enum class Phase : uint8_t { kBegin, kGate, kWaiting, kNoticing, kReading };
  struct Asked {
    uint64_t record;
    uint32_t panels;
  };
  bool acquired(uint32_t panels, uint32_t slots) const;
  bool begin(Record& r);
  void ask(uint32_t counter, uint64_t target);
  void ask_counters(const Record& r);
  void reached_last(uint32_t counter);
  uint32_t most_signals(const Record& r) const;
  void notice(uint32_t signals, bool gate);
  void read_scales(Record& r);
  bool read(Record& r);
  void ask_panels(const Record& r, uint32_t panels);
  void end_record();

  Sm& sm_;
  Phase phase_ = Phase::kBegin;
  bool at_gate_ = false;      // true if the gate is being noticed
  uint32_t unmet_ = 0;        // counters that are still waited for
  double last_change_ = -1;   // the latest change of a counter that has been reached
  uint64_t next_panel_ = 0;   // of activations
  uint64_t panel_floor_ = 0;  // panels that must be released before any slot is written again
  // Requests that have not arrived: panels, and records' scales.
  std::queue<Asked> asked_;
  std::queue<uint64_t> scales_;
  double prepared_until_ = 0, scaled_until_ = 0;
};

}  // namespace serval::sim

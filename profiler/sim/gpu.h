// Data that SMs share: the program, the clock, memory, counters, and the recorded trace.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "profiler/sim/clock.h"
#include "profiler/sim/counters.h"
#include "profiler/sim/kernel_choice.h"
#include "profiler/sim/memory.h"
#include "profiler/sim/parameters.h"
#include "profiler/sim/work.h"
#include "profiler/trace/trace.h"
#include "vm/program.h"

namespace serval::sim {

// Executions and samples in the order in which they happen; sorted later.
struct Recording {
  std::vector<Execution> executions;
  std::vector<PageSample> samples;
};

constexpr double kib(uint64_t bytes) {
  constexpr double kKib = 1024;
  return static_cast<double>(bytes) / kKib;
}

// Traces have times in nanoseconds.
inline int64_t ns_of(double us) {
  constexpr double kNsOfUs = 1e3;
  return std::llround(us * kNsOfUs);
}

// The passes of a launch, and its KV blocks.
struct Rows {
  std::vector<Pass> passes;
  BlockTable blocks;
  uint32_t bound;  // rows from this one on are not active
};

// Data that the SMs of one device share.
struct Device {
  explicit Device(const SimParameters& p) : hbm(p), l2(p) {}
  Hbm hbm;
  L2 l2;
  double link_free_at = 0;  // when the link has carried everything that the device's SMs have pushed
};

// Data that all SMs of the program share.
struct Gpu {
  static constexpr uint32_t kRowsOfTile = 4;

  Gpu(const Program& the_program, const SimParameters& p, Rows of_launch, Recording* where)
      : program(the_program),
        parameters(p),
        rows(std::move(of_launch)),
        kernel(kernel_choice(the_program, rows.bound, p)),
        devices(the_program.num_devices, Device(p)),
        counters(the_program),
        round_us(round_curve(p)),
        gate_at(rows.passes.size(), 0),
        recording(where) {}

  const Program& program;
  const SimParameters& parameters;
  const Rows rows;
  const KernelTraits kernel;
  Clock clock;
  std::vector<Device> devices;
  Counters counters;
  const Curve round_us;         // [Hbm::queued_us()]
  uint64_t ticket = 0;          // of a global queue: records that SMs have taken
  uint64_t pages = 0;           // of all records fetched
  std::vector<double> gate_at;  // [passes] when the pass ended
  Recording* const recording;   // null: no trace is recorded

  // Number of tiles that the rows of a pass make: four rows are multiplied at a time.
  uint32_t tiles() const { return (rows.bound + kRowsOfTile - 1) / kRowsOfTile; }
  // A storer takes four rows of a unit at a time or, if the kernel has fewer rows, these rows of several
  // units.
  uint32_t tile_rows() const { return std::min(kernel.rows, kRowsOfTile); }
  uint32_t tile_units() const { return kRowsOfTile / tile_rows(); }
  uint32_t tiles_of_unit() const { return kernel.rows / tile_rows(); }
};

}  // namespace serval::sim

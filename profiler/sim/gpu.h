// State that SMs share: the program, the clock, memory, counters, and where the trace goes.
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

// Executions and samples as they come about; order is made later.
struct Recording {
  std::vector<Execution> executions;
  std::vector<PageSample> samples;
};

constexpr double kib(uint64_t bytes) {
  constexpr double kKib = 1024;
  return static_cast<double>(bytes) / kKib;
}

// As traces have it.
inline int64_t ns_of(double us) {
  constexpr double kNsOfUs = 1e3;
  return std::llround(us * kNsOfUs);
}

// The passes of a launch.
struct Rows {
  std::vector<Pass> passes;
  BlockTable blocks;
  uint32_t bound;  // rows from this one on are not active
};

// State that the SMs of one device share.
struct Device {
  explicit Device(const SimParameters& p) : hbm(p), l2(p) {}
  Hbm hbm;
  L2 l2;
  double link_free_at = 0;  // what its SMs have pushed to others is under way until then
};

// All devices of a program.
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
  const Curve round_us;         // by Hbm::queued_us()
  uint64_t ticket = 0;          // of a global queue: records handed out
  uint64_t pages = 0;           // of all records fetched
  std::vector<double> gate_at;  // [passes] when the pass was over
  Recording* const recording;   // or null

  // Rows of the pass are multiplied four at a time.
  uint32_t tiles() const { return (rows.bound + kRowsOfTile - 1) / kRowsOfTile; }
  // Storers take four rows of a unit at a time or, where the kernel is for fewer, of more units.
  uint32_t tile_rows() const { return std::min(kernel.rows, kRowsOfTile); }
  uint32_t tile_units() const { return kRowsOfTile / tile_rows(); }
  uint32_t tiles_of_unit() const { return kernel.rows / tile_rows(); }
};

}  // namespace serval::sim

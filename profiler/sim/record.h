// State that the roles of an SM share: the instructions in progress, the ring of pages, the units of results.
// All numbers count through the SM's launch, as they do on the GPU (vm/device/roles.cuh).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "profiler/sim/work.h"
#include "profiler/trace/trace.h"

namespace serval::sim {

// How the warps share a stream's pages. Resident: in turn, unit by unit, and all panels of activations are
// there at once. Otherwise panels come and go, and pages are in order of panels: split, in turn as well; or
// each warp has units of its own, as many at once as there are warps. In tile order (chains) it has, too, and
// all panels are there at once.
enum class Mode : uint8_t { kResident, kStreamedPages, kStreamedUnits, kChains };

// An instruction that has been fetched.
struct Record {
  uint32_t instruction = 0;  // of the program
  uint32_t pass = 0;
  bool begins_pass = false;
  Work work;

  // How it is cut up (instructions/product/orders/vector_stream.cuh: Plan).
  Mode mode = Mode::kResident;
  uint32_t activation_panels = 0;   // that the preparers bring, or 1: a group's scratch memory
  uint32_t activation_buffers = 1;  // panels that there is room for
  uint32_t partial_buffers = 1;     // units of it whose sums have room
  uint64_t first_page = 0, first_unit = 0, first_panel = 0;
  uint32_t tile_units = 1;  // that a storer takes at once
  uint32_t tiles = 1;       // of all units
  uint32_t storers = 1;     // that have something to store
  uint32_t units() const { return work.kind == Work::Kind::kStream ? work.units : 1; }
  bool resident() const { return mode == Mode::kResident || mode == Mode::kChains; }
  bool own_units() const { return mode == Mode::kStreamedUnits || mode == Mode::kChains; }

  // How far it is.
  uint32_t pages_landed = 0;
  bool inputs_ready = false;
  bool scales_ready = false;
  uint32_t panels_asked = 0;
  uint32_t panels_prepared = 0;
  uint32_t warps_arrived = 0;
  uint32_t storers_done = 0;
  double compute_begin = std::numeric_limits<double>::infinity();
  double starved_us = 0;  // of all warps together
  Execution execution;
};

// A page of the ring. `sequence` counts the panels of activations that the record uses.
struct Page {
  uint64_t record = 0;
  uint32_t unit = 0;           // of the record's
  uint32_t sequence = 0;       // that it is multiplied with
  uint32_t next_sequence = 0;  // of the warp's next page; all panels are before that of none
  uint32_t warp = 0;
  uint32_t bytes = 0;
  bool whole = true;  // a warp can take it into registers
  bool landed = false;
  double free_at = 0;  // infinity: not taken
};

// A count of parts that are to come, of each unit that has room.
class Units {
 public:
  explicit Units(uint32_t slots) : slots_(slots) {}

  // Counts the arrival of one of a unit's `parts`; true if it was the last.
  bool arrive(uint64_t unit, uint32_t parts) {
    Slot& slot = slots_[unit % slots_.size()];
    if (slot.unit != unit) slot = {unit, parts};
    return --slot.parts_left == 0;
  }
  bool complete(uint64_t unit) const {
    const Slot& slot = slots_[unit % slots_.size()];
    return slot.unit == unit && slot.parts_left == 0;
  }

 private:
  struct Slot {
    uint64_t unit = std::numeric_limits<uint64_t>::max();
    uint32_t parts_left = 0;
  };
  std::vector<Slot> slots_;
};

}  // namespace serval::sim

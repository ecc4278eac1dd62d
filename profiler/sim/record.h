// Data that the roles of an SM share: the current instructions, the ring of pages, the units of results. All
// numbers count up over the SM's launch, as they do on the GPU (vm/device/sm90/roles.cuh).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "profiler/sim/work.h"
#include "profiler/trace/trace.h"

namespace serval::sim {

// How the warps share a stream's pages. kResident: all panels of activations are loaded at once, and the
// warps take pages in turn, unit by unit. kStreamedPages and kStreamedUnits: panels are loaded and released
// one after the other, and pages come in order of panels; the warps take them in turn, or each warp works on
// units of its own, as many units at a time as there are warps. kChains (tile order): units of its own, and
// all panels are loaded at once.
enum class Mode : uint8_t { kResident, kStreamedPages, kStreamedUnits, kChains };

// An instruction that has been fetched.
struct Record {
  uint32_t instruction = 0;  // of the program
  uint32_t pass = 0;
  bool begins_pass = false;
  Work work;

  // How the work is divided (instructions/product/orders/vector_stream.cuh: Plan).
  Mode mode = Mode::kResident;
  uint32_t activation_panels = 0;   // panels that the preparers load, or 1: a group's scratch memory
  uint32_t activation_buffers = 1;  // room for panels
  uint32_t partial_buffers = 1;     // room for sums, in units
  uint64_t first_page = 0, first_unit = 0, first_panel = 0;
  uint32_t tile_units = 1;  // units that a storer takes at once
  uint32_t tiles = 1;       // of all units
  uint32_t storers = 1;     // storers that have something to store
  uint32_t units() const { return work.kind == Work::Kind::kStream ? work.units : 1; }
  bool resident() const { return mode == Mode::kResident || mode == Mode::kChains; }
  bool own_units() const { return mode == Mode::kStreamedUnits || mode == Mode::kChains; }

  // How far the instruction is.
  uint32_t pages_landed = 0;
  bool inputs_ready = false;
  bool scales_ready = false;
  uint32_t panels_asked = 0;
  uint32_t panels_prepared = 0;
  uint32_t warps_arrived = 0;
  uint32_t storers_done = 0;
  double compute_begin = std::numeric_limits<double>::infinity();
  double starved_us = 0;  // added up over all warps
  Execution execution;
};

// A page of the ring. `sequence` numbers the panels of activations that the record uses.
struct Page {
  uint64_t record = 0;
  uint32_t unit = 0;           // number in the record
  uint32_t sequence = 0;       // panel that the page is multiplied with
  uint32_t next_sequence = 0;  // panel of the warp's next page, or the number of panels after its last page
  uint32_t warp = 0;
  uint32_t bytes = 0;
  bool whole = true;  // the warp takes it into registers at once
  bool landed = false;
  double free_at = 0;  // infinity: no warp has taken it
};

// Counts the parts of each unit that are still missing. Slots are reused.
class Units {
 public:
  explicit Units(uint32_t slots) : slots_(slots) {}

  // A part of a unit that has `parts` parts has arrived. True if it was the last one.
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

#include <algorithm>

#include "profiler/sim/sm.h"

namespace serval::sim {

Storers::Storers(Sm& sm) : sm_(sm), storers_(static_cast<size_t>(sm.gpu.parameters.storer_warps)) {}

void Storers::step() {
  for (uint32_t s = 0; s < storers_.size(); ++s) step(s);
}

// The first storer changes from record to record, so that a storer that stores a record alone is not still
// busy with the record before.
uint32_t Storers::turn(uint32_t index, uint64_t record) const {
  const auto storers = static_cast<uint32_t>(storers_.size());
  return (index + storers - static_cast<uint32_t>(record % storers)) % storers;
}

void Storers::step(uint32_t index) {
  Gpu& gpu = sm_.gpu;
  Storer& storer = storers_[index];
  while (!storer.busy && sm_.has(storer.record)) {
    Record& r = sm_.at(storer.record);
    if (r.begins_pass && !r.inputs_ready) return;  // the pass's rows come with the inputs
    if (!storer.begun) {
      storer.begun = true;
      take(storer, r, turn(index, storer.record));
    }
    if (turn(index, storer.record) >= r.storers) {
      next_record(storer);  // this storer has no tile of it
      continue;
    }
    if (!r.inputs_ready || !r.scales_ready) return;
    if (storer.next_tile >= r.tiles) {
      end_record(index, r);
      continue;
    }
    if (!complete(r, first_unit(r, storer.next_tile))) return;
    note(r, EventKind::kStoreBegin, gpu.clock.now());
    storer.busy = true;
    const double us = r.work.kind == Work::Kind::kStream ? gpu.parameters.store_us : 0;
    gpu.clock.schedule(gpu.clock.now() + us, sm_.index, Step::kStored, index);
  }
}

uint32_t Storers::first_unit(const Record& r, uint32_t tile) const {
  const uint32_t tiles_of_unit = r.work.kind == Work::Kind::kStream ? sm_.gpu.tiles_of_unit() : 1;
  return std::min(tile / tiles_of_unit * r.tile_units, r.units());
}

// True if all units of a tile have their sums.
bool Storers::complete(const Record& r, uint32_t unit) const {
  for (const uint32_t end = std::min(unit + r.tile_units, r.units()); unit < end; ++unit) {
    if (!sm_.units.complete(r.first_unit + unit)) return false;
  }
  return true;
}

void Storers::stored(uint32_t index) {
  Storer& storer = storers_[index];
  Record& r = sm_.at(storer.record);
  Gpu& gpu = sm_.gpu;
  note(r, EventKind::kStored, gpu.clock.now());
  take(storer, r, storer.next_tile + static_cast<uint32_t>(storers_.size()));
  const bool another = r.work.kind == Work::Kind::kStream && storer.next_tile < r.tiles;
  if (!another) return found_next(index);
  gpu.clock.schedule(gpu.clock.now() + gpu.parameters.next_tile_us, sm_.index, Step::kNextTile, index);
}

// The data that the next tile needs has been looked up.
void Storers::found_next(uint32_t index) {
  storers_[index].busy = false;
  sm_.wake(Wake::kStorers);
}

// This storer has nothing to store in the units before its next tile.
void Storers::take(Storer& storer, const Record& r, uint32_t tile) {
  storer.next_tile = tile;
  storer.stored = r.first_unit + first_unit(r, tile);
  sm_.consumers.wake_all();
}

// The storer that finishes last signals.
void Storers::end_record(uint32_t index, Record& r) {
  Gpu& gpu = sm_.gpu;
  Storer& storer = storers_[index];
  storer.stored = r.first_unit + r.units();
  sm_.consumers.wake_all();
  if (++r.storers_done == r.storers) {
    const SimParameters& p = gpu.parameters;
    storer.busy = true;
    const double us = p.signal_us + (r.storers > 1 ? p.last_storer_us : 0);
    gpu.clock.schedule(gpu.clock.now() + us, sm_.index, Step::kSignalled, index);
    return;
  }
  next_record(storer);
}

void Storers::next_record(Storer& storer) {
  ++storer.record;
  storer.begun = false;
  storer.busy = false;
  sm_.wake(Wake::kController);
  sm_.wake(Wake::kStorers);
}

void Storers::signalled(uint32_t index) {
  Storer& storer = storers_[index];
  Record& r = sm_.at(storer.record);
  note(r, EventKind::kSignalled, sm_.gpu.clock.now());
  record_execution(r);
  next_record(storer);
}

void Storers::record_execution(Record& r) {
  Recording* recording = sm_.gpu.recording;
  if (recording == nullptr) return;
  note(r, EventKind::kComputeBegin, r.compute_begin);
  r.execution.starved_ns = ns_of(r.starved_us / static_cast<double>(sm_.consumers.warps()));
  recording->executions.push_back(r.execution);
}

uint64_t Storers::oldest_record() const {
  uint64_t oldest = storers_.front().record;
  for (const Storer& storer : storers_) oldest = std::min(oldest, storer.record);
  return oldest;
}

uint64_t Storers::stored_units() const {
  uint64_t stored = storers_.front().stored;
  for (const Storer& storer : storers_) stored = std::min(stored, storer.stored);
  return stored;
}

}  // namespace serval::sim

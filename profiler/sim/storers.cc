#include <algorithm>

#include "profiler/sim/sm.h"

namespace serval::sim {
namespace {

// What the storers take in turn: a tile of rows of a unit.
uint32_t tiles_of(const Gpu& gpu, const Record& r) {
  return r.work.kind == Work::Kind::kStream ? gpu.tiles() : 1;
}

}  // namespace

Storers::Storers(Sm& sm) : sm_(sm), storers_(static_cast<size_t>(sm.gpu.parameters.storer_warps)) {}

void Storers::step() {
  for (uint32_t s = 0; s < storers_.size(); ++s) step(s);
}

void Storers::step(uint32_t index) {
  Gpu& gpu = sm_.gpu;
  Storer& storer = storers_[index];
  while (!storer.busy && sm_.has(storer.record)) {
    Record& r = sm_.at(storer.record);
    if (!r.inputs_ready || !r.scales_ready) return;
    if (!storer.begun) {
      storer.begun = true;
      take(storer, r, index);
    }
    const uint32_t unit = storer.next_task / tiles_of(gpu, r);
    if (unit >= r.units()) {
      end_record(index, r);
      continue;
    }
    if (!sm_.units.complete(r.first_unit + unit)) return;
    note(r, EventKind::kStoreBegin, gpu.clock.now());
    storer.busy = true;
    const double us = r.work.kind == Work::Kind::kStream ? gpu.parameters.store_us : 0;
    gpu.clock.schedule(gpu.clock.now() + us, sm_.index, Step::kStored, index);
  }
}

void Storers::stored(uint32_t index) {
  Storer& storer = storers_[index];
  Record& r = sm_.at(storer.record);
  note(r, EventKind::kStored, sm_.gpu.clock.now());
  storer.busy = false;
  take(storer, r, storer.next_task + static_cast<uint32_t>(storers_.size()));
  sm_.wake(Wake::kStorers);
}

// All units before the next of its own are none of its business.
void Storers::take(Storer& storer, const Record& r, uint32_t task) {
  storer.next_task = task;
  storer.stored = r.first_unit + std::min(task / tiles_of(sm_.gpu, r), r.units());
  sm_.consumers.wake_all();
}

// The last to be done with a record signals.
void Storers::end_record(uint32_t index, Record& r) {
  Gpu& gpu = sm_.gpu;
  Storer& storer = storers_[index];
  storer.stored = r.first_unit + r.units();
  sm_.consumers.wake_all();
  if (++r.storers_done == storers_.size()) {
    storer.busy = true;
    const double us = gpu.rounds(gpu.parameters.signal_rounds);
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

#include <algorithm>
#include <cmath>

#include "profiler/sim/sm.h"

namespace serval::sim {

void Preparer::step() {
  while (sm_.has(record)) {
    Record& r = sm_.at(record);
    switch (phase_) {
      case Phase::kBegin:
        if (!begin(r)) return;
        break;
      case Phase::kGate:
        if (unmet_ > 0) return;
        return notice(r.pass > 0 ? 1 : 0, true);
      case Phase::kWaiting:
        if (unmet_ > 0) return;
        return notice(most_signals(r), false);
      case Phase::kReading:
        if (!read(r)) return;
        break;
      case Phase::kNoticing:
        return;
    }
  }
}

// True if the slots of the next `panels` panels may be written.
bool Preparer::acquired(uint32_t panels, uint32_t slots) const {
  const uint64_t after = next_panel_ + panels;
  const uint64_t needed = std::max(after > slots ? after - slots : 0, panel_floor_);
  return sm_.consumers.release_panels() >= needed;
}

// Shared memory that is needed before the waits must be free; a group needs all of it.
bool Preparer::begin(Record& r) {
  const bool streams = r.work.kind == Work::Kind::kStream;
  if (streams && r.resident() && !acquired(r.activation_panels, r.activation_buffers)) return false;
  const bool takes_all = !streams && r.work.kind != Work::Kind::kTile;
  if (takes_all && sm_.consumers.release_panels() < next_panel_) return false;
  note(r, EventKind::kWaitBegin, sm_.gpu.clock.now());
  last_change_ = -1;
  if (r.begins_pass) {
    ask(sm_.gpu.program.gate_of(sm_.rank), sm_.gpu.counters.gate_target(r.pass));
    phase_ = Phase::kGate;
  } else {
    ask_counters(r);
  }
  return true;
}

void Preparer::ask(uint32_t counter, uint64_t target) {
  Counters& counters = sm_.gpu.counters;
  if (!counters.wait(sm_.index, counter, target)) {
    ++unmet_;
  } else if (counters.changed_at(counter) > last_change_) {
    reached_last(counter);
  }
}

void Preparer::ask_counters(const Record& r) {
  const Gpu& gpu = sm_.gpu;
  for (const Wait& wait : gpu.program.waits_of(gpu.program.instructions[r.instruction]))
    ask(wait.counter, gpu.counters.target(wait, r.pass));
  phase_ = Phase::kWaiting;
}

void Preparer::reached_last(uint32_t counter) {
  sm_.at(record).execution.last_counter = counter;
  last_change_ = sm_.gpu.counters.changed_at(counter);
}

void Preparer::counter_reached(uint32_t counter) {
  --unmet_;
  reached_last(counter);
  sm_.wake(Wake::kPreparer);
}

// Signals that the record's largest wait needs.
uint32_t Preparer::most_signals(const Record& r) const {
  const Program& program = sm_.gpu.program;
  uint32_t most = 0;
  for (const Wait& wait : program.waits_of(program.instructions[r.instruction]))
    most = std::max(most, std::max(1U, wait.threshold));
  return most;
}

// The end of a wait is noticed some time later. After the gate, the pass's rows are read first.
void Preparer::notice(uint32_t signals, bool gate) {
  Gpu& gpu = sm_.gpu;
  const SimParameters& p = gpu.parameters;
  const bool waited = signals > 0;
  const double us = sm_.rounds((waited ? p.notice_rounds : 0) + (gate ? p.read_rounds : 0)) +
                    (waited ? p.notice_us + p.join_us * std::log2(signals) : 0);
  gpu.clock.schedule(gpu.clock.now() + us, sm_.index, Step::kNoticed);
  at_gate_ = gate;
  phase_ = Phase::kNoticing;
}

void Preparer::noticed() {
  Gpu& gpu = sm_.gpu;
  Record& r = sm_.at(record);
  sm_.wake(Wake::kPreparer);
  if (at_gate_) return ask_counters(r);
  r.inputs_ready = true;
  note(r, EventKind::kInputsReady, gpu.clock.now());
  read_scales(r);
  phase_ = Phase::kReading;
  sm_.wake(Wake::kStorers);
}

// Each storer reads the scales of the rows that it stores, while the consumers multiply.
void Preparer::read_scales(Record& r) {
  Gpu& gpu = sm_.gpu;
  r.scales_ready = r.work.scale_bytes == 0;
  if (r.scales_ready) return;
  const SimParameters& p = gpu.parameters;
  const uint64_t bytes = r.work.scale_bytes * r.storers / gpu.tiles_of_unit();
  const double at = sm_.device.l2.read(gpu.clock.now(), bytes, sm_.rounds(p.read_rounds)) +
                    p.scale_us * static_cast<double>(gpu.tile_rows());
  scaled_until_ = std::max(scaled_until_, at);
  scales_.push(record);
  gpu.clock.schedule(scaled_until_, sm_.index, Step::kScaled);
}

void Preparer::scaled() {
  sm_.at(scales_.front()).scales_ready = true;
  scales_.pop();
  sm_.wake(Wake::kStorers);
}

// Requests all activations at once, or panel by panel as slots become free.
bool Preparer::read(Record& r) {
  if (r.work.kind != Work::Kind::kStream) {
    panel_floor_ = ++next_panel_;
    r.panels_prepared = 1;
    note(r, EventKind::kPrepared, sm_.gpu.clock.now());
    sm_.consumers.wake_all();
    end_record();
    return true;
  }
  const uint32_t at_once = r.resident() ? r.activation_panels : 1;
  for (; r.panels_asked < r.activation_panels; r.panels_asked += at_once) {
    if (!r.resident() && !acquired(at_once, r.activation_buffers)) return false;
    ask_panels(r, at_once);
    next_panel_ += at_once;
  }
  end_record();
  return true;
}

// Panels arrive in the order in which they were requested.
void Preparer::ask_panels(const Record& r, uint32_t panels) {
  Gpu& gpu = sm_.gpu;
  const SimParameters& p = gpu.parameters;
  const uint64_t bytes = r.work.input_bytes * panels / r.work.panels;
  const double latency_us = sm_.rounds(p.read_rounds) + p.prepare_us;
  const double read_at = sm_.device.l2.read(gpu.clock.now(), bytes, latency_us);
  prepared_until_ = std::max(prepared_until_, read_at) + kib(bytes) * p.prepare_us_per_kib;
  asked_.push({record, panels});
  gpu.clock.schedule(prepared_until_, sm_.index, Step::kPrepared);
}

void Preparer::prepared() {
  const Asked asked = asked_.front();
  asked_.pop();
  Record& r = sm_.at(asked.record);
  r.panels_prepared += asked.panels;
  if (r.panels_prepared == r.activation_panels) note(r, EventKind::kPrepared, sm_.gpu.clock.now());
  sm_.consumers.wake_all();
}

void Preparer::end_record() {
  phase_ = Phase::kBegin;
  ++record;
  sm_.wake(Wake::kController);
}

}  // namespace serval::sim

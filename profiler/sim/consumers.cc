#include <algorithm>
#include <bit>

#include "profiler/sim/sm.h"
#include "vm/layout/units.h"

namespace serval::sim {
namespace {

const OpTimes& times_of(const Gpu& gpu, const Record& r) {
  return gpu.parameters.ops[gpu.program.instructions[r.instruction].opcode];
}

}  // namespace

Consumers::Consumers(Sm& sm)
    : sm_(sm), warps_(static_cast<size_t>(sm.gpu.parameters.consumer_warps), Warp(sm.ring.size())) {}

void Consumers::wake(uint32_t warp) {
  woken_ |= uint64_t{1} << warp;
  sm_.wake(Wake::kConsumers);
}

void Consumers::wake_all() {
  woken_ = (uint64_t{1} << warps_.size()) - 1;
  sm_.wake(Wake::kConsumers);
}

void Consumers::step() {
  while (woken_ != 0) {
    const auto warp = static_cast<uint32_t>(std::countr_zero(woken_));
    woken_ &= woken_ - 1;
    step(warp);
  }
}

void Consumers::step(uint32_t index) {
  Warp& warp = warps_[index];
  while (sm_.has(warp.record)) {
    Record& r = sm_.at(warp.record);
    if (!warp.begun) begin_record(index, r);
    if (r.work.kind != Work::Kind::kStream) {
      start_group(r);
      return;
    }
    if (warp.state == State::kIdle && warp.pages_left == 0) {
      use_panels(warp, r.first_panel + r.activation_panels);
      end_record(warp);
      continue;
    }
    if (warp.state == State::kIdle && !take_page(warp, r)) return;
    if (warp.state == State::kHolding) multiply(index, r);
    return;
  }
}

void Consumers::begin_record(uint32_t index, Record& r) {
  Warp& warp = warps_[index];
  warp.begun = true;
  warp.idle_since = sm_.gpu.clock.now();
  if (r.work.kind == Work::Kind::kStream) {
    warp.pages_left = pages_of(index, r);
    // The warp does not need the panels before that of its first page.
    if (r.mode == Mode::kStreamedPages && warp.pages_left > 0)
      use_panels(warp, r.first_panel + first_of_warp(index, r) / (r.work.units * r.work.matrices));
  } else {
    ++r.warps_arrived;
  }
}

// The warp's first page of a stream whose pages the warps take in turn.
uint32_t Consumers::first_of_warp(uint32_t index, const Record& r) const {
  const auto warps = static_cast<uint32_t>(warps_.size());
  return (index + warps - static_cast<uint32_t>(r.first_page % warps)) % warps;
}

uint32_t Consumers::pages_of(uint32_t index, const Record& r) const {
  const auto warps = static_cast<uint32_t>(warps_.size());
  // How many of the numbers below n equal `first` modulo the number of warps.
  const auto count = [&](uint32_t n, uint32_t first) { return n > first ? (n - first - 1) / warps + 1 : 0; };
  if (r.own_units()) return count(r.work.units, index) * r.work.unit_pages();
  return count(r.work.pages(), first_of_warp(index, r));
}

// A whole page goes into registers as soon as it has landed, which frees its place in the ring.
bool Consumers::take_page(Warp& warp, Record& r) {
  if (warp.pages.empty() || !sm_.page(warp.pages.front()).landed) return false;
  const double now = sm_.gpu.clock.now();
  r.starved_us += now - std::max(warp.idle_since, std::min(now, r.compute_begin));
  warp.taken_at = now;
  warp.page = sm_.page(warp.pages.front());
  warp.state = State::kHolding;
  if (warp.page.whole) {
    warp.taken_at += sm_.gpu.parameters.take_us;
    free_page(warp, warp.taken_at);
  }
  return true;
}

void Consumers::free_page(Warp& warp, double at) {
  sm_.page(warp.pages.front()).free_at = at;
  warp.pages.pop();
  sm_.wake(Wake::kLoader);
}

// Waits until the page's activations are ready, and the earlier unit whose sums lie in the same place is
// stored.
void Consumers::multiply(uint32_t index, Record& r) {
  Gpu& gpu = sm_.gpu;
  const SimParameters& p = gpu.parameters;
  Warp& warp = warps_[index];
  const Page& page = warp.page;
  const uint32_t earlier = page.unit < r.partial_buffers ? 0 : page.unit - r.partial_buffers + 1;
  if (page.sequence >= r.panels_prepared || sm_.storers.stored_units() < r.first_unit + earlier) return;
  const double begin = std::max(gpu.clock.now(), warp.taken_at);
  multiplying_until_ = std::max(multiplying_until_, begin) + gpu.tiles() * p.sm_page_us;
  const double multiply_us = r.mode == Mode::kChains ? p.chain_us : gpu.tiles() * p.multiply_us;
  const double end = std::max(begin + multiply_us, multiplying_until_);
  r.compute_begin = std::min(r.compute_begin, begin);
  warp.state = State::kMultiplying;
  gpu.clock.schedule(end, sm_.index, Step::kMultiplied, index);
}

void Consumers::multiplied(uint32_t index) {
  const double now = sm_.gpu.clock.now();
  Warp& warp = warps_[index];
  Record& r = sm_.at(warp.record);
  if (!warp.page.whole) free_page(warp, now);
  if (!r.resident()) use_panels(warp, r.first_panel + warp.page.next_sequence);
  if (sm_.units.arrive(r.first_unit + warp.page.unit, r.work.unit_pages())) sm_.wake(Wake::kStorers);
  note(r, EventKind::kComputeEnd, now);
  --warp.pages_left;
  warp.idle_since = now;
  warp.state = State::kIdle;
  wake(index);
}

void Consumers::use_panels(Warp& warp, uint64_t panels) {
  warp.used = panels;
  sm_.wake(Wake::kPreparer);
}

void Consumers::end_record(Warp& warp) {
  ++warp.record;
  warp.begun = false;
  sm_.wake(Wake::kController);
}

// --- a group instruction: all warps together, once the inputs are ready

// A group that starts early reads its first window before the inputs are ready. The first instruction of a
// pass cannot: only with the inputs are the pass's rows known.
void Consumers::start_group(Record& r) {
  const bool ready = r.panels_prepared > 0;
  const bool may_start = ready || (r.work.starts_early && !r.begins_pass);
  if (r.warps_arrived < warps_.size() || !may_start) return;
  const bool go_on = !group_runs_ || (ready && group_held_);
  if (!group_runs_) group_bytes_left_ = r.work.bytes;
  group_runs_ = true;
  if (ready) r.compute_begin = std::min(r.compute_begin, sm_.gpu.clock.now());
  if (go_on) group_read();
}

// The group reads its data in windows, one after the other.
void Consumers::group_read() {
  Gpu& gpu = sm_.gpu;
  const double now = gpu.clock.now();
  const Record& r = sm_.at(warps_.front().record);
  group_held_ = r.panels_prepared == 0 && group_bytes_left_ < r.work.bytes;
  if (group_held_) return;
  if (group_bytes_left_ == 0) {
    gpu.clock.schedule(now + group_us(r), sm_.index, Step::kGroupDone);
    return;
  }
  const double window_bytes = r.work.kind == Work::Kind::kTile
                                  ? static_cast<double>(sm_.ring.size()) * kPageBytes
                                  : times_of(gpu, r).window_bytes;
  const auto window = static_cast<uint32_t>(std::min(static_cast<double>(group_bytes_left_), window_bytes));
  group_bytes_left_ -= window;
  if (r.work.from_hbm) {
    sm_.device.hbm.request(now, window, {sm_.index, false});
  } else {
    const double at = sm_.device.l2.read(now, window, sm_.rounds(gpu.parameters.read_rounds));
    gpu.clock.schedule(at, sm_.index, Step::kGroupRead);
  }
}

// Time from now until the group is done, once everything has been read. A tile's slabs have been multiplied
// as its weights came, since its inputs were ready; after the last one the consumers finish it.
double Consumers::group_us(const Record& r) const {
  if (r.work.kind == Work::Kind::kNothing) return 0;
  const Gpu& gpu = sm_.gpu;
  const SimParameters& p = gpu.parameters;
  const OpTimes& times = times_of(gpu, r);
  const Work& work = r.work;
  if (work.kind == Work::Kind::kGroup) {
    constexpr double kMega = 1e6;
    return times.fixed_us + kib(work.bytes) * times.us_per_kib +
           static_cast<double>(work.operations) / kMega * times.us_per_mflop;
  }
  // A slab takes one step for 128 outputs, and two for a wide tile.
  constexpr uint32_t kOutputs = 128;
  const uint32_t steps = (work.weight_rows() + kOutputs - 1) / kOutputs;
  const double rows_us = work.rows * p.slab_row_us * work.weight_rows() / (kOutputs * steps);
  const double multiplied_at = r.compute_begin + work.slabs * steps * std::max(p.slab_us, rows_us);
  const uint64_t sums = uint64_t{work.rows} * work.weight_rows() * sizeof(float);
  const double parts_us = (work.parts - 1) * kib(sums) * p.part_us_per_kib;
  const double finish_us = times.fixed_us + kib(work.written_bytes) * times.us_per_kib + parts_us;
  return std::max(0.0, multiplied_at - gpu.clock.now()) + finish_us;
}

void Consumers::group_done() {
  group_runs_ = false;
  Record& r = sm_.at(warps_.front().record);
  note(r, EventKind::kComputeEnd, sm_.gpu.clock.now());
  r.execution.bytes = r.work.bytes;
  sm_.units.arrive(r.first_unit, 1);
  for (Warp& warp : warps_) {
    use_panels(warp, r.first_panel + 1);
    end_record(warp);
  }
  wake_all();
  sm_.wake(Wake::kStorers);
}

uint64_t Consumers::oldest_record() const {
  uint64_t oldest = warps_.front().record;
  for (const Warp& warp : warps_) oldest = std::min(oldest, warp.record);
  return oldest;
}

uint64_t Consumers::release_panels() const {
  uint64_t used = warps_.front().used;
  for (const Warp& warp : warps_) used = std::min(used, warp.used);
  return used;
}

}  // namespace serval::sim

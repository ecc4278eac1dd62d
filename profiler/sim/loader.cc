#include <algorithm>
#include <limits>

#include "profiler/sim/sm.h"

namespace serval::sim {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

}  // namespace

void Loader::step() {
  const double now = sm_.gpu.clock.now();
  while (sm_.has(record)) {
    Record& r = sm_.at(record);
    if (r.work.kind != Work::Kind::kStream) {
      ++record;
      sm_.wake(Wake::kController);
      continue;
    }
    if (done_ == 0 && !r.execution.has(EventKind::kLoadBegin)) {
      note(r, EventKind::kLoadBegin, now);
      sample(now);
      busy_until_ = std::max(busy_until_, now + sm_.gpu.parameters.load_us);
    }
    if (!room()) return;
    issue(r);
  }
}

// Number of pages that may be in flight when the next one is requested. Decided once, when the loader reaches
// that page.
uint32_t Loader::limit() const {
  const SimParameters& p = sm_.gpu.parameters;
  if (sm_.at(record).inputs_ready) return static_cast<uint32_t>(p.pages_in_flight);
  const auto waiting = static_cast<uint32_t>(p.pages_in_flight_waiting);
  return sm_.gpu.kernel.of_ranks ? std::min(waiting, kPagesBeforeInputsOfRanks) : waiting;
}

// True if a page may be requested now. If not, the loader is woken when this may have changed.
bool Loader::room() {
  const double now = sm_.gpu.clock.now();
  if (limit_ == 0) limit_ = limit();
  if (issued_ - answered_ >= limit_) return false;
  if (now < busy_until_) {
    schedule_retry(busy_until_);
    return false;
  }
  const double free_at = issued_ < sm_.ring.size() ? 0 : sm_.page(issued_).free_at;
  if (free_at <= now) {
    if (no_room_since_ >= 0) room_us_ += now - no_room_since_;
    no_room_since_ = -1;
    return true;
  }
  if (no_room_since_ < 0) no_room_since_ = now;
  if (free_at != kUnknown) schedule_retry(free_at);
  return false;
}

void Loader::schedule_retry(double at) {
  if (scheduled_) return;
  scheduled_ = true;
  sm_.gpu.clock.schedule(at, sm_.index, Step::kIssue);
}

void Loader::issue_again() {
  scheduled_ = false;
  sm_.wake(Wake::kLoader);
}

void Loader::issue(Record& r) {
  Gpu& gpu = sm_.gpu;
  const double now = gpu.clock.now();
  const Page page = page_of(r);
  sm_.page(issued_) = page;
  sm_.device.hbm.request(now, page.bytes, {sm_.index, true});
  sm_.consumers.issued(issued_, page.warp);
  bytes_in_flight_ += page.bytes;
  r.execution.bytes += page.bytes;
  ++issued_;
  limit_ = 0;
  busy_until_ = now + gpu.parameters.issue_us;
  advance(r);
  if (done_ < r.work.pages()) return;
  note(r, EventKind::kLoadIssued, now);
  r.execution.room_ns = ns_of(room_us_);
  room_us_ = 0;
  sample(now);
  done_ = first_unit_ = panel_ = unit_ = matrix_ = 0;
  ++record;
  sm_.wake(Wake::kController);
}

Page Loader::page_of(const Record& r) const {
  const auto warps = static_cast<uint32_t>(sm_.consumers.warps());
  const Work& work = r.work;
  Page page;
  page.record = record;
  page.unit = first_unit_ + unit_;
  page.bytes = work.page_bytes(panel_);
  page.whole = work.whole_page(panel_);
  page.free_at = kUnknown;
  page.warp = r.own_units() ? unit_ : static_cast<uint32_t>(issued_ % warps);
  page.sequence = r.mode == Mode::kStreamedUnits ? page.unit / warps * work.panels + panel_ : panel_;
  page.next_sequence = next_sequence(r, page);
  return page;
}

uint32_t Loader::next_sequence(const Record& r, const Page& page) const {
  const auto warps = static_cast<uint32_t>(sm_.consumers.warps());
  const Work& work = r.work;
  if (r.resident()) return 0;  // all panels are kept until the last page
  if (r.mode == Mode::kStreamedPages) {
    const uint32_t next = done_ + warps;
    return next < work.pages() ? next / (work.units * work.matrices) : r.activation_panels;
  }
  if (matrix_ + 1 < work.matrices) return page.sequence;
  const bool last = panel_ + 1 == work.panels && page.unit + warps >= work.units;
  return last ? r.activation_panels : page.sequence + 1;
}

// Order of the pages. Resident: by unit, matrix, panel. Otherwise: by unit set, panel, matrix, and unit of
// the set.
void Loader::advance(const Record& r) {
  const Work& work = r.work;
  ++done_;
  if (r.mode == Mode::kResident) {
    if (++panel_ < work.panels) return;
    panel_ = 0;
    if (++matrix_ < work.matrices) return;
    matrix_ = 0;
    ++unit_;
    return;
  }
  const uint32_t units_of_set =
      std::min(static_cast<uint32_t>(sm_.consumers.warps()), work.units - first_unit_);
  if (++unit_ < units_of_set) return;
  unit_ = 0;
  if (++matrix_ < work.matrices) return;
  matrix_ = 0;
  if (++panel_ < work.panels) return;
  panel_ = 0;
  first_unit_ += units_of_set;
}

// Memory answers an SM's requests in order. All SMs together can be answered faster than one SM can receive.
void Loader::answer() {
  constexpr double kBytesPerUs = 1e3;  // of 1e9 bytes a second
  const double now = sm_.gpu.clock.now();
  const double us = sm_.page(received_++).bytes / (sm_.gpu.parameters.sm_gb_per_s * kBytesPerUs);
  received_until_ = std::max(now, received_until_ + us);
  sm_.gpu.clock.schedule(received_until_, sm_.index, Step::kAnswered);
}

// The times of the measurement under_load include the loader's noticing of a page, but not a consumer's: that
// comes on top (land_us).
void Loader::answered() {
  bytes_in_flight_ -= sm_.page(answered_++).bytes;
  sm_.wake(Wake::kLoader);
  sm_.gpu.clock.schedule(sm_.gpu.clock.now() + sm_.gpu.parameters.land_us, sm_.index, Step::kLanded);
}

void Loader::landed() {
  const double now = sm_.gpu.clock.now();
  Page& page = sm_.page(landed_++);
  page.landed = true;
  Record& r = sm_.at(page.record);
  if (r.pages_landed++ == 0) {
    note(r, EventKind::kFirstLanded, now);
    sample(now);
  }
  if (r.pages_landed == r.work.pages()) {
    note(r, EventKind::kLastLanded, now);
    sample(now);
  }
  sm_.consumers.wake(page.warp);
}

void Loader::sample(double at) const {
  Recording* recording = sm_.gpu.recording;
  if (recording == nullptr) return;
  uint32_t free_pages = 0;
  for (uint64_t p = issued_ < sm_.ring.size() ? 0 : issued_ - sm_.ring.size(); p < issued_; ++p)
    free_pages += sm_.page(p).free_at <= at ? 1 : 0;
  if (issued_ < sm_.ring.size()) free_pages += static_cast<uint32_t>(sm_.ring.size() - issued_);
  recording->samples.push_back({ns_of(at), sm_.index, bytes_in_flight_, free_pages});
}

}  // namespace serval::sim

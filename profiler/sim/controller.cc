#include <algorithm>
#include <bit>
#include <fmt/format.h>

#include "profiler/sim/sm.h"
#include "vm/base/error.h"
#include "vm/layout/units.h"

namespace serval::sim {
namespace {

// Pages of a launch, 4 TiB of weights: a damaged program must not keep the simulator busy for hours.
constexpr uint64_t kMaxPages = uint64_t{1} << 28;

uint32_t whole(double value) {
  return static_cast<uint32_t>(value);
}

uint32_t activation_buffers(const Gpu& gpu) {
  return std::max(1u, gpu.kernel.activation_rows / gpu.kernel.rows);
}

// Number of units whose sums have room: a power of two, or 0.
uint32_t partial_buffers(const Gpu& gpu, uint32_t matrices, uint32_t parts) {
  const SimParameters& p = gpu.parameters;
  const uint64_t bytes = uint64_t{matrices} * parts * gpu.kernel.rows * kUnitRows * sizeof(float);
  return std::bit_floor(
      static_cast<uint32_t>(std::min(p.partial_bytes / static_cast<double>(bytes), p.partial_buffers)));
}

Mode mode_of(const Gpu& gpu, const Work& work) {
  if (work.chains > 0) return Mode::kChains;
  if (work.panels <= activation_buffers(gpu)) return Mode::kResident;
  const uint32_t warps = whole(gpu.parameters.consumer_warps);
  const bool one_set = work.units <= warps && work.units <= partial_buffers(gpu, work.matrices, work.panels);
  return one_set ? Mode::kStreamedPages : Mode::kStreamedUnits;
}

}  // namespace

void Controller::step() {
  Gpu& gpu = sm_.gpu;
  if (fetching_ || ended_ || sm_.fetched - sm_.oldest_record() >= sm_.records.size()) return;
  if (!take_ticket()) {
    ended_ = true;
    return;
  }
  fetching_ = true;
  note(next_, EventKind::kFetchBegin, gpu.clock.now());
  gpu.clock.schedule(gpu.clock.now() + gpu.parameters.fetch_us, sm_.index, Step::kFetched);
}

// Chooses the next instruction; false after the launch's last one.
bool Controller::take_ticket() {
  Gpu& gpu = sm_.gpu;
  const Program& program = gpu.program;
  const bool global = program.queue_kind == QueueKind::kGlobal;
  const uint32_t queue = global ? 0 : sm_.index;
  const uint32_t begin = program.queue_begin[queue];
  const uint32_t length = program.queue_begin[queue + 1] - begin;
  if (length == 0) return false;
  const uint64_t ticket = global ? gpu.ticket++ : tickets_++;
  if (ticket / length >= gpu.rows.passes.size()) return false;
  next_ = {};
  next_.pass = static_cast<uint32_t>(ticket / length);
  next_.instruction = begin + static_cast<uint32_t>(ticket % length);
  next_.begins_pass = next_.pass + 1 != last_pass_;
  last_pass_ = next_.pass + 1;
  next_.execution.instruction = next_.instruction;
  next_.execution.pass = next_.pass;
  next_.execution.sm = sm_.index;
  return true;
}

void Controller::fetched() {
  fetching_ = false;
  plan(next_);
  note(next_, EventKind::kFetched, sm_.gpu.clock.now());
  sm_.at(sm_.fetched) = next_;
  ++sm_.fetched;
  for (const Wake role :
       {Wake::kController, Wake::kLoader, Wake::kPreparer, Wake::kConsumers, Wake::kStorers})
    sm_.wake(role);
  sm_.consumers.wake_all();
}

void Controller::count_pages(uint64_t pages) {
  sm_.gpu.pages += pages;
  if (sm_.gpu.pages <= kMaxPages) return;
  throw Error(ErrorKind::kRuntime, fmt::format("simulation: {} pages; limit: {}", sm_.gpu.pages, kMaxPages));
}

void Controller::plan(Record& record) {
  const Gpu& gpu = sm_.gpu;
  record.work = work_of(gpu.program, gpu.program.instructions[record.instruction],
                        gpu.rows.passes[record.pass], gpu.rows.blocks);
  const Work& work = record.work;
  record.first_page = next_page_;
  record.first_unit = next_unit_;
  record.first_panel = next_panel_;
  record.activation_panels = 1;
  if (work.kind == Work::Kind::kStream) {
    count_pages(work.pages());
    const uint32_t warps = whole(gpu.parameters.consumer_warps);
    const uint32_t unit_sets = (work.units + warps - 1) / warps;
    record.mode = mode_of(gpu, work);
    record.activation_buffers = activation_buffers(gpu);
    record.activation_panels = record.resident() ? work.panels : unit_sets * work.panels;
    // If each warp has a unit of its own, there is room for a unit of every warp.
    const bool own = record.own_units();
    record.partial_buffers =
        std::max(own ? warps : 1, partial_buffers(gpu, work.matrices, own ? 1 : work.panels));
    next_page_ += work.pages();
    record.tile_units = std::min(gpu.tile_units() * std::max(1u, work.chains), record.partial_buffers);
    record.tiles = (work.units + record.tile_units - 1) / record.tile_units * gpu.tiles_of_unit();
    record.storers = std::clamp(record.tiles, 1u, whole(gpu.parameters.storer_warps));
  }
  next_unit_ += record.units();
  next_panel_ += record.activation_panels;
}

}  // namespace serval::sim

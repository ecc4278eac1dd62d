#include "profiler/sim/simulate.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <memory>
#include <queue>
#include <tuple>
#include <utility>

#include "instructions/isa.h"
#include "profiler/sim/sm.h"
#include "profiler/trace/trace_program.h"
#include "vm/base/error.h"
#include "vm/state/output.h"

namespace serval {
namespace sim {
namespace {

// Runs a launch on the model.
class Simulation {
 public:
  Simulation(const Program& program, const SimParameters& parameters, Rows rows, Recording* recording);
  void run();
  const std::vector<double>& gate_at() const { return gpu_.gate_at; }

 private:
  bool step();
  void dispatch(const Moment& moment);
  void signal(const Record& record, Device& device);
  void add(const Signal& signal, uint32_t pass);
  Device* next_to_answer();
  void check_ended() const;
  std::string stuck_at(const Sm& sm) const;

  // A signal of system scope that has not arrived yet.
  struct Arrival {
    double at;
    uint64_t order;  // decides between arrivals at the same time
    Signal signal;
    uint32_t pass;
    friend bool operator>(const Arrival& a, const Arrival& b) {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  Gpu gpu_;
  std::vector<std::unique_ptr<Sm>> sms_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  uint64_t next_arrival_ = 0;
};

Simulation::Simulation(const Program& program, const SimParameters& parameters, Rows rows,
                       Recording* recording)
    : gpu_(program, parameters, std::move(rows), recording) {
  for (uint32_t sm = 0; sm < program.num_sms(); ++sm) sms_.push_back(std::make_unique<Sm>(gpu_, sm));
}

void Simulation::run() {
  for (const auto& sm : sms_) sm->settle();
  while (step()) {
  }
  check_ended();
}

// Processes the next event: memory answers, a signal arrives, or a role continues.
bool Simulation::step() {
  Clock& clock = gpu_.clock;
  Device* const device = next_to_answer();
  const double answer_at = device == nullptr ? kNever : *device->hbm.next_answer();
  const double arrival_at = arrivals_.empty() ? kNever : arrivals_.top().at;
  const double next_at = clock.empty() ? kNever : clock.next_at();
  if (std::min({answer_at, arrival_at, next_at}) == kNever) return false;
  if (answer_at <= std::min(arrival_at, next_at)) {
    clock.advance(std::max(clock.now(), answer_at));
    const Requester requester = device->hbm.answer(clock.now());
    Sm& sm = *sms_[requester.sm];
    sm.answer(requester.page);
    sm.settle();
  } else if (arrival_at <= next_at) {
    clock.advance(std::max(clock.now(), arrival_at));
    const Arrival arrival = arrivals_.top();
    arrivals_.pop();
    add(arrival.signal, arrival.pass);
  } else {
    dispatch(clock.next());
  }
  return true;
}

// Null if no device has a request.
Device* Simulation::next_to_answer() {
  Device* next = nullptr;
  for (Device& device : gpu_.devices) {
    const std::optional<double> at = device.hbm.next_answer();
    if (at && (next == nullptr || *at < *next->hbm.next_answer())) next = &device;
  }
  return next;
}

void Simulation::dispatch(const Moment& moment) {
  Sm& sm = *sms_[moment.sm];
  if (moment.step == Step::kSignalled) signal(sm.at(sm.storers.record_of(moment.which)), sm.device);
  sm.dispatch(moment.step, moment.which);
  sm.settle();
}

// Everything that a device's SMs push goes over its link, one push after the other. Signals of system scope
// follow the record's push.
void Simulation::signal(const Record& record, Device& device) {
  const Program& program = gpu_.program;
  const SimParameters& p = gpu_.parameters;
  const double now = gpu_.clock.now();
  if (record.work.pushed_bytes > 0) {
    constexpr double kBytesPerGbMicrosecond = 1e3;  // 1e9 bytes a second are 1e3 a microsecond
    device.link_free_at = std::max(device.link_free_at, now) + static_cast<double>(record.work.pushed_bytes) /
                                                                   (p.link_gb_per_s * kBytesPerGbMicrosecond);
  }
  for (const Signal& signal : program.signals_of(program.instructions[record.instruction])) {
    if (program.counters[signal.counter].scope == CounterScope::kSystem) {
      const double pushed_at = record.work.pushed_bytes > 0 ? device.link_free_at : now;
      arrivals_.push({pushed_at + p.link_us, next_arrival_++, signal, record.pass});
    } else {
      add(signal, record.pass);
    }
  }
}

void Simulation::add(const Signal& signal, uint32_t pass) {
  gpu_.counters.add(gpu_.clock.now(), signal, [&](uint32_t waiting) {
    Sm& sm = *sms_[waiting];
    sm.preparer.counter_reached(signal.counter);
    sm.settle();
  });
  const bool gate = signal.counter == gpu_.program.gate_counter;
  if (gate && gpu_.counters.value(signal.counter) >= gpu_.counters.gate_target(pass + 1))
    gpu_.gate_at[pass] = gpu_.clock.now();
}

// An SM that does not wait for others is the cause of the deadlock. Without one, the earliest instruction
// that an SM is stuck at is near it.
void Simulation::check_ended() const {
  const Sm* first = nullptr;
  const auto at = [](const Sm& sm) {
    const Record& r = sm.records[sm.oldest_record() % sm.records.size()];
    const bool for_others = sm.preparer.waits_for_counters() && sm.preparer.record == sm.oldest_record();
    return std::tuple(for_others, r.pass, r.instruction);
  };
  for (const auto& sm : sms_) {
    if (!sm->done() && (first == nullptr || at(*sm) < at(*first))) first = sm.get();
  }
  if (first != nullptr) throw Error(ErrorKind::kRuntime, "simulation: deadlock: " + stuck_at(*first));
}

std::string Simulation::stuck_at(const Sm& sm) const {
  const Program& program = gpu_.program;
  const Record& r = sm.records[sm.oldest_record() % sm.records.size()];
  const Instruction& instruction = program.instructions[r.instruction];
  const std::string where = fmt::format("{}: instruction {} ({}) of pass {}", sm_name(program, sm.index),
                                        r.instruction, op_name(instruction.opcode), r.pass);
  const auto waits_for = [&](uint32_t counter, uint64_t need) {
    return fmt::format("{} waits for counter {}: {} of {}", where, counter, gpu_.counters.value(counter),
                       need);
  };
  const uint32_t gate = program.gate_of(sm.rank);
  if (r.begins_pass && gpu_.counters.value(gate) < gpu_.counters.gate_target(r.pass))
    return waits_for(gate, gpu_.counters.gate_target(r.pass));
  for (const Wait& wait : program.waits_of(instruction)) {
    const uint64_t need = gpu_.counters.target(wait, r.pass);
    if (gpu_.counters.value(wait.counter) < need) return waits_for(wait.counter, need);
  }
  return fmt::format("{} waits for shared memory that an instruction after it holds", where);
}

uint32_t most_tokens(const std::vector<PassRow>& rows) {
  uint32_t most = 0;
  for (const PassRow& row : rows) most = row_is_active(row) ? std::max(most, row.position + 1) : most;
  return most;
}

// The passes of the launch, until no row is active.
Rows rows_of(const Program& program, const SimLaunch& launch) {
  std::vector<Pass> passes;
  uint32_t tokens = 0;
  std::vector<PassRow> rows = launch.rows;
  rows.resize(program.limits.rows);
  while (passes.size() < launch.passes && std::any_of(rows.begin(), rows.end(), row_is_active)) {
    tokens = std::max(tokens, most_tokens(rows));
    passes.emplace_back(rows);
    passes.back().plan(program);
    rows = passes.back().next_rows(program.limits.max_context);
  }
  return {std::move(passes), BlockTable(program.limits.sequences, tokens), row_bound(launch)};
}

void check_launch(const Program& program, const SimLaunch& launch) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorKind::kUsage, "simulation: " + what); };
  const StateLimits& limits = program.limits;
  if (launch.rows.size() > limits.rows)
    refuse(fmt::format("rows: {}; limit: {}", launch.rows.size(), limits.rows));
  if (row_bound(launch) == 0) refuse("rows: none is active");
  if (launch.passes < 1 || launch.passes > launch_passes(limits.rows))
    refuse(fmt::format("passes: {}; limit: 1 to {}", launch.passes, launch_passes(limits.rows)));
  for (const PassRow& row : launch.rows) {
    if (row_is_active(row) && row.position >= limits.max_context)
      refuse(fmt::format("position: {}; limit: {} (the program's context)", row.position,
                         limits.max_context - 1));
    if (row_is_active(row) && row.slot >= limits.sequences)
      refuse(fmt::format("slot: {}; limit: {}", row.slot, limits.sequences - 1));
  }
}

std::vector<double> run(const Program& program, const SimLaunch& launch, const SimParameters& parameters,
                        Recording* recording) {
  check_structure(program);
  check_launch(program, launch);
  check_records(program, check_instruction, "program");
  Simulation simulation(program, parameters, rows_of(program, launch), recording);
  simulation.run();
  return simulation.gate_at();
}

}  // namespace
}  // namespace sim

uint32_t row_bound(const SimLaunch& launch) {
  uint32_t bound = 0;
  for (uint32_t r = 0; r < launch.rows.size(); ++r) bound = row_is_active(launch.rows[r]) ? r + 1 : bound;
  return bound;
}

SimLaunch decode_launch(uint32_t sequences, uint32_t context_tokens, uint32_t passes) {
  SimLaunch launch{.rows = {}, .passes = passes};
  for (uint32_t slot = 0; slot < sequences; ++slot)
    launch.rows.push_back(
        {.active = 1, .wants_logits = 1, .slot = slot, .token = 0, .position = context_tokens});
  return launch;
}

SimLaunch prompt_launch(uint32_t tokens, uint32_t context_tokens) {
  SimLaunch launch{.rows = {}, .passes = 1};
  // The row that wants logits comes first.
  for (uint32_t row = 0; row < tokens; ++row)
    launch.rows.push_back({.active = 1,
                           .wants_logits = row == 0 ? 1U : 0U,
                           .slot = 0,
                           .token = 0,
                           .position = context_tokens + (row + tokens - 1) % tokens});
  return launch;
}

Trace simulate(const Program& program, const SimLaunch& launch, const SimParameters& parameters,
               std::map<std::string, std::string> metadata) {
  sim::Recording recording;
  const std::vector<double> gate_at = sim::run(program, launch, parameters, &recording);
  const sim::Pass first(launch.rows);
  Trace trace;
  trace.source = TraceSource::kSim;
  trace.metadata = std::move(metadata);
  trace.program = trace_program(program, trace_isa(),
                                {.rows = first.active_rows(), .context_tokens = first.mean_context_tokens()});
  for (uint32_t pass = 0; pass < gate_at.size(); ++pass) {
    const double begin = pass == 0 ? 0 : gate_at[pass - 1];
    trace.windows.push_back({pass, sim::ns_of(begin), sim::ns_of(gate_at[pass])});
  }
  trace.executions = std::move(recording.executions);
  trace.samples = std::move(recording.samples);
  // Both are in order of time already.
  std::stable_sort(trace.executions.begin(), trace.executions.end(),
                   [](const Execution& a, const Execution& b) {
                     return std::pair(a.pass, a.sm) < std::pair(b.pass, b.sm);
                   });
  std::stable_sort(trace.samples.begin(), trace.samples.end(),
                   [](const PageSample& a, const PageSample& b) { return a.sm < b.sm; });
  return trace;
}

double predict_us(const Program& program, const SimLaunch& launch, const SimParameters& parameters) {
  const std::vector<double> gate_at = sim::run(program, launch, parameters, nullptr);
  return gate_at.back() - (gate_at.size() > 1 ? gate_at[gate_at.size() - 2] : 0);
}

}  // namespace serval

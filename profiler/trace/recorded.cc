#include "profiler/trace/recorded.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>
#include <vector>

#include "profiler/trace/align_clocks.h"
#include "profiler/trace/align_ranks.h"
#include "profiler/trace/trim.h"
#include "vm/base/error.h"

namespace serval {
namespace {

constexpr uint32_t kNoExecution = 0xffffffff;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kRuntime, "recorded events: " + what);
}

// Converts an SM's ticks to nanoseconds, by the two moments at which both clocks were read.
class SmTime {
 public:
  explicit SmTime(const SmClockSync& sync) : sync_(sync) {
    const auto ticks = static_cast<double>(sync.end.ticks - sync.begin.ticks);
    ns_per_tick_ = ticks > 0 ? static_cast<double>(sync.end.ns - sync.begin.ns) / ticks : 1;
  }
  int64_t at(uint64_t ticks) const {
    const auto since = static_cast<double>(static_cast<int64_t>(ticks - sync_.begin.ticks));
    return static_cast<int64_t>(sync_.begin.ns) + static_cast<int64_t>(since * ns_per_tick_);
  }
  int64_t length(uint32_t ticks) const {
    return static_cast<int64_t>(static_cast<double>(ticks) * ns_per_tick_);
  }

 private:
  const SmClockSync& sync_;
  double ns_per_tick_;
};

struct TimedEvent {
  int64_t ns;
  const Event* event;
};

// The events that a ring still holds, oldest first. Events have only the low words of the clock: the high
// ones are found by going back from the launch's end.
std::vector<TimedEvent> events_of(const EventRings& rings, uint32_t sm, size_t ring) {
  const uint32_t written = rings.written[ring], held = std::min(written, rings.capacity);
  const SmTime time(rings.clocks[sm]);
  std::vector<TimedEvent> out(held);
  uint64_t ticks = rings.clocks[sm].end.ticks;
  for (uint32_t n = 0; n < held; ++n) {
    const Event& event = rings.events[ring * rings.capacity + (written - 1 - n) % rings.capacity];
    ticks += static_cast<uint64_t>(
        static_cast<int64_t>(static_cast<int32_t>(event.ticks - static_cast<uint32_t>(ticks))));
    out[held - 1 - n] = {time.at(ticks), &event};
  }
  return out;
}

// Collects events into executions.
class Collector {
 public:
  Collector(const TraceProgram& program, const EventRings& rings) : program_(program), rings_(rings) {}

  void collect() {
    for (uint32_t sm = 0; sm < rings_.sms; ++sm) {
      for (uint32_t writer = 0; writer < rings_.writers; ++writer) {
        const size_t ring = size_t{sm} * rings_.writers + writer;
        const std::vector<TimedEvent> events = events_of(rings_, sm, ring);
        for (const TimedEvent& e : events) add(sm, e);
        const bool lost_some = events.size() < rings_.written[ring];
        if (lost_some) first_whole_pass = std::max(first_whole_pass, events.front().event->pass + 1U);
      }
    }
  }
  std::vector<Execution> executions;
  std::vector<PageSample> samples;
  uint32_t first_whole_pass = 0;  // rings have lost events of the passes before it

 private:
  void add(uint32_t sm, const TimedEvent& timed);
  Execution& execution(uint32_t sm, const Event& event);

  const TraceProgram& program_;
  const EventRings& rings_;
  std::map<uint32_t, std::vector<uint32_t>> index_;  // [pass][instruction] index of its execution
};

Execution& Collector::execution(uint32_t sm, const Event& event) {
  if (event.instruction >= program_.instructions.size()) {
    refuse(
        fmt::format("SM {}: instruction {}; limit: {}", sm, event.instruction, program_.instructions.size()));
  }
  std::vector<uint32_t>& of_pass = index_[event.pass];
  if (of_pass.empty()) of_pass.assign(program_.instructions.size(), kNoExecution);
  uint32_t& index = of_pass[event.instruction];
  if (index == kNoExecution) {
    index = static_cast<uint32_t>(executions.size());
    Execution& e = executions.emplace_back();
    e.instruction = event.instruction;
    e.pass = event.pass;
    e.sm = sm;
    e.bytes = program_.instructions[event.instruction].bytes;
  }
  return executions[index];
}

void Collector::add(uint32_t sm, const TimedEvent& timed) {
  const Event& event = *timed.event;
  if (event.kind >= kNumEventKinds) refuse(fmt::format("SM {}: event {}", sm, event.kind));
  const auto kind = static_cast<EventKind>(event.kind);
  Execution& e = execution(sm, event);
  const SmTime time(rings_.clocks[sm]);
  switch (kind) {
    case EventKind::kInputsReady:
      e.last_counter = event.argument;
      break;
    case EventKind::kLoadIssued:
      e.room_ns = time.length(event.argument);
      break;
    case EventKind::kLastLanded:
      e.bytes = event.argument;
      break;
    case EventKind::kComputeEnd:
      e.starved_ns = time.length(event.argument);
      break;
    default:
      break;
  }
  e.set(kind, timed.ns);
  if (event.pages != kNoPageSample) {
    samples.push_back({timed.ns, sm, pages_in_flight(event) * kPageBytes, pages_free(event)});
  }
}

// If an instruction has nothing to do, one warp may record the signal some nanoseconds before another one
// records that everything is stored.
void order_ends(std::vector<Execution>& executions) {
  for (Execution& x : executions) {
    if (!x.has(EventKind::kSignalled)) continue;
    for (const EventKind kind : {EventKind::kStoreBegin, EventKind::kStored})
      x.set(kind, std::min(x.time(kind), x.time(EventKind::kSignalled)));
  }
}

// The end of a pass: how many of its instructions have signalled, and when its gate opened.
struct PassEnd {
  size_t signalled = 0;
  int64_t gate_ns = kNever;
};

std::map<uint32_t, PassEnd> pass_ends(const TraceProgram& program, const std::vector<Execution>& executions) {
  std::map<uint32_t, PassEnd> ends;
  for (const Execution& e : executions) {
    if (!e.has(EventKind::kSignalled)) continue;
    PassEnd& end = ends[e.pass];
    ++end.signalled;
    if (signals_gate(program, e.instruction))
      end.gate_ns = std::max(end.gate_ns, e.time(EventKind::kSignalled));
  }
  return ends;
}

// The last consecutive passes, from `first_pass` on, that are complete and have a known begin.
std::vector<PassWindow> windows_of(const TraceProgram& program, const std::vector<Execution>& executions,
                                   uint32_t first_pass, int64_t launch_begin_ns) {
  std::vector<PassWindow> windows;
  int64_t before = launch_begin_ns;
  uint32_t next = 0;
  for (const auto& [pass, end] : pass_ends(program, executions)) {
    const bool complete = pass >= first_pass && end.signalled == program.instructions.size();
    if (pass != next) before = kNever;
    if (!complete || before == kNever) {
      windows.clear();
    } else {
      windows.push_back({pass, before, end.gate_ns});
    }
    before = end.gate_ns;
    next = pass + 1;
  }
  return windows;
}

int64_t launch_begin(const EventRings& rings) {
  uint64_t begin = UINT64_MAX;
  for (const SmClockSync& clock : rings.clocks) begin = std::min(begin, clock.begin.ns);
  return static_cast<int64_t>(begin);
}

// The most records that an SM runs in a pass. With a global queue the number is not fixed: this allows for
// four times an even share, but not more than all.
uint64_t records_of_sm(const TraceProgram& program) {
  constexpr uint64_t kMostShares = 4;
  const uint64_t all = program.instructions.size();
  if (program.global_queue) return std::min(all, kMostShares * (all / program.machine.sms + 1));
  std::vector<uint64_t> records(program.machine.sms);
  for (const TraceInstruction& i : program.instructions) ++records.at(i.queue);
  return *std::max_element(records.begin(), records.end());
}

// Aligns the clocks of the trace's GPUs, and notes in its metadata how far apart they may still be.
void align_ranks(Trace& trace) {
  const RankClocks clocks = rank_clocks(trace);
  correct_ranks(clocks, trace);
  trace.metadata[kClocksMetadata] = describe(clocks);
}

}  // namespace

Trace trace_of(TraceProgram program, const EventRings& rings, TraceSource source,
               std::map<std::string, std::string> metadata) {
  Collector collector(program, rings);
  collector.collect();
  order_ends(collector.executions);
  if (source == TraceSource::kDevice)
    correct_clocks(clock_errors(collector.executions, rings.sms, program.ranks), collector.executions,
                   collector.samples);
  Trace trace;
  trace.source = source;
  trace.metadata = std::move(metadata);
  trace.windows = windows_of(program, collector.executions, collector.first_whole_pass, launch_begin(rings));
  if (trace.windows.empty()) refuse("no pass is complete");
  trace.program = std::move(program);
  // With a global queue there may be more threads than the machine has SMs.
  trace.program.machine.sms = std::max(trace.program.machine.sms, rings.sms);
  trace.executions = std::move(collector.executions);
  const auto order = [](const Execution& e) {
    return std::tuple(e.pass, e.sm, first_time(e), e.instruction);
  };
  std::sort(trace.executions.begin(), trace.executions.end(),
            [&](const Execution& a, const Execution& b) { return order(a) < order(b); });
  trace.samples = std::move(collector.samples);
  if (source == TraceSource::kDevice && trace.program.ranks > 1) align_ranks(trace);
  std::sort(trace.samples.begin(), trace.samples.end(), [](const PageSample& a, const PageSample& b) {
    return std::tuple(a.sm, a.at_ns) < std::tuple(b.sm, b.at_ns);
  });
  const auto all = static_cast<uint32_t>(trace.windows.size());
  return last_tokens(std::move(trace), all);
}

uint32_t ring_capacity(const TraceProgram& program, uint32_t passes) {
  const uint64_t needed = records_of_sm(program) * kNumEventKinds * (uint64_t{passes} + 1);
  constexpr uint64_t kMostEvents = uint64_t{1} << 31;
  return static_cast<uint32_t>(std::min(needed, kMostEvents));
}

}  // namespace serval

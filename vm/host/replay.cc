#include "vm/host/replay.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <vector>

#include "vm/base/error.h"
#include "vm/host/bind_check.h"
#include "vm/host/random_order.h"

namespace serval {
namespace {

enum class Role : uint8_t { kLoad, kCompute, kStore };

// An instruction that an SM has fetched; `done` counts its finished roles.
struct InFlight {
  uint32_t index;
  uint32_t done = 0;
  std::unique_ptr<HostLocal> local;
};

// The records that one SM, or all SMs, fetch from.
struct Queue {
  uint32_t begin, next, end;  // [next, end) have not been fetched in this pass
  uint32_t pass = 0;
};

struct Sm {
  Sm(uint32_t q, uint32_t d) : queue(q), device(d) {}
  Sm(Sm&&) = default;  // movable only: `flight` cannot be copied
  uint32_t queue;
  uint32_t device = 0;
  uint32_t pass = 0;
  bool finished = false;
  std::deque<InFlight> flight;
};

// A role of an instruction that could run now.
struct Step {
  uint32_t sm;
  uint32_t slot;  // in Sm::flight
  uint32_t index;
};

}  // namespace

struct ReplayInterpreter::Impl {
  Impl(const Program& p, const HostIsa& i, HostMemory m, uint64_t s)
      : program(p), isa(i), memory(std::move(m)), seed(s), random(s), counters(p.counters.size(), 0) {
    controls = check_binding(program, isa, memory);
    constexpr uint64_t kMaxDepth = 4;
    depth = 1 + random.below(kMaxDepth);
    if (seed % 2 == 1) victim = static_cast<uint32_t>(random.below(program.instructions.size()));
  }

  uint32_t run(const std::function<void(uint32_t)>& on_pass);
  void start();
  void fetch();
  void pass_gates(const std::function<void(uint32_t)>& on_pass);
  void collect_steps();
  bool may_load(const Instruction& i, uint32_t pass) const;
  void take(const Step& step);
  bool all_finished() const {
    return std::all_of(sms.begin(), sms.end(), [](const Sm& s) { return s.finished; });
  }
  [[noreturn]] void stuck();

  const Program& program;
  const HostIsa& isa;
  HostMemory memory;
  uint64_t seed;
  RandomOrder random;
  std::vector<PassControl*> controls;  // of each device
  uint64_t depth;                      // limit of instructions in flight on an SM
  static constexpr uint32_t kNoInstruction = 0xffffffff;
  uint32_t victim = kNoInstruction;  // the instruction that is held back
  std::vector<uint32_t> counters;
  uint32_t epoch = 0;
  std::vector<Queue> queues;
  std::vector<Sm> sms;
  uint32_t reported = 0;
  std::vector<Step> steps;
};

void ReplayInterpreter::Impl::start() {
  queues.clear();
  for (uint32_t q = 0; q < program.num_queues(); ++q)
    queues.push_back({program.queue_begin[q], program.queue_begin[q], program.queue_begin[q + 1]});
  sms.clear();
  sms.reserve(program.num_sms());
  const bool shared = program.queue_kind == QueueKind::kGlobal;
  for (uint32_t s = 0; s < program.num_sms(); ++s)
    sms.emplace_back(shared ? 0 : s, program.device_of_queue(s));
  reported = 0;
}

// One record an SM, beginning with a random SM: chance decides which SM gets the next record of a shared
// queue.
void ReplayInterpreter::Impl::fetch() {
  const size_t first = random.below(sms.size());
  for (size_t s = 0; s < sms.size(); ++s) {
    Sm& sm = sms[(first + s) % sms.size()];
    Queue& queue = queues[sm.queue];
    if (sm.finished || sm.pass != queue.pass || sm.flight.size() >= depth || queue.next == queue.end)
      continue;
    InFlight f{queue.next++, 0, nullptr};
    f.local = isa.handlers[program.instructions[f.index].opcode]->make_local();
    sm.flight.push_back(std::move(f));
  }
}

bool ReplayInterpreter::Impl::may_load(const Instruction& i, uint32_t pass) const {
  const auto waits = program.waits_of(i);
  const bool waits_over = std::all_of(waits.begin(), waits.end(), [&](const Wait& w) {
    return counter_reached(counters[w.counter],
                           w.threshold + (epoch + pass) * program.counters[w.counter].increments_per_pass);
  });
  return waits_over && isa.handlers[i.opcode]->has_input_of_caller(i, memory);
}

void ReplayInterpreter::Impl::pass_gates(const std::function<void(uint32_t)>& on_pass) {
  for (Sm& sm : sms) {
    const uint32_t gate = program.gate_of(sm.device), per_pass = program.counters[gate].increments_per_pass;
    Queue& queue = queues[sm.queue];
    const bool all_fetched = queue.pass > sm.pass || queue.next == queue.end;
    if (sm.finished || !all_fetched || !sm.flight.empty()) continue;
    if (!counter_reached(counters[gate], (epoch + sm.pass + 1) * per_pass)) continue;
    if (sm.pass == reported && sm.device == 0) {
      if (on_pass) on_pass(reported);
      ++reported;
    }
    sm.finished = controls[sm.device]->last_pass <= sm.pass;
    if (queue.pass == sm.pass++) {
      ++queue.pass;
      queue.next = queue.begin;
    }
  }
}

// Each role of an SM takes the instructions in order: a role of an instruction may run when the same role of
// the previous one is done.
void ReplayInterpreter::Impl::collect_steps() {
  steps.clear();
  for (uint32_t s = 0; s < sms.size(); ++s) {
    const Sm& sm = sms[s];
    for (uint32_t slot = 0; slot < sm.flight.size(); ++slot) {
      const InFlight& f = sm.flight[slot];
      if (slot > 0 && sm.flight[slot - 1].done <= f.done) continue;
      if (f.done == 0 && !may_load(program.instructions[f.index], sm.pass)) continue;
      steps.push_back({s, slot, f.index});
    }
  }
}

void ReplayInterpreter::Impl::take(const Step& step) {
  Sm& sm = sms[step.sm];
  InFlight& f = sm.flight[step.slot];
  const Instruction& i = program.instructions[f.index];
  const HostHandler& handler = *isa.handlers[i.opcode];
  switch (static_cast<Role>(f.done++)) {
    case Role::kLoad:
      handler.load(i, memory, *f.local);
      break;
    case Role::kCompute:
      handler.compute(i, memory, *f.local);
      break;
    case Role::kStore:
      handler.store(i, memory, *f.local);
      for (const Signal& s : program.signals_of(i)) counters[s.counter] += s.increment;
      sm.flight.pop_front();
      break;
  }
}

void ReplayInterpreter::Impl::stuck() {
  std::string blocked = "the gate";
  for (uint32_t s = 0; s < sms.size(); ++s) {
    if (sms[s].flight.empty()) continue;
    const uint32_t index = sms[s].flight.front().index;
    blocked = fmt::format("{} pc {} ({})", sm_name(program, s), index - queues[sms[s].queue].begin,
                          isa.name(program.instructions[index].opcode));
    break;
  }
  std::fill(counters.begin(), counters.end(), 0);
  epoch = 0;
  throw Error(ErrorKind::kDeviceFault,
              fmt::format("host interpreter: {} waits forever (interleaving {})", blocked, seed));
}

uint32_t ReplayInterpreter::Impl::run(const std::function<void(uint32_t)>& on_pass) {
  start();
  for (;;) {
    pass_gates(on_pass);
    if (all_finished()) break;
    fetch();
    collect_steps();
    if (steps.empty()) stuck();
    const auto kept_back = [&](const Step& s) { return s.index == victim; };
    if (!std::all_of(steps.begin(), steps.end(), kept_back)) std::erase_if(steps, kept_back);
    take(steps[random.below(steps.size())]);
  }
  epoch += controls.front()->last_pass + 1;
  return controls.front()->last_pass + 1;
}

ReplayInterpreter::ReplayInterpreter(const Program& program, const HostIsa& isa, HostMemory memory,
                                     uint64_t seed)
    : impl_(std::make_unique<Impl>(program, isa, std::move(memory), seed)) {}
ReplayInterpreter::~ReplayInterpreter() = default;
uint32_t ReplayInterpreter::run(const std::function<void(uint32_t)>& on_pass) {
  return impl_->run(on_pass);
}

}  // namespace serval

#include "profiler/trace/trace.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>

#include "vm/base/error.h"

namespace serval {
namespace {

constexpr int64_t kMaxTime = int64_t{1}
                             << 53;  // integers below it are exact in a double, and so in any JSON reader

// Pairs of events: if both happened, the first is not after the second.
constexpr std::pair<EventKind, EventKind> kInOrder[] = {
    {EventKind::kFetchBegin, EventKind::kFetched},    {EventKind::kLoadBegin, EventKind::kFirstLanded},
    {EventKind::kLoadBegin, EventKind::kLoadIssued},  {EventKind::kFirstLanded, EventKind::kLastLanded},
    {EventKind::kLoadIssued, EventKind::kLastLanded}, {EventKind::kWaitBegin, EventKind::kInputsReady},
    {EventKind::kInputsReady, EventKind::kPrepared},  {EventKind::kComputeBegin, EventKind::kComputeEnd},
    {EventKind::kStoreBegin, EventKind::kStored},     {EventKind::kStored, EventKind::kSignalled},
};

class TraceCheck {
 public:
  TraceCheck(const Trace& trace, const std::string& name)
      : trace_(trace), program_(trace.program), name_(name) {}

  void run() const {
    check_program();
    check_windows();
    for (size_t e = 0; e < trace_.executions.size(); ++e) check_execution(e);
    check_passes();
    check_samples();
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kRuntime, name_ + ": trace: " + what);
  }
  void require(bool good, const char* list, size_t index, const char* field, uint64_t found,
               uint64_t limit) const {
    if (!good) refuse(fmt::format("{} {}: {}: {}; limit: {}", list, index, field, found, limit));
  }
  void below(const char* list, size_t index, const char* field, uint64_t found, uint64_t end) const {
    require(found < end, list, index, field, found, end == 0 ? 0 : end - 1);
  }
  void time(const char* list, size_t index, int64_t ns) const {
    if (ns < 0 || ns >= kMaxTime)
      refuse(fmt::format("{} {}: time: {} ns; limit: 0 to {}", list, index, ns, kMaxTime - 1));
  }
  void check_program() const;
  void check_ranks() const;
  void check_windows() const;
  void check_execution(size_t e) const;
  void check_passes() const;
  void check_pass(std::span<const Execution> executions, uint32_t pass) const;
  void check_samples() const;

  const Trace& trace_;
  const TraceProgram& program_;
  const std::string& name_;
};

void TraceCheck::check_program() const {
  if (program_.machine.sms < 1 || program_.machine.sms > kMaxTraceSms)
    refuse(fmt::format("machine: {} SMs; limit: 1 to {}", program_.machine.sms, kMaxTraceSms));
  const size_t counters = program_.increments_per_pass.size();
  check_ranks();
  uint64_t waits = 0, signals = 0;
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const TraceInstruction& t = program_.instructions[i];
    below("instruction", i, "op", t.op, program_.ops.size());
    below("instruction", i, "queue", t.queue, program_.machine.sms);
    below("instruction", i, "waits", uint64_t{t.wait_begin} + t.wait_count, program_.waits.size() + 1);
    below("instruction", i, "signals", uint64_t{t.signal_begin} + t.signal_count,
          program_.signals.size() + 1);
    waits += t.wait_count;
    signals += t.signal_count;
  }
  // Instructions share none of them, so that walking them takes no longer than reading them.
  require(waits <= program_.waits.size(), "program", 0, "waits", waits, program_.waits.size());
  require(signals <= program_.signals.size(), "program", 0, "signals", signals, program_.signals.size());
  for (size_t w = 0; w < program_.waits.size(); ++w)
    below("wait", w, "counter", program_.waits[w].counter, counters);
  for (size_t s = 0; s < program_.signals.size(); ++s)
    below("signal", s, "counter", program_.signals[s].counter, counters);
}

void TraceCheck::check_ranks() const {
  if (program_.ranks < 1 || program_.ranks > kMaxDevices || program_.machine.sms % program_.ranks != 0) {
    refuse(fmt::format("program: {} ranks of {} SMs; limit: 1 to {} with as many SMs each", program_.ranks,
                       program_.machine.sms, kMaxDevices));
  }
  const size_t counters = program_.increments_per_pass.size();
  below("program", 0, "gate_counter", uint64_t{program_.gate_counter} + program_.ranks - 1, counters);
  for (size_t p = 0; p < program_.pushes.size(); ++p) {
    const TracePush& push = program_.pushes[p];
    below("push", p, "instruction", push.instruction, program_.instructions.size());
    below("push", p, "to", push.to, program_.ranks);
    if (program_.rank_of(program_.instructions[push.instruction].queue) == push.to)
      refuse(fmt::format("push {}: to: the instruction's own rank", p));
    if (p > 0 && program_.pushes[p - 1].instruction > push.instruction)
      refuse(fmt::format("push {}: not in order of instruction", p));
  }
}

void TraceCheck::check_windows() const {
  if (trace_.windows.empty()) refuse("no token");
  for (size_t w = 0; w < trace_.windows.size(); ++w) {
    const PassWindow& window = trace_.windows[w];
    time("window", w, window.begin_ns);
    time("window", w, window.end_ns);
    if (window.end_ns <= window.begin_ns) refuse(fmt::format("window {}: ends before it begins", w));
    if (w == 0) continue;
    const PassWindow& before = trace_.windows[w - 1];
    if (window.pass != before.pass + 1 || window.begin_ns != before.end_ns)
      refuse(fmt::format("window {}: does not follow the one before", w));
  }
}

void TraceCheck::check_execution(size_t e) const {
  const Execution& x = trace_.executions[e];
  below("execution", e, "instruction", x.instruction, program_.instructions.size());
  below("execution", e, "sm", x.sm, program_.machine.sms);
  if (x.last_counter != kNoCounter)
    below("execution", e, "last_counter", x.last_counter, program_.increments_per_pass.size());
  if (x.pass < trace_.windows.front().pass || x.pass > uint64_t{trace_.windows.back().pass} + 1)
    refuse(fmt::format("execution {}: pass: {}; limit: {} to {}", e, x.pass, trace_.windows.front().pass,
                       uint64_t{trace_.windows.back().pass} + 1));
  for (const int64_t ns : x.at) {
    if (ns != kNever) time("execution", e, ns);
  }
  if (first_time(x) == INT64_MAX) refuse(fmt::format("execution {}: no event", e));
  time("execution", e, x.room_ns);
  time("execution", e, x.starved_ns);
  for (const auto& [first, second] : kInOrder) {
    if (x.has(first) && x.has(second) && x.time(first) > x.time(second))
      refuse(fmt::format("execution {}: {} is after {}", e, info_of(first).name, info_of(second).name));
  }
}

// Executions must be in order of pass, and each pass with a window must be complete.
void TraceCheck::check_passes() const {
  const auto by_pass = [](const Execution& a, const Execution& b) { return a.pass < b.pass; };
  if (!std::is_sorted(trace_.executions.begin(), trace_.executions.end(), by_pass))
    refuse("executions: not in order of their passes");
  size_t begin = 0;
  for (const PassWindow& window : trace_.windows) {
    size_t end = begin;
    while (end < trace_.executions.size() && trace_.executions[end].pass == window.pass) ++end;
    check_pass(std::span(trace_.executions).subspan(begin, end - begin), window.pass);
    begin = end;
  }
}

void TraceCheck::check_pass(std::span<const Execution> executions, uint32_t pass) const {
  if (executions.size() != program_.instructions.size())
    refuse(fmt::format("pass {}: {} executions of {} instructions", pass, executions.size(),
                       program_.instructions.size()));
  std::vector<bool> seen(executions.size(), false);
  for (const Execution& x : executions) {
    if (seen[x.instruction] || !x.has(EventKind::kSignalled))
      refuse(fmt::format("pass {}: instruction {} does not signal once", pass, x.instruction));
    seen[x.instruction] = true;
  }
}

void TraceCheck::check_samples() const {
  for (size_t s = 0; s < trace_.samples.size(); ++s) {
    const PageSample& sample = trace_.samples[s];
    below("sample", s, "sm", sample.sm, program_.machine.sms);
    time("sample", s, sample.at_ns);
    if (s == 0) continue;
    const PageSample& before = trace_.samples[s - 1];
    if (std::pair(before.sm, before.at_ns) > std::pair(sample.sm, sample.at_ns))
      refuse(fmt::format("sample {}: not in order of SM and time", s));
  }
}

}  // namespace

int64_t first_time(const Execution& execution) {
  int64_t first = INT64_MAX;
  for (const int64_t t : execution.at) {
    if (t != kNever) first = std::min(first, t);
  }
  return first;
}

std::span<const TracePush> pushes_of(const TraceProgram& program, uint32_t instruction) {
  const auto [first, last] =
      std::equal_range(program.pushes.begin(), program.pushes.end(), TracePush{.instruction = instruction},
                       [](const TracePush& a, const TracePush& b) { return a.instruction < b.instruction; });
  return {first, last};
}

std::string sm_name(const TraceProgram& program, uint32_t sm) {
  if (program.ranks == 1) return fmt::format("SM {}", sm);
  return fmt::format("GPU {} SM {}", program.rank_of(sm), sm % program.sms_of_rank());
}

bool signals_gate(const TraceProgram& program, uint32_t instruction) {
  const TraceInstruction& i = program.instructions[instruction];
  const auto first = program.signals.begin() + i.signal_begin;
  return std::any_of(first, first + i.signal_count,
                     [&](const Signal& s) { return s.counter == program.gate_counter; });
}

void check_trace(const Trace& trace, const std::string& name) {
  TraceCheck(trace, name).run();
}

}  // namespace serval

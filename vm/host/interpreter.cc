#include "vm/host/interpreter.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "vm/base/error.h"
#include "vm/host/bind_check.h"
#include "vm/host/recorder.h"
#include "vm/state/control.h"

namespace serval {
namespace {

using Clock = std::chrono::steady_clock;

// Position of one SM: the next record of its queue, or the gate at the end of the pass.
struct Cursor {
  uint32_t sm = 0;
  uint32_t pass = 0;  // of this launch
  size_t at = 0;      // index into Program::instructions
  size_t end = 0;     // one past the queue's last
  bool done = false;
  uint32_t waiting_for = kNoCounter;  // the counter that it waited for when last polled
};

// Waits cheaply at first (spinning, then yielding) and with little CPU time when waits are long (sleeping).
// It also remembers how long nothing has happened, so that a waiting thread can poll all its SMs between two
// readings of the clock.
class Backoff {
 public:
  void reset() { rounds_ = 0; }
  void pause() {
    if (++rounds_ < kSpins) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else if (rounds_ < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  bool long_wait() const {
    return rounds_ >= kYields;
  }
  // Seconds for which `progress` has not changed and no thread was busy.
  double idle_s(uint64_t progress, bool busy) {
    const auto now = Clock::now();
    if (rounds_ == kYields || busy || progress != progress_) {
      progress_ = progress;
      since_ = now;
    }
    return std::chrono::duration<double>(now - since_).count();
  }

 private:
  static constexpr int kSpins = 2000, kYields = 4000;
  int rounds_ = 0;
  uint64_t progress_ = 0;
  Clock::time_point since_;
};

}  // namespace

struct HostInterpreter::Impl {
  Impl(const Program& p, const HostIsa& i, HostMemory m, const HostOptions& o);
  ~Impl();

  uint32_t run(const std::function<void(uint32_t)>& on_pass);

  // One thread's share of a launch. Thread 0 is the caller of run().
  void work(uint32_t thread);
  void work_queues(uint32_t thread);
  void work_global(uint32_t thread);
  bool step(Cursor& cursor, uint32_t thread);
  void execute(const Cursor& cursor, uint32_t thread);
  const Wait* blocked_on(const Instruction& instruction, uint32_t pass) const;
  std::vector<uint32_t> queues_of(uint32_t thread) const;
  uint32_t device_of(const Cursor& cursor) const {
    return program.queue_kind == QueueKind::kGlobal ? 0 : program.device_of_queue(cursor.sm);
  }
  uint32_t gate_of(const Cursor& cursor) const { return program.gate_of(device_of(cursor)); }
  bool waits_for_caller(const Instruction& instruction) const {
    return !isa.handlers[instruction.opcode]->has_input_of_caller(instruction, memory);
  }
  bool gate_open(uint32_t device, uint32_t pass);
  bool is_last(uint32_t device, uint32_t pass) const;
  void after_pass(uint32_t thread, uint32_t pass);
  void wait_or_fault(const Cursor& cursor, Backoff& backoff);
  std::string describe(const Cursor& cursor) const;
  void record(const Cursor& cursor, EventKind kind, uint32_t argument = 0);
  void record_waiting(Cursor& cursor, uint32_t counter);
  void record_at_gate(Cursor& cursor);
  void record_ready(Cursor& cursor);
  void fail(std::exception_ptr error);
  void thread_main(uint32_t thread);
  void zero_counters();

  const Program& program;
  const HostIsa& isa;
  HostMemory memory;
  HostOptions options;
  std::vector<PassControl*> controls;  // of each device

  std::unique_ptr<std::atomic<uint32_t>[]> counters;
  uint32_t epoch = 0;  // passes run before this launch
  // locals[thread][opcode], kept from instruction to instruction so that their memory is allocated once.
  std::vector<std::vector<std::unique_ptr<HostLocal>>> locals;
  std::unique_ptr<HostRecorder> recorder;  // null: nothing is recorded

  // State of the launch in flight.
  const std::function<void(uint32_t)>* on_pass = nullptr;
  uint32_t handed_out = 0;                                       // passes that on_pass has been called for
  std::atomic<uint64_t> ticket{0};                               // global queue: the next record
  std::array<std::atomic<uint32_t>, kMaxDevices> passes_over{};  // by device
  std::atomic<uint64_t> progress{0};                             // instructions finished
  std::atomic<int> busy{0};                                      // instructions and callbacks running
  std::atomic<bool> aborted{false};
  std::mutex error_mutex;
  std::exception_ptr error;

  // For starting and ending launches.
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable wake, finished;
  uint64_t launch = 0;
  uint32_t running = 0;
  bool quit = false;
};

HostInterpreter::Impl::Impl(const Program& p, const HostIsa& i, HostMemory m, const HostOptions& o)
    : program(p), isa(i), memory(std::move(m)), options(o) {
  controls = check_binding(program, isa, memory);

  // More threads than queues would have no work.
  options.threads = std::max<uint32_t>(1, options.threads);
  if (program.queue_kind == QueueKind::kPerSm)
    options.threads = std::min(options.threads, program.num_queues());
  counters = std::make_unique<std::atomic<uint32_t>[]>(program.counters.size());
  zero_counters();
  for (uint32_t t = 0; t < options.threads; ++t) {
    locals.emplace_back();
    for (const HostHandler* handler : isa.handlers) locals.back().push_back(handler->make_local());
  }
  for (uint32_t t = 1; t < options.threads; ++t) threads.emplace_back([this, t] { thread_main(t); });
}

HostInterpreter::Impl::~Impl() {
  {
    const std::lock_guard lock(mutex);
    quit = true;
  }
  wake.notify_all();
  for (std::thread& t : threads) t.join();
}

void HostInterpreter::Impl::zero_counters() {
  for (size_t c = 0; c < program.counters.size(); ++c) counters[c].store(0, std::memory_order_relaxed);
  epoch = 0;
}

void HostInterpreter::Impl::thread_main(uint32_t thread) {
  uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex);
      wake.wait(lock, [&] { return quit || launch != seen; });
      if (quit) return;
      seen = launch;
    }
    work(thread);
    {
      const std::lock_guard lock(mutex);
      --running;
    }
    finished.notify_one();
  }
}

uint32_t HostInterpreter::Impl::run(const std::function<void(uint32_t)>& callback) {
  on_pass = &callback;
  aborted = false;
  error = nullptr;
  handed_out = 0;
  ticket = 0;
  for (std::atomic<uint32_t>& passes : passes_over) passes = 0;
  busy = 0;  // a thread that threw in the previous launch has left it above 0
  {
    const std::lock_guard lock(mutex);
    running = static_cast<uint32_t>(threads.size());
    ++launch;
    if (recorder) recorder->begin_launch();
  }
  wake.notify_all();
  work(0);
  {
    std::unique_lock lock(mutex);
    finished.wait(lock, [&] { return running == 0; });
  }
  if (recorder) recorder->end_launch();
  if (error) {
    zero_counters();
    std::rethrow_exception(error);
  }
  const uint32_t passes = std::atomic_ref(controls.front()->last_pass).load(std::memory_order_acquire) + 1;
  epoch += passes;
  return passes;
}

void HostInterpreter::Impl::work(uint32_t thread) {
  try {
    if (program.queue_kind == QueueKind::kGlobal) {
      work_global(thread);
    } else {
      work_queues(thread);
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

void HostInterpreter::Impl::fail(std::exception_ptr e) {
  const std::lock_guard lock(error_mutex);
  if (!error) error = std::move(e);
  aborted.store(true, std::memory_order_release);
}

const Wait* HostInterpreter::Impl::blocked_on(const Instruction& instruction, uint32_t pass) const {
  for (const Wait& w : program.waits_of(instruction)) {
    const uint32_t target = w.threshold + (epoch + pass) * program.counters[w.counter].increments_per_pass;
    if (!counter_reached(counters[w.counter].load(std::memory_order_acquire), target)) return &w;
  }
  return nullptr;
}

// True if pass `pass` is over on a device, and its decision published. A thread without work may ask passes
// later, when the counter is too far beyond the target for a wrapping comparison; so checks `passes_over`
// first, which is set before any thread begins the next pass.
bool HostInterpreter::Impl::gate_open(uint32_t device, uint32_t pass) {
  std::atomic<uint32_t>& over = passes_over[device];
  if (pass < over.load(std::memory_order_acquire)) return true;
  const uint32_t gate = program.gate_of(device);
  const uint32_t target = (epoch + pass + 1) * program.counters[gate].increments_per_pass;
  if (!counter_reached(counters[gate].load(std::memory_order_acquire), target)) return false;
  uint32_t expected = pass;
  over.compare_exchange_strong(expected, pass + 1, std::memory_order_acq_rel);
  return true;
}

bool HostInterpreter::Impl::is_last(uint32_t device, uint32_t pass) const {
  return std::atomic_ref(controls[device]->last_pass).load(std::memory_order_acquire) <= pass;
}

void HostInterpreter::Impl::record(const Cursor& cursor, EventKind kind, uint32_t argument) {
  if (recorder) recorder->record(cursor.sm, kind, cursor.at, cursor.pass, argument);
}

// Records that the cursor waits. May be called repeatedly during one wait.
void HostInterpreter::Impl::record_waiting(Cursor& cursor, uint32_t counter) {
  if (cursor.waiting_for == kNoCounter) record(cursor, EventKind::kWaitBegin, counter);
  cursor.waiting_for = counter;
}

// Recorded for the SM's first instruction of the next pass, since that is the one that waits.
void HostInterpreter::Impl::record_at_gate(Cursor& cursor) {
  if (!recorder || cursor.waiting_for != kNoCounter || program.queue(cursor.sm).empty()) return;
  cursor.waiting_for = gate_of(cursor);
  recorder->record(cursor.sm, EventKind::kWaitBegin, program.queue_begin[cursor.sm], cursor.pass + 1,
                   cursor.waiting_for);
}

void HostInterpreter::Impl::record_ready(Cursor& cursor) {
  record(cursor, EventKind::kInputsReady, cursor.waiting_for);
  cursor.waiting_for = kNoCounter;
}

void HostInterpreter::Impl::execute(const Cursor& cursor, uint32_t thread) {
  const Instruction& instruction = program.instructions[cursor.at];
  busy.fetch_add(1, std::memory_order_relaxed);
  const HostHandler& handler = *isa.handlers[instruction.opcode];
  HostLocal& local = *locals[thread][instruction.opcode];
  handler.load(instruction, memory, local);
  record(cursor, EventKind::kPrepared);
  record(cursor, EventKind::kComputeBegin);
  handler.compute(instruction, memory, local);
  record(cursor, EventKind::kComputeEnd);
  record(cursor, EventKind::kStoreBegin);
  handler.store(instruction, memory, local);
  record(cursor, EventKind::kStored);
  record(cursor, EventKind::kSignalled);
  for (const Signal& s : program.signals_of(instruction)) {
    counters[s.counter].fetch_add(s.increment, std::memory_order_release);
  }
  progress.fetch_add(1, std::memory_order_relaxed);
  busy.fetch_sub(1, std::memory_order_relaxed);
}

// Calls on_pass on the caller's thread, before that thread runs anything of the next pass, which may need
// input from the caller.
void HostInterpreter::Impl::after_pass(uint32_t thread, uint32_t pass) {
  if (thread != 0 || pass < handed_out) return;
  ++handed_out;
  if (!*on_pass) return;
  busy.fetch_add(1, std::memory_order_relaxed);  // waiting for the host does not count as a stall
  (*on_pass)(pass);
  progress.fetch_add(1, std::memory_order_relaxed);
  busy.fetch_sub(1, std::memory_order_relaxed);
}

// Runs the SM's next record, or passes the gate. Returns false if it must wait.
bool HostInterpreter::Impl::step(Cursor& cursor, uint32_t thread) {
  if (cursor.at < cursor.end) {
    if (const Wait* wait = blocked_on(program.instructions[cursor.at], cursor.pass)) {
      record_waiting(cursor, wait->counter);
      return false;
    }
    if (waits_for_caller(program.instructions[cursor.at])) return false;
    record_ready(cursor);
    execute(cursor, thread);
    ++cursor.at;
    return true;
  }
  if (!gate_open(device_of(cursor), cursor.pass)) {
    record_at_gate(cursor);
    return false;
  }
  if (device_of(cursor) == 0) after_pass(thread, cursor.pass);
  cursor.done = is_last(device_of(cursor), cursor.pass);
  cursor.at = program.queue_begin[cursor.sm];
  ++cursor.pass;
  return true;
}

// Divides the threads among the devices. With fewer threads than devices, a thread serves several devices.
std::vector<uint32_t> HostInterpreter::Impl::queues_of(uint32_t thread) const {
  const uint32_t devices = program.num_devices, all = options.threads;
  std::vector<uint32_t> out;
  for (uint32_t device = 0; device < devices; ++device) {
    const uint32_t begin = device * all / devices, end = std::max(begin + 1, (device + 1) * all / devices);
    if (thread < begin || thread >= end) continue;
    for (uint32_t sm = thread - begin; sm < program.machine.sms; sm += end - begin)
      out.push_back(device * program.machine.sms + sm);
  }
  return out;
}

void HostInterpreter::Impl::work_queues(uint32_t thread) {
  std::vector<Cursor> cursors;
  for (const uint32_t sm : queues_of(thread))
    cursors.push_back({sm, 0, program.queue_begin[sm], program.queue_begin[sm + 1]});
  Backoff backoff;
  for (size_t left = cursors.size(); left > 0;) {
    const Cursor* waiting = nullptr;
    bool moved = false;
    for (Cursor& cursor : cursors) {
      if (cursor.done) continue;
      while (!cursor.done && step(cursor, thread)) moved = true;
      if (cursor.done) {
        --left;
      } else {
        waiting = &cursor;
      }
      if (aborted.load(std::memory_order_relaxed)) return;
    }
    if (moved) {
      backoff.reset();
    } else if (waiting != nullptr) {
      wait_or_fault(*waiting, backoff);
    }
    if (aborted.load(std::memory_order_relaxed)) return;
  }
}

// Tickets number the records of all passes; the thread that draws a ticket runs that record.
void HostInterpreter::Impl::work_global(uint32_t thread) {
  const uint64_t count = program.instructions.size();
  Backoff backoff;
  uint32_t passed = 0;  // gates this thread has passed; with few records a ticket may be several passes ahead
  for (;;) {
    const uint64_t n = ticket.fetch_add(1, std::memory_order_relaxed);
    Cursor cursor{thread, static_cast<uint32_t>(n / count), n % count, count};
    for (; passed < cursor.pass; ++passed) {
      const Cursor gate{thread, passed, count, count};
      for (backoff.reset(); !gate_open(0, passed); wait_or_fault(gate, backoff)) {
        record_waiting(cursor, program.gate_counter);
        if (aborted.load(std::memory_order_relaxed)) return;
      }
      after_pass(thread, passed);
      if (is_last(0, passed)) return;
    }
    backoff.reset();
    while (const Wait* wait = blocked_on(program.instructions[cursor.at], cursor.pass)) {
      record_waiting(cursor, wait->counter);
      wait_or_fault(cursor, backoff);
      if (aborted.load(std::memory_order_relaxed)) return;
    }
    while (waits_for_caller(program.instructions[cursor.at])) {
      wait_or_fault(cursor, backoff);
      if (aborted.load(std::memory_order_relaxed)) return;
    }
    record_ready(cursor);
    execute(cursor, thread);
  }
}

std::string HostInterpreter::Impl::describe(const Cursor& cursor) const {
  const uint32_t pc = static_cast<uint32_t>(
      cursor.at - (program.queue_kind == QueueKind::kGlobal ? 0 : program.queue_begin[cursor.sm]));
  uint32_t counter = gate_of(cursor);
  uint32_t threshold = program.counters[counter].increments_per_pass;
  const char* what = "the gate";
  const std::string sm = sm_name(program, cursor.sm);
  if (cursor.at < cursor.end) {
    const Instruction& instruction = program.instructions[cursor.at];
    what = isa.name(instruction.opcode);
    const Wait* wait = blocked_on(instruction, cursor.pass);
    if (wait == nullptr)
      return fmt::format("{} pc {} ({}){}", sm, pc, what,
                         waits_for_caller(instruction) ? " waits for what the caller gives" : "");
    counter = wait->counter;
    threshold = wait->threshold;
  }
  const uint32_t need = threshold + (epoch + cursor.pass) * program.counters[counter].increments_per_pass;
  return fmt::format("{} pc {} ({}) waits for counter {}: has {}, needs {}", sm, pc, what, counter,
                     counters[counter].load(std::memory_order_relaxed), need);
}

// One step of waiting. Fails the launch after no instruction has run or finished for the stall timeout.
// Returns between two polls, because another SM of this thread may be ready to go on.
void HostInterpreter::Impl::wait_or_fault(const Cursor& cursor, Backoff& backoff) {
  backoff.pause();
  if (!backoff.long_wait()) return;
  const double idle_s =
      backoff.idle_s(progress.load(std::memory_order_relaxed), busy.load(std::memory_order_relaxed) > 0);
  if (idle_s <= options.stall_timeout_s || aborted.load(std::memory_order_relaxed)) return;
  fail(std::make_exception_ptr(
      Error(ErrorKind::kDeviceFault, "host interpreter: no progress: " + describe(cursor))));
}

HostInterpreter::HostInterpreter(const Program& program, const HostIsa& isa, HostMemory memory,
                                 const HostOptions& options)
    : impl_(std::make_unique<Impl>(program, isa, std::move(memory), options)) {}
HostInterpreter::~HostInterpreter() = default;
uint32_t HostInterpreter::run(const std::function<void(uint32_t)>& on_pass) {
  return impl_->run(on_pass);
}

void HostInterpreter::record(uint32_t events_of_ring) {
  impl_->recorder.reset();
  if (events_of_ring == 0) return;
  const uint32_t sms = std::max(impl_->program.num_sms(), impl_->options.threads);
  impl_->recorder = std::make_unique<HostRecorder>(sms, std::bit_ceil(events_of_ring));
}

const EventRings& HostInterpreter::events() const {
  return impl_->recorder->rings();
}

}  // namespace serval

#include "vm/device/interpreter.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <fmt/format.h>
#include <tuple>
#include <utility>

#include "vm/base/error.h"
#include "vm/device/bound_rank.h"

namespace serval {
namespace {

using device::BoundRank;
using device::FaultKind;
using device::FaultRecord;
using device::HostWord;
using device::Role;

void check_program(const Program& program, const DeviceIsa& isa, const DeviceMemory& memory,
                   const DeviceOptions& options) {
  check_structure(program);
  check_records(program, isa.check, "program");
  if (program.num_devices != options.ranks.size()) {
    throw Error(ErrorKind::kRuntime, fmt::format("program: for {} devices; expected {}", program.num_devices,
                                                 options.ranks.size()));
  }
  if (options.threads && options.threads->size() != program.num_devices) {
    throw Error(ErrorKind::kRuntime, fmt::format("program: for {} devices; expected {} (the host's threads)",
                                                 program.num_devices, options.threads->size()));
  }
  for (uint32_t t = 0; t < program.tensors.size(); ++t) {
    if (t >= memory.size() || !memory.bound({t})) {
      throw Error(ErrorKind::kRuntime, fmt::format("program: tensor '{}' has no GPU memory",
                                                   name_in(program, program.tensors[t])));
    }
  }
}

const char* name_of(Role role) {
  constexpr std::array kNames = {"controller's fetches", "preparer's copies", "consumers"};
  return kNames.at(static_cast<size_t>(role));
}

}  // namespace

struct DeviceInterpreter::Impl {
  Impl(const Program& program_in, const DeviceIsa& isa_in, const DeviceMemory& memory,
       const DeviceOptions& options_in);

  uint32_t run(const std::function<void(uint32_t)>& on_pass, const std::function<void()>& on_started,
               const std::function<void(uint32_t)>& upload);

  void check_kernels() const;
  void start(const std::function<void(uint32_t)>& upload);
  uint32_t report_passes(const std::function<void(uint32_t)>& on_pass);
  uint32_t host_word(HostWord word) const {
    return std::atomic_ref(host_words.data()[word]).load(std::memory_order_acquire);
  }
  std::vector<FaultRecord> faults() const;
  std::vector<bool> pending_counters(const std::vector<FaultRecord>& all) const;
  void reset_after_failure() noexcept;
  [[noreturn]] void throw_fault();
  std::string describe(size_t sm, const FaultRecord& fault) const;

  const Program& program;
  const DeviceIsa& isa;
  const DeviceOptions options;
  const std::shared_ptr<RankThreads> threads;
  std::vector<const DeviceKernelChoice*> kernels;  // those that can run the program
  PinnedArray<uint32_t> host_words{device::kNumHostWords};
  std::vector<std::unique_ptr<BoundRank>> ranks;
  EventRings events;  // of all ranks, if there are several
  double kernel_us = 0;
};

DeviceInterpreter::Impl::Impl(const Program& program_in, const DeviceIsa& isa_in, const DeviceMemory& memory,
                              const DeviceOptions& options_in)
    : program((check_program(program_in, isa_in, memory, options_in), program_in)),
      isa(isa_in),
      options(options_in),
      threads(options.threads ? options.threads : std::make_shared<RankThreads>(program.num_devices)),
      ranks(program.num_devices) {
  for (const DeviceKernelChoice& choice : isa.kernels) {
    if (choice.runs == nullptr || choice.runs(program)) kernels.push_back(&choice);
  }
  check_kernels();
  threads->run([&](uint32_t rank) {
    ranks[rank] =
        std::make_unique<BoundRank>(program, isa, kernels, memory, options, rank, host_words.device_data());
  });
  for (const auto& rank : ranks) rank->connect(ranks);
}

void DeviceInterpreter::Impl::check_kernels() const {
  if (kernels.empty())
    throw Error(ErrorKind::kRuntime, "program: no kernel has code for all of its instructions");
  const unsigned rows = kernels.back()->single_rows ? 0 : kernels.back()->rows;  // for any pass
  if (program.limits.rows > rows) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("program: {} rows a pass; limit: {} (the kernels)", program.limits.rows, rows));
  }
  for (const DeviceKernelChoice* choice : kernels) {
    if (program.machine.pages_per_sm <= choice->pages) continue;
    throw Error(ErrorKind::kRuntime, fmt::format("program: compiled for {} pages an SM; the kernel has {}",
                                                 program.machine.pages_per_sm, choice->pages));
  }
}

// Enqueues all copies before any kernel. Where ranks share a GPU, a copy enqueued after another rank's kernel
// could wait for it, while that kernel waits for this rank. If one rank's kernel cannot be enqueued, the
// other ranks give up; otherwise they would wait for it until the time-out.
void DeviceInterpreter::Impl::start(const std::function<void(uint32_t)>& upload) {
  try {
    if (upload) {
      threads->run([&](uint32_t rank) {
        use_gpu(options.ranks[rank].gpu);
        upload(rank);
      });
    }
    threads->run([&](uint32_t rank) { ranks[rank]->start(); });
  } catch (...) {
    for (const auto& rank : ranks) rank->give_up();
    throw;
  }
}

// Returns when the kernels and everything enqueued after them have ended; each rank's thread waits for its
// own. The published count may go back: a late storer may publish a pass after another storer has published
// the next one.
uint32_t DeviceInterpreter::Impl::report_passes(const std::function<void(uint32_t)>& on_pass) {
  constexpr uint32_t kLooksBetweenQueries = 1024;
  uint32_t reported = 0;
  const auto report = [&](uint32_t done) {
    for (; reported < done; ++reported) {
      if (on_pass) on_pass(reported);
    }
  };
  const uint32_t passes = ranks.front()->launch().passes;
  threads->run([&](uint32_t index) {
    const BoundRank& rank = *ranks[index];
    rank.mark_end();
    if (index > 0) return rank.wait_for_end();
    for (uint32_t looks = 1;; ++looks) {
      report(host_word(device::kPublished));
      // After its last pass, a launch ends at once.
      if ((reported >= passes || looks % kLooksBetweenQueries == 0) && rank.has_ended()) break;
    }
  });
  report(host_word(device::kPublished));
  if (reported < passes && host_word(device::kAborted) == 0) report(ranks.front()->passes_through_the_gate());
  return reported;
}

// Called while an exception of on_pass or CUDA is being rethrown. All kernels must have ended before the
// counters are zeroed: until then they signal the counters of other ranks, too.
void DeviceInterpreter::Impl::reset_after_failure() noexcept {
  for (const auto& rank : ranks) rank->wait_after_failure();
  for (const auto& rank : ranks) rank->reset_after_failure();
}

uint32_t DeviceInterpreter::Impl::run(const std::function<void(uint32_t)>& on_pass,
                                      const std::function<void()>& on_started,
                                      const std::function<void(uint32_t)>& upload) {
  std::fill_n(host_words.data(), device::kNumHostWords, 0U);
  uint32_t passes = 0;
  try {
    for (const auto& rank : ranks) rank->compare_clock();
    start(upload);
    if (on_started) on_started();
    passes = report_passes(on_pass);
  } catch (...) {
    reset_after_failure();
    throw;
  }
  kernel_us = 0;
  for (const auto& rank : ranks) kernel_us = std::max(kernel_us, rank->kernel_us());
  const device::Launch& launch = ranks.front()->launch();
  const bool aborted = host_word(device::kAborted) != 0;
  const bool dirty = launch.program.global_queue != 0 || *launch.host_stop != 0 || aborted;
  for (const auto& rank : ranks) rank->count_passes(aborted ? 0 : passes, dirty);
  if (aborted) throw_fault();
  return passes;
}

// Fault records, one for each SM, rank after rank.
std::vector<FaultRecord> DeviceInterpreter::Impl::faults() const {
  std::vector<FaultRecord> all;
  for (const auto& rank : ranks) {
    const std::vector<FaultRecord> some = rank->faults();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::string DeviceInterpreter::Impl::describe(size_t sm, const FaultRecord& f) const {
  const std::string at =
      fmt::format("{}, pass {}, instruction {} ({})", sm_name(program, static_cast<uint32_t>(sm)), f.pass,
                  f.pc, isa.name(static_cast<uint16_t>(f.opcode)));
  switch (f.kind) {
    case FaultKind::kBadRecord:
      return at + ": record points outside the program, or its opcode is unknown";
    case FaultKind::kBadOperands:
      return at + ": operands out of range";
    default:
      break;
  }
  if (f.on_counter != 0) {
    return fmt::format("{}: no progress for {} s: waits for counter {}: {} of {}", at,
                       options.stall_timeout_s, f.counter, f.have, f.need);
  }
  return fmt::format("{}: no progress for {} s: its {} do not finish", at, options.stall_timeout_s,
                     name_of(f.role));
}

// Counters to which an unfinished instruction will still add in this pass. With a global queue, all of them:
// it is not known which SM has which instruction.
std::vector<bool> DeviceInterpreter::Impl::pending_counters(const std::vector<FaultRecord>& all) const {
  std::vector<bool> pending(program.counters.size(), program.queue_kind == QueueKind::kGlobal);
  if (program.queue_kind == QueueKind::kGlobal) return pending;
  uint32_t oldest = UINT32_MAX;
  for (const FaultRecord& f : all) {
    if (f.kind != FaultKind::kNone) oldest = std::min(oldest, f.pass);
  }
  for (uint32_t q = 0; q < program.num_queues(); ++q) {
    if (all[q].pass != oldest) continue;
    for (uint32_t pc = std::max(all[q].pc, program.queue_begin[q]); pc < program.queue_begin[q + 1]; ++pc) {
      for (const Signal& signal : program.signals_of(program.instructions[pc]))
        pending[signal.counter] = true;
    }
  }
  return pending;
}

// The report names the SM that blocks the others: preferably one with a bad record, then one that is stuck in
// its own block, then one that waits for a counter to which no pending instruction adds, then the earliest
// that waits for any counter.
void DeviceInterpreter::Impl::throw_fault() {
  const std::vector<FaultRecord> all = faults();
  const std::vector<bool> pending = pending_counters(all);
  const auto rank = [&](const FaultRecord& f) {
    int kind = 4;
    if (f.kind == FaultKind::kBadRecord || f.kind == FaultKind::kBadOperands) {
      kind = 0;
    } else if (f.kind != FaultKind::kNone) {
      kind = f.on_counter == 0 ? 1 : pending[f.counter] ? 3 : 2;
    }
    return std::tuple(kind, f.pass, f.pc);
  };
  const auto worst = std::min_element(all.begin(), all.end(),
                                      [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  for (const auto& bound : ranks) bound->reset_counters();
  throw Error(ErrorKind::kDeviceFault, "GPU: " + describe(static_cast<size_t>(worst - all.begin()), *worst));
}

DeviceInterpreter::DeviceInterpreter(const Program& program, const DeviceIsa& isa, const DeviceMemory& memory,
                                     const DeviceOptions& options)
    : impl_(std::make_unique<Impl>(program, isa, memory, options)) {}

DeviceInterpreter::~DeviceInterpreter() = default;

uint32_t DeviceInterpreter::run(const DeviceLaunch& launch, const std::function<void(uint32_t)>& on_pass,
                                const std::function<void()>& on_started,
                                const std::function<void(uint32_t)>& upload) {
  for (const auto& rank : impl_->ranks) rank->set_launch(launch);
  return impl_->run(on_pass, on_started, upload);
}

void DeviceInterpreter::wait_until_begun() const {
  for (const auto& rank : impl_->ranks) {
    while (!rank->has_begun()) {
    }
  }
}

double DeviceInterpreter::kernel_us() const {
  return impl_->kernel_us;
}

void DeviceInterpreter::record(uint32_t events_of_ring, RecordingDetail detail) {
  for (const auto& rank : impl_->ranks) rank->record(events_of_ring, detail);
}

const EventRings* DeviceInterpreter::events() {
  if (impl_->ranks.front()->recording() == nullptr) return nullptr;
  if (impl_->ranks.size() == 1) return &impl_->ranks.front()->recording()->download();
  impl_->events = {};
  const int64_t first = impl_->ranks.front()->clock_ahead_ns();
  for (const auto& rank : impl_->ranks)
    device::append_rings(rank->recording()->download(), rank->clock_ahead_ns() - first, impl_->events);
  return &impl_->events;
}

}  // namespace serval

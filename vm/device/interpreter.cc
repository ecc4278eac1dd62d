#include "vm/device/interpreter.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <tuple>
#include <utility>

#include "vm/base/error.h"
#include "vm/device/device_array.h"
#include "vm/device/isa.h"
#include "vm/device/recording_buffers.h"
#include "vm/device/tensor_maps.h"
#include "vm/state/names.h"

namespace serval {
namespace {

using device::BoundProgram;
using device::FaultKind;
using device::FaultRecord;
using device::Launch;
using device::ResolvedWait;
using device::Role;

constexpr double kNanosecondsPerSecond = 1e9;
constexpr double kMicrosecondsPerMillisecond = 1e3;

std::vector<ResolvedWait> resolve(const Program& program) {
  std::vector<ResolvedWait> waits;
  waits.reserve(program.waits.size());
  for (const Wait& w : program.waits) {
    waits.push_back({w.counter, w.threshold, program.counters[w.counter].increments_per_pass, 0});
  }
  return waits;
}

void check_program(const Program& program, const DeviceIsa& isa, const DeviceMemory& memory) {
  check_structure(program);
  check_records(program, isa.check, "program");
  for (uint32_t t = 0; t < program.tensors.size(); ++t) {
    if (t >= memory.size() || !memory.bound({t})) {
      throw Error(ErrorKind::kRuntime,
                  fmt::format("program: tensor '{}' has no GPU memory", program.tensors[t].name));
    }
  }
}

const char* name_of(Role role) {
  constexpr std::array kNames = {"controller's fetches", "preparer's copies", "consumers"};
  return kNames.at(static_cast<size_t>(role));
}

// Words in GPU memory that a launch changes and the host resets.
enum Word : uint32_t { kTicket, kAbort, kStopMirror, kProgress };
// Words in host memory that a launch writes.
enum HostWord : uint32_t { kPublished, kAborted, kNumHostWords };

}  // namespace

struct DeviceInterpreter::Impl {
  Impl(const Program& program_in, const DeviceIsa& isa_in, const DeviceMemory& memory,
       const DeviceOptions& options_in);

  uint32_t run(cudaStream_t stream, const std::function<void(uint32_t)>& on_pass,
               const std::function<void()>& enqueue_after);

  void check_kernels() const;
  void* base_of(const DeviceMemory& memory, const char* name) const;
  std::vector<void*> tensor_bases(const DeviceMemory& memory) const;
  BoundProgram bound(const DeviceMemory& memory) const;
  void start(cudaStream_t stream);
  void record(uint32_t events_of_ring, RecordingDetail detail);
  uint32_t hand_out_passes(const std::function<void(uint32_t)>& on_pass);
  uint32_t passes_through_the_gate() const;
  uint32_t host_word(HostWord word) const {
    return std::atomic_ref(host_words.data()[word]).load(std::memory_order_acquire);
  }
  const DeviceKernel& kernel() const;
  std::vector<bool> pending_counters(const std::vector<FaultRecord>& all) const;
  void reset_after_failure(cudaStream_t stream) noexcept;
  [[noreturn]] void throw_fault();
  std::string describe(size_t sm, const FaultRecord& fault) const;

  const Program& program;
  const DeviceIsa& isa;
  const DeviceOptions options;
  std::vector<const DeviceKernelChoice*> kernels;  // that can run the program
  DeviceArray<Instruction> instructions;
  DeviceArray<uint32_t> queue_begin;
  DeviceArray<ResolvedWait> waits;
  DeviceArray<Signal> signals;
  DeviceArray<uint32_t> counters;
  DeviceArray<uint32_t> words;
  DeviceArray<void*> tensors;
  DeviceArray<EncodedMap> tensor_maps;
  DeviceArray<FaultRecord> faults;
  PinnedArray<uint32_t> host_words{kNumHostWords};
  CudaEvent began, ended, all_done;                     // the kernel, and what follows it in the stream
  std::unique_ptr<device::RecordingBuffers> recording;  // null: nothing is recorded
  Launch launch{};
  const uint32_t* host_stop = nullptr;
  bool words_are_dirty = false;  // the last launch left a ticket or a stop word behind
  double kernel_us = 0;
};

DeviceInterpreter::Impl::Impl(const Program& program_in, const DeviceIsa& isa_in, const DeviceMemory& memory,
                              const DeviceOptions& options_in)
    : program((check_program(program_in, isa_in, memory), use_gpu(options_in.device), program_in)),
      isa(isa_in),
      options(options_in),
      instructions(program.instructions),
      queue_begin(program.queue_begin),
      waits(resolve(program)),
      signals(program.signals),
      counters(program.counters.size() * device::kCounterStride),
      words(kProgress + program.machine.sms),
      tensors(tensor_bases(memory)),
      tensor_maps(make_tensor_maps(program, isa, memory)),
      faults(program.machine.sms),
      host_stop(static_cast<const uint32_t*>(base_of(memory, state_tensor::kHostStop))) {
  for (const DeviceKernelChoice& choice : isa.kernels) {
    if (choice.runs == nullptr || choice.runs(program)) kernels.push_back(&choice);
  }
  check_kernels();
  for (const DeviceKernelChoice* choice : kernels)
    SERVAL_CUDA_CHECK(static_cast<cudaError_t>(choice->plain.prepare()));
  int sms = 0;
  SERVAL_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, options.device));
  if (program.machine.sms > static_cast<uint32_t>(sms)) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("program: compiled for {} SMs; this GPU has {}", program.machine.sms, sms));
  }
  launch.program = bound(memory);
  launch.stall_ns = static_cast<uint64_t>(options.stall_timeout_s * kNanosecondsPerSecond);
  launch.abort = words.data() + kAbort;
  launch.host_stop_mirror = words.data() + kStopMirror;
  launch.progress = words.data() + kProgress;
  launch.faults = faults.data();
  launch.published = host_words.device_data() + kPublished;
  launch.host_aborted = host_words.device_data() + kAborted;
  launch.host_stop = host_stop;
}

void DeviceInterpreter::Impl::check_kernels() const {
  const unsigned rows = kernels.empty() ? 0 : kernels.back()->rows;
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

void* DeviceInterpreter::Impl::base_of(const DeviceMemory& memory, const char* name) const {
  const std::optional<TensorId> id = program.find_tensor(name);
  if (!id) throw Error(ErrorKind::kRuntime, fmt::format("program: no tensor '{}'", name));
  return memory.base(*id);
}

std::vector<void*> DeviceInterpreter::Impl::tensor_bases(const DeviceMemory& memory) const {
  std::vector<void*> bases;
  for (uint32_t t = 0; t < program.tensors.size(); ++t) {
    // The program reads a mirror: host memory is too far away to be asked in every pass.
    const bool stop_word = program.tensors[t].name == state_tensor::kHostStop;
    bases.push_back(stop_word ? static_cast<void*>(words.data() + kStopMirror) : memory.base({t}));
  }
  return bases;
}

BoundProgram DeviceInterpreter::Impl::bound(const DeviceMemory& memory) const {
  return {.instructions = instructions.data(),
          .queue_begin = queue_begin.data(),
          .waits = waits.data(),
          .signals = signals.data(),
          .tensors = tensors.data(),
          .tensor_maps = reinterpret_cast<const std::byte*>(tensor_maps.data()),
          .counters = counters.data(),
          .ticket = words.data() + kTicket,
          .num_instructions = static_cast<uint32_t>(program.instructions.size()),
          .num_waits = static_cast<uint32_t>(program.waits.size()),
          .num_signals = static_cast<uint32_t>(program.signals.size()),
          .num_tensors = static_cast<uint32_t>(program.tensors.size()),
          .num_counters = static_cast<uint32_t>(program.counters.size()),
          .global_queue = program.queue_kind == QueueKind::kGlobal ? 1U : 0U,
          .gate_counter = program.gate_counter,
          .gate_per_pass = program.counters[program.gate_counter].increments_per_pass,
          .rows = static_cast<const PassRow*>(base_of(memory, state_tensor::kRows)),
          .control = static_cast<const PassControl*>(base_of(memory, state_tensor::kControl))};
}

void DeviceInterpreter::Impl::start(cudaStream_t stream) {
  std::fill_n(host_words.data(), kNumHostWords, 0U);
  if (words_are_dirty) {
    SERVAL_CUDA_CHECK(cudaMemsetAsync(words.data(), 0, words.size() * sizeof(uint32_t), stream));
  }
  if (recording) recording->begin_launch(stream);
  began.record(stream);
  SERVAL_CUDA_CHECK(static_cast<cudaError_t>(kernel().launch(launch, program.machine.sms, stream)));
  ended.record(stream);
}

// The first that can run the launch's passes.
const DeviceKernel& DeviceInterpreter::Impl::kernel() const {
  const auto choice =
      std::ranges::find_if(kernels, [&](const DeviceKernelChoice* c) { return launch.row_bound <= c->rows; });
  return recording ? (*choice)->recording : (*choice)->plain;
}

// Returns when the kernel has ended, and what was enqueued behind it. What the kernel publishes may go back:
// a storer that is late may say that a pass is done after another has said it of the next one.
uint32_t DeviceInterpreter::Impl::hand_out_passes(const std::function<void(uint32_t)>& on_pass) {
  constexpr uint32_t kLooksBetweenQueries = 1024;
  uint32_t handed = 0;
  const auto hand_out = [&](uint32_t done) {
    for (; handed < done; ++handed) {
      if (on_pass) on_pass(handed);
    }
  };
  for (uint32_t looks = 1;; ++looks) {
    hand_out(host_word(kPublished));
    if (looks % kLooksBetweenQueries == 0 && all_done.reached()) break;
  }
  hand_out(host_word(kPublished));
  if (handed < launch.passes && host_word(kAborted) == 0) hand_out(passes_through_the_gate());
  return handed;
}

// Of the launch, whose kernel has ended: what the gate's counter has grown by.
uint32_t DeviceInterpreter::Impl::passes_through_the_gate() const {
  const BoundProgram& p = launch.program;
  uint32_t gate = 0;
  SERVAL_CUDA_CHECK(cudaMemcpy(&gate, p.counters + size_t{p.gate_counter} * device::kCounterStride,
                               sizeof gate, cudaMemcpyDeviceToHost));
  return (gate - launch.epoch * p.gate_per_pass) / p.gate_per_pass;
}

// Whatever on_pass or CUDA has thrown is on its way to the caller; what goes wrong here must not take its
// place.
void DeviceInterpreter::Impl::reset_after_failure(cudaStream_t stream) noexcept {
  (void)cudaStreamSynchronize(stream);
  (void)cudaMemset(counters.data(), 0, counters.size() * sizeof(uint32_t));
  (void)cudaGetLastError();
  words_are_dirty = true;
  launch.epoch = 0;
}

uint32_t DeviceInterpreter::Impl::run(cudaStream_t stream, const std::function<void(uint32_t)>& on_pass,
                                      const std::function<void()>& enqueue_after) {
  start(stream);
  uint32_t passes = 0;
  try {
    if (enqueue_after) enqueue_after();
    all_done.record(stream);
    passes = hand_out_passes(on_pass);
  } catch (...) {
    reset_after_failure(stream);
    throw;
  }
  kernel_us = CudaEvent::milliseconds(began, ended) * kMicrosecondsPerMillisecond;
  words_are_dirty = launch.program.global_queue != 0 || *host_stop != 0 || host_word(kAborted) != 0;
  if (host_word(kAborted) != 0) throw_fault();
  launch.epoch += passes;
  return passes;
}

std::string DeviceInterpreter::Impl::describe(size_t sm, const FaultRecord& f) const {
  const std::string at = fmt::format("SM {}, pass {}, instruction {} ({})", sm, f.pass, f.pc,
                                     isa.name(static_cast<uint16_t>(f.opcode)));
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

// Counters that an instruction which has not finished will still add to in this pass, as far as that is
// known: with a global queue, which SM has which instruction is not.
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

// The report names the SM that holds up the others: a bad record first, then one that is stuck in its own
// block, then one that waits for a counter that no pending instruction adds to, then the earliest that waits
// for any.
void DeviceInterpreter::Impl::throw_fault() {
  const std::vector<FaultRecord> all = faults.download();
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
  counters.clear();
  faults.clear();
  launch.epoch = 0;
  throw Error(ErrorKind::kDeviceFault, "GPU: " + describe(static_cast<size_t>(worst - all.begin()), *worst));
}

DeviceInterpreter::DeviceInterpreter(const Program& program, const DeviceIsa& isa, const DeviceMemory& memory,
                                     const DeviceOptions& options)
    : impl_(std::make_unique<Impl>(program, isa, memory, options)) {}

DeviceInterpreter::~DeviceInterpreter() = default;

uint32_t DeviceInterpreter::run(uint32_t row_bound, uint32_t passes, uint32_t logit_bound, void* stream,
                                const std::function<void(uint32_t)>& on_pass,
                                const std::function<void()>& enqueue_after) {
  impl_->launch.row_bound = std::max(row_bound, 1U);
  impl_->launch.logit_bound = logit_bound;
  impl_->launch.passes = passes;
  return impl_->run(static_cast<cudaStream_t>(stream), on_pass, enqueue_after);
}

double DeviceInterpreter::kernel_us() const {
  return impl_->kernel_us;
}

void DeviceInterpreter::Impl::record(uint32_t events_of_ring, RecordingDetail detail) {
  recording.reset();
  launch.recording = {};
  if (events_of_ring == 0) return;
  for (const DeviceKernelChoice* choice : kernels) {
    if (choice->recording.launch == nullptr)
      throw Error(ErrorKind::kRuntime, "this instruction set has no kernel that records");
    SERVAL_CUDA_CHECK(static_cast<cudaError_t>(choice->recording.prepare()));
  }
  recording = std::make_unique<device::RecordingBuffers>(program.machine.sms, events_of_ring);
  launch.recording = recording->device_view();
  launch.recording.starving = detail == RecordingDetail::kStarving ? 1 : 0;
}

void DeviceInterpreter::record(uint32_t events_of_ring, RecordingDetail detail) {
  impl_->record(events_of_ring, detail);
}

const EventRings* DeviceInterpreter::events() {
  return impl_->recording ? &impl_->recording->download() : nullptr;
}

}  // namespace serval

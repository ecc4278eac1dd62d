#include "vm/device/bound_rank.h"

#include <algorithm>
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <optional>
#include <thread>

#include "vm/base/error.h"
#include "vm/device/gpu_clock.h"
#include "vm/device/typed_address.h"
#include "vm/state/names.h"

namespace serval::device {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;
constexpr double kMicrosecondsPerMillisecond = 1e3;

// Words in GPU memory that a launch changes and the host resets.
enum Word : uint32_t { kTicket, kAbort, kStopMirror, kProgress };

std::vector<BoundWait> bind_waits(const Program& program) {
  std::vector<BoundWait> waits;
  waits.reserve(program.waits.size());
  for (const Wait& w : program.waits) {
    waits.push_back({w.counter, w.threshold, program.counters[w.counter].increments_per_pass, 0});
  }
  return waits;
}

uint32_t target_of(const Program& program, uint32_t counter) {
  const Counter& c = program.counters[counter];
  return SignalTarget::of(counter, c.device, c.scope == CounterScope::kSystem).word;
}
std::vector<Signal> bind_signals(const Program& program) {
  std::vector<Signal> signals = program.signals;
  for (Signal& signal : signals) signal.counter = target_of(program, signal.counter);
  return signals;
}

// The queues of a rank's SMs, or the global queue.
std::vector<uint32_t> queues_of(const Program& program, uint32_t rank) {
  const auto first = program.queue_begin.begin() + rank * program.machine.sms;
  if (program.queue_kind == QueueKind::kGlobal) return program.queue_begin;
  return {first, first + program.machine.sms + 1};
}

}  // namespace

BoundRank::BoundRank(const Program& program, const DeviceIsa& isa,
                     const std::vector<const DeviceKernelChoice*>& kernels, const DeviceMemory& memory,
                     const DeviceOptions& options, uint32_t rank, uint32_t* host_words)
    : program_((use_gpu(options.ranks.at(rank).gpu), program)),
      kernels_(kernels),
      rank_(rank),
      gpu_(options.ranks[rank].gpu),
      stream_(static_cast<cudaStream_t>(options.ranks[rank].stream)),
      instructions_(program.instructions),
      queue_begin_(queues_of(program, rank)),
      waits_(bind_waits(program)),
      signals_(bind_signals(program)),
      counters_(program.counters.size() * kCounterStride),
      words_(kProgress + program.machine.sms),
      tensors_(tensor_bases(memory)),
      tensor_maps_(make_tensor_maps(program, isa, memory)),
      faults_(program.machine.sms) {
  for (const DeviceKernelChoice* choice : kernels_)
    SERVAL_CUDA_CHECK(static_cast<cudaError_t>(choice->plain.prepare()));
  int sms = 0;
  SERVAL_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, gpu_));
  if (program.machine.sms > static_cast<uint32_t>(sms)) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("program: compiled for {} SMs; this GPU has {}", program.machine.sms, sms));
  }
  launch_.program = bound(memory);
  launch_.stall_ns = static_cast<uint64_t>(options.stall_timeout_s * kNanosecondsPerSecond);
  launch_.abort = words_.data() + kAbort;
  launch_.host_stop_mirror = words_.data() + kStopMirror;
  launch_.progress = words_.data() + kProgress;
  launch_.faults = faults_.data();
  launch_.published = host_words + kPublished;
  launch_.host_aborted = host_words + kAborted;
  launch_.host_stop = static_cast<const uint32_t*>(base_of(memory, state_tensor::kHostStop));
}

void BoundRank::connect(const std::vector<std::unique_ptr<BoundRank>>& ranks) {
  launch_.peers.count = static_cast<uint32_t>(ranks.size());
  for (size_t k = 0; k < ranks.size(); ++k) {
    launch_.peers.counters[k] = ranks[k]->counters_.data();
    launch_.peers.aborts[k] = ranks[k]->launch_.abort;
  }
}

void* BoundRank::base_of(const DeviceMemory& memory, const char* name) const {
  // If this rank has no copy of a tensor of the state, it uses the first rank's.
  std::optional<TensorId> id = program_.find_tensor(name, rank_);
  if (!id) id = program_.find_tensor(name);
  if (!id) throw Error(ErrorKind::kRuntime, fmt::format("program: no tensor '{}'", name));
  return memory.base(*id);
}

std::vector<void*> BoundRank::tensor_bases(const DeviceMemory& memory) const {
  std::vector<void*> bases;
  for (uint32_t t = 0; t < program_.tensors.size(); ++t) {
    // The program reads a copy in GPU memory: reading host memory in every pass would be too slow.
    const bool stop_word = program_.tensors[t].name == state_tensor::kHostStop;
    bases.push_back(stop_word ? static_cast<void*>(words_.data() + kStopMirror)
                              : typed_address(memory.base({t}), program_.tensors[t].dtype));
  }
  return bases;
}

BoundProgram BoundRank::bound(const DeviceMemory& memory) const {
  const uint32_t gate = program_.gate_of(rank_);
  return {.instructions = instructions_.data(),
          .queue_begin = queue_begin_.data(),
          .waits = waits_.data(),
          .signals = signals_.data(),
          .tensors = tensors_.data(),
          .tensor_maps = reinterpret_cast<const std::byte*>(tensor_maps_.data()),
          .counters = counters_.data(),
          .ticket = words_.data() + kTicket,
          .num_instructions = static_cast<uint32_t>(program_.instructions.size()),
          .num_waits = static_cast<uint32_t>(program_.waits.size()),
          .num_signals = static_cast<uint32_t>(program_.signals.size()),
          .num_tensors = static_cast<uint32_t>(program_.tensors.size()),
          .num_counters = static_cast<uint32_t>(program_.counters.size()),
          .global_queue = program_.queue_kind == QueueKind::kGlobal ? 1U : 0U,
          .gate_counter = gate,
          .gate_signal = target_of(program_, gate),
          .gate_per_pass = program_.counters[gate].increments_per_pass,
          .shape = program_.shape(),
          .rows = static_cast<const PassRow*>(base_of(memory, state_tensor::kRows)),
          .control = static_cast<const PassControl*>(base_of(memory, state_tensor::kControl))};
}

void BoundRank::set_launch(const DeviceLaunch& launch) {
  launch_.row_bound = std::max(launch.row_bound, 1U);
  launch_.logit_bound = launch.logit_bound;
  launch_.passes = launch.passes;
  single_rows_ = launch.single_rows;
}

void BoundRank::compare_clock() {
  if (!recording_ || program_.num_devices == 1) return;
  use_gpu(gpu_);
  clock_ahead_ns_ = serval::compare_clock(stream_).ahead_ns;
}

void BoundRank::start() {
  use_gpu(gpu_);
  if (words_are_dirty_)
    SERVAL_CUDA_CHECK(cudaMemsetAsync(words_.data(), 0, words_.size() * sizeof(uint32_t), stream_));
  if (recording_) recording_->begin_launch(stream_);
  began_.record(stream_);
  SERVAL_CUDA_CHECK(static_cast<cudaError_t>(kernel().launch(launch_, program_.machine.sms, stream_)));
  ended_.record(stream_);
}

// The first kernel that can run the launch's passes.
const DeviceKernel& BoundRank::kernel() const {
  const auto choice = std::ranges::find_if(kernels_, [&](const DeviceKernelChoice* c) {
    return launch_.row_bound <= c->rows && (single_rows_ || !c->single_rows);
  });
  if (!recording_) return (*choice)->plain;
  if ((*choice)->recording.launch == nullptr)
    throw Error(ErrorKind::kRuntime,
                "the GPU kernel for these passes was built without its event recorder: "
                "build with SERVAL_RECORDING_KERNELS=all");
  return (*choice)->recording;
}

void BoundRank::wait_for_end() const {
  while (!has_ended()) std::this_thread::yield();
}

// Writes the abort word by a copy in the default stream, since the kernel occupies its own. Waits first for
// the work enqueued before the kernel, which may clear the word.
void BoundRank::give_up() const noexcept {
  const uint32_t yes = 1;
  (void)cudaSetDevice(gpu_);
  (void)cudaEventSynchronize(began_.get());
  (void)cudaMemcpy(launch_.abort, &yes, sizeof yes, cudaMemcpyHostToDevice);
}

uint32_t BoundRank::passes_through_the_gate() const {
  use_gpu(gpu_);
  const BoundProgram& p = launch_.program;
  uint32_t gate = 0;
  SERVAL_CUDA_CHECK(cudaMemcpy(&gate, p.counters + size_t{p.gate_counter} * kCounterStride, sizeof gate,
                               cudaMemcpyDeviceToHost));
  return (gate - launch_.epoch * p.gate_per_pass) / p.gate_per_pass;
}

double BoundRank::kernel_us() const {
  return CudaEvent::milliseconds(began_, ended_) * kMicrosecondsPerMillisecond;
}

void BoundRank::count_passes(uint32_t passes, bool words_are_dirty) {
  words_are_dirty_ = words_are_dirty;
  launch_.epoch += passes;
}

void BoundRank::reset_counters() {
  use_gpu(gpu_);
  counters_.clear();
  faults_.clear();
  words_are_dirty_ = true;
  launch_.epoch = 0;
}

void BoundRank::wait_after_failure() const noexcept {
  (void)cudaSetDevice(gpu_);
  (void)cudaStreamSynchronize(stream_);
}

void BoundRank::reset_after_failure() noexcept {
  (void)cudaSetDevice(gpu_);
  (void)cudaMemset(counters_.data(), 0, counters_.size() * sizeof(uint32_t));
  (void)cudaMemset(faults_.data(), 0, faults_.size() * sizeof(FaultRecord));
  (void)cudaStreamSynchronize(cudaStreamLegacy);  // the next launch's stream does not wait for the memsets
  (void)cudaGetLastError();
  words_are_dirty_ = true;
  launch_.epoch = 0;
}

void BoundRank::record(uint32_t events_of_ring, RecordingDetail detail) {
  use_gpu(gpu_);
  recording_.reset();
  launch_.recording = {};
  if (events_of_ring == 0) return;
  for (const DeviceKernelChoice* choice : kernels_) {
    if (choice->recording.launch != nullptr)
      SERVAL_CUDA_CHECK(static_cast<cudaError_t>(choice->recording.prepare()));
  }
  recording_ = std::make_unique<RecordingBuffers>(program_.machine.sms, events_of_ring);
  launch_.recording = recording_->device_view();
  launch_.recording.starving = detail == RecordingDetail::kStarving ? 1 : 0;
}

}  // namespace serval::device

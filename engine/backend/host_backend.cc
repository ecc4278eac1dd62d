#include "engine/backend/host_backend.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <map>
#include <sys/mman.h>
#include <thread>
#include <utility>
#include <vector>

#include "engine/backend/cache_fill.h"
#include "engine/backend/checked_passes.h"
#include "engine/backend/host_weights.h"
#include "engine/backend/prepare_state.h"
#include "engine/backend/state_copy.h"
#include "instructions/common/footprint.h"
#include "instructions/isa.h"
#include "instructions/planned_attention/plan_launch.h"
#include "models/checkpoint/host_buffer.h"
#include "models/program_proof.h"
#include "vm/base/error.h"
#include "vm/host/interpreter.h"
#include "vm/host/replay.h"
#include "vm/layout/kv_cache.h"
#include "vm/state/block.h"
#include "vm/state/check.h"
#include "vm/state/names.h"

namespace serval {
namespace {

// Zeroed memory that gets physical pages only when they are written: most of a KV cache is never touched.
class LazyMemory {
 public:
  LazyMemory(uint64_t bytes, const std::string& what) : bytes_(bytes) {
    base_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base_ == MAP_FAILED) {
      throw Error(ErrorKind::kOutOfMemory, fmt::format("{}: {} bytes do not fit in memory", what, bytes));
    }
  }
  ~LazyMemory() {
    if (base_ != MAP_FAILED) munmap(base_, bytes_);
  }
  LazyMemory(LazyMemory&& other) noexcept
      : base_(std::exchange(other.base_, MAP_FAILED)), bytes_(other.bytes_) {}
  LazyMemory& operator=(LazyMemory&&) = delete;
  void* base() const { return base_; }

 private:
  void* base_ = MAP_FAILED;
  uint64_t bytes_;
};

class HostBackend final : public Backend {
 public:
  HostBackend(ProgramSet programs, HostWeights weights, std::vector<ModelConstant> constants,
              const BackendOptions& options);

  std::string name() const override { return "host"; }
  const Program& program() const override { return programs_.program(last_); }
  StateBlock& state() override { return state_; }
  uint32_t draft_rows() const override { return programs_.rows_of_vectors(); }
  void prepare(const Launch& launch) override;
  void run(const Launch& launch, const std::function<void(uint32_t)>& on_pass,
           const std::function<void()>& on_begun) override;
  void request_stop() noexcept override { std::atomic_ref(host_stop_).store(1, std::memory_order_release); }
  bool updates_weights() const override { return true; }
  void update_weights(const Model& model, const WeightSource& source) override;
  std::span<const float> logits(int row) override {
    const auto* all = static_cast<const float*>(memory_.at({model_tensor::kLogits, 0}).base());
    return {all + static_cast<size_t>(row) * limits().vocab, limits().vocab};
  }
  void fill_cache() override;
  void record(uint32_t events_of_ring, RecordingDetail detail) override;
  const EventRings* events() override {
    return events_of_ring_ > 0 ? &interpreters_[last_].threads->events() : nullptr;
  }

 private:
  struct Interpreter {
    // Exactly one of these two is set.
    std::unique_ptr<HostInterpreter> threads;
    std::unique_ptr<ReplayInterpreter> replay;
    std::unique_ptr<CheckedPasses> checked;  // may be null
    std::optional<AttentionPlanShape> attention;
  };

  using Place = std::pair<std::string, uint32_t>;  // a tensor's name and device

  void allocate();
  Interpreter& interpreter_of(size_t index);
  bool is_bound(size_t index) const { return interpreters_[index].threads || interpreters_[index].replay; }
  size_t class_of(const Launch& launch) const;
  HostMemory bind(const Program& program);
  void* state_memory(const Tensor& tensor);
  void copy_state_to_ranks();
  float* constant(const std::string& name);

  const BackendOptions options_;
  const ProgramSet programs_;
  HostWeights weights_;
  std::vector<ModelConstant> constants_;
  StateBlock state_;
  // The programs run on this copy, so that the next launch's state can be written meanwhile. Only output and
  // top are written to state_ itself, and masks are read from it.
  StateBlock own_state_;
  std::optional<size_t> prepared_;  // the program that the state was prepared for
  uint32_t host_stop_ = 0;
  std::map<Place, LazyMemory> memory_;  // for activations, KV caches and the ranks' copies of the state
  std::vector<Interpreter>
      interpreters_;             // one for each program; bound once the program is compiled and needed
  size_t last_;                  // the program that ran last
  uint32_t events_of_ring_ = 0;  // 0: no recording
};

uint32_t threads_of(const BackendOptions& options) {
  return options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
}

HostBackend::HostBackend(ProgramSet programs, HostWeights weights, std::vector<ModelConstant> constants,
                         const BackendOptions& options)
    : options_(options),
      programs_(std::move(programs)),
      weights_(std::move(weights)),
      constants_(std::move(constants)),
      state_(programs_.widest().limits),
      own_state_(programs_.widest().limits),
      interpreters_(programs_.size()),
      last_(programs_.first_compiled()) {
  allocate();
  for (size_t i = 0; i < programs_.size(); ++i) {
    if (i == last_ || programs_.is_complete()) interpreter_of(i);
  }
}

HostBackend::Interpreter& HostBackend::interpreter_of(size_t index) {
  Interpreter& interpreter = interpreters_[index];
  if (is_bound(index)) return interpreter;
  const Program& program = programs_.program(index);
  Interpreter bound;
  bound.attention = attention_plan_shape(program);
  if (options_.checked)
    bound.checked = std::make_unique<CheckedPasses>(program, options_.interleaving.value_or(0));
  if (options_.interleaving) {
    bound.replay =
        std::make_unique<ReplayInterpreter>(program, host_isa(), bind(program), *options_.interleaving);
  } else {
    bound.threads = std::make_unique<HostInterpreter>(
        program, host_isa(), bind(program), HostOptions{threads_of(options_), options_.stall_timeout_s});
    if (events_of_ring_ > 0) bound.threads->record(events_of_ring_);
  }
  return interpreter = std::move(bound);
}

void* HostBackend::state_memory(const Tensor& tensor) {
  if (tensor.device > 0) return memory_.at({tensor.name, tensor.device}).base();
  if (tensor.name == state_tensor::kHostStop) return &host_stop_;
  if (const std::optional<size_t> offset = state_.layout.offset_of(tensor.name))
    return (state_.layout.is_in_host_memory(*offset) ? state_ : own_state_).memory() + *offset;
  throw Error(ErrorKind::kRuntime,
              fmt::format("program: tensor '{}': unknown part of the state", tensor.name));
}

void HostBackend::copy_state_to_ranks() {
  for (const Tensor& tensor : program().tensors) {
    if (tensor.kind != TensorKind::kState || tensor.device == 0) continue;
    const auto* from = static_cast<const std::byte*>(own_state_.part(tensor.name));
    std::copy_n(from, tensor.bytes(), static_cast<std::byte*>(state_memory(tensor)));
  }
}

float* HostBackend::constant(const std::string& name) {
  for (ModelConstant& constant : constants_) {
    if (constant.name == name) return constant.values.data();
  }
  throw Error(ErrorKind::kRuntime, fmt::format("program: tensor '{}': the model has no such constant", name));
}

bool is_allocated(const Tensor& tensor) {
  return tensor.kind == TensorKind::kActivation || tensor.kind == TensorKind::kKvCache ||
         (tensor.kind == TensorKind::kState && tensor.device > 0);
}

// Pages are allocated when they are first written, so without this check a cache that does not fit would only
// fail once it is full.
void require_memory(uint64_t bytes) {
  if (bytes <= available_host_memory()) return;
  throw Error(
      ErrorKind::kOutOfMemory,
      fmt::format("KV cache and activations: {} bytes; limit: {} available (a smaller context needs less)",
                  bytes, available_host_memory()));
}

// A tensor that several programs share gets the size of the largest.
void HostBackend::allocate() {
  std::map<Place, uint64_t> sizes;
  for (const Program* program : programs_.outlines()) {
    for (const Tensor& tensor : program->tensors) {
      if (!is_allocated(tensor)) continue;
      uint64_t& bytes = sizes[{tensor.name, tensor.device}];
      bytes = std::max(bytes, tensor.bytes());
    }
  }
  uint64_t total = 0;
  for (const auto& [place, bytes] : sizes) total += bytes;
  require_memory(total);
  for (const auto& [place, bytes] : sizes)
    memory_.try_emplace(place, bytes, fmt::format("tensor '{}'", place.first));
}

HostMemory HostBackend::bind(const Program& program) {
  HostMemory memory(program);
  for (uint32_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    switch (tensor.kind) {
      case TensorKind::kWeight:
        memory.bind({t}, weights_.of(tensor));
        break;
      case TensorKind::kConstant:
        memory.bind({t}, constant(tensor.name));
        break;
      case TensorKind::kState:
        memory.bind({t}, state_memory(tensor));
        break;
      case TensorKind::kActivation:
      case TensorKind::kKvCache:
        memory.bind({t}, memory_.at({tensor.name, tensor.device}).base());
        break;
    }
  }
  return memory;
}

// Index of the last row that may be active + 1.
uint32_t row_bound(const StateBlock& state) {
  uint32_t bound = 0;
  for (uint32_t r = 0; r < state.rows.size(); ++r) {
    if (row_is_active(state.rows[r])) bound = std::max(bound, r + 1 + state.rows[r].drafts);
  }
  return bound;
}

size_t HostBackend::class_of(const Launch& launch) const {
  return programs_.class_of(row_bound(state_), launch.reads_prompts);
}

void HostBackend::prepare(const Launch& launch) {
  prepared_.reset();
  const size_t wanted = class_of(launch);
  if (!is_bound(wanted)) return;  // the program may still be compiling
  prepare_state(programs_.program(wanted), interpreters_[wanted].attention, launch.passes, state_);
  prepared_ = wanted;
}

void HostBackend::run(const Launch& launch, const std::function<void(uint32_t)>& on_pass,
                      const std::function<void()>& on_begun) {
  const bool is_prepared = launch.is_prepared && prepared_;
  const size_t wanted = is_prepared ? *prepared_ : class_of(launch);
  const Interpreter& interpreter = interpreter_of(wanted);
  last_ = wanted;
  if (is_prepared) {
    check_tokens(program(), state_);
  } else {
    prepare_state(program(), interpreter.attention, launch.passes, state_);
  }
  state_.output = state_.output_of(program().limits.rows);
  copy_launch(state_, own_state_);
  // The checked footprints are those of the current state, so they hold for one pass.
  own_state_.control.passes_wanted = interpreter.checked ? 1 : launch.passes;
  copy_state_to_ranks();
  if (interpreter.checked) interpreter.checked->check(own_state_);
  if (on_begun) on_begun();
  interpreter.replay ? interpreter.replay->run(on_pass) : interpreter.threads->run(on_pass);
  std::atomic_ref(host_stop_).store(0, std::memory_order_release);
  if (!on_begun) copy_result(own_state_, state_);
}

void HostBackend::update_weights(const Model& /*model*/, const WeightSource& source) {
  if (!weights_.replace(source)) return;
  // Interpreters keep the addresses that they were bound to.
  prepared_.reset();
  for (size_t i = 0; i < interpreters_.size(); ++i) {
    if (!is_bound(i)) continue;
    interpreters_[i] = {};
    interpreter_of(i);
  }
}

void HostBackend::record(uint32_t events_of_ring, RecordingDetail) {
  // The replay has an order of events but no times.
  if (options_.interleaving)
    throw Error(ErrorKind::kRuntime, "host: events cannot be recorded with an interleaving");
  for (const Interpreter& interpreter : interpreters_) {
    if (interpreter.threads) interpreter.threads->record(events_of_ring);
  }
  events_of_ring_ = events_of_ring;
}

void HostBackend::fill_cache() {
  for (const Tensor& tensor : programs_.widest().tensors) {
    if (tensor.kind != TensorKind::kKvCache) continue;
    auto* cache = static_cast<uint16_t*>(memory_.at({tensor.name, tensor.device}).base());
    fill_random_matrix({cache, tensor.rows * tensor.cols}, cache_fill_key(tensor.name), 0, kCacheFillScale);
  }
}

// Binds programs that fit the model.
std::unique_ptr<Backend> bound(ProgramSet programs, const Model& model,
                               std::shared_ptr<const ModelWeights> weights, const BackendOptions& options) {
  std::vector<ModelConstant> constants = model.constants(programs.widest().limits.max_context);
  HostWeights of_ranks(std::move(weights), model, programs.widest());
  return std::make_unique<HostBackend>(std::move(programs), std::move(of_ranks), std::move(constants),
                                       options);
}

}  // namespace

std::unique_ptr<Backend> make_host_backend(const Model& model, std::shared_ptr<const ModelWeights> weights,
                                           const BackendOptions& options) {
  const uint32_t threads = std::max(1U, threads_of(options) / options.limits.ranks);
  const Machine machine = host_machine(options.sms > 0 ? options.sms : threads);
  return bound(compile_programs(model, machine, options.limits, options.schedule, options.row_classes,
                                options.programs),
               model, std::move(weights), options);
}

std::unique_ptr<Backend> bind_host_backend(ProgramSet programs, const Model& model,
                                           std::shared_ptr<const ModelWeights> weights,
                                           const BackendOptions& options) {
  for (const Program* program : programs.outlines()) require_model(*program, model);
  return bound(std::move(programs), model, std::move(weights), options);
}

}  // namespace serval

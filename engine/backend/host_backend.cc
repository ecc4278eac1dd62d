#include "engine/backend/host_backend.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <sys/mman.h>
#include <thread>
#include <utility>
#include <vector>

#include "engine/backend/cache_fill.h"
#include "instructions/isa.h"
#include "models/checkpoint/host_buffer.h"
#include "vm/error.h"
#include "vm/host/interpreter.h"
#include "vm/host/replay.h"
#include "vm/kv_cache.h"
#include "vm/state_check.h"

namespace serval {
namespace {

// Zeroed memory that takes physical pages only where it is written: a KV cache is mostly never touched.
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
  HostBackend(ValidProgram program, std::shared_ptr<const ModelWeights> weights,
              std::vector<ModelConstant> constants, const BackendOptions& options);

  std::string name() const override { return "host"; }
  const Program& program() const override { return *program_; }
  StateBlock& state() override { return *state_; }
  std::span<int32_t> block_table() override { return block_table_; }
  uint32_t blocks_per_sequence() const override { return blocks_for_tokens(program_->limits.max_context); }
  uint32_t num_kv_blocks() const override { return program_->limits.kv_blocks; }
  void run(uint32_t passes, const std::function<void(uint32_t)>& on_pass) override;
  void request_stop() noexcept override { std::atomic_ref(host_stop_).store(1, std::memory_order_release); }
  std::span<const float> logits(int row) override {
    return {logits_ + static_cast<size_t>(row) * program_->limits.vocab, program_->limits.vocab};
  }
  void fill_cache() override;
  void record(uint32_t events_of_ring, RecordingDetail detail) override;
  const EventRings* events() override { return recording_ ? &interpreter_->events() : nullptr; }

 private:
  HostMemory bind();
  void* state_memory(const std::string& name);
  float* constant(const std::string& name);

  const ValidProgram program_;
  const std::shared_ptr<const ModelWeights> weights_;
  std::vector<ModelConstant> constants_;
  std::vector<int32_t> block_table_;
  std::unique_ptr<StateBlock> state_ = std::make_unique<StateBlock>();
  uint32_t host_stop_ = 0;
  std::vector<LazyMemory> memory_;
  std::vector<std::span<uint16_t>> caches_;  // in memory_, in order of the tensor table
  float* logits_ = nullptr;
  std::unique_ptr<HostInterpreter> interpreter_;  // or
  std::unique_ptr<ReplayInterpreter> replay_;
  bool recording_ = false;
};

uint32_t threads_of(const BackendOptions& options) {
  return options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
}

HostBackend::HostBackend(ValidProgram program, std::shared_ptr<const ModelWeights> weights,
                         std::vector<ModelConstant> constants, const BackendOptions& options)
    : program_(std::move(program)), weights_(std::move(weights)), constants_(std::move(constants)) {
  block_table_.resize(size_t{kMaxSlots} * blocks_per_sequence());
  if (options.interleaving) {
    replay_ = std::make_unique<ReplayInterpreter>(*program_, host_isa(), bind(), *options.interleaving);
  } else {
    interpreter_ = std::make_unique<HostInterpreter>(
        *program_, host_isa(), bind(), HostOptions{threads_of(options), options.stall_timeout_s});
  }
}

void* HostBackend::state_memory(const std::string& name) {
  if (name == state_tensor::kRows) return state_->rows;
  if (name == state_tensor::kSlots) return state_->slots;
  if (name == state_tensor::kSampled) return state_->sampled;
  if (name == state_tensor::kControl) return &state_->control;
  if (name == state_tensor::kOutput) return state_->output;
  if (name == state_tensor::kHostStop) return &host_stop_;
  if (name == state_tensor::kBlockTable) return block_table_.data();
  throw Error(ErrorKind::kRuntime, fmt::format("program: tensor '{}': unknown part of the state", name));
}

float* HostBackend::constant(const std::string& name) {
  for (ModelConstant& constant : constants_) {
    if (constant.name == name) return constant.values.data();
  }
  throw Error(ErrorKind::kRuntime, fmt::format("program: tensor '{}': the model has no such constant", name));
}

// Its memory is taken page by page as it is written, so a cache that cannot fit would not fail until it is
// full.
void require_memory(const Program& program) {
  uint64_t bytes = 0;
  for (const Tensor& t : program.tensors) {
    if (t.kind == TensorKind::kActivation || t.kind == TensorKind::kKvCache) bytes += t.bytes();
  }
  if (bytes <= available_host_memory()) return;
  throw Error(
      ErrorKind::kOutOfMemory,
      fmt::format("KV cache and activations: {} bytes; limit: {} available (a smaller context needs less)",
                  bytes, available_host_memory()));
}

HostMemory HostBackend::bind() {
  require_memory(*program_);
  HostMemory memory(program_->tensors.size());
  for (uint32_t t = 0; t < program_->tensors.size(); ++t) {
    const Tensor& tensor = program_->tensors[t];
    switch (tensor.kind) {
      case TensorKind::kWeight:
        // Handlers only read weights; the table of pointers is one for all kinds.
        memory.bind({t}, const_cast<uint16_t*>(weights_->matrix(tensor.name).bf16));
        break;
      case TensorKind::kConstant:
        memory.bind({t}, constant(tensor.name));
        break;
      case TensorKind::kState:
        memory.bind({t}, state_memory(tensor.name));
        break;
      case TensorKind::kActivation:
      case TensorKind::kKvCache:
        memory_.emplace_back(tensor.bytes(), fmt::format("tensor '{}'", tensor.name));
        memory.bind({t}, memory_.back().base());
        if (tensor.name == model_tensor::kLogits) logits_ = memory.data<float>({t});
        if (tensor.kind == TensorKind::kKvCache) {
          caches_.emplace_back(memory.data<uint16_t>({t}), tensor.rows * tensor.cols);
        }
        break;
    }
  }
  return memory;
}

void HostBackend::run(uint32_t passes, const std::function<void(uint32_t)>& on_pass) {
  state_->control = {
      .passes_done = 0, .passes_wanted = passes, .last_pass = kKeepRunning, .stopped_by_host = 0};
  check_state(*program_, *state_, block_table_);
  replay_ ? replay_->run(on_pass) : interpreter_->run(on_pass);
  std::atomic_ref(host_stop_).store(0, std::memory_order_release);
}

void HostBackend::record(uint32_t events_of_ring, RecordingDetail) {
  // What it interleaves has an order, but no times.
  if (replay_) throw Error(ErrorKind::kRuntime, "host: an interleaving that a seed picks records no events");
  interpreter_->record(events_of_ring);
  recording_ = events_of_ring > 0;
}

void HostBackend::fill_cache() {
  auto cache = caches_.begin();
  for (const Tensor& tensor : program_->tensors) {
    if (tensor.kind == TensorKind::kKvCache)
      fill_random_matrix(*cache++, cache_fill_key(tensor.name), 0, kCacheFillScale);
  }
}

}  // namespace

std::unique_ptr<Backend> make_host_backend(const Model& model, std::shared_ptr<const ModelWeights> weights,
                                           const BackendOptions& options) {
  const Machine machine = host_machine(options.sms > 0 ? options.sms : threads_of(options));
  return bind_host_backend(compile_model(model, machine, options.limits, options.schedule), model,
                           std::move(weights), options);
}

std::unique_ptr<Backend> bind_host_backend(ValidProgram program, const Model& model,
                                           std::shared_ptr<const ModelWeights> weights,
                                           const BackendOptions& options) {
  std::vector<ModelConstant> constants = model.constants(program->limits.max_context);
  return std::make_unique<HostBackend>(std::move(program), std::move(weights), std::move(constants), options);
}

}  // namespace serval

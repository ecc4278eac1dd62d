#include "engine/backend/device_backend.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "spdlog/spdlog.h"

#include "engine/backend/cache_fill.h"
#include "engine/backend/device_fault.h"
#include "engine/backend/prepare_state.h"
#include "engine/compile/gpu_programs.h"
#include "engine/compile/program_set.h"
#include "engine/device/device_state.h"
#include "engine/device/device_tensors.h"
#include "engine/device/gpu.h"
#include "engine/device/gpu_requirements.h"
#include "engine/device/weight_kernels.h"
#include "engine/device/weight_upload.h"
#include "instructions/common/footprint.h"
#include "instructions/device_isa.h"
#include "instructions/planned_attention/plan_launch.h"
#include "models/program_proof.h"
#include "vm/base/error.h"
#include "vm/device/cuda_resources.h"
#include "vm/device/interpreter.h"
#include "vm/device/stream_limit.h"
#include "vm/events.h"
#include "vm/layout/kv_cache.h"
#include "vm/state/block.h"
#include "vm/state/check.h"

namespace serval {
namespace {

// The parts of the state that a launch's rows need.
struct RowsInUse {
  uint32_t row_bound = 0;    // index of the last row that may be active + 1
  uint32_t logit_bound = 0;  // index of the last row that may want logits + 1
  StateInUse state;
};

void add_extras(const SequenceSlot& slot, StateInUse& use) {
  if (slot.extras == 0) return;
  use.biases = std::max(use.biases, slot.num_biases);
  if ((slot.extras & kKeepsHistory) != 0) use.history = std::max(use.history, slot.history_length);
}

RowsInUse rows_in_use(const StateBlock& state) {
  RowsInUse use;
  for (uint32_t r = 0; r < state.rows.size(); ++r) {
    const PassRow& row = state.rows[r];
    if (!row_is_active(row)) continue;
    use.row_bound = std::max(use.row_bound, r + 1 + row.drafts);
    use.state.slots = std::max(use.state.slots, row.slot + 1);
    if (row_wants_logits(row)) use.logit_bound = std::max(use.logit_bound, r + 1 + row.drafts);
    if (row.slot < state.slots.size()) add_extras(state.slots[row.slot], use.state);
  }
  return use;
}

// The model's memory on a rank's GPU.
struct RankMemory {
  RankMemory(const Gpu& on, const std::vector<const Program*>& programs, uint32_t rank)
      : gpu((use_gpu(on.index), on)), tensors(programs, rank) {}
  Gpu gpu;
  DeviceTensors tensors;
  CudaStream stream;
  // Uploads the block table of a prepared launch while another launch runs.
  CudaStream ahead;
  CudaEvent uploaded_ahead;
};
using Ranks = std::deque<RankMemory>;

Ranks allocate(std::span<const Gpu> gpus, const ProgramSet& programs) {
  Ranks ranks;
  for (const Gpu& gpu : gpus)
    ranks.emplace_back(gpu, programs.outlines(), static_cast<uint32_t>(ranks.size()));
  return ranks;
}

std::vector<int> indices_of(std::span<const Gpu> gpus) {
  std::vector<int> indices;
  for (const Gpu& gpu : gpus) indices.push_back(gpu.index);
  return indices;
}

DeviceMemory memory_of(const Program& program, const Ranks& ranks, const DeviceState& state) {
  DeviceMemory memory(program.tensors.size());
  for (const RankMemory& rank : ranks) rank.tensors.bind(program, memory);
  state.bind(program, memory);
  return memory;
}

class DeviceBackend final : public Backend {
 public:
  DeviceBackend(std::span<const Gpu> gpus, ProgramSet programs, double stall_timeout_s)
      : programs_(std::move(programs)),
        ranks_(allocate(gpus, programs_)),
        state_(widest().limits, indices_of(gpus)),
        options_{.stall_timeout_s = stall_timeout_s,
                 .ranks = {},
                 .threads = std::make_shared<RankThreads>(static_cast<uint32_t>(gpus.size()))},
        interpreters_(programs_.size()),
        attention_(programs_.size()),
        last_(programs_.first_compiled()),
        logits_(logit_rows(widest().limits)) {
    for (const RankMemory& rank : ranks_) options_.ranks.push_back({rank.gpu.index, rank.stream.get()});
    for (size_t i = 0; i < programs_.size(); ++i) {
      if (i == last_ || programs_.is_complete()) bind(i);
    }
  }

  // The memory that weights and constants are uploaded to.
  std::vector<UploadTarget> upload_targets() const {
    std::vector<UploadTarget> targets;
    for (const RankMemory& rank : ranks_) targets.push_back({rank.gpu.index, &rank.tensors});
    return targets;
  }
  const Program& widest() const { return programs_.widest(); }

  std::string name() const override { return "device"; }
  const Program& program() const override { return programs_.program(last_); }
  StateBlock& state() override { return state_.host(); }
  uint32_t draft_rows() const override { return programs_.rows_of_vectors(); }
  void prepare(const Launch& launch) override;
  void run(const Launch& launch, const std::function<void(uint32_t)>& on_pass,
           const std::function<void()>& on_begun) override;
  void request_stop() noexcept override { state_.request_stop(); }
  bool updates_weights() const override { return true; }
  void update_weights(const Model& model, const WeightSource& source) override;
  std::span<const float> logits(int row) override;
  std::optional<double> kernel_us() const override { return interpreters_[last_]->kernel_us(); }
  std::optional<double> stream_limit_gb_per_s() override;
  void fill_cache() override;
  void record(uint32_t events_of_ring, RecordingDetail detail) override;
  const EventRings* events() override { return interpreters_[last_]->events(); }

 private:
  // Properties of a launch that are derived from the state.
  struct Prepared {
    RowsInUse use;
    size_t program = 0;
    bool single_rows = false;  // DeviceLaunch::single_rows
  };

  RankMemory& first() { return ranks_.front(); }
  void bind(size_t index);
  Prepared look_at(const Launch& launch);
  void upload_ahead(const StateInUse& use);
  void upload(uint32_t rank, const StateInUse& use, bool attention, bool table_too);

  const ProgramSet programs_;
  Ranks ranks_;
  DeviceState state_;
  DeviceOptions options_;
  // One for each program; bound once the program is compiled and needed.
  std::vector<std::unique_ptr<DeviceInterpreter>> interpreters_;
  std::vector<std::optional<AttentionPlanShape>> attention_;  // likewise
  uint32_t events_of_ring_ = 0;                               // 0: no recording
  RecordingDetail detail_ = RecordingDetail::kMoments;
  std::optional<Prepared> prepared_;        // the launch that the state was prepared for
  size_t last_;                             // the program that ran last
  std::vector<std::vector<float>> logits_;  // [rows of the widest program]; filled for requested rows
};

// Binds the program if it is not bound yet. On this thread, like all CUDA calls.
void DeviceBackend::bind(size_t index) {
  if (interpreters_[index]) return;
  const Program& program = programs_.program(index);
  auto bound = std::make_unique<DeviceInterpreter>(program, device_isa(), memory_of(program, ranks_, state_),
                                                   options_);
  if (events_of_ring_ > 0) bound->record(events_of_ring_, detail_);
  attention_[index] = attention_plan_shape(program);
  interpreters_[index] = std::move(bound);
}

// Only enqueues, and on this thread for all ranks: the other ranks' threads may be waiting for the launch in
// flight.
void DeviceBackend::upload_ahead(const StateInUse& use) {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    use_gpu(ranks_[rank].gpu.index);
    state_.upload_block_table(use, rank, ranks_[rank].ahead);
    ranks_[rank].uploaded_ahead.record(ranks_[rank].ahead);
    ranks_[rank].stream.follow(ranks_[rank].uploaded_ahead);
  }
}

// Runs on the rank's thread; only enqueues. Only the first rank samples.
void DeviceBackend::upload(uint32_t rank, const StateInUse& use, bool attention, bool table_too) {
  const CudaStream& stream = ranks_[rank].stream;
  if (table_too) {
    state_.upload(use, rank, stream);
  } else {
    state_.upload_rows_and_slots(use, rank, stream);
  }
  if (attention) state_.upload_attention(rank, stream);
  if (rank == 0 && use.biases + use.history > 0) state_.upload_adjustments(use, stream);
}

DeviceBackend::Prepared DeviceBackend::look_at(const Launch& launch) {
  Prepared found{.use = rows_in_use(state_.host())};
  found.program = programs_.class_of(found.use.row_bound, launch.reads_prompts);
  return found;
}

void DeviceBackend::prepare(const Launch& launch) {
  prepared_.reset();
  Prepared next = look_at(launch);
  if (!interpreters_[next.program]) return;  // the program may still be compiling
  prepare_state(programs_.program(next.program), attention_[next.program], launch.passes, state_.host());
  next.single_rows = attention_[next.program] && has_single_rows(state_.host().attention);
  upload_ahead(next.use.state);
  prepared_ = next;
}

void DeviceBackend::run(const Launch& launch, const std::function<void(uint32_t)>& on_pass,
                        const std::function<void()>& on_begun) {
  StateBlock& state = state_.host();
  struct ClearStop {
    DeviceState& state;
    ~ClearStop() { state.clear_stop(); }
  } const clear_stop{state_};
  const bool is_prepared = launch.is_prepared && prepared_;
  Prepared now = is_prepared ? *prepared_ : look_at(launch);
  programs_.program(now.program);  // waits for the compilation, whose failure is not a device fault
  fault_on_error([&] { bind(now.program); });
  last_ = now.program;
  if (is_prepared) {
    check_tokens(program(), state);
    state.control.passes_wanted = launch.passes;
  } else {
    prepare_state(program(), attention_[last_], launch.passes, state);
    now.single_rows = attention_[last_] && has_single_rows(state.attention);
  }
  state.output = state.output_of(program().limits.rows);
  // Without on_begun, the download of what the kernel has changed is enqueued now, so that it starts when the
  // kernel ends. With on_begun it must not overwrite the state that is written for the next launch.
  DeviceInterpreter& interpreter = *interpreters_[last_];
  const auto on_started = [&] {
    if (!on_begun) return state_.download(now.use.state, first().stream);
    interpreter.wait_until_begun();  // the uploads are complete
    on_begun();
  };
  const auto upload_rank = [&](uint32_t rank) {
    upload(rank, now.use.state, attention_[last_].has_value(), !is_prepared);
  };
  fault_on_error([&] {
    interpreter.run({now.use.row_bound, launch.passes, now.use.logit_bound, now.single_rows}, on_pass,
                    on_started, upload_rank);
  });
}

std::span<const float> DeviceBackend::logits(int row) {
  use_gpu(first().gpu.index);
  const size_t vocab = widest().limits.vocab;
  std::vector<float>& out = logits_.at(static_cast<size_t>(row));
  out.resize(vocab);
  const std::byte* from =
      first().tensors.data(model_tensor::kLogits) + static_cast<size_t>(row) * vocab * sizeof(float);
  SERVAL_CUDA_CHECK(cudaMemcpy(out.data(), from, vocab * sizeof(float), cudaMemcpyDeviceToHost));
  return out;
}

void DeviceBackend::fill_cache() {
  for (const Tensor& tensor : widest().tensors) {
    if (tensor.kind != TensorKind::kKvCache) continue;
    const RankMemory& rank = ranks_[tensor.device];
    use_gpu(rank.gpu.index);
    auto* cache = reinterpret_cast<uint16_t*>(rank.tensors.data(tensor.name));
    fill_random(cache, tensor.rows * tensor.cols, cache_fill_key(tensor.name), kCacheFillScale,
                rank.stream.get());
  }
  for (const RankMemory& rank : ranks_) rank.stream.wait();
}

// Programs read weights from the same images before and after, so they need no other binding.
void DeviceBackend::update_weights(const Model& model, const WeightSource& source) {
  fault_on_error([&] { upload_weights(source, model, widest(), upload_targets(), {}); });
}

void DeviceBackend::record(uint32_t events_of_ring, RecordingDetail detail) {
  for (const auto& interpreter : interpreters_) {
    if (interpreter) interpreter->record(events_of_ring, detail);
  }
  events_of_ring_ = events_of_ring;
  detail_ = detail;
}

std::optional<double> DeviceBackend::stream_limit_gb_per_s() {
  use_gpu(first().gpu.index);
  return measure_stream_limit(find_gpu(first().gpu.index).sms, first().stream.get());
}

// Runs a stage of loading and logs how long it took (--log-level debug).
template <class Stage>
void log_time(const char* name, Stage&& stage) {
  const auto begin = std::chrono::steady_clock::now();
  stage();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  spdlog::debug("load: {}: {:.2f} s", name, seconds.count());
}

ProgramSet compile_for(const Gpu& gpu, const Model& model, const BackendOptions& options) {
  if (options.sms > gpu.sms) {
    throw Error(ErrorKind::kUsage, fmt::format("sms: {}; limit: {} ({})", options.sms, gpu.sms, gpu.name));
  }
  Machine machine = h200_machine();
  machine.name = gpu.name;
  machine.sms = options.sms > 0 ? options.sms : gpu.sms;
  return compile_gpu_programs(model, machine, options.limits, options.schedule, options.row_classes,
                              options.programs);
}

// Checks each GPU's memory against the needs of all its ranks.
void require_room(std::span<const Gpu> gpus, const Model& model, const ProgramSet& programs) {
  const Program& widest = programs.widest();
  for (const Gpu& gpu : gpus) {
    GpuMemoryNeed need;
    for (uint32_t rank = 0; rank < gpus.size(); ++rank) {
      if (gpus[rank].index != gpu.index) continue;
      const DeviceTensors::Sizes sizes = DeviceTensors::sizes(programs.outlines(), rank);
      need.weights += sizes.weights;
      need.caches += sizes.caches;
      need.others += sizes.others + device_state_bytes(widest.limits);
      need.staging += staging_bytes(model, widest, rank);
    }
    use_gpu(gpu.index);
    require_memory(name_among(gpus, gpu), need, free_gpu_memory());
  }
}

void require_ranks(std::span<const Gpu> gpus, const Program& program) {
  if (program.num_devices == gpus.size()) return;
  throw Error(ErrorKind::kRuntime,
              fmt::format("program: compiled for {} GPUs, expected {}", program.num_devices, gpus.size()));
}

// A program that was compiled for another machine may need more SMs than this GPU has.
void require_sms(const Gpu& gpu, const Program& program) {
  if (program.machine.sms <= gpu.sms) return;
  throw Error(ErrorKind::kRuntime,
              fmt::format("program: compiled for {} SMs, {} has {}", program.machine.sms, gpu.name, gpu.sms));
}

void upload(const DeviceBackend& backend, const Model& model, const WeightSource& weights,
            const LoadProgress& progress) {
  const std::vector<UploadTarget> targets = backend.upload_targets();
  upload_weights(weights, model, backend.widest(), targets, progress);
  for (const UploadTarget& target : targets)
    upload_constants(model, backend.widest().limits.max_context, target);
}

// Binds programs that fit the model.
std::unique_ptr<Backend> bound(ProgramSet&& programs, std::span<const Gpu> gpus, const Model& model,
                               const WeightSource& weights, const BackendOptions& options,
                               const LoadProgress& progress) {
  require_room(gpus, model, programs);
  std::unique_ptr<DeviceBackend> backend;
  log_time("memory of the GPUs", [&] {
    backend = std::make_unique<DeviceBackend>(gpus, std::move(programs), options.stall_timeout_s);
  });
  log_time("weights to the GPUs", [&] { upload(*backend, model, weights, progress); });
  return backend;
}

}  // namespace

bool device_is_built() {
  return true;
}

void check_device(const GpuIndices& gpus) {
  find_gpus(gpus);
}

uint64_t free_device_memory(const GpuIndices& gpus) {
  return free_gpu_memory(find_gpus(gpus));
}

std::unique_ptr<Backend> make_device_backend(const Model& model, const WeightSource& weights,
                                             const BackendOptions& options, const LoadProgress& progress) {
  const std::vector<Gpu> gpus = find_gpus(options.gpus);
  std::optional<ProgramSet> programs;
  log_time("programs", [&] { programs.emplace(compile_for(gpus.front(), model, options)); });
  return bound(std::move(*programs), gpus, model, weights, options, progress);
}

std::unique_ptr<Backend> bind_device_backend(ProgramSet&& programs, const Model& model,
                                             const WeightSource& weights, const BackendOptions& options,
                                             const LoadProgress& progress) {
  const std::vector<Gpu> gpus = find_gpus(options.gpus);
  for (const Program* program : programs.outlines()) {
    require_model(*program, model);
    require_ranks(gpus, *program);
    require_sms(gpus.front(), *program);
  }
  return bound(std::move(programs), gpus, model, weights, options, progress);
}

}  // namespace serval

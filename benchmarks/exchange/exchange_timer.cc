#include "benchmarks/exchange/exchange_timer.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>

#include "engine/device/device_state.h"
#include "engine/device/device_tensors.h"
#include "engine/device/gpu.h"
#include "engine/device/gpu_requirements.h"
#include "engine/device/weight_kernels.h"
#include "instructions/device_isa.h"
#include "scheduler/valid_program.h"
#include "vm/base/bf16.h"
#include "vm/base/statistics.h"
#include "vm/device/cuda_resources.h"
#include "vm/device/interpreter.h"
#include "vm/device/stream_limit.h"
#include "vm/stored_bytes.h"

namespace serval {
namespace {

struct OfRank {
  OfRank(int gpu_in, const Program& program, uint32_t rank)
      : gpu((use_gpu(gpu_in), gpu_in)), tensors(std::vector<const Program*>{&program}, rank) {}
  int gpu;
  DeviceTensors tensors;
  CudaStream stream;
};
using Ranks = std::deque<OfRank>;

Ranks allocate(const Program& program, std::span<const int> gpus) {
  Ranks ranks;
  for (const int gpu : gpus) ranks.emplace_back(gpu, program, static_cast<uint32_t>(ranks.size()));
  return ranks;
}

void fill_weights(const Program& program, const Ranks& ranks) {
  for (const Tensor& tensor : program.tensors) {
    if (tensor.kind != TensorKind::kWeight) continue;
    const OfRank& rank = ranks[tensor.device];
    use_gpu(rank.gpu);
    std::byte* to = rank.tensors.data(tensor.name);
    if (tensor.image == Image::kPages) {
      pack_random(tensor, tensor.name, {.matrix_cols = tensor.cols}, 1 + tensor.device, to,
                  rank.stream.get());
    } else {
      const std::vector<uint16_t> ones(tensor.cols, float_to_bf16(1));
      SERVAL_CUDA_CHECK(cudaMemcpy(to, ones.data(), ones.size() * sizeof(uint16_t), cudaMemcpyHostToDevice));
    }
  }
  for (const OfRank& rank : ranks) {
    use_gpu(rank.gpu);
    SERVAL_CUDA_CHECK(cudaDeviceSynchronize());  // also for the memset of DeviceTensors
  }
}

DeviceMemory memory_of(const Program& program, const Ranks& ranks, const DeviceState& state) {
  DeviceMemory memory(program.tensors.size());
  for (const OfRank& rank : ranks) rank.tensors.bind(program, memory);
  state.bind(program, memory);
  return memory;
}

DeviceOptions options_of(const Ranks& ranks) {
  DeviceOptions options{.ranks = {}};
  for (const OfRank& rank : ranks) options.ranks.push_back({rank.gpu, rank.stream.get()});
  return options;
}

}  // namespace

struct BoundExchange::Impl {
  Impl(const Program& program_in, std::span<const int> gpus)
      : program(program_in),
        ranks(allocate(program, gpus)),
        state(program.limits, gpus),
        interpreter(program, device_isa(), memory_of(program, ranks, state), options_of(ranks)) {
    fill_weights(program, ranks);
  }

  const Program& program;
  Ranks ranks;
  DeviceState state;
  DeviceInterpreter interpreter;
};

BoundExchange::BoundExchange(const Program& program, std::span<const int> gpus)
    : impl_(std::make_unique<Impl>(program, gpus)) {}

BoundExchange::~BoundExchange() = default;

double BoundExchange::run_us() {
  fill_exchange_state(impl_->state.host());
  for (uint32_t rank = 0; rank < impl_->ranks.size(); ++rank) {
    use_gpu(impl_->ranks[rank].gpu);
    impl_->state.upload({.slots = 1}, rank, impl_->ranks[rank].stream);
  }
  impl_->interpreter.run({.row_bound = impl_->program.limits.rows, .passes = 1}, {});
  return impl_->interpreter.kernel_us();
}

std::vector<std::byte> BoundExchange::read(const std::string& tensor, uint32_t rank) const {
  const OfRank& from = impl_->ranks.at(rank);
  use_gpu(from.gpu);
  std::vector<std::byte> out(
      stored_bytes(impl_->program.tensors[impl_->program.find_tensor(tensor, rank).value().index]));
  SERVAL_CUDA_CHECK(cudaMemcpy(out.data(), from.tensors.data(tensor), out.size(), cudaMemcpyDeviceToHost));
  return out;
}

ExchangeTimer::ExchangeTimer(std::span<const int> gpus, int repetitions)
    : gpus_(gpus.begin(), gpus.end()), repetitions_(repetitions), machine_(h200_machine()) {
  const std::vector<Gpu> found = find_gpus(gpus);
  machine_.name = found.front().name;
  machine_.sms = found.front().sms;
  use_gpu(gpus_.front());
  const CudaStream stream;
  constexpr double kBytesPerMicrosecond = 1e3;  // 1e9 bytes a second
  const auto sharing = std::ranges::count(gpus_, gpus_.front());
  bytes_per_us_of_rank_ = measure_stream_limit(find_gpu(gpus_.front()).sms, stream.get()) *
                          kBytesPerMicrosecond / static_cast<double>(sharing);
}

ExchangeTime ExchangeTimer::idle(uint32_t rows) const {
  return time({.ranks = static_cast<uint32_t>(gpus_.size()), .rows = rows}, 0);
}

ExchangeTime ExchangeTimer::loaded(uint32_t rows, double idle_us) const {
  return time({.ranks = static_cast<uint32_t>(gpus_.size()), .rows = rows},
              static_cast<uint64_t>(std::max(idle_us, 0.0) * bytes_per_us_of_rank_));
}

// The difference between launches with more and with fewer rounds, which excludes the launch's start and end.
ExchangeTime ExchangeTimer::time(const ExchangeShape& shape_in, uint64_t weight_bytes) const {
  const auto [few, many] = exchange_rounds(shape_in.rows);
  ExchangeShape shape = shape_in;
  shape.rounds = few;
  if (weight_bytes > 0) shape = with_weights(shape, machine_, weight_bytes);
  const double less = median_us(shape);
  shape.rounds = many;
  const double more = median_us(shape);
  return {(more - less) / (many - few), weight_bytes_of_round(shape)};
}

double ExchangeTimer::median_us(const ExchangeShape& shape) const {
  const ValidProgram program(exchange_program(shape, machine_));
  BoundExchange bound(*program, gpus_);
  bound.run_us();
  std::vector<double> samples;
  for (int r = 0; r < repetitions_; ++r) samples.push_back(bound.run_us());
  return median(samples);
}

}  // namespace serval

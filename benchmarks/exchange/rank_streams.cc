#include "benchmarks/exchange/rank_streams.h"

#include <vector>

#include "engine/device/gpu.h"
#include "vm/device/cuda_resources.h"

namespace serval {
namespace {

constexpr double kMicrosecondsPerMillisecond = 1e3;

struct OfRank {
  OfRank(int gpu_in, uint64_t bytes) : gpu((use_gpu(gpu_in), gpu_in)), memory(bytes) {}
  int gpu;
  DeviceBuffer memory;
  CudaStream stream;
  CudaEvent begin, end;
};

class CudaRankStreams final : public RankStreams {
 public:
  CudaRankStreams(std::span<const int> gpus, uint64_t bytes) {
    for (const int gpu : gpus) find_gpu(gpu);
    for (const int gpu : gpus) {
      const OfRank& rank = *ranks_.emplace_back(std::make_unique<OfRank>(gpu, bytes));
      SERVAL_CUDA_CHECK(cudaMemset(rank.memory.data(), 0, bytes));
      SERVAL_CUDA_CHECK(cudaDeviceSynchronize());  // the streams do not wait for the memset
    }
  }

  void use(size_t rank) override { use_gpu(ranks_.at(rank)->gpu); }
  void* buffer(size_t rank) override { return ranks_.at(rank)->memory.data(); }
  void* stream(size_t rank) override { return ranks_.at(rank)->stream.get(); }
  void mark_begin(size_t rank) override { mark(rank, ranks_.at(rank)->begin); }
  void mark_end(size_t rank) override { mark(rank, ranks_.at(rank)->end); }
  bool has_ended(size_t rank) override {
    use(rank);
    return ranks_.at(rank)->end.reached();
  }
  double elapsed_us(size_t rank) override {
    return CudaEvent::milliseconds(ranks_.at(rank)->begin, ranks_.at(rank)->end) *
           kMicrosecondsPerMillisecond;
  }

 private:
  void mark(size_t rank, const CudaEvent& event) {
    use(rank);
    event.record(ranks_.at(rank)->stream);
  }

  std::vector<std::unique_ptr<OfRank>> ranks_;
};

}  // namespace

std::unique_ptr<RankStreams> make_rank_streams(std::span<const int> gpus, uint64_t bytes) {
  return std::make_unique<CudaRankStreams>(gpus, bytes);
}

}  // namespace serval

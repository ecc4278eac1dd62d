#include "benchmarks/exchange/nccl_timer.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <thread>

#include "vm/base/statistics.h"

namespace serval {
namespace {

class Timer {
 public:
  Timer(const NcclLibrary& library, RankStreams& streams, const NcclTest& test)
      : library_(library), streams_(streams), test_(test), communicators_(test.gpus.size()) {
    library_.check(
        library_.comm_init_all(communicators_.data(), static_cast<int>(test.gpus.size()), test.gpus.data()),
        "ncclCommInitAll");
  }
  const std::vector<nccl::Communicator>& communicators() const { return communicators_; }

  double median_us(uint64_t bytes) {
    sample(bytes);
    std::vector<double> samples;
    for (int r = 0; r < test_.repetitions; ++r) samples.push_back(sample(bytes));
    return median(samples);
  }

  void destroy() {
    for (const nccl::Communicator communicator : communicators_)
      library_.check(library_.comm_destroy(communicator), "ncclCommDestroy");
  }

 private:
  double sample(uint64_t bytes) {
    for (size_t rank = 0; rank < communicators_.size(); ++rank) streams_.mark_begin(rank);
    for (int call = 0; call < test_.calls; ++call) all_reduce(bytes);
    for (size_t rank = 0; rank < communicators_.size(); ++rank) streams_.mark_end(rank);
    wait();
    double longest = 0;
    for (size_t rank = 0; rank < communicators_.size(); ++rank)
      longest = std::max(longest, streams_.elapsed_us(rank));
    return longest / test_.calls;
  }

  void all_reduce(uint64_t bytes) {
    constexpr uint64_t kElementBytes = 2;
    library_.check(library_.group_start(), "ncclGroupStart");
    for (size_t rank = 0; rank < communicators_.size(); ++rank) {
      streams_.use(rank);
      library_.check(
          library_.all_reduce(streams_.buffer(rank), streams_.buffer(rank), bytes / kElementBytes,
                              nccl::kBfloat16, nccl::kSum, communicators_[rank], streams_.stream(rank)),
          "ncclAllReduce");
    }
    library_.check(library_.group_end(), "ncclGroupEnd");
  }

  // Polls instead of blocking in CUDA: a blocking call would prevent an abort by another thread.
  void wait() {
    for (size_t rank = 0; rank < communicators_.size(); ++rank) {
      while (!streams_.has_ended(rank)) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  const NcclLibrary& library_;
  RankStreams& streams_;
  const NcclTest& test_;
  std::vector<nccl::Communicator> communicators_;
};

}  // namespace

void time_nccl(const NcclLibrary& library, RankStreams& streams, const NcclTest& test, NcclSteps& steps,
               const std::function<void(double)>& on_size) {
  steps.begin("ncclCommInitAll", test.init_s);
  Timer timer(library, streams, test);
  steps.has(timer.communicators());
  for (const uint64_t bytes : test.bytes) {
    steps.begin(fmt::format("ncclAllReduce of {} bytes", bytes), test.deadline_s);
    on_size(timer.median_us(bytes));
  }
  steps.begin("ncclCommDestroy", test.deadline_s);
  timer.destroy();
}

}  // namespace serval

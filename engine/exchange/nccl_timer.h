// How long NCCL's all-reduce takes, in a process that has nothing else on these GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/exchange/nccl_library.h"
#include "engine/exchange/rank_streams.h"

namespace serval {

struct NcclTest {
  std::vector<int> gpus;        // one for each rank, all different
  std::vector<uint64_t> bytes;  // of the all-reduces, in bf16
  int repetitions = 5;          // samples of each, after one that does not count
  int calls = 20;               // of a sample, back to back
  double init_s = 60;           // for loading NCCL and making its communicators
  double deadline_s = 20;       // for each of the sizes
  double abort_s = 10;          // for what a deadline has ended
};

// What the measurement is at, and since when: somebody else watches it, since no call of NCCL is sure to
// return.
class NcclSteps {
 public:
  virtual ~NcclSteps() = default;
  virtual void begin(const std::string& what, double deadline_s) = 0;
  // To be aborted where a step does not end.
  virtual void has(const std::vector<nccl::Communicator>& communicators) = 0;
};

// One thread has all ranks, so calls for several of them are in groups: NCCL demands that, since a call may
// wait for those of the other ranks (NCCL's user guide, "Group Calls"). Calls on_size(µs) for each of the
// sizes, with the median of the samples: a sample is what the slowest rank's stream took for a call on
// average. Throws Error with what failed.
void time_nccl(const NcclLibrary& library, RankStreams& streams, const NcclTest& test, NcclSteps& steps,
               const std::function<void(double)>& on_size);

}  // namespace serval

// Times NCCL's all-reduce, in a process that does nothing else on these GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "benchmarks/exchange/nccl_library.h"
#include "benchmarks/exchange/rank_streams.h"

namespace serval {

struct NcclTest {
  std::vector<int> gpus;        // one for each rank, all different
  std::vector<uint64_t> bytes;  // of the all-reduces, in bf16
  int repetitions = 5;          // samples for each size, after one warm-up
  int calls = 20;               // back to back in a sample
  double init_s = 60;           // for loading NCCL and for creating its communicators
  double deadline_s = 20;       // for each of the sizes
  double abort_s = 10;          // for aborting after a deadline
};

// Told about each step of the measurement and its deadline. An observer needs this because calls of NCCL may
// never return.
class NcclSteps {
 public:
  virtual ~NcclSteps() = default;
  virtual void begin(const std::string& what, double deadline_s) = 0;
  // The communicators to abort if a step does not end.
  virtual void has(const std::vector<nccl::Communicator>& communicators) = 0;
};

// One thread drives all ranks, so calls for several of them are grouped. NCCL requires this, because a call
// may wait for the other ranks' calls (NCCL's user guide, "Group Calls"). Calls on_size(µs) for each size
// with the median of the samples. A sample is the average time per call in the slowest rank's stream. Throws
// Error with the function that failed.
void time_nccl(const NcclLibrary& library, RankStreams& streams, const NcclTest& test, NcclSteps& steps,
               const std::function<void(double)>& on_size);

}  // namespace serval

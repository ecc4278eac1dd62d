// Measures NCCL in a separate process, which ends or is killed before Serval's kernels start. So neither
// waits for the other's kernels, and an all-reduce that hangs costs only its deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/exchange/nccl_timer.h"

namespace serval {

struct NcclResults {
  std::string version;                    // "2.28.3"; empty: no usable NCCL
  std::vector<std::optional<double>> us;  // for each of the sizes
  std::string note;                       // one line: why some are missing; empty: none is missing
};

struct NcclSource {
  std::string library = nccl::kLibrary;
  std::function<std::unique_ptr<RankStreams>(std::span<const int>, uint64_t)> streams;  // make_rank_streams
};

// Reports errors of NCCL or of a GPU in the note and does not throw for them. Call it before this process
// uses CUDA and while it has a single thread, because it forks.
NcclResults measure_nccl(const NcclTest& test, const NcclSource& source);

}  // namespace serval

// NCCL measured in a process of its own, which ends, or is ended, before Serval's kernels start: so neither
// waits for the other's kernels, and an all-reduce that never ends costs its deadline and no more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/exchange/nccl_timer.h"

namespace serval {

struct NcclResults {
  std::string version;                    // "2.28.3"; empty: there is none that can be used
  std::vector<std::optional<double>> us;  // of each of the sizes
  std::string note;                       // one line: why some are missing; empty: none is
};

struct NcclSource {
  std::string library = nccl::kLibrary;
  std::function<std::unique_ptr<RankStreams>(std::span<const int>, uint64_t)> streams = make_rank_streams;
};

// Never throws for what NCCL, or a GPU, does wrong: that is the note. To be called before this process uses
// CUDA, while it has one thread: the other process is a copy of it.
NcclResults measure_nccl(const NcclTest& test, const NcclSource& source = {});

}  // namespace serval

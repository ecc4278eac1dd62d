// serval bench --op all-reduce: the exchange between ranks, alone and while weights are loaded, compared with
// NCCL's all-reduce of the same size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/cli/output/progress.h"

namespace serval::cli {

// Limit of a size, in rows of the residual of 16 KiB each.
inline constexpr uint64_t kMostExchangeRows = 8192;

struct ExchangeBench {
  std::vector<int> gpus;        // one for each rank
  std::vector<uint64_t> bytes;  // multiples of the row size
  int repetitions = 5;          // after one warm-up run
  std::string format = "md";    // md, json or csv
  std::string record_file;      // appends one line of JSON for each result; empty: none
  ProgressMode progress = ProgressMode::kAuto;
};

// Throws Error(kUsage) naming the flag unless there are several ranks.
void check_exchange(const ExchangeBench& bench);

// Prints a row for each size when it is done. Returns the exit code. Call it before anything else uses a GPU
// (nccl_process.h).
int run_exchange_bench(const ExchangeBench& bench);

}  // namespace serval::cli

// serval bench --op all-reduce: the exchange between ranks, idle and while weights are under way, beside
// NCCL's all-reduce of as many bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/cli/output/progress.h"

namespace serval::cli {

// A size may be so many rows of the residual, 16 KiB each.
inline constexpr uint64_t kMostExchangeRows = 8192;

struct ExchangeBench {
  std::vector<int> gpus;        // one for each rank
  std::vector<uint64_t> bytes;  // in whole rows
  int repetitions = 5;          // after one that does not count
  std::string format = "md";    // md, json or csv
  std::string record_file;      // one line of JSON is appended for each result; empty: none
  ProgressMode progress = ProgressMode::kAuto;
};

// Throws Error(kUsage) naming the flag unless there are several ranks.
void check_exchange(const ExchangeBench& bench);

// Prints a row for each size as it is done. Returns the exit code. To be called before anything else uses a
// GPU (nccl_process.h).
int run_exchange_bench(const ExchangeBench& bench);

}  // namespace serval::cli

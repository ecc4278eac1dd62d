// serval bench --op all-reduce: the exchange between ranks, idle and while weights are under way, beside
// NCCL's all-reduce of as many bytes.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
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

// What one size took.
struct ExchangeResult {
  uint64_t bytes = 0;
  double idle_us = 0;
  double loaded_us = 0;
  uint64_t weight_bytes = 0;  // that a rank read in loaded_us
  std::optional<double> nccl_us;
};

// On which GPUs, and with which NCCL.
struct ExchangeSubject {
  std::vector<int> gpus;
  std::string gpu_name;
  uint32_t sms = 0;  // of a rank
  std::string nccl_version;
  std::string nccl_note;  // why NCCL's figures are missing; empty: they are not
  int repetitions = 0;
};

// The bandwidth is the bytes of the vector that is summed up, divided by the time, in 1e9 bytes a second.
nlohmann::ordered_json exchange_record(const ExchangeSubject& subject, const ExchangeResult& result);
std::string exchange_markdown_head();
std::string exchange_markdown_row(const nlohmann::ordered_json& record);

// Throws Error(kUsage) naming the flag unless there are several ranks.
void check_exchange(const ExchangeBench& bench);

// Prints a row for each size as it is done. Returns the exit code. To be called before anything else uses a
// GPU (nccl_process.h).
int run_exchange_bench(const ExchangeBench& bench);

}  // namespace serval::cli

// The result of the exchange benchmark for one size, as a record and as a row of a table.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace serval {

// Measurements of one size.
struct ExchangeResult {
  uint64_t bytes = 0;
  double idle_us = 0;
  double loaded_us = 0;
  uint64_t weight_bytes = 0;  // read by a rank in loaded_us
  std::optional<double> nccl_us;
};

// The GPUs and the NCCL version.
struct ExchangeSubject {
  std::vector<int> gpus;
  std::string gpu_name;
  uint32_t sms = 0;  // of a rank
  std::string nccl_version;
  std::string nccl_note;  // why NCCL's figures are missing; empty: they are not missing
  int repetitions = 0;
};

// Bandwidths are in 1e9 bytes per second: the bytes of the summed vector divided by the time, and the weights
// that a rank reads during that time. Values that were not measured are null.
nlohmann::ordered_json exchange_record(const ExchangeSubject& subject, const ExchangeResult& result);

// The head and a row of a Markdown table with some of the fields.
std::string exchange_markdown_head();
std::string exchange_markdown_row(const nlohmann::ordered_json& record);

}  // namespace serval

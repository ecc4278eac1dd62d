// The result of serval bench --op all-reduce for one size, as a record and as a row of a table.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace serval::cli {

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

// Bandwidths are in 1e9 bytes a second: the bytes of the vector that is summed up, divided by the time, and
// the weights that a rank reads meanwhile. What was not measured is null.
nlohmann::ordered_json exchange_record(const ExchangeSubject& subject, const ExchangeResult& result);

// A table row of some of the fields, and the head above it.
std::string exchange_markdown_head();
std::string exchange_markdown_row(const nlohmann::ordered_json& record);

}  // namespace serval::cli

#include "benchmarks/exchange/exchange_result.h"

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "benchmarks/exchange/exchange_program.h"
#include "engine/cli/measure/bench_result.h"

namespace serval {
namespace {

using nlohmann::ordered_json;

ordered_json or_null(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

std::string cell(const ordered_json& value) {
  return value.is_null() ? "" : fmt::format("{:.1f}", value.get<double>());
}

}  // namespace

ordered_json exchange_record(const ExchangeSubject& subject, const ExchangeResult& result) {
  constexpr double kBytesPerMicrosecond = 1e3;  // for 1e9 bytes per second
  const auto speed = [](uint64_t bytes, double us) {
    return static_cast<double>(bytes) / us / kBytesPerMicrosecond;
  };
  std::optional<double> nccl_speed;
  if (result.nccl_us) nccl_speed = speed(result.bytes, *result.nccl_us);
  ordered_json record = {{"op", "all-reduce"},
                         {"bytes", result.bytes},
                         {"rows", result.bytes / kExchangeRowBytes},
                         {"dtype", "bf16"},
                         {"us_idle", result.idle_us},
                         {"gb_per_s_idle", speed(result.bytes, result.idle_us)},
                         {"us_loaded", result.loaded_us},
                         {"gb_per_s_loaded", speed(result.bytes, result.loaded_us)},
                         {"weight_bytes", result.weight_bytes},
                         {"weights_gb_per_s", speed(result.weight_bytes, result.loaded_us)}};
  record["us_nccl"] = or_null(result.nccl_us);
  record["gb_per_s_nccl"] = or_null(nccl_speed);
  record["nccl_version"] = subject.nccl_version;
  record["nccl_note"] = subject.nccl_note;
  record["gpu"] = subject.gpu_name;
  record["gpus"] = subject.gpus.size();
  record["ranks_on"] = fmt::format("{}", fmt::join(subject.gpus, ","));
  record["sms"] = subject.sms;
  record["repetitions"] = subject.repetitions;
  cli::add_build(record);
  return record;
}

std::string exchange_markdown_head() {
  return "| bytes | rows | idle µs | GB/s | loaded µs | GB/s | weights GB/s | NCCL µs | GB/s |\n"
         "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
}

std::string exchange_markdown_row(const ordered_json& r) {
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", r.at("bytes").get<uint64_t>(),
                     r.at("rows").get<uint64_t>(), cell(r.at("us_idle")), cell(r.at("gb_per_s_idle")),
                     cell(r.at("us_loaded")), cell(r.at("gb_per_s_loaded")), cell(r.at("weights_gb_per_s")),
                     cell(r.at("us_nccl")), cell(r.at("gb_per_s_nccl")));
}

}  // namespace serval

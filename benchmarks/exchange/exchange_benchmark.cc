// Times what ranks exchange twice in each layer, alone and while weights are loaded, and NCCL's all-reduce of
// as many bytes (docs/several_gpus.md). Exit codes are those of serval (docs/cli.md).
#include <algorithm>
#include <cstdio>
#include <exception>
#include <set>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "fmt/format.h"

#include "benchmarks/exchange/exchange_result.h"
#include "benchmarks/exchange/exchange_timer.h"
#include "benchmarks/exchange/nccl_process.h"
#include "engine/cli/flags/parse_value.h"
#include "engine/cli/measure/result_report.h"
#include "vm/base/error.h"

namespace serval {
namespace {

constexpr uint64_t kMostRows = 8192;  // limit of a size
constexpr int kMaxRepetitions = 10000;

struct Options {
  std::vector<int> gpus;  // one for each rank
  std::vector<uint64_t> bytes;
  int repetitions = 5;  // after one warm-up run
  std::string format;
  std::string record_file;  // empty: none
};

// Comma-separated sizes as 16K,1M: whole rows.
std::vector<uint64_t> parse_sizes(const std::string& list) {
  std::vector<uint64_t> sizes;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const cli::FlagValue item{"--bytes", list.substr(begin, end - begin)};
    const uint64_t bytes = cli::parse_memory_size(item).bytes;  // 0 for a percentage
    if (bytes == 0 || bytes % kExchangeRowBytes != 0 || bytes > kMostRows * kExchangeRowBytes)
      cli::reject(
          item, fmt::format("is not a multiple of {} bytes, up to {} of them", kExchangeRowBytes, kMostRows));
    sizes.push_back(bytes);
    begin = end + 1;
  }
  return sizes;
}

// Returns false if it has printed the help. Throws Error(kUsage) with one line that names the flag.
bool parse(int argc, char** argv, Options& options) {
  CLI::App app("Times the exchange between ranks without a model, beside NCCL's all-reduce.");
  std::string gpus, bytes = "16K,64K,256K,1M,4M,16M", repetitions = "5", format = "md";
  app.add_option("--gpus", gpus, "the ranks' GPUs: 2, 4 or 8, or a list as 0,1; 0,0: two ranks on one GPU");
  app.add_option("--bytes", bytes,
                 fmt::format("sizes as 16K,1M: multiples of {}K, a row of {} bf16. Default: {}",
                             kExchangeRowBytes >> 10, kExchangeCols, bytes));
  app.add_option("-r,--repetitions", repetitions, "launches that count, of each size. Default: 5");
  app.add_option("-o,--output-format", format, "md, json or csv. Default: md");
  app.add_option("--record", options.record_file, "append each result to this file, as one line of JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorKind::kUsage, error.what());
  }
  if (gpus.empty()) throw Error(ErrorKind::kUsage, "--gpus: not given; expected 2, 4 or 8, or a list as 0,1");
  options.gpus = cli::parse_gpus({"--gpus", gpus});
  if (options.gpus.size() < 2)
    throw Error(ErrorKind::kUsage,
                "--gpus: 1 rank; expected 2, 4 or 8, as --gpus 2, --gpus 0,1 or --gpus 0,0");
  options.bytes = parse_sizes(bytes);
  options.repetitions =
      static_cast<int>(cli::parse_integer({"--repetitions", repetitions}, 1, kMaxRepetitions));
  options.format = cli::parse_choice({"--output-format", format}, {"md", "json", "csv"});
  return true;
}

// Call before this process uses a GPU.
NcclResults results_of_nccl(const Options& options) {
  if (std::set(options.gpus.begin(), options.gpus.end()).size() < options.gpus.size()) {
    return {.version = {},
            .us = std::vector<std::optional<double>>(options.bytes.size()),
            .note = "not measured: NCCL needs a GPU for each rank, and --gpus names a GPU several times"};
  }
  return measure_nccl({.gpus = options.gpus, .bytes = options.bytes, .repetitions = options.repetitions},
                      {.streams = make_rank_streams});
}

ExchangeResult measure(const ExchangeTimer& timer, uint64_t bytes) {
  const auto rows = static_cast<uint32_t>(bytes / kExchangeRowBytes);
  const ExchangeTime idle = timer.idle(rows), loaded = timer.loaded(rows, idle.us);
  return {.bytes = bytes,
          .idle_us = idle.us,
          .loaded_us = loaded.us,
          .weight_bytes = loaded.weight_bytes,
          .nccl_us = {}};
}

void run(const Options& options) {
  const NcclResults nccl = results_of_nccl(options);
  const ExchangeTimer timer(options.gpus, options.repetitions);
  const ExchangeSubject subject{.gpus = options.gpus,
                                .gpu_name = timer.gpu_name(),
                                .sms = timer.sms(),
                                .nccl_version = nccl.version,
                                .nccl_note = nccl.note,
                                .repetitions = options.repetitions};
  cli::ResultReport report(options.format, options.record_file,
                           {exchange_markdown_head(), exchange_markdown_row});
  report.begin();
  for (size_t i = 0; i < options.bytes.size(); ++i) {
    ExchangeResult result = measure(timer, options.bytes[i]);
    result.nccl_us = nccl.us[i];
    report.add(exchange_record(subject, result));
  }
  // Explains the empty cells of the table.
  report.end(nccl.note.empty() ? "" : fmt::format("\nNCCL: {}\n", nccl.note));
}

}  // namespace
}  // namespace serval

int main(int argc, char** argv) {
  using serval::ErrorKind;
  const auto fail = [](ErrorKind kind, const char* what) {
    std::fprintf(stderr, "exchange_benchmark: error: %s\n", what);
    return static_cast<int>(kind);
  };
  try {
    serval::Options options;
    if (serval::parse(argc, argv, options)) serval::run(options);
    return 0;
  } catch (const serval::Error& error) {
    return fail(error.kind(), error.what());
  } catch (const std::exception& error) {
    return fail(ErrorKind::kRuntime, error.what());
  }
}

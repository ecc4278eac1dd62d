// Times the exchange between ranks on GPUs (exchange_program.h). Plain C++ header, only in builds with CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/exchange/exchange_program.h"

namespace serval {

// A program bound to its GPUs, with random weights (docs/random_weights.md) of seed 1 + rank and norms of 1.
class BoundExchange {
 public:
  // `gpus`: CUDA's index of each rank's GPU. The program must come from exchange_program(), for these GPUs'
  // SMs. Throws as DeviceInterpreter.
  BoundExchange(const Program& program, std::span<const int> gpus);
  ~BoundExchange();

  // Runs a launch: one pass with all rounds. Returns the time of the slowest kernel.
  double run_us();
  // The content of a rank's tensor in its layout in GPU memory.
  std::vector<std::byte> read(const std::string& tensor, uint32_t rank) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct ExchangeTime {
  double us = 0;              // for an all-reduce
  uint64_t weight_bytes = 0;  // read by a GPU meanwhile, for each of its ranks
};

// Not thread-safe.
class ExchangeTimer {
 public:
  // Throws Error(kRuntime) with one line that gives the reason if these GPUs cannot share a program.
  ExchangeTimer(std::span<const int> gpus, int repetitions);

  const std::string& gpu_name() const { return machine_.name; }
  uint32_t sms() const { return machine_.sms; }  // of a rank

  // Times an exchange of `rows` rows with the minimum of weights.
  ExchangeTime idle(uint32_t rows) const;
  // Times an exchange of `rows` rows while as many weights are loaded as fit into `idle_us`, the time that
  // idle() measured.
  ExchangeTime loaded(uint32_t rows, double idle_us) const;

 private:
  ExchangeTime time(const ExchangeShape& shape, uint64_t weight_bytes) const;
  double median_us(const ExchangeShape& shape) const;

  std::vector<int> gpus_;
  int repetitions_;
  Machine machine_;              // of a rank
  double bytes_per_us_of_rank_;  // bandwidth for weights
};

}  // namespace serval

// The exchange between ranks, timed on GPUs (exchange_program.h). Plain C++: where the build has no CUDA, it
// says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/exchange/exchange_program.h"

namespace serval {

// A program on its GPUs, with weights that are random (docs/random_weights.md): seed 1 + rank, norms of 1.
class BoundExchange {
 public:
  // `gpus`: CUDA's index of each rank's. The program is of exchange_program() and for their SMs. Throws as
  // DeviceInterpreter.
  BoundExchange(const Program& program, std::span<const int> gpus);
  ~BoundExchange();

  // A launch: one pass, of all rounds. Returns what the kernel that took longest took.
  double run_us();
  // What a tensor of the rank holds, as it lies in GPU memory.
  std::vector<std::byte> read(const std::string& tensor, uint32_t rank) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct ExchangeTime {
  double us = 0;              // of an all-reduce
  uint64_t weight_bytes = 0;  // that a GPU reads meanwhile, for each of its ranks
};

// Not thread-safe.
class ExchangeTimer {
 public:
  // Throws Error(kRuntime) with one line that says why these GPUs cannot share a program.
  ExchangeTimer(std::span<const int> gpus, int repetitions);

  const std::string& gpu_name() const { return machine_.name; }
  uint32_t sms() const { return machine_.sms; }  // of a rank

  // Of so many rows, with as few weights as there can be.
  ExchangeTime idle(uint32_t rows) const;
  // The same while weights are under way, as many as come in `idle_us`, which is what it takes without.
  ExchangeTime loaded(uint32_t rows, double idle_us) const;

 private:
  ExchangeTime time(const ExchangeShape& shape, uint64_t weight_bytes) const;
  double median_us(const ExchangeShape& shape) const;

  std::vector<int> gpus_;
  int repetitions_;
  Machine machine_;              // of a rank
  double bytes_per_us_of_rank_;  // that weights can come at
};

}  // namespace serval

// The machine that a program is compiled for, as far as the scheduler and its cost model need to know it.
#pragma once

#include <cstdint>
#include <string>

namespace serval {

inline constexpr uint32_t kPageBytes = 16 * 1024;
inline constexpr uint32_t kMaxSms = 1024;  // of a machine: bounds what is allocated for each SM

struct Machine {
  std::string name;
  uint32_t sms = 1;           // of a device
  uint32_t pages_per_sm = 1;  // 16 KiB pages of shared memory an SM's instructions stream through
  double gb_per_s = 0;        // memory bandwidth all SMs share, 1e9 bytes a second
  double sm_gb_per_s = 0;     // the most one SM can draw
  double sm_gflop_per_s = 0;  // arithmetic of one SM, multiply and add counted as two
  double synchronise_us = 0;  // from the last producer's signal to the consumer's first instruction
  double instruction_us = 0;  // fixed cost of an instruction on its SM
  friend bool operator==(const Machine&, const Machine&) = default;
};

// One NVIDIA H200 (figures measured on that GPU: streaming bandwidth, loaded counter round).
Machine h200_machine();
// CPU threads standing in for SMs.
Machine host_machine(uint32_t threads);

}  // namespace serval

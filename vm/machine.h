// The machine that a program is compiled for, with the figures that the scheduler and its cost model need.
#pragma once

#include <cstdint>
#include <string>

namespace serval {

inline constexpr uint32_t kPageBytes = 16 * 1024;
inline constexpr uint32_t kMaxSms = 1024;  // limit of SMs of a machine, which bounds allocations per SM

struct Machine {
  std::string name;
  uint32_t sms = 1;           // of a device
  uint32_t pages_per_sm = 1;  // 16 KiB pages of shared memory through which an SM's instructions stream
  double gb_per_s = 0;        // memory bandwidth of all SMs together, 1e9 bytes a second
  double sm_gb_per_s = 0;     // largest bandwidth of one SM
  double sm_gflop_per_s = 0;  // arithmetic of one SM; multiply and add count as two
  double synchronise_us = 0;  // from the last producer's signal to the consumer's first instruction
  double instruction_us = 0;  // fixed cost of an instruction on its SM
  friend bool operator==(const Machine&, const Machine&) = default;
};

// One NVIDIA H200; its streaming bandwidth and the latency of a counter round under load were measured.
Machine h200_machine();
// CPU threads that act as SMs.
Machine host_machine(uint32_t threads);

}  // namespace serval

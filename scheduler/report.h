// Listings and statistics of programs, for reading and for scripts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "instructions/common/cost.h"
#include "vm/program.h"

namespace serval {

// Names an instruction by its place: "SM 5 pc 12 (gate_up_silu of layer 3)".
std::string where(const Program& program, uint32_t index);

// One line: "attention layer=3 q=query … wait c12>=17 (q k_cache v_cache) signal c14+1".
std::string format_instruction(const Program& program, const Instruction& instruction);

// Every queue with every instruction, one a line.
std::string disassemble(const Program& program);

struct OpStatistics {
  std::string name;
  uint64_t instructions = 0;
  uint64_t bytes = 0;  // on the cost model
  uint64_t operations = 0;
};

struct ProgramStatistics {
  uint64_t instructions = 0;
  uint32_t sms = 0;
  uint64_t counters = 0, waits = 0, signals = 0;
  uint64_t weight_bytes = 0;                // of all weights that the program names
  std::vector<uint64_t> rank_weight_bytes;  // of each rank; empty if there is only one
  std::vector<OpStatistics> ops;            // in order of opcode, those that occur
  std::vector<uint64_t> bytes_per_queue;    // on the cost model
  double imbalance = 0;                     // largest over mean of bytes_per_queue, minus one
  double makespan_us = 0;                   // a pass on the cost model
  double critical_path_us = 0;              // with unlimited SMs and bandwidth: waits and fixed costs only
  std::vector<std::string> critical_path;   // ops along it and how often: "qkv_rope ×16"
};

// Works on any program, compiled or read from a file, whose structure and operands are valid. Thread-safe.
ProgramStatistics statistics_of(const Program& program, const CostContext& context);
std::string to_text(const ProgramStatistics& statistics);
// A JSON object (docs/cli.md lists its members).
std::string to_json(const ProgramStatistics& statistics);

}  // namespace serval

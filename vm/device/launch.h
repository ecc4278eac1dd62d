// What the host hands to the kernel: plain structs, read by both.
#pragma once

#include <cstdint>

#include "vm/device/recording.h"
#include "vm/instruction.h"
#include "vm/program.h"
#include "vm/state/control.h"
#include "vm/state/rows.h"

namespace serval::device {

// Counters stand this many words apart, so that neighbours do not share a cache line.
inline constexpr uint32_t kCounterStride = 32;

// A wait with what its target needs beside it: threshold + epoch × per_pass.
struct alignas(16) ResolvedWait {
  uint32_t counter;
  uint32_t threshold;
  uint32_t per_pass;
  uint32_t reserved;

  // What the counter has to reach in a pass; `epoch` counts passes since the counters were zero.
  constexpr uint32_t target(uint32_t epoch) const { return threshold + epoch * per_pass; }
};

// A bound program in GPU memory; constant from bind to bind but for `counters` and `ticket`.
struct BoundProgram {
  const Instruction* instructions;  // [num_instructions]
  const uint32_t* queue_begin;      // [queues + 1]
  const ResolvedWait* waits;        // [num_waits]
  const Signal* signals;            // [num_signals]
  void* const* tensors;             // [num_tensors]
  const std::byte* tensor_maps;  // CUtensorMap [num_tensors, kMapsOfTensor], of what comes in boxes; or null
  uint32_t* counters;            // [num_counters × kCounterStride]
  uint32_t* ticket;              // of a global queue: records handed out in this launch
  uint32_t num_instructions;
  uint32_t num_waits;
  uint32_t num_signals;
  uint32_t num_tensors;
  uint32_t num_counters;
  uint32_t global_queue;  // 1: one queue for all SMs
  uint32_t gate_counter;
  uint32_t gate_per_pass;
  const PassRow* rows;         // in whole tiles (vm/state/rows.h); those beyond the program's are not active
  const PassControl* control;  // [1]
};

enum class FaultKind : uint32_t {
  kNone = 0,
  kNoProgress = 1,   // nothing moved anywhere for the stall time
  kBadRecord = 2,    // a record that points outside the program, or an opcode that is not there
  kBadOperands = 3,  // operands outside the tensors they name
};

// Which warps were at work on the record that a fault names.
enum class Role : uint32_t { kController = 0, kPreparer = 1, kConsumer = 2 };

// One SM's view of why a launch was given up.
struct FaultRecord {
  FaultKind kind;
  uint32_t pass;  // of the launch
  uint32_t pc;    // index into the program's instructions
  uint32_t opcode;
  Role role;            // furthest behind
  uint32_t on_counter;  // 1: waits for the counter below
  uint32_t counter;
  uint32_t have;
  uint32_t need;
};

struct Launch {
  BoundProgram program;
  uint32_t epoch;      // passes run since the counters were zero
  uint32_t passes;     // at most
  uint32_t row_bound;  // rows of the pass from this one on are not active
  // Rows of the pass from this one on want no logits; 0: none does, so the launch has one pass.
  uint32_t logit_bound;
  uint64_t stall_ns;
  uint32_t* abort;             // GPU memory: 1 once an SM gave up
  uint32_t* progress;          // [SMs] records finished
  FaultRecord* faults;         // [SMs]
  uint32_t* published;         // host memory: passes whose output is complete
  uint32_t* host_aborted;      // host memory: 1 once an SM gave up
  const uint32_t* host_stop;   // host memory: the host's stop word …
  uint32_t* host_stop_mirror;  // … and its copy in GPU memory, which the program reads
  Recording recording;
};

}  // namespace serval::device

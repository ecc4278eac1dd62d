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

// Where a signal goes, in a program of several devices: each device has counters of its own, and what other
// devices may read with a counter is released to the whole system. The signals of a bound program have this
// in place of the counter; of a program of one device it is the counter.
struct SignalTarget {
  static constexpr uint32_t kDeviceShift = 28;
  static constexpr uint32_t kSystem = 1U << 31;
  static constexpr uint32_t kCounters = 1U << kDeviceShift;  // more than a program may have

  uint32_t word;

  static constexpr SignalTarget of(uint32_t counter, uint32_t device, bool system) {
    return {counter | device << kDeviceShift | (system ? kSystem : 0)};
  }
  constexpr uint32_t counter() const { return word % kCounters; }
  constexpr uint32_t device() const { return (word & ~kSystem) >> kDeviceShift; }
  constexpr bool system() const { return (word & kSystem) != 0; }
};
static_assert(kMaxDevices <= SignalTarget::kSystem >> SignalTarget::kDeviceShift);

// Words of the program's devices, each in the memory of its own.
struct Peers {
  uint32_t count;
  uint32_t* counters[kMaxDevices];
  uint32_t* aborts[kMaxDevices];
};

// A bound program in GPU memory; constant from bind to bind but for `counters` and `ticket`.
struct BoundProgram {
  const Instruction* instructions;  // [num_instructions]
  const uint32_t* queue_begin;      // [queues + 1], of this device's
  const ResolvedWait* waits;        // [num_waits]
  const Signal* signals;            // [num_signals], whose counters are SignalTargets
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
  uint32_t gate_counter;  // this device's
  uint32_t gate_signal;   // the same as a SignalTarget
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
  Peers peers;  // read by kernels for several devices only
};

}  // namespace serval::device

// The kernel's arguments: plain structs that host and device share.
#pragma once

#include <cstdint>

#include "vm/device/recording.h"
#include "vm/instruction.h"
#include "vm/program.h"
#include "vm/state/control.h"
#include "vm/state/rows.h"

namespace serval::device {

// Distance between counters in words, so that neighbours do not share a cache line.
inline constexpr uint32_t kCounterStride = 32;

// A wait of a bound program, with the counter's increments per pass: its target is threshold + epoch ×
// per_pass.
struct alignas(16) BoundWait {
  uint32_t counter;
  uint32_t threshold;
  uint32_t per_pass;
  uint32_t reserved;

  // Value that the counter must reach in a pass; `epoch` counts passes since the counters were zero.
  constexpr uint32_t target(uint32_t epoch) const { return threshold + epoch * per_pass; }
};

// A signal's destination in a program of several devices: the device and its counter, and whether the release
// has system scope because other devices wait for the counter. In a bound program, Signal::counter holds this
// word; with one device, the word is the counter's index.
struct SignalTarget {
  static constexpr uint32_t kDeviceShift = 28;
  static constexpr uint32_t kSystem = 1U << 31;
  static constexpr uint32_t kCounters = 1U << kDeviceShift;  // exceeds the counters that a program may have

  uint32_t word;

  static constexpr SignalTarget of(uint32_t counter, uint32_t device, bool system) {
    return {counter | device << kDeviceShift | (system ? kSystem : 0)};
  }
  constexpr uint32_t counter() const { return word % kCounters; }
  constexpr uint32_t device() const { return (word & ~kSystem) >> kDeviceShift; }
  constexpr bool system() const { return (word & kSystem) != 0; }
};
static_assert(kMaxDevices <= SignalTarget::kSystem >> SignalTarget::kDeviceShift);

// Counters and abort words of all devices, each in its device's memory.
struct Peers {
  uint32_t count;
  uint32_t* counters[kMaxDevices];
  uint32_t* aborts[kMaxDevices];
};

// A bound program in GPU memory. Only `counters` and `ticket` change while it is bound.
struct BoundProgram {
  const Instruction* instructions;  // [num_instructions]
  const uint32_t* queue_begin;      // [queues + 1], this device's
  const BoundWait* waits;           // [num_waits]
  const Signal* signals;            // [num_signals]; Signal::counter is a SignalTarget
  void* const* tensors;             // [num_tensors]
  const std::byte* tensor_maps;     // CUtensorMap [num_tensors, kMapsOfTensor], of tensors in boxes; or null
  uint32_t* counters;               // [num_counters × kCounterStride]
  uint32_t* ticket;                 // next position of a global queue: records fetched in this launch
  uint32_t num_instructions;
  uint32_t num_waits;
  uint32_t num_signals;
  uint32_t num_tensors;
  uint32_t num_counters;
  uint32_t global_queue;  // 1: one queue for all SMs
  uint32_t gate_counter;  // this device's pass gate
  uint32_t gate_signal;   // its SignalTarget
  uint32_t gate_per_pass;
  ProgramShape shape;
  const PassRow* rows;         // whole tiles (vm/state/rows.h); rows beyond the program's are not active
  const PassControl* control;  // [1]
};

enum class FaultKind : uint32_t {
  kNone = 0,
  kNoProgress = 1,   // no SM finished a record for the stall time
  kBadRecord = 2,    // a record points outside the program, or its opcode is unknown
  kBadOperands = 3,  // operands exceed the tensors that they name
};

// The role that was at work on the record of a fault.
enum class Role : uint32_t { kController = 0, kPreparer = 1, kConsumer = 2 };

// Why one SM gave up a launch.
struct FaultRecord {
  FaultKind kind;
  uint32_t pass;  // of the launch
  uint32_t pc;    // index into the program's instructions
  uint32_t opcode;
  Role role;            // the slowest role
  uint32_t on_counter;  // 1: it waits for the counter below
  uint32_t counter;
  uint32_t have;
  uint32_t need;
};

struct Launch {
  BoundProgram program;
  uint32_t epoch;      // passes run since the counters were zero
  uint32_t passes;     // most passes of the launch
  uint32_t row_bound;  // rows from this one on are not active
  // Rows from this one on want no logits. 0: no row wants logits, so the launch has one pass.
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
  Peers peers;  // only kernels for several devices read it
};

}  // namespace serval::device

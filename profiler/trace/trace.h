// A trace: when each SM did what, for one or several tokens. The recorders of host and GPU and the simulator
// all produce it, and everything that is drawn or reported is computed from it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "vm/events.h"
#include "vm/instruction.h"
#include "vm/machine.h"
#include "vm/program.h"

namespace serval {

enum class TraceSource : uint8_t { kHost = 0, kDevice, kSim };
inline constexpr std::array<const char*, 3> kTraceSourceNames = {"host", "device", "sim"};

// An instruction as a trace needs it. It is kept as text, so that a trace can be read after the instruction
// set has changed.
struct TraceInstruction {
  uint32_t op = 0;          // index into TraceProgram::ops
  uint16_t layer = kNoTag;  // kNoTag: of no layer
  uint32_t queue = 0;
  uint32_t pc = 0;                              // in its queue
  uint64_t bytes = 0;                           // read from memory, by its cost
  uint64_t operations = 0;                      // a multiply and an add count as two
  uint32_t wait_begin = 0, wait_count = 0;      // in TraceProgram::waits
  uint32_t signal_begin = 0, signal_count = 0;  // in TraceProgram::signals
  std::string text;                             // disassembled: op, operands, waits, signals
};

// Bytes that an instruction writes to the memory of another GPU, each time it runs.
struct TracePush {
  uint32_t instruction = 0;  // index into TraceProgram::instructions
  uint32_t to = 0;           // rank
  uint64_t bytes = 0;
  uint32_t operands = 0;  // operands that it writes there, as bits of Wait::operand_mask
  friend bool operator==(const TracePush&, const TracePush&) = default;
};

// The program that ran. trace_program.h makes it from a Program.
struct TraceProgram {
  Machine machine;     // `sms`: of all ranks; its other numbers are of one GPU
  uint32_t ranks = 1;  // GPUs that share the model
  bool global_queue = false;
  // The counter that all SMs of rank 0 wait for before their first instruction of the next pass. Rank r has
  // the r-th counter after it.
  uint32_t gate_counter = 0;
  std::vector<std::string> ops;
  std::vector<TraceInstruction> instructions;  // in order of Program::instructions
  std::vector<Wait> waits;
  std::vector<Signal> signals;
  std::vector<uint32_t> increments_per_pass;  // [counters]
  std::vector<TracePush> pushes;              // in order of instruction; empty for one rank

  uint32_t sms_of_rank() const { return machine.sms / ranks; }
  uint32_t rank_of(uint32_t sm) const { return sm / sms_of_rank(); }
  uint32_t gate_of(uint32_t rank) const { return gate_counter + rank; }
};

// The pushes of an instruction.
std::span<const TracePush> pushes_of(const TraceProgram& program, uint32_t instruction);

// Limit for all ranks together.
inline constexpr uint32_t kMaxTraceSms = kMaxSms * kMaxDevices;

// "SM 7", or "GPU 1 SM 3" if several GPUs share the model.
std::string sm_name(const TraceProgram& program, uint32_t sm);

// Time of an event that did not happen or was not recorded.
inline constexpr int64_t kNever = -1;

// One run of an instruction, in one pass, on one SM. The host interpreter has no controller and no loader, so
// it has no events of theirs.
struct Execution {
  uint32_t instruction = 0;  // index into TraceProgram::instructions
  uint32_t pass = 0;         // of the launch
  uint32_t sm = 0;
  uint32_t last_counter = kNoCounter;  // the counter that was reached last, of those waited for
  uint64_t bytes = 0;      // read from global memory: as counted by the recorder, else by the cost
  int64_t room_ns = 0;     // part of load_begin to load_issued: the loader waited for a free page
  int64_t starved_ns = 0;  // part of compute_begin to compute_end: the consumers waited for pages
  std::array<int64_t, kNumEventKinds> at;  // [EventKind] ns, or kNever

  Execution() { at.fill(kNever); }
  int64_t time(EventKind kind) const { return at[static_cast<size_t>(kind)]; }
  bool has(EventKind kind) const { return time(kind) != kNever; }
  void set(EventKind kind, int64_t ns) { at[static_cast<size_t>(kind)] = ns; }
};

// The time of its earliest event; INT64_MAX if it has none.
int64_t first_time(const Execution& execution);

// The state of an SM's pages at a moment.
struct PageSample {
  int64_t at_ns = 0;
  uint32_t sm = 0;
  uint32_t bytes_in_flight = 0;  // asked for but not landed
  uint32_t free_pages = 0;
};

// A token's time: from the gate of the pass before (or the launch's begin) to its own gate. Work that runs
// ahead of its pass, such as loads, lies partly in the window before.
struct PassWindow {
  uint32_t pass = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t length_ns() const { return end_ns - begin_ns; }
};

// Plain data; a const Trace may be shared between threads.
struct Trace {
  TraceSource source = TraceSource::kHost;
  std::map<std::string, std::string> metadata;  // model, policy, context, GPU, commit, …: for readers
  TraceProgram program;
  std::vector<PassWindow> windows;    // ascending; all instructions of their passes are in `executions`
  std::vector<Execution> executions;  // in order of pass, SM and time; maybe some of the pass after the last
  std::vector<PageSample> samples;    // in order of SM and time; may be empty
};

// True if the instruction opens the gate to the next pass. The instruction must be in range.
bool signals_gate(const TraceProgram& program, uint32_t instruction);

// Throws Error(kRuntime), naming `name` and the field, unless every index of the trace is in range, every
// time is in [0, 2^53), a role's events of an execution are in order, windows follow each other, and their
// passes are complete.
void check_trace(const Trace& trace, const std::string& name);

}  // namespace serval

// A trace: when which SM did what, for one or several tokens. The host's recorder, the GPU's and the
// simulator give the same trace, and everything that is drawn or reported is computed from it.
//
// A trace stores little: the program, and for each execution of an instruction the time of each event
// (vm/events.def). Slices, edges and tracks follow from these and are computed on request
// (profiler/analysis/slices.h, edges.h, tracks.h).
//
// All times are nanoseconds on one clock for all SMs; the earliest time of a trace is 0.
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

// An instruction as far as a trace needs it: in words, so that a trace can be read when the instruction set
// has changed.
struct TraceInstruction {
  uint32_t op = 0;          // index into TraceProgram::ops
  uint16_t layer = kNoTag;  // kNoTag: of no layer
  uint32_t queue = 0;
  uint32_t pc = 0;                              // in its queue
  uint64_t bytes = 0;                           // that it reads from memory, by its cost
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
  uint32_t operands = 0;  // that it writes there, as bits of Wait::operand_mask
  friend bool operator==(const TracePush&, const TracePush&) = default;
};

// The program that ran. Made from a Program by profiler/trace/trace_program.h.
//
// SMs are numbered rank after rank, as many on each; rank r is what people see as GPU r.
struct TraceProgram {
  Machine machine;     // `sms`: of all ranks; its other figures are of one GPU
  uint32_t ranks = 1;  // GPUs that share the model
  bool global_queue = false;
  // Every SM of rank 0 waits for this counter before its first instruction of the next pass. Rank r's is the
  // r-th counter from this one.
  uint32_t gate_counter = 0;
  std::vector<std::string> ops;
  std::vector<TraceInstruction> instructions;  // in order of Program::instructions
  std::vector<Wait> waits;
  std::vector<Signal> signals;
  std::vector<uint32_t> increments_per_pass;  // [counters]
  std::vector<TracePush> pushes;              // in order of instruction; none where there is one rank

  uint32_t sms_of_rank() const { return machine.sms / ranks; }
  uint32_t rank_of(uint32_t sm) const { return sm / sms_of_rank(); }
  uint32_t gate_of(uint32_t rank) const { return gate_counter + rank; }
};

// The pushes of an instruction.
std::span<const TracePush> pushes_of(const TraceProgram& program, uint32_t instruction);

// Limit for all ranks together.
inline constexpr uint32_t kMaxTraceSms = kMaxSms * kMaxDevices;

// "SM 7", and where several GPUs share the model "GPU 1 SM 3".
std::string sm_name(const TraceProgram& program, uint32_t sm);

// The time of an event that did not happen, or was not recorded.
inline constexpr int64_t kNever = -1;

// One instruction, run once, in one pass, on one SM. The host interpreter has no controller and no loader:
// those events never happen there.
struct Execution {
  uint32_t instruction = 0;  // index into TraceProgram::instructions
  uint32_t pass = 0;         // of the launch
  uint32_t sm = 0;
  uint32_t last_counter = kNoCounter;  // of the counters waited for, the one reached last
  uint64_t bytes = 0;      // read from global memory: counted where a recorder counts, else by the cost
  int64_t room_ns = 0;     // of load_begin to load_issued: the loader waited for a free page
  int64_t starved_ns = 0;  // of compute_begin to compute_end: the consumers waited for pages
  std::array<int64_t, kNumEventKinds> at;  // [EventKind] ns, or kNever

  Execution() { at.fill(kNever); }
  int64_t time(EventKind kind) const { return at[static_cast<size_t>(kind)]; }
  bool has(EventKind kind) const { return time(kind) != kNever; }
  void set(EventKind kind, int64_t ns) { at[static_cast<size_t>(kind)] = ns; }
};

// The earliest of its events; INT64_MAX if it has none.
int64_t first_time(const Execution& execution);

// How an SM's pages stand at a moment.
struct PageSample {
  int64_t at_ns = 0;
  uint32_t sm = 0;
  uint32_t bytes_in_flight = 0;  // asked for and not landed
  uint32_t free_pages = 0;
};

// A token: from the gate of the pass before (or the launch's begin) to its own gate. What runs ahead of its
// pass, as loads do, lies partly in the window before.
struct PassWindow {
  uint32_t pass = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t length_ns() const { return end_ns - begin_ns; }
};

// Plain data; a const Trace may be shared between threads.
struct Trace {
  TraceSource source = TraceSource::kHost;
  std::map<std::string, std::string> metadata;  // model, policy, context, GPU, commit, … : for people
  TraceProgram program;
  std::vector<PassWindow> windows;    // ascending; all instructions of their passes are in `executions`
  std::vector<Execution> executions;  // in order of pass, SM and time; maybe some of the pass after the last
  std::vector<PageSample> samples;    // in order of SM and time; may be empty
};

// True if the instruction opens the gate to the next pass. The instruction is in range.
bool signals_gate(const TraceProgram& program, uint32_t instruction);

// Throws Error(kRuntime), naming `name` and the field, unless every index of the trace is in range, every
// time is in [0, 2^53), a role's events of an execution are in order, windows follow each other, and their
// passes are complete.
void check_trace(const Trace& trace, const std::string& name);

}  // namespace serval

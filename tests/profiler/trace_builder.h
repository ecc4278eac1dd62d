// Hand-made traces: a program and the times of its events, given one by one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/trace/trace.h"

namespace serval::testing {

class TraceBuilder {
 public:
  explicit TraceBuilder(uint32_t sms);

  uint32_t counter();
  // Returns the instruction's index. Waits are for all increments of a counter unless stated otherwise.
  uint32_t add(const std::string& op, uint32_t sm, std::vector<Wait> waits,
               const std::vector<uint32_t>& signals, uint64_t bytes = 0);
  // Divides the SMs among `ranks` ranks; the gates of the other ranks follow that of rank 0.
  void share(uint32_t ranks) { trace_.program.ranks = ranks; }
  // The push uses the second operand; waits guard the first.
  void push(uint32_t instruction, uint32_t to, uint64_t bytes) {
    trace_.program.pushes.push_back({instruction, to, bytes, 2});
  }
  void gate(uint32_t counter) { trace_.program.gate_counter = counter; }
  void window(int64_t begin_ns, int64_t end_ns);

  // Adds an execution of the instruction on its SM in the last window's pass; the caller sets its events'
  // times.
  Execution& execute(uint32_t instruction);
  // Adds an execution with inputs ready, prepared, computing, stored and signalled at these times, without a
  // loader.
  Execution& execute(uint32_t instruction, int64_t ready, int64_t compute, int64_t end, int64_t signalled);

  const Trace& trace() const { return trace_; }
  Trace& trace() { return trace_; }

 private:
  Trace trace_;
};

// Two SMs, two tokens: `short` and `last` on SM 0, and `long` on SM 1, with pages that a loader loads. `last`
// waits for both, and its signal opens the gate.
TraceBuilder two_sm_trace();

// Two ranks of one SM each, two tokens. Each has a `push` for which both ranks' `reduce` wait; `state` on
// rank 0 waits for both `reduce`, and its signal opens both gates. Rank 1's push comes last. Executions of a
// token: push, reduce, state, then rank 1's push and reduce.
TraceBuilder two_gpu_trace();

}  // namespace serval::testing

// Hand-made traces: a program and the times of its events, said one by one.
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
  // Returns its index. Waits are for all increments of a counter unless they say otherwise.
  uint32_t add(const std::string& op, uint32_t sm, std::vector<Wait> waits,
               const std::vector<uint32_t>& signals, uint64_t bytes = 0);
  // The SMs belong to so many ranks; gates follow the one of rank 0.
  void share(uint32_t ranks) { trace_.program.ranks = ranks; }
  // From the second operand; waits guard the first.
  void push(uint32_t instruction, uint32_t to, uint64_t bytes) {
    trace_.program.pushes.push_back({instruction, to, bytes, 2});
  }
  void gate(uint32_t counter) { trace_.program.gate_counter = counter; }
  void window(int64_t begin_ns, int64_t end_ns);

  // An execution of the instruction on its SM in the last window's pass, with its events' times to be set.
  Execution& execute(uint32_t instruction);
  // The same, with inputs ready, prepared, computing, stored and signalled at these times; no loader.
  Execution& execute(uint32_t instruction, int64_t ready, int64_t compute, int64_t end, int64_t signalled);

  const Trace& trace() const { return trace_; }
  Trace& trace() { return trace_; }

 private:
  Trace trace_;
};

// Two SMs, two tokens: on SM 0 `short` and `last`, on SM 1 `long`, whose pages a loader brings. `last` waits
// for both, and its signal is the gate.
TraceBuilder two_sm_trace();

// Two ranks of one SM each, two tokens. Each has a `push`, which both ranks' `reduce` wait for; for both of
// these waits `state`, on rank 0, whose signal opens both gates. Rank 1's push comes last. Executions of a
// token: push, reduce, state, then rank 1's push and reduce.
TraceBuilder two_gpu_trace();

}  // namespace serval::testing

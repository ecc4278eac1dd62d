// The simulator: runs a program on a model of the GPU, without one. It gives the trace that a real run would
// give, or only the time.
//
// The model has one thread block an SM with the roles of vm/device: a controller that fetches records, a
// loader that keeps a bounded number of bytes in flight to a ring of pages, preparers that wait for counters,
// consumer warps that hold a page each in registers, storers that signal. Memory and L2 are shared by all
// SMs; what is asked of them, and each step of a synchronisation, takes longer the more is in flight. What an
// instruction has to move and to compute comes from its footprint and its cost, how long that takes from
// SimParameters.
//
// The number of SMs and what runs on which is the program's: to ask what another number would do, compile for
// it. Everything else is a parameter.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler/sim/parameters.h"
#include "profiler/trace/trace.h"
#include "vm/program.h"
#include "vm/state/rows.h"

namespace serval {

// The initial state of a launch. A pass moves each row that wants logits on by one token; the others end with
// it.
struct SimLaunch {
  std::vector<PassRow> rows;  // at most the program's; their slots are what KV blocks they share
  uint32_t passes = 1;        // at most; the launch ends where no row is active or the context is full
};
// Rows of the launch from this one on are not active.
uint32_t row_bound(const SimLaunch& launch);

// Every row a sequence of its own that has `context_tokens` tokens in the cache.
SimLaunch decode_launch(uint32_t sequences, uint32_t context_tokens, uint32_t passes);
// A pass that reads `tokens` tokens of one sequence, behind `context_tokens` that are in the cache; logits
// are wanted of the last one.
SimLaunch prompt_launch(uint32_t tokens, uint32_t context_tokens);

// The trace of the launch, all its passes complete. Deterministic; one thread; time and memory are linear in
// the program's pages of weights. Throws Error(kRuntime), naming SM, instruction and counter, if the program
// cannot go on (a deadlock), and Error(kUsage) if the launch does not fit the program's limits or has no row.
Trace simulate(const Program& program, const SimLaunch& launch, const SimParameters& parameters,
               std::map<std::string, std::string> metadata = {});

// Microseconds that the launch's last pass takes, from the gate of the pass before to its own: what
// simulate() would give, without the trace. With 2 passes it is a pass whose first weights were loaded during
// the one before. Throws as simulate().
double predict_us(const Program& program, const SimLaunch& launch, const SimParameters& parameters);

}  // namespace serval

// The simulator: runs a program on a model of the GPU. It returns the trace that a run on a GPU would give,
// or only the time.
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

// The begin of a launch. Each pass moves the rows that want logits on by one token; the others are inactive
// after their pass.
struct SimLaunch {
  std::vector<PassRow> rows;  // at most the program's; rows of one slot share KV blocks
  uint32_t passes = 1;        // at most; the launch ends when no row is active or the context is full
};
// Rows of the launch from this one on are not active.
uint32_t row_bound(const SimLaunch& launch);

// One row for each of `sequences` sequences, with `context_tokens` tokens each in the cache.
SimLaunch decode_launch(uint32_t sequences, uint32_t context_tokens, uint32_t passes);
// A pass that reads `tokens` tokens of one sequence, after `context_tokens` that are in the cache. Only the
// last one wants logits.
SimLaunch prompt_launch(uint32_t tokens, uint32_t context_tokens);

// The trace of the launch, with all its passes complete. Deterministic; one thread; time and memory are
// linear in the program's pages of weights. Throws Error(kRuntime), naming SM, instruction and counter, if
// the program deadlocks, and Error(kUsage) if the launch does not fit the program's limits or has no active
// row.
Trace simulate(const Program& program, const SimLaunch& launch, const SimParameters& parameters,
               std::map<std::string, std::string> metadata = {});

// Microseconds of the launch's last pass, from the gate of the pass before to its own, as simulate() gives
// it, but without the trace. With 2 passes, the timed pass's first weights were loaded during the one before.
// Throws as simulate().
double predict_us(const Program& program, const SimLaunch& launch, const SimParameters& parameters);

}  // namespace serval

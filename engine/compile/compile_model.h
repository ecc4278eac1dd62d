// Compiles a model to a valid program: the only way to get one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stop_token>

#include "instructions/common/cost.h"
#include "models/model.h"
#include "scheduler/compile.h"
#include "scheduler/graph.h"
#include "scheduler/placement.h"
#include "scheduler/valid_program.h"
#include "vm/layout/kv_cache.h"
#include "vm/machine.h"
#include "vm/program.h"
#include "vm/state/limits.h"

namespace serval {

// The size limits of a program.
struct ProgramLimits {
  uint32_t context = 4096;                 // of a sequence, in tokens
  uint32_t sequences = kDefaultSequences;  // full contexts that fit into the KV cache
  uint32_t rows = 0;                       // in a pass; 0: one for each slot
  uint32_t cache_blocks = 0;               // in the KV cache; 0: enough for `sequences` full contexts
  // Rows of a tile in programs for passes of more than kDefaultRows (GraphOptions); 0: these multiply vectors
  // too.
  uint32_t tile_rows = 0;
  bool batch_invariant = false;  // programs for fewer rows multiply tiles too
  bool tile_order = false;  // with batch_invariant: a program for one row multiplies vectors, in the order of
                            // tiles
  uint32_t ranks = 1;       // devices that share the model

  // Slots of the state. There may be more sequences than full contexts in the KV cache, because they can be
  // shorter.
  uint32_t slots() const { return std::max(sequences, kDefaultSequences); }
  bool is_in_tile_order() const { return tile_order && pass_rows() == 1; }
  uint32_t tiles() const {
    if (is_in_tile_order()) return 0;
    return batch_invariant || pass_rows() > kDefaultRows ? tile_rows : 0;
  }
  uint32_t pass_rows() const { return rows > 0 ? rows : slots(); }
  uint32_t kv_blocks() const {
    return cache_blocks > 0 ? cache_blocks : sequences * blocks_for_tokens(context);
  }
};

// Options for the placement on a machine. None of them changes what a program computes.
struct ScheduleOptions {
  std::optional<Policy> policy = {};  // none: the one with the shortest estimated pass
  bool simulate = false;  // the estimates are the simulator's (profiler/sim), not the cost model's. It models
                          // GPUs: for the host's threads the cost model is asked all the same
  QueueKind queue_kind = QueueKind::kPerSm;
  CostContext pass = {};  // the pass whose time is estimated
};

// Input of the compilation; it does not refer to the model any more.
struct CompilePlan {
  Graph graph;
  Machine machine;
  CompileOptions options;
};

// Builds the model's graph. Throws as compile_model().
CompilePlan plan_program(const Model& model, const Machine& machine, const ProgramLimits& limits,
                         const ScheduleOptions& schedule);
// Places the graph and proves the program. Throws Error(kRuntime) if it is stopped before the proof.
ValidProgram compile_plan(const CompilePlan& plan, const std::stop_token& stop = {});

// Builds the model's graph, places it and proves the program. Reads no weights. Throws Error(kUsage) if the
// limits or the machine's number of SMs are out of range.
ValidProgram compile_model(const Model& model, const Machine& machine, const ProgramLimits& limits,
                           const ScheduleOptions& schedule = {});

}  // namespace serval

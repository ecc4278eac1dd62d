// From a model to a program that may run: the one way there is.
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

// What a program can hold.
struct ProgramLimits {
  uint32_t context = 4096;                 // tokens of a sequence
  uint32_t sequences = kDefaultSequences;  // full contexts that the KV cache holds
  uint32_t rows = 0;                       // of a pass; 0: one for each slot
  uint32_t cache_blocks = 0;               // of the KV cache; 0: for `sequences` full contexts
  // Rows of a tile, in programs for passes of more than kDefaultRows (GraphOptions); 0: they multiply with
  // vectors, too.
  uint32_t tile_rows = 0;
  bool batch_invariant = false;  // programs for fewer rows multiply tiles, too
  bool tile_order = false;  // with batch_invariant: a program for one row multiplies vectors, in the order of
                            // tiles
  uint32_t ranks = 1;       // devices that share the model

  // Of the state. Sequences that are shorter than the context may be more than the KV cache's full ones.
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

// How it is placed on a machine. None of it changes what a program computes.
struct ScheduleOptions {
  std::optional<Policy> policy = {};  // none: the one whose pass is estimated to be shortest
  bool simulate = false;  // the estimates are the simulator's (profiler/sim), not the cost model's. It models
                          // GPUs: for the host's threads the cost model is asked all the same
  QueueKind queue_kind = QueueKind::kPerSm;
  CostContext pass = {};  // whose time is estimated
};

// What compiling takes: no longer the model.
struct CompilePlan {
  Graph graph;
  Machine machine;
  CompileOptions options;
};

// Builds the model's graph. Throws as compile_model().
CompilePlan plan_program(const Model& model, const Machine& machine, const ProgramLimits& limits,
                         const ScheduleOptions& schedule);
// Places it and proves the program. Throws Error(kRuntime) where it is stopped before the proof.
ValidProgram compile_plan(const CompilePlan& plan, const std::stop_token& stop = {});

// Builds the model's graph, places it and proves the program. No weights are touched. Throws Error(kUsage) if
// the limits or the machine's SMs are out of range.
ValidProgram compile_model(const Model& model, const Machine& machine, const ProgramLimits& limits,
                           const ScheduleOptions& schedule = {});

}  // namespace serval

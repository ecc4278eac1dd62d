// The set of programs that a model is compiled to for a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/compile/compile_model.h"
#include "engine/compile/program_set.h"
#include "models/model.h"

namespace serval {

// Default for the tokens of a pass, if memory allows: for large models, and for small ones, which take less
// time for each token.
inline constexpr uint32_t kLeastGpuTokens = 2048, kMostGpuTokens = 8192;

// Programs of tiles need widths that are multiples of 64 on each of the ranks that share the model. Other
// models have passes of at most kDefaultRows.
bool can_multiply_tiles(const Model& model, uint32_t ranks = 1);

// Row limits of the programs for passes of fewer than `limits.pass_rows()` rows, ascending: a program of
// vectors for up to kDefaultRows if results may depend on the batch, and programs of tiles. With
// limits.tile_order, also one for a single row.
std::vector<uint32_t> gpu_row_classes(const ProgramLimits& limits);

// A program for each of `row_classes` (if empty, of gpu_row_classes()) and one for all passes. Throws
// Error(kUsage) if the passes have more rows than the model's kernels support.
ProgramSet compile_gpu_programs(const Model& model, const Machine& machine, const ProgramLimits& limits,
                                const ScheduleOptions& schedule,
                                const std::vector<uint32_t>& row_classes = {},
                                CompileTime when = CompileTime::kAtOnce);

// The one of these programs that runs a pass of `rows` rows (ProgramSet). Throws as compile_gpu_programs(),
// and if the pass has more rows than `limits` allow.
ValidProgram compile_gpu_program(const Model& model, const Machine& machine, const ProgramLimits& limits,
                                 const ScheduleOptions& schedule, uint32_t rows, bool reads_prompts);

}  // namespace serval

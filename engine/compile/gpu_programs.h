// The programs that a model is compiled into for a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/compile/compile_model.h"
#include "engine/compile/program_set.h"
#include "models/model.h"

namespace serval {

// Tokens of a pass where nothing else is asked for, if memory allows: of large models, and of small ones,
// which take less time for each.
inline constexpr uint32_t kLeastGpuTokens = 2048, kMostGpuTokens = 8192;

// Programs of tiles need widths that are multiples of 64, on each of the ranks that share the model. Models
// of other widths have passes of up to kDefaultRows.
bool can_multiply_tiles(const Model& model, uint32_t ranks = 1);

// Rows of the programs for passes of fewer than `limits.pass_rows()` rows, ascending: one of vectors for up
// to kDefaultRows, where results may depend on the batch, and those of tiles.
std::vector<uint32_t> gpu_row_classes(const ProgramLimits& limits);

// A program for each of `row_classes`, of gpu_row_classes() if there is none, and one for all passes. Throws
// Error(kUsage) where the passes have more rows than the kernels for the model take.
ProgramSet compile_gpu_programs(const Model& model, const Machine& machine, const ProgramLimits& limits,
                                const ScheduleOptions& schedule,
                                const std::vector<uint32_t>& row_classes = {},
                                CompileTime when = CompileTime::kAtOnce);

// The one of these programs that runs a pass of `rows` rows (ProgramSet). Throws as compile_gpu_programs(),
// and where the pass has more rows than `limits` say.
ValidProgram compile_gpu_program(const Model& model, const Machine& machine, const ProgramLimits& limits,
                                 const ScheduleOptions& schedule, uint32_t rows, bool reads_prompts);

}  // namespace serval

#include "engine/compile/gpu_programs.h"

#include <algorithm>

#include "fmt/format.h"

#include "instructions/common/residual.h"
#include "instructions/kernels.h"
#include "instructions/planned_attention/op.h"
#include "vm/base/error.h"

namespace serval {
namespace {

// Row limits of programs: for the kernels of small tiles, for half a tile, for one tile, and for several. A
// pass with fewer rows than its program still occupies SMs with tiles that have no rows.
constexpr uint32_t kTileClasses[] = {64, 128, 256, 512, 1024, 2048, 4096};

void check_rows(uint32_t rows, uint32_t most) {
  if (rows <= most) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("{} rows a pass (sequences or tokens of prompts together); limit: {} (the GPU's "
                          "kernels)",
                          rows, most));
}

// Returns whether a kernel has room for one row of each product's input.
bool takes_tile_order(const Model& model) {
  const auto cols = static_cast<uint32_t>(
      std::max({model.hidden_size, model.intermediate_size, model.num_heads * model.head_dim}));
  if (static_cast<uint32_t>(model.num_heads / model.num_kv_heads) > kNarrowQueries) return false;
  return std::ranges::any_of(kernels(), [&](const KernelTraits& kernel) {
    return kernel.tile_order && kernel.head_dim == static_cast<uint32_t>(model.head_dim) &&
           has_room_for_row(kernel, cols);
  });
}

ProgramLimits with_tiles(const Model& model, ProgramLimits limits) {
  const KernelTraits& widest = widest_kernel(limits.ranks);
  limits.tile_rows = can_multiply_tiles(model, limits.ranks) ? widest.tile_rows : 0;
  // No kernel in tile order has code for weights in codes: then one row has a tile of its own.
  limits.tile_order = limits.batch_invariant && model.formats.all_bf16() && limits.tile_rows > 0 &&
                      limits.ranks == 1 && model.has_tile_order() && takes_tile_order(model);
  check_rows(limits.pass_rows(), limits.tile_rows > 0 ? widest.rows : kDefaultRows);
  return limits;
}

}  // namespace

bool can_multiply_tiles(const Model& model, uint32_t ranks) {
  const uint32_t cols = kSquareColsOfTiles * ranks;
  return static_cast<uint32_t>(model.hidden_size) % cols == 0 &&
         static_cast<uint32_t>(model.intermediate_size) % cols == 0;
}

std::vector<uint32_t> gpu_row_classes(const ProgramLimits& limits) {
  const uint32_t rows = limits.pass_rows();
  std::vector<uint32_t> classes;
  if (limits.tile_order && rows > 1) classes.push_back(1);
  if (!limits.batch_invariant && rows > kDefaultRows) classes.push_back(kDefaultRows);
  for (const uint32_t tiles : kTileClasses) {
    if (tiles < rows) classes.push_back(tiles);
  }
  return classes;
}

ProgramSet compile_gpu_programs(const Model& model, const Machine& machine, const ProgramLimits& limits_in,
                                const ScheduleOptions& schedule, const std::vector<uint32_t>& row_classes,
                                CompileTime when) {
  const ProgramLimits limits = with_tiles(model, limits_in);
  return compile_programs(model, machine, limits, schedule,
                          row_classes.empty() ? gpu_row_classes(limits) : row_classes, when);
}

ValidProgram compile_gpu_program(const Model& model, const Machine& machine, const ProgramLimits& limits_in,
                                 const ScheduleOptions& schedule, uint32_t rows, bool reads_prompts) {
  ProgramLimits limits = with_tiles(model, limits_in);
  if (rows > limits.pass_rows())
    throw Error(ErrorKind::kUsage, fmt::format("pass: {} rows; limit: {}", rows, limits.pass_rows()));
  limits.rows = limits.pass_rows();
  for (const uint32_t row_class : gpu_row_classes(limits)) {
    const bool is_of_vectors = row_class <= kDefaultRows;
    if (row_class < rows || (is_of_vectors && reads_prompts)) continue;
    limits.rows = row_class;
    break;
  }
  ScheduleOptions of_class = schedule;
  of_class.pass.rows = limits.rows <= kDefaultRows ? CostContext{}.rows : limits.rows;
  return compile_model(model, machine, limits, of_class);
}

}  // namespace serval

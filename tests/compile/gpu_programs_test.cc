// The programs into which a model is compiled for a GPU: their arithmetic classes and row limits.
#include "engine/compile/gpu_programs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "instructions/isa.h"
#include "instructions/kernels.h"
#include "tests/llama/configs.h"
#include "tests/llama/tiny_model.h"
#include "vm/base/error.h"
#include "vm/layout/page_image.h"

namespace serval {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

LlamaConfig of_widths(int hidden, int intermediate) {
  LlamaConfig config = testing::tiny_config();
  config.hidden_size = hidden;
  config.intermediate_size = intermediate;
  return config;
}

// Describes programs as in "16v 64t": the row limit, then v for vectors, o for vectors with sums in tile
// order, or t for tiles.
std::string programs_of(const Model& model, const ProgramLimits& limits) {
  Machine machine = h200_machine();
  machine.sms = 4;
  const ProgramSet set = compile_gpu_programs(model, machine, limits, {});
  std::string out;
  for (size_t i = 0; i < set.size(); ++i) {
    if (i > 0) out += ' ';
    const Program& program = set.program(i);
    out += std::to_string(set.rows(i)) + (program.order == Order::kTile                ? 't'
                                          : program.order == Order::kVectorInTileOrder ? 'o'
                                                                                       : 'v');
  }
  return out;
}

TEST(GpuPrograms, UseVectorsForFewRowsAndTilesForMore) {
  const LlamaConfig model = of_widths(128, 192);
  EXPECT_EQ(programs_of(model, {.context = 300}), "16v");
  EXPECT_EQ(programs_of(model, {.context = 300, .rows = 40}), "16v 40t");
  EXPECT_EQ(programs_of(model, {.context = 300, .rows = 300}), "16v 64t 128t 256t 300t");
}

// A single row is multiplied as a vector, with sums in tile order.
TEST(GpuPrograms, UseTileOrderIfBatchInvariant) {
  const LlamaConfig model = of_widths(128, 192);
  EXPECT_EQ(programs_of(model, {.context = 300, .rows = 1, .batch_invariant = true}), "1o");
  EXPECT_EQ(programs_of(model, {.context = 300, .batch_invariant = true}), "1o 16t");
  EXPECT_EQ(programs_of(model, {.context = 300, .rows = 300, .batch_invariant = true}),
            "1o 64t 128t 256t 300t");
}

// Embeddings are of one arithmetic class, and kernels that pool have no tile order. Each program has a
// kernel.
TEST(GpuPrograms, OfModelsThatPoolMultiplyTilesAndHaveKernels) {
  LlamaConfig model = of_widths(128, 192);
  model.pools = true;
  const ProgramLimits limits{.context = 300, .rows = 300, .batch_invariant = true};
  EXPECT_EQ(programs_of(model, limits), "64t 128t 256t 300t");
  Machine machine = h200_machine();
  machine.sms = 4;
  LlamaConfig narrow = of_widths(96, 176);
  narrow.pools = true;
  for (const auto& [config, of] :
       {std::pair(model, limits), std::pair(narrow, ProgramLimits{.context = 300})}) {
    const ProgramSet set = compile_gpu_programs(config, machine, of, {});
    for (const Program* program : set.outlines()) {
      const auto runs_it = [&](const KernelTraits& kernel) { return runs(kernel, *program); };
      EXPECT_TRUE(std::ranges::any_of(kernels(), runs_it)) << program->limits.rows;
      for (const KernelTraits& kernel : kernels()) {
        EXPECT_TRUE(!runs_it(kernel) || kernel.pools) << kernel.name;
      }
    }
  }
}

// Few SMs: bf16 has wide tiles in the program for 64 rows, and 4-bit integers have none, as no kernel has.
TEST(GpuPrograms, OfWeightsInCodesMultiplyTilesAndHaveKernels) {
  Machine machine = h200_machine();
  machine.sms = 4;
  for (const DType type : {DType::kE4M3, DType::kInt4G32, DType::kInt4G64, DType::kInt4G128}) {
    LlamaConfig model = testing::tiny_large_heads_config();
    model.intermediate_size = 1152;
    for (const DType lm_head : {type, DType::kBF16, DType::kE4M3}) {
      model.formats = {.layers = type, .lm_head = lm_head};
      EXPECT_EQ(programs_of(model, {.context = 300, .rows = 300}), "16v 64t 128t 256t 300t");
      const ProgramSet set = compile_gpu_programs(model, machine, {.context = 300, .rows = 300}, {});
      for (const Program* program : set.outlines()) {
        const auto runs_it = [&](const KernelTraits& kernel) { return runs(kernel, *program); };
        EXPECT_TRUE(std::ranges::any_of(kernels(), runs_it)) << name_of(type) << ", " << program->limits.rows;
      }
    }
  }
}

TEST(GpuPrograms, UseTilesForASingleRowWithoutATileOrderKernel) {
  const ProgramLimits limits{.context = 300, .batch_invariant = true};
  LlamaConfig norms = of_widths(128, 192);
  norms.qk_norm = true;
  EXPECT_EQ(programs_of(norms, limits), "16t");
  LlamaConfig many_queries = of_widths(128, 192);
  many_queries.num_heads = 9 * many_queries.num_kv_heads;
  EXPECT_EQ(programs_of(many_queries, limits), "16t");
  const int widest =
      static_cast<int>(kernel_traits::TileOrderHeads64.activation_rows * page_image::kPanelCols);
  EXPECT_EQ(programs_of(of_widths(128, widest), limits), "1o 16t");
  EXPECT_EQ(programs_of(of_widths(128, widest + 64), limits), "16t");
}

TEST(GpuPrograms, UseVectorsIfTheWidthsDoNotFitTiles) {
  for (const LlamaConfig& model : {of_widths(96, 192), of_widths(128, 176)}) {
    EXPECT_FALSE(can_multiply_tiles(model));
    EXPECT_EQ(programs_of(model, {.context = 300, .batch_invariant = true}), "16v") << "one class, too";
    EXPECT_THROW(programs_of(model, {.context = 300, .rows = 17}), Error);
  }
}

TEST(GpuPrograms, AreCompiledOneByOneForAPass) {
  Machine machine = h200_machine();
  machine.sms = 4;
  const auto rows_of = [&](uint32_t rows, bool reads_prompts) {
    const ProgramLimits limits{.context = 300, .rows = 300};
    const auto program = compile_gpu_program(of_widths(128, 192), machine, limits, {}, rows, reads_prompts);
    EXPECT_EQ((*program).order == Order::kTile, rows > 16 || reads_prompts);
    return program->limits.rows;
  };
  EXPECT_EQ(rows_of(1, false), 16U);
  EXPECT_EQ(rows_of(1, true), 64U);
  EXPECT_EQ(rows_of(17, false), 64U);
  EXPECT_EQ(rows_of(257, true), 300U);
  EXPECT_THROW(rows_of(301, true), Error);
}

// With the placement for 16 rows, a pass of one sequence of llama-3.2-1b takes a tenth longer.
TEST(GpuPrograms, PlaceVectorsForOneSequence) {
  LlamaConfig model = preset_config("llama-3.2-1b");
  model.num_layers = 2;
  const ProgramLimits of_many{.context = 384, .rows = 64}, of_one{.context = 384};
  const ProgramSet set = compile_gpu_programs(model, h200_machine(), of_many, {});
  const auto alone = compile_gpu_program(model, h200_machine(), of_one, {}, 1, false);
  const auto together = compile_gpu_program(model, h200_machine(), of_many, {}, 16, false);
  for (const char* what : {"policy", "estimate_us"}) {
    EXPECT_EQ(set.program(0).metadata.at(what), alone->metadata.at(what));
    EXPECT_EQ(together->metadata.at(what), alone->metadata.at(what));
  }
}

// In the cost model, tiles beyond the rows that a program is placed for cost nothing, so all of them would be
// placed on a few SMs.
TEST(GpuPrograms, PlaceTilesForAllTheirRows) {
  LlamaConfig model = preset_config("llama-3.2-1b");
  model.num_layers = 2;
  const ProgramLimits limits{.context = 384, .rows = 512};
  const ProgramSet set = compile_gpu_programs(model, h200_machine(), limits, {});
  for (size_t i = 0; i < set.size(); ++i) {
    const uint32_t rows = set.rows(i);
    if (rows <= kDefaultRows) continue;
    const auto one = compile_gpu_program(model, h200_machine(), limits, {}, rows, true);
    for (const char* what : {"policy", "estimate_us"})
      EXPECT_EQ(set.program(i).metadata.at(what), one->metadata.at(what)) << rows;
  }
}

TEST(GpuPrograms, GrowByRowsAsPassesDo) {
  EXPECT_THAT(gpu_row_classes({.rows = 8192}), ElementsAre(16, 64, 128, 256, 512, 1024, 2048, 4096));
  EXPECT_THAT(gpu_row_classes({.rows = 2048}), ElementsAre(16, 64, 128, 256, 512, 1024));
  EXPECT_THAT(gpu_row_classes({.rows = 512}), ElementsAre(16, 64, 128, 256));
  EXPECT_THAT(gpu_row_classes({.rows = 16}), IsEmpty());
}

}  // namespace
}  // namespace serval

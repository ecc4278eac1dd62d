// One matvec_residual of several parts gives the same bits as a matvec_part for each part and one add_parts:
// those of adding the parts to the residual in order.
#include "instructions/common/column_parts.h"

#include <bit>

#include "gtest/gtest.h"

#include "tests/instructions/scene.h"

namespace serval::testing {
namespace {

using Memory = std::vector<std::vector<std::byte>>;

TEST(ColumnParts, AreAsManyAsFewTilesNeed) {
  // 128 tiles of 64 outputs are enough; the maximum is 4 parts.
  EXPECT_EQ(matrix_parts(8192, 28672), 1U);
  EXPECT_EQ(matrix_parts(4160, 28672), 1U);
  EXPECT_EQ(matrix_parts(4096, 28672), 2U);
  EXPECT_EQ(matrix_parts(2048, 28672), 4U);
  EXPECT_EQ(matrix_parts(64, 28672), 4U);
  EXPECT_EQ(matrix_parts(16, 28672), 4U);
  // A part has at least one panel of 1024 columns, or the partial last panel.
  EXPECT_EQ(matrix_parts(64, 16), 1U);
  EXPECT_EQ(matrix_parts(64, 1024), 1U);
  EXPECT_EQ(matrix_parts(64, 1040), 2U);
  EXPECT_EQ(matrix_parts(64, 2064), 3U);
}

TEST(ColumnParts, OfProjectionsAreOfTwoPanelsOrMore) {
  EXPECT_EQ(projection_parts(2560, 8192), 3U);  // Llama-70B on 4 GPUs with 40 tiles each
  EXPECT_EQ(projection_parts(1280, 8192), 4U);  // on 8
  EXPECT_EQ(projection_parts(5120, 8192), 1U);  // on 2
  EXPECT_EQ(projection_parts(3072, 4096), 1U);  // Llama-8B on 2: two parts gain nothing
  EXPECT_EQ(projection_parts(1536, 4096), 2U);  // on 4
  EXPECT_EQ(projection_parts(1536, 2048), 1U);
  EXPECT_EQ(projection_parts(64, 16), 1U);
}

TEST(ColumnParts, AreWholePanelsThatFollowEachOther) {
  for (uint32_t cols = 16; cols <= 9 * 1024; cols += 16) {
    for (uint32_t parts = 1; parts <= std::min(page_image::panels(cols), kMaxColumnParts); ++parts) {
      uint32_t next = 0;
      for (uint32_t p = 0; p < parts; ++p) {
        const ColumnRange range = columns_of_part(cols, p, parts);
        ASSERT_EQ(range.begin, next) << cols << " columns, part " << p << " of " << parts;
        ASSERT_EQ(range.begin % page_image::kPanelCols, 0U);
        ASSERT_GT(range.count(), 0U) << cols << " columns, part " << p << " of " << parts;
        next = range.end;
      }
      ASSERT_EQ(next, cols);
    }
  }
  EXPECT_EQ(columns_of_part(14336, 1, 4).begin, 3U * 1024);
  EXPECT_EQ(columns_of_part(14336, 2, 4).begin, 7U * 1024);
}

// Programs of tiles whose products have up to 4 panels of columns; passes with idle rows; products of all
// rows or of those that want logits.
template <class Fn>
void over_scenes(Fn&& fn) {
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Random random(4000 + seed);
    Shape shape = random_shape(
        random, {.max_hidden = 320, .max_intermediate = 16, .max_context = 100, .rows = {17, 48, 70}});
    shape.tile_rows = random.pick<uint32_t>({8, 16, 64});
    shape.hidden = random.between(1, 5) * kSquareColsOfTiles;
    shape.head_dim = random.pick<uint32_t>({64, 128});
    shape.kv_heads = random.between(1, 4);
    shape.q_heads = shape.kv_heads * random.between(6, 8);
    Scene s(shape, random);
    s.new_pass(random);
    const uint32_t most = std::min(page_image::panels(shape.q_heads * shape.head_dim), kMaxColumnParts);
    for (uint32_t parts = 1; parts <= most; ++parts) {
      SCOPED_TRACE(s.shape.text() + ": " + std::to_string(parts) + " parts");
      s.product_parts = s.sums_parts = parts;
      fn(s, random);
    }
  }
}

// The sum over the columns `cols` of a row of weights times an input row.
float sum_over(const Scene& s, uint32_t output, uint32_t row, ColumnRange cols) {
  const uint64_t stride = uint64_t{s.shape.q_heads} * s.shape.head_dim;
  return sum_in_order(s.bench.data<const uint16_t>(s.t.wo) + output * stride + cols.begin,
                      s.bench.data<const uint16_t>(s.t.attended) + row * stride + cols.begin, cols.count());
}

TEST(MatvecResidual, AddsItsPartsToTheResidualFirstToLast) {
  over_scenes([](Scene& s, Random& random) {
    const uint32_t parts = s.product_parts, cols = s.shape.q_heads * s.shape.head_dim;
    const Memory before = s.bench.memory;
    s.bench.run(split(s.stage(Opcode::kMatvecResidual), random));
    for (const uint32_t r : s.computed_rows()) {
      for (uint32_t j = 0; j < s.shape.hidden; ++j) {
        const uint64_t at = s.bench.element(s.t.residual, r, j);
        float sum = reinterpret_cast<const float*>(before[s.t.residual.index].data())[at];
        for (uint32_t p = 0; p < parts; ++p) sum += sum_over(s, j, r, columns_of_part(cols, p, parts));
        ASSERT_EQ(std::bit_cast<uint32_t>(s.bench.data<const float>(s.t.residual)[at]),
                  std::bit_cast<uint32_t>(sum));
      }
    }
    s.bench.memory = before;
  });
}

// Single rows, with a sum of squares for each 8 columns.
TEST(MatvecResidual, AddsPartsInTileOrderAsInTiles) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Random random(4100 + seed);
    Shape shape = random_shape(random, {.max_intermediate = 16, .max_context = 100, .rows = {1}});
    shape.hidden = random.between(1, 5) * kSquareColsOfTiles;
    shape.head_dim = 128;
    shape.kv_heads = 4;
    shape.q_heads = shape.kv_heads * 8;  // 4 panels
    const auto results = [&](bool tile_order, uint64_t same) {
      Random drawn(same);
      shape.tile_order = tile_order;
      shape.tile_rows = tile_order ? 0 : 8;
      Scene s(shape, drawn);
      s.new_pass(drawn, {5});
      s.product_parts = 1 + static_cast<uint32_t>(seed) % kMaxColumnParts;
      s.logits_only = 0;
      s.bench.run(split(s.stage(Opcode::kMatvecResidual), drawn));
      return std::pair(s.bench.memory[s.t.residual.index], s.bench.memory[s.t.weighted.index]);
    };
    EXPECT_EQ(results(true, seed), results(false, seed));
  }
}

TEST(AddParts, AfterAPartForEachRangeOfColumnsHasTheBitsOfOneProduct) {
  size_t compared = 0;
  over_scenes([&](Scene& s, Random& random) {
    if (s.sums_parts == 1) return;
    const Memory before = s.bench.memory;
    s.bench.run(split(s.stage(Opcode::kMatvecResidual), random));
    const Memory expected = s.bench.memory;
    s.bench.memory = before;
    for (s.sums_part = 0; s.sums_part < s.sums_parts; ++s.sums_part) {
      s.bench.run(split(s.stage(Opcode::kMatvecPart), random));
      s.bench.memory[s.t.parts[s.sums_part].index] = s.bench.memory[s.t.part_sums.index];
    }
    s.added_parts = s.sums_parts;
    s.bench.run(split(s.stage(Opcode::kAddParts), random));
    for (const TensorId id : {s.t.residual, s.t.weighted, s.t.squares}) {
      EXPECT_EQ(s.bench.memory[id.index], expected[id.index]) << s.bench.tensor(id).name;
      EXPECT_NE(s.bench.memory[id.index], before[id.index]) << s.bench.tensor(id).name;
    }
    ++compared;
    s.bench.memory = before;
  });
  EXPECT_GT(compared, 10U);
}

// Checks a record of a scene after changing one of its numbers or tensors.
template <class Op, class Change>
std::string refusal(const Scene& s, Change&& change) {
  Op op = s.stage(kOpcodeOf<Op>).make(0, 1).template as<Op>();
  change(op);
  return check_instruction(s.bench.program, make_instruction(op));
}

TEST(CheckInstruction, RefusesPartsThatTheMatrixDoesNotHave) {
  Random random(5000);
  Shape shape = random_shape(random, {.max_intermediate = 16, .max_context = 100, .rows = {17}});
  shape.tile_rows = 8;
  shape.hidden = 64;
  shape.head_dim = 128;
  shape.kv_heads = 3;
  shape.q_heads = 18;  // 2304 columns: 3 panels
  Scene s(shape, random);
  s.new_pass(random);
  s.product_parts = 3;
  s.added_parts = 3;
  s.sums_parts = 3;
  s.sums_part = 1;
  using Product = MatvecResidual;
  const auto none = [](auto&) {};
  EXPECT_EQ(refusal<Product>(s, none), "");
  EXPECT_EQ(refusal<MatvecPart>(s, none), "");
  EXPECT_EQ(refusal<AddParts>(s, none), "");
  EXPECT_EQ(refusal<Product>(s, [](Product& op) { op.parts = 4; }),
            "matvec_residual: parts: 4, expected no more than panels of 1024 columns");
  EXPECT_EQ(refusal<Product>(s, [](Product& op) { op.parts = 5; }),
            "matvec_residual: parts: 5, expected 1 to 4");
  EXPECT_EQ(refusal<MatvecPart>(s, [](MatvecPart& op) { op.first_col = 1008; }),
            "matvec_part: first_col: 1008, expected a multiple of 1024");
  EXPECT_EQ(
      refusal<MatvecPart>(s, [](MatvecPart& op) { op.num_cols = 1008; }),
      "matvec_part: first_col: 2032, expected columns up to a multiple of 1024 or to the matrix's last");
  EXPECT_EQ(refusal<MatvecPart>(s, [](MatvecPart& op) { op.num_cols = 2048; }),
            "matvec_part: first_col: [1024, 3072); limit: 2304");
  EXPECT_EQ(refusal<MatvecPart>(s, [](MatvecPart& op) { op.num_cols = 2304 - 1024; }), "");
  const auto added = [&](uint32_t p) { return std::to_string(s.t.parts[p].index); };
  EXPECT_EQ(refusal<AddParts>(s, [&](AddParts& op) { op.part3 = s.t.parts[3]; }),
            "add_parts: part3: " + added(3) + ", expected part0's tensor from num_parts on, and only there");
  EXPECT_EQ(refusal<AddParts>(s, [&](AddParts& op) { op.part2 = s.t.parts[0]; }),
            "add_parts: part2: " + added(0) + ", expected part0's tensor from num_parts on, and only there");
}

}  // namespace
}  // namespace serval::testing

// The sizes of the tiles that are distributed over a GPU's SMs.
#include "instructions/common/tile_shape.h"

#include "gtest/gtest.h"

namespace serval::testing {
namespace {

constexpr uint32_t kSms = 132, kTileRows = 256;

// With whole tiles, more than half of the SMs would have none of the second product's.
TEST(TileShape, IsHalvedAsLongAsNoSmGetsTwo) {
  constexpr TileShape many = tile_shape(1024, 2048, kTileRows, kSms),
                      few = tile_shape(320, 256, kTileRows, kSms);
  EXPECT_EQ(many.units, kTileUnits);
  EXPECT_EQ(many.rows, kTileRows);
  EXPECT_EQ(few.units, kTileUnits / 2);
  EXPECT_EQ(few.rows, kTileRows / 2);
  EXPECT_LE(num_tiles(320, few, 256), kSms);
}

// First as many columns as may be reduced together, then as few rows as possible without two instances on an
// SM.
TEST(ReductionShape, HasAsManyColumnsAsItMayAndFewRows) {
  constexpr uint32_t kSlice = 256;  // units: a quarter of 8,192 columns
  for (const uint32_t rows : {64U, 100U, 256U, 2048U}) {
    const TileShape tile = reduction_shape(kSlice, rows, kTileRows, kSms);
    EXPECT_EQ(tile.units, kMostUnitsReduced) << rows;
    EXPECT_LE(num_tiles(kSlice, tile, rows), kSms) << rows;
    const bool is_least = tile.rows <= kRowsReducedTogether;
    EXPECT_TRUE(is_least || num_tiles(kSlice, {tile.units, tile.rows / 2}, rows) > kSms) << rows;
  }
}

TEST(ReductionShape, CutsASliceIntoEqualInstances) {
  for (const uint32_t units : {8U, 16U, 24U, 32U, 40U, 48U, 72U, 144U}) {
    const TileShape tile = reduction_shape(units, 512, kTileRows, kSms);
    EXPECT_EQ(units % tile.units, 0U) << units;
    EXPECT_GE(tile.units, 8U) << units;
  }
}

}  // namespace
}  // namespace serval::testing

// Page images of 4-bit weights: each code, word and scale has a place of its own, and codes have the order of
// bf16 images.
#include "vm/layout/int4_image.h"

#include <cstdint>
#include <set>
#include <utility>

#include "gtest/gtest.h"

#include "vm/layout/slab_image.h"
#include "vm/stored_bytes.h"

namespace serval {
namespace {

constexpr uint32_t kGroups[] = {32, 64, 128};

// Adds four bytes from `at` on, each as if it were eight nibbles.
void add_bytes(std::set<std::pair<uint64_t, uint32_t>>& places, uint64_t at, const char* what) {
  for (uint32_t nibble = 0; nibble < 8; ++nibble)
    ASSERT_TRUE(places.insert({at, nibble * 4}).second) << what << " at " << at;
}

TEST(Int4Image, CodesWordsAndScalesOfAUnitHavePlacesOfTheirOwn) {
  for (const uint32_t group : kGroups) {
    for (const uint32_t cols : {1024U, 128U, 2048U, 2176U, 3072U, 5504U}) {
      SCOPED_TRACE(std::to_string(group) + ", " + std::to_string(cols));
      std::set<std::pair<uint64_t, uint32_t>> places;  // word and shift
      const uint32_t panels = page_image::panels(cols);
      for (uint32_t row = 0; row < kUnitRows; ++row) {
        for (uint32_t col = 0; col < cols; ++col) {
          const uint32_t panel = col / page_image::kPanelCols, part = panel / int4_image::kPanelsOfPart;
          const int4_image::Place place =
              int4_image::place(page_image::half_cols(cols, panel), row, col % page_image::kPanelCols);
          const uint64_t at =
              int4_image::part_offset(cols, group, 0, part) + int4_image::panel_in_part(panel);
          ASSERT_TRUE(places.insert({at + place.word, place.shift}).second) << row << ", " << col;
        }
        for (uint32_t index = 0; index < cols / group; ++index) {
          const uint32_t panel = index * group / page_image::kPanelCols;
          add_bytes(
              places,
              int4_image::part_offset(cols, group, 0, panel / int4_image::kPanelsOfPart) +
                  int4_image::word_in_part(cols, group, panel, index % (page_image::kPanelCols / group), row),
              "word");
        }
        for (uint32_t part = 0; part < int4_image::parts(panels); ++part)
          add_bytes(places,
                    int4_image::part_offset(cols, group, 0, part) +
                        int4_image::scale_in_part(cols, group, part, row),
                    "scale");
      }
      EXPECT_EQ(places.rbegin()->first + sizeof(uint32_t), int4_image::unit_bytes(cols, group));
      EXPECT_EQ(int4_image::unit_bytes(cols, group) % 16, 0U);  // bulk copies
    }
  }
}

// A lane's words have its columns of one half of the panel each. Bits 0 to 3 and 16 to 19 are neighbours,
// which become one register of the operand.
TEST(Int4Image, HasTheOrderOfBf16Images) {
  constexpr uint32_t kHalf = page_image::kHalfCols;
  for (uint32_t row = 0; row < kUnitRows; ++row) {
    for (uint32_t col = 0; col < page_image::kPanelCols; ++col) {
      const uint32_t wide = page_image::element_offset(kHalf, row, col);
      const uint32_t product = wide / 512, lane = wide % 512 / 16, reg = wide % 16 / 4, odd = wide % 4 / 2;
      const int4_image::Place place = int4_image::place(kHalf, row, col);
      const uint32_t pair = product / 2, half = reg % 2;
      ASSERT_EQ(place.word, pair / 2 * 512 + lane * 16 + pair % 2 * 8 + half * 4);
      ASSERT_EQ(place.shift, odd * 16 + (product % 2 * 2 + reg / 2) * 4);
    }
  }
}

// Tiles load blocks of two slabs, and the words of the group of each half of a slab. Last panels whose second
// half begins within a group, and with an odd number of slabs.
TEST(Int4Image, ASlabIsHalfABlockWithOneGroupInEachHalf) {
  for (const uint32_t group : kGroups) {
    for (const uint32_t cols : {1024U, 128U, 2176U, 3072U + 64U, 4096U + 384U, 5504U}) {
      if (cols % group != 0) continue;
      SCOPED_TRACE(std::to_string(group) + ", " + std::to_string(cols));
      for (uint32_t col = 0; col < cols; ++col) {
        const slab_image::Place at = slab_image::place(cols, col);
        const uint32_t panel = col / page_image::kPanelCols, in_panel = col % page_image::kPanelCols;
        const uint32_t half_cols = page_image::half_cols(cols, panel), half = in_panel / half_cols;
        const uint32_t pair = at.slab % slab_image::kSlabsOfPanel,
                       lane_of_row = in_panel % half_cols % 32 / 8;
        const uint64_t part = int4_image::part_offset(cols, group, 0, panel / int4_image::kPanelsOfPart);
        for (const uint32_t row : {0U, 5U}) {
          const int4_image::Place place = int4_image::place(half_cols, row, in_panel);
          ASSERT_EQ(part + int4_image::panel_in_part(panel) + place.word,
                    int4_image::slab_offset(group, at.slab / 2 * 2) + (row * 4 + lane_of_row) * 16 +
                        at.slab % 2 * 8 + half * 4)
              << row << ", " << col;
          ASSERT_EQ(place.shift, int4_image::shift_of(in_panel % half_cols % 8));
        }
        const uint32_t of_group = (half * half_cols + pair * page_image::kPairCols) / group;
        ASSERT_EQ(of_group, in_panel / group) << col;
        ASSERT_EQ(part + int4_image::word_in_part(cols, group, panel, in_panel / group, 0),
                  int4_image::panel_words_offset(cols, group, panel) + of_group * int4_image::kGroupBytes)
            << col;
      }
    }
  }
}

TEST(Int4Image, TakesHalfAByteAnElementAndTheWordsAndScalesOfEachPart) {
  const Tensor weights{
      .name = "t", .rows = 9, .cols = 4096, .dtype = DType::kInt4G128, .image = Image::kPages};
  constexpr uint64_t kPart = 8 * 1024 + 16 * 8 * 4 + 8 * 4;
  EXPECT_EQ(stored_bytes(weights), 2 * 2 * kPart);
  EXPECT_EQ(stored_bytes(weights, {0, 9, 0, 4096}), stored_bytes(weights));
  EXPECT_EQ(stored_bytes(weights, {0, 8, 1024, 2048}), kPart);
  EXPECT_EQ(weights.bytes(), 9U * (2048 + 32 * 4 + 4));  // row-major, on the host
}

// 70 billion parameters in groups of 128: 4.3 bits each.
TEST(Int4Image, TakesLittleMoreThanFourBits) {
  const uint64_t bytes = int4_image::bytes(28'672, 8192, 128);
  EXPECT_LT(static_cast<double>(bytes) * 8 / (28'672.0 * 8192), 4.27);
}

}  // namespace
}  // namespace serval

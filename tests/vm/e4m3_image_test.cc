// Page images of e4m3 weights: each element has a byte of its own, in the order of bf16 images.
#include "vm/layout/e4m3_image.h"

#include <cstdint>
#include <set>

#include "gtest/gtest.h"

#include "vm/layout/slab_image.h"
#include "vm/stored_bytes.h"

namespace serval {
namespace {

TEST(E4M3Image, ElementsAndScalesOfAUnitHaveBytesOfTheirOwn) {
  for (const uint32_t cols : {1024U, 2048U, 96U, 2112U, 3072U}) {
    std::set<uint64_t> places;
    for (uint32_t row = 0; row < kUnitRows; ++row) {
      for (uint32_t col = 0; col < cols; ++col) {
        const uint32_t panel = col / page_image::kPanelCols;
        const uint64_t at =
            e4m3_image::panel_offset(cols, 0, panel) +
            e4m3_image::element_offset(page_image::half_cols(cols, panel), row, col % page_image::kPanelCols);
        ASSERT_TRUE(places.insert(at).second) << cols << ": " << row << ", " << col;
      }
    }
    for (uint32_t page = 0; page < e4m3_image::pages(page_image::panels(cols)); ++page) {
      for (uint32_t byte = 0; byte < e4m3_image::kScaleBytes; ++byte)
        ASSERT_TRUE(places.insert(e4m3_image::scale_offset(cols, 0, page, 0) + byte).second)
            << cols << ": " << page;
    }
    EXPECT_LT(*places.rbegin(), e4m3_image::unit_bytes(cols));
    EXPECT_EQ(e4m3_image::scale_offset(cols, 1, 0, 7),
              e4m3_image::unit_bytes(cols) + e4m3_image::scale_offset(cols, 0, 0, 0) + 28);
  }
}

// A lane's 16 bytes are its operands of two products: those of the first in the lower 8 bytes.
TEST(E4M3Image, HasTheOrderOfBf16Images) {
  constexpr uint32_t kHalf = page_image::kHalfCols;
  for (uint32_t row = 0; row < kUnitRows; ++row) {
    for (uint32_t col = 0; col < page_image::kPanelCols; ++col) {
      const uint32_t wide = page_image::element_offset(kHalf, row, col);
      const uint32_t product = wide / 512, lane = wide % 512 / 16, element = wide % 16 / 2;
      ASSERT_EQ(e4m3_image::element_offset(kHalf, row, col),
                product / 2 * 512 + lane * 16 + product % 2 * 8 + element);
    }
  }
}

// Tiles load slabs, which the scales of a page interrupt.
TEST(E4M3Image, ASlabIsAPairOfProductsOfItsPanel) {
  constexpr uint32_t kCols = 5 * page_image::kPanelCols;
  for (uint32_t slab = 0; slab < slab_image::slabs(kCols); ++slab) {
    const uint32_t panel = slab / slab_image::kSlabsOfPanel, in_panel = slab % slab_image::kSlabsOfPanel;
    EXPECT_EQ(e4m3_image::slab_offset(slab),
              e4m3_image::panel_offset(kCols, 0, panel) + in_panel * e4m3_image::kPairBytes)
        << slab;
  }
}

TEST(E4M3Image, TakesAByteAnElementAndTheScalesInEachPage) {
  const Tensor weights{.name = "t", .rows = 9, .cols = 2048, .dtype = DType::kE4M3, .image = Image::kPages};
  EXPECT_EQ(stored_bytes(weights), 2U * (8 * 2048 + 32));
  EXPECT_EQ(stored_bytes(weights, {0, 9, 0, 2048}), stored_bytes(weights));
  EXPECT_EQ(weights.bytes(), 9U * (2048 + sizeof(float)));  // row-major, on the host
}

}  // namespace
}  // namespace serval

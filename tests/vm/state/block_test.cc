#include "vm/state/block.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "vm/layout/kv_cache.h"
#include "vm/layout/row_tiles.h"
#include "vm/state/names.h"

namespace serval::testing {
namespace {

constexpr StateLimits limits_of(uint32_t rows, uint32_t sequences) {
  return {.vocab = 100, .max_context = 200, .kv_blocks = 64, .rows = rows, .sequences = sequences};
}

TEST(StateBlock, HasPartsOfTheSizeOfItsLimits) {
  const StateBlock block(limits_of(48, 7));
  EXPECT_EQ(block.rows.size(), 48U);
  EXPECT_EQ(block.sampled.size(), 48U);
  EXPECT_EQ(block.slots.size(), 7U);
  EXPECT_EQ(block.block_table.size(), 7U * blocks_for_tokens(200));
  EXPECT_EQ(block.output[launch_passes(48) - 1].size(), 48U);
  EXPECT_EQ(block.biases_of(6).size(), kMaxLogitBiases);
  EXPECT_EQ(block.history_of(6).size(), 200U);
  EXPECT_EQ(block.mask_of(6).size(), 4U);  // for 100 tokens
  EXPECT_EQ(block.top.size(), 48U);
}

// A mask is for one token; a mask for any position is valid for all later tokens too.
TEST(StateBlock, HasAMaskOnceItIsGiven) {
  const StateBlock block(limits_of(16, 3));
  EXPECT_FALSE(block.has_mask(2, 1));
  block.publish_mask(2, 41);
  EXPECT_TRUE(block.has_mask(2, 41));
  EXPECT_FALSE(block.has_mask(2, 42));
  EXPECT_FALSE(block.has_mask(1, 41));
  block.publish_mask(2, kAnyPosition);
  EXPECT_TRUE(block.has_mask(2, 42));
  for (uint32_t slot = 0; slot < 3; ++slot) {
    for (const uint32_t word : block.mask_of(slot))
      EXPECT_EQ(word, 0U) << "the position is not among its bits";
  }
}

TEST(StateBlock, BeginsWithoutAnActiveRow) {
  const StateBlock block(limits_of(16, 16));
  for (const PassRow& row : block.rows) EXPECT_EQ(row.active, 0U);
  EXPECT_EQ(block.slots[3].top_p, 1);
  EXPECT_EQ(block.control.last_pass, kKeepRunning);
  EXPECT_EQ(block.output[4095][15].valid, 0U);
}

// Each part is at the address to which the tensor of its name is bound, and no parts overlap.
TEST(StateBlock, HasEachPartInAPlaceOfItsOwn) {
  for (const auto& [rows, sequences] : {std::pair{1U, 1U}, {16U, 16U}, {48U, 3U}, {8192U, 1024U}}) {
    const StateBlock block(limits_of(rows, sequences));
    EXPECT_EQ(block.part(state_tensor::kRows), block.rows.data());
    EXPECT_EQ(block.part(state_tensor::kSampled), block.sampled.data());
    EXPECT_EQ(block.part(state_tensor::kControl), &block.control);
    EXPECT_EQ(block.part(state_tensor::kSlots), block.slots.data());
    EXPECT_EQ(block.part(state_tensor::kBlockTable), block.block_table.data());
    EXPECT_EQ(block.part(state_tensor::kAttention), &block.attention);
    EXPECT_EQ(block.part(state_tensor::kAdjustments), block.adjustments.data());
    EXPECT_EQ(block.part(state_tensor::kMasks), block.masks.data());
    EXPECT_EQ(block.part(state_tensor::kOutput), block.output.tokens);
    EXPECT_EQ(block.part(state_tensor::kTop), block.top.data());
    EXPECT_EQ(block.part(state_tensor::kHostStop), nullptr);
    const auto at = [&](const void* part) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(part) % StateLayout::kAlignment, 0U);
      return static_cast<size_t>(static_cast<const std::byte*>(part) - block.memory());
    };
    EXPECT_EQ(at(block.rows.data()), 0U);
    EXPECT_LE(whole_row_tiles(rows) * sizeof(PassRow), at(block.sampled.data()));
    EXPECT_LE(at(block.sampled.data()) + block.sampled.size_bytes(), at(&block.control));
    EXPECT_LE(at(&block.control) + sizeof(PassControl), at(block.slots.data()));
    EXPECT_LE(at(block.slots.data()) + block.slots.size_bytes(), at(block.block_table.data()));
    EXPECT_LE(at(block.block_table.data()) + block.block_table.size_bytes(), at(&block.attention));
    EXPECT_LE(at(&block.attention) + attention_list_bytes(rows), at(block.adjustments.data()));
    EXPECT_LE(at(block.adjustments.data()) + block.adjustments.size_bytes(), at(block.output.tokens));
    EXPECT_LE(at(block.output.tokens) + output_tokens(rows) * sizeof(OutputToken), at(block.top.data()));
    EXPECT_LE(at(block.top.data()) + block.top.size_bytes(), at(block.masks.data()));
    EXPECT_LE(at(block.masks.data()) + block.masks.size_bytes(), block.layout.bytes);
  }
}

TEST(StateBlock, HasPooledHiddenStatesForProgramsThatPool) {
  StateLimits limits = limits_of(16, 5);
  EXPECT_TRUE(StateBlock(limits).pooled.empty());
  limits.pooled_cols = 48;
  const StateBlock block(limits);
  EXPECT_EQ(block.part(state_tensor::kPooled), block.pooled.data());
  EXPECT_EQ(block.pooled_of(3).data(), block.pooled.data() + 3 * 48);
  EXPECT_EQ(block.pooled_of(3).size(), 48U);
  const auto* const end = reinterpret_cast<const std::byte*>(block.pooled.data()) + block.pooled.size_bytes();
  EXPECT_LE(end, block.memory() + block.layout.bytes);
  EXPECT_GE(reinterpret_cast<const std::byte*>(block.pooled.data()),
            reinterpret_cast<const std::byte*>(block.masks.data()) + block.masks.size_bytes());
  EXPECT_TRUE(block.layout.is_in_host_memory(block.layout.pooled));
}

TEST(StateBlock, KeepsToTheMemoryThatItIsGiven) {
  const StateLimits limits = limits_of(48, 7);
  const StateLayout layout(limits);
  constexpr std::byte kMark{0xA5};
  std::vector<std::byte> memory(layout.bytes + 2 * StateLayout::kAlignment, kMark);
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  const size_t begin = StateLayout::kAlignment - address % StateLayout::kAlignment;
  const StateBlock block(limits, memory.data() + begin);
  EXPECT_EQ(reinterpret_cast<std::byte*>(block.rows.data()), memory.data() + begin);
  for (size_t i = 0; i < begin; ++i) EXPECT_EQ(memory[i], kMark);
  for (size_t i = begin + layout.bytes; i < memory.size(); ++i) EXPECT_EQ(memory[i], kMark);
}

TEST(StateBlock, KeepsItsPartsWhenItIsMoved) {
  StateBlock from(limits_of(16, 4));
  from.rows[3].position = 17;
  const PassRow* rows = from.rows.data();
  const StateBlock to = std::move(from);
  EXPECT_EQ(to.rows.data(), rows);
  EXPECT_EQ(to.rows[3].position, 17U);
}

// The output table's size is bounded: a launch has fewer passes if it has more rows.
TEST(StateBlock, HasAnOutputTableForAnyProgramOfUpToItsRows) {
  for (uint32_t most = 1; most <= kLargestRows; most += most < 64 ? 1 : 61) {
    EXPECT_GE(launch_passes(most), 8U);
    EXPECT_LE(output_tokens(most), kMostOutputTokens);
    for (uint32_t rows = 1; rows <= most; rows += 1 + most / 16) {
      EXPECT_LE(size_t{launch_passes(rows)} * rows, output_tokens(most)) << rows << " of " << most;
    }
  }
  EXPECT_EQ(launch_passes(1), 4096U);
  EXPECT_EQ(launch_passes(16), 4096U);
  EXPECT_EQ(launch_passes(17), 3855U);
  const StateBlock block(limits_of(256, 16));
  EXPECT_EQ(block.output_of(16)[2].data(), block.output.tokens + 32);
  EXPECT_EQ(block.output_of(256)[2].data(), block.output.tokens + 512);
}

}  // namespace
}  // namespace serval::testing

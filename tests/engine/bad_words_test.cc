#include "engine/core/bad_words.h"

#include "gtest/gtest.h"

#include "vm/state/masks.h"

namespace serval {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int32_t kVocabulary = 40;

// The tokens that may not follow.
std::vector<int32_t> forbidden(const BadWords& words, const std::vector<int32_t>& generated,
                               std::optional<int32_t> pending = std::nullopt) {
  std::vector<uint32_t> mask(mask_words(kVocabulary), ~0U);
  words.forbid(mask, generated, pending);
  std::vector<int32_t> tokens;
  for (int32_t token = 0; token < kVocabulary; ++token) {
    if (!mask_allows(mask, static_cast<uint32_t>(token))) tokens.push_back(token);
  }
  return tokens;
}

TEST(BadWords, AWordOfOneTokenIsNeverAllowed) {
  const BadWords words(std::vector<Tokens>{{33}});
  EXPECT_EQ(forbidden(words, {}), Tokens({33}));
  EXPECT_EQ(forbidden(words, {33, 5}), Tokens({33}));
}

TEST(BadWords, OnlyTheLastTokenOfALongerWordIsForbidden) {
  const BadWords words(std::vector<Tokens>{{1, 2, 39}});
  EXPECT_EQ(forbidden(words, {}), Tokens());
  EXPECT_EQ(forbidden(words, {1}), Tokens());
  EXPECT_EQ(forbidden(words, {1, 2}), Tokens({39}));
  EXPECT_EQ(forbidden(words, {1, 2, 3}), Tokens());
}

TEST(BadWords, ATokenThatIsNotAcceptedYetCounts) {
  const BadWords words(std::vector<Tokens>{{1, 2, 39}, {2, 4}});
  EXPECT_EQ(forbidden(words, {1}, 2), Tokens({4, 39}));
  EXPECT_EQ(forbidden(words, {1, 2}, 3), Tokens());
  EXPECT_EQ(forbidden(words, {}, 2), Tokens({4}));
}

}  // namespace
}  // namespace serval

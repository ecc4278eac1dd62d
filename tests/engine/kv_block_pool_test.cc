#include "engine/core/kv_block_pool.h"

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/core/kv_chain.h"

namespace serval {
namespace {

using Tokens = std::vector<int32_t>;

Tokens block_of(int32_t token) {
  return Tokens(kKvBlockTokens, token);
}

int32_t publish_new(KvBlockPool& pool, const KvLink& link, const Tokens& tokens) {
  return pool.publish(pool.allocate().value(), link, tokens);
}

TEST(KvBlockPool, FindsABlockByItsTokensAndAllBeforeIt) {
  KvBlockPool pool(8);
  const int32_t first = publish_new(pool, {}, block_of(1));
  const int32_t second = publish_new(pool, {first, 0}, block_of(2));
  EXPECT_EQ(pool.reuse({}, block_of(1)), first);
  EXPECT_EQ(pool.reuse({first, 0}, block_of(2)), second);
  EXPECT_EQ(pool.reuse({}, block_of(2)), std::nullopt) << "after other tokens";
  EXPECT_EQ(pool.reuse({second, 0}, block_of(2)), std::nullopt);
  EXPECT_TRUE(pool.is_shared(first));
}

TEST(KvBlockPool, SeparatesDomains) {
  KvBlockPool pool(8);
  const int32_t block = publish_new(pool, {KvLink::kRoot, 1}, block_of(1));
  EXPECT_EQ(pool.reuse({KvLink::kRoot, 2}, block_of(1)), std::nullopt);
  EXPECT_EQ(pool.reuse({KvLink::kRoot, 1}, block_of(1)), block);
}

TEST(KvBlockPool, KeepsReleasedBlocksUntilTheirSpaceIsNeeded) {
  KvBlockPool pool(2);
  const int32_t block = publish_new(pool, {}, block_of(1));
  pool.release({&block, 1});
  EXPECT_EQ(pool.kept(), 1u);
  EXPECT_EQ(pool.available(), 2u);
  EXPECT_NE(pool.allocate(), block) << "a free block exists";
  EXPECT_EQ(pool.allocate(), block);
  EXPECT_EQ(pool.allocate(), std::nullopt);
  EXPECT_EQ(pool.reuse({}, block_of(1)), std::nullopt);
}

TEST(KvBlockPool, EvictsTheLeastRecentlyUsedFromTheEndOfItsChain) {
  KvBlockPool pool(4);
  const int32_t a1 = publish_new(pool, {}, block_of(1));
  const int32_t a2 = publish_new(pool, {a1, 0}, block_of(2));
  const int32_t b1 = publish_new(pool, {}, block_of(3));
  const int32_t b2 = publish_new(pool, {b1, 0}, block_of(4));
  pool.release(Tokens{a1, a2});
  pool.release(Tokens{b1, b2});
  ASSERT_EQ(pool.reuse({}, block_of(1)), a1);  // used again: now b is the older one
  pool.release({&a1, 1});
  EXPECT_EQ(pool.allocate(), a2) << "not used again";
  EXPECT_EQ(pool.allocate(), b2);
  EXPECT_EQ(pool.allocate(), b1);
  EXPECT_EQ(pool.allocate(), a1);
}

TEST(KvBlockPool, HoldsOneOfTwoBlocksWithTheSameContent) {
  KvBlockPool pool(4);
  const int32_t first = publish_new(pool, {}, block_of(1));
  const int32_t other = pool.allocate().value();
  EXPECT_EQ(pool.publish(other, {}, block_of(1)), first);
  EXPECT_TRUE(pool.is_shared(first));
  EXPECT_EQ(pool.free(), 3u);
}

TEST(KvBlockPool, ReusesATailAsFarAsItsTokensMatch) {
  KvBlockPool pool(4);
  const int32_t first = publish_new(pool, {}, block_of(1));
  const int32_t tail = pool.allocate().value();
  pool.leave_tail(tail, {first, 0}, Tokens{5, 6, 7});
  EXPECT_EQ(pool.kept(), 1u);
  EXPECT_FALSE(pool.take_tail({first, 0}, Tokens{6, 7})) << "another beginning";
  EXPECT_FALSE(pool.take_tail({}, Tokens{5, 6})) << "after other tokens";
  const auto taken = pool.take_tail({first, 0}, Tokens{5, 6, 8, 9});
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->block, tail);
  EXPECT_EQ(taken->tokens, 2u);
  EXPECT_FALSE(pool.take_tail({first, 0}, Tokens{5, 6})) << "it has one holder";
}

// A limit, so that the time to find or forget a tail does not grow with the number of requests that begin
// alike.
TEST(KvBlockPool, KeepsTheLastTailsAfterABlock) {
  constexpr int32_t kTails = 3 * KvBlockPool::kTailsKept;
  KvBlockPool pool(kTails);
  const auto leave = [&](int32_t first_token) {
    pool.leave_tail(pool.allocate().value(), {}, Tokens{first_token});
  };
  for (int32_t token = 0; token < kTails; ++token) leave(token);
  EXPECT_EQ(pool.kept(), KvBlockPool::kTailsKept);
  EXPECT_EQ(pool.held(), 0u);
  EXPECT_FALSE(pool.take_tail({}, Tokens{0}));
  for (int32_t token = kTails - KvBlockPool::kTailsKept; token < kTails; ++token)
    EXPECT_TRUE(pool.take_tail({}, Tokens{token})) << token;
}

TEST(KvBlockPool, CountsWhatAChainWouldTake) {
  KvBlockPool pool(8);
  Tokens tokens = block_of(1);
  std::ranges::copy(block_of(2), std::back_inserter(tokens));
  tokens.push_back(3);
  const int32_t first = publish_new(pool, {}, block_of(1));
  const int32_t second = publish_new(pool, {first, 0}, block_of(2));
  EXPECT_EQ(pool.match(0, tokens).blocks, 2u);
  EXPECT_EQ(pool.match(0, tokens).held, 2u);
  pool.release({&second, 1});
  EXPECT_EQ(pool.match(0, tokens).blocks, 2u);
  EXPECT_EQ(pool.match(0, tokens).held, 1u);
  pool.drop_kept();
  EXPECT_EQ(pool.match(0, tokens).blocks, 1u);
}

// The pool's specification, in plain containers without hashes and index lists.
class Model {
 public:
  // Long chains hold most blocks; short ones leave many tails.
  Model(KvBlockPool& pool, uint32_t seed, bool short_chains)
      : pool_(pool), random_(seed), short_chains_(short_chains) {}

  // Chains of tokens that often begin alike.
  void step() {
    const uint32_t choice = random_() % 8;
    const uint32_t extending = short_chains_ ? 3 : 4, ending = short_chains_ ? 3 : 1;
    if (choice < 2) {
      begin();
    } else if (!chains_.empty() && choice < 2 + extending) {
      extend(any());
    } else if (!chains_.empty() && choice < 2 + extending + ending) {
      end(any());
    }
    check();
  }

  void finish() {
    while (!chains_.empty()) end(chains_.begin());
    check();
    EXPECT_EQ(pool_.held(), 0u);
  }

 private:
  struct Chain {
    uint64_t domain;
    Tokens tokens;  // of published blocks
    std::vector<int32_t> blocks;
    std::optional<int32_t> open;  // the block being written, not published
  };
  using Chains = std::list<Chain>;
  using Key = std::pair<uint64_t, Tokens>;  // domain, all tokens up to the block's end

  Chains::iterator any() { return std::next(chains_.begin(), static_cast<long>(random_() % chains_.size())); }
  Tokens random_block() { return block_of(static_cast<int32_t>(random_() % 3)); }
  static KvLink link_of(const Chain& chain) {
    return {chain.blocks.empty() ? KvLink::kRoot : chain.blocks.back(), chain.domain};
  }
  static Key key_of(const Chain& chain, const Tokens& next) {
    Key key{chain.domain, chain.tokens};
    std::ranges::copy(next, std::back_inserter(key.second));
    return key;
  }

  void begin() {
    Chain& chain = chains_.emplace_back(Chain{random_() % 2, {}, {}, {}});
    while (random_() % (short_chains_ ? 2 : 4) != 0 && take(chain, random_block())) {
    }
    if (random_() % (short_chains_ ? 16 : 2) == 0) take_tail(chain);
  }

  // A tail of a few tokens out of two different ones.
  Tokens random_tail() {
    Tokens tokens(1 + random_() % 5);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random_() % 2);
    return tokens;
  }

  void take_tail(Chain& chain) {
    const Tokens wanted = random_tail();
    const auto common_with = [&](const Tokens& tail) {
      return static_cast<uint32_t>(std::ranges::mismatch(tail, wanted).in1 - tail.begin());
    };
    uint32_t most = 0;
    for (const auto& [block, tail] : tails_) {
      if (tail.first == Key{chain.domain, chain.tokens}) most = std::max(most, common_with(tail.second));
    }
    const auto found = pool_.take_tail(link_of(chain), wanted);
    ASSERT_EQ(found.has_value(), most > 0);
    if (!found) return;
    ASSERT_TRUE(tails_.contains(found->block));
    EXPECT_EQ(tails_[found->block].first, (Key{chain.domain, chain.tokens}));
    EXPECT_EQ(found->tokens, most);
    EXPECT_EQ(found->tokens, common_with(tails_[found->block].second));
    tails_.erase(found->block);
    kept_.remove(found->block);
    holders_[found->block] = 1;
    chain.open = found->block;
  }

  bool take(Chain& chain, const Tokens& next) {
    const std::optional<int32_t> found = pool_.reuse(link_of(chain), next);
    const auto expected = published_.find(key_of(chain, next));
    EXPECT_EQ(found.has_value(), expected != published_.end());
    if (!found) return false;
    EXPECT_EQ(*found, expected->second);
    append(chain, next, *found);
    return true;
  }

  void append(Chain& chain, const Tokens& tokens, int32_t block) {
    chain.tokens = key_of(chain, tokens).second;
    chain.blocks.push_back(block);
    ++holders_[block];
    kept_.remove(block);
  }

  void extend(Chains::iterator chain) {
    if (chain->open) return publish(*chain, random_block());
    const std::optional<int32_t> block = pool_.allocate();
    const bool all_held = holders_.size() == pool_.num_blocks();
    EXPECT_EQ(block.has_value(), !all_held);
    if (!block) return;
    EXPECT_FALSE(holders_.contains(*block));
    evict(*block);
    holders_[*block] = 1;
    chain->open = block;
  }

  // A kept block is allocated only if none is free: the one that was kept first.
  void evict(int32_t block) {
    const bool some_free = holders_.size() + kept_.size() < pool_.num_blocks();
    const bool was_kept = std::ranges::find(kept_, block) != kept_.end();
    EXPECT_EQ(was_kept, !some_free);
    if (!was_kept) return;
    EXPECT_EQ(block, kept_.front());
    kept_.remove(block);
    tails_.erase(block);
    std::erase_if(published_, [&](const auto& entry) { return entry.second == block; });
  }

  void publish(Chain& chain, const Tokens& tokens) {
    const int32_t block = *chain.open;
    const int32_t found = pool_.publish(block, link_of(chain), tokens);
    EXPECT_EQ(found, published_.try_emplace(key_of(chain, tokens), block).first->second);
    holders_.erase(block);
    chain.open.reset();
    append(chain, tokens, found);
  }

  void end(Chains::iterator chain) {
    if (chain->open) {
      holders_.erase(*chain->open);
      if (random_() % 2 == 0) {
        pool_.release({&*chain->open, 1});
      } else {
        const Tokens tail = random_tail();
        forget_oldest_of_many({chain->domain, chain->tokens});
        pool_.leave_tail(*chain->open, link_of(*chain), tail);
        kept_.push_back(*chain->open);
        tails_[*chain->open] = {{chain->domain, chain->tokens}, tail};
      }
    }
    pool_.release(chain->blocks);
    for (auto block = chain->blocks.rbegin(); block != chain->blocks.rend(); ++block) {
      if (--holders_[*block] > 0) continue;
      holders_.erase(*block);
      kept_.push_back(*block);
    }
    chains_.erase(chain);
  }

  // Called before another tail is left after `before`.
  void forget_oldest_of_many(const Key& before) {
    std::vector<int32_t> tails;
    std::ranges::copy_if(kept_, std::back_inserter(tails), [&](int32_t block) {
      return tails_.contains(block) && tails_[block].first == before;
    });
    if (tails.size() < KvBlockPool::kTailsKept) return;
    kept_.remove(tails.front());
    tails_.erase(tails.front());
  }

  void check() const {
    EXPECT_EQ(pool_.held(), holders_.size());
    EXPECT_EQ(pool_.kept(), kept_.size());
    EXPECT_EQ(pool_.free() + pool_.kept() + pool_.held(), pool_.num_blocks());
    for (const auto& [block, holders] : holders_) EXPECT_EQ(pool_.is_shared(block), holders > 1);
    for (const auto& [block, tail] : tails_)
      EXPECT_TRUE(tail.first.second.empty() || published_.contains(tail.first));
    for (const auto& [key, block] : published_) {
      EXPECT_TRUE(pool_.is_published(block));
      Key parent = key;
      parent.second.resize(key.second.size() - kKvBlockTokens);
      EXPECT_TRUE(parent.second.empty() || published_.contains(parent)) << "its parent was evicted before it";
    }
  }

  KvBlockPool& pool_;
  std::mt19937 random_;
  const bool short_chains_;
  Chains chains_;
  std::map<int32_t, uint32_t> holders_;
  std::list<int32_t> kept_;  // the first one is evicted first
  std::map<Key, int32_t> published_;
  std::map<int32_t, std::pair<Key, Tokens>> tails_;  // by block: the tokens before it, and its own tokens
};

TEST(KvBlockPool, BehavesLikeItsSpecification) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    KvBlockPool pool(4 + 5 * seed, seed);
    Model model(pool, seed, seed % 2 == 1);
    for (int step = 0; step < 2000 && !::testing::Test::HasFailure(); ++step) model.step();
    model.finish();
  }
}

TEST(KvChain, ReplacesItsBlocksByEqualPublishedOnes) {
  KvBlockPool pool(16);
  Tokens tokens(3 * kKvBlockTokens + 5);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i);
  KvChain one(pool, 0), two(pool, 0);
  one.grow_to(4);
  two.grow_to(4);
  one.publish(tokens, 2 * kKvBlockTokens + 7);
  EXPECT_EQ(two.take_first_changed(), 0u);
  EXPECT_EQ(two.reuse(tokens, static_cast<uint32_t>(tokens.size()) - 1), 2 * kKvBlockTokens);
  EXPECT_EQ(two.take_first_changed(), 0u);
  EXPECT_EQ(two.take_first_changed(), 4u);
  EXPECT_TRUE(std::ranges::equal(one.blocks().first(2), two.blocks().first(2)));
  EXPECT_NE(one.blocks()[2], two.blocks()[2]) << "not full";
  EXPECT_EQ(pool.held(), 6u);
  one.release();
  two.release();
  EXPECT_EQ(pool.kept(), 2u);
  EXPECT_EQ(pool.held(), 0u);
}

TEST(KvChain, LeavesTheLastTokenToBeRead) {
  KvBlockPool pool(4);
  const Tokens tokens = block_of(1);
  KvChain one(pool, 0), two(pool, 0);
  one.grow_to(1);
  one.publish(tokens, kKvBlockTokens);
  EXPECT_EQ(two.reuse(tokens, kKvBlockTokens - 1), 0u);
}

TEST(KvChain, ExchangesBlocksThatTwoHaveRead) {
  KvBlockPool pool(8);
  Tokens tokens(2 * kKvBlockTokens, 4);
  KvChain one(pool, 0), two(pool, 0);
  one.grow_to(2);
  two.grow_to(2);
  one.publish(tokens, 2 * kKvBlockTokens);
  two.publish(tokens, 2 * kKvBlockTokens);
  EXPECT_TRUE(std::ranges::equal(one.blocks(), two.blocks()));
  EXPECT_EQ(pool.held(), 2u);
}

TEST(KvChain, GrowsAsFarAsThereAreBlocks) {
  KvBlockPool pool(3);
  KvChain chain(pool, 0);
  EXPECT_TRUE(chain.grow_to(2));
  EXPECT_FALSE(chain.grow_to(4));
  EXPECT_EQ(chain.size(), 2u);
}

}  // namespace
}  // namespace serval

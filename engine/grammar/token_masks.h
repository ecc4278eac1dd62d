// Token masks: the tokens of a vocabulary that may come next in a text of a grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/grammar/configurations.h"
#include "engine/grammar/token_trie.h"
#include "vm/state/masks.h"

namespace serval::grammar {

// One bit for each token, as in vm/state/masks.h.
using Mask = std::vector<uint32_t>;

// Computes a mask once for each configuration, in a walk over the vocabulary's trie. Inside JSON strings it
// allows whole subtrees at once. Not thread-safe.
class TokenMasks {
 public:
  TokenMasks(const TokenTrie& trie, Configurations& configurations)
      : trie_(trie), configurations_(configurations) {}

  // The tokens after which the text can still be completed.
  std::shared_ptr<const Mask> mask(ConfigId config);
  // The configuration after a token's text; kDead if the grammar does not allow it.
  ConfigId after(ConfigId config, int32_t token);
  size_t bytes() const { return (num_masks_ + exact_.size()) * mask_words(trie_.vocab()) * sizeof(uint32_t); }

 private:
  // Limit of the work for one mask. Only schemas with very many alternatives exceed it; then tokens of
  // several bytes are left out. Tokens of one byte are always included, so that the text can be completed.
  static constexpr uint64_t kMaxWork = 4'000'000;

  // Configurations with more items do without the shortcut inside JSON strings: a step might drop the string.
  static constexpr size_t kMaxItemsOfText = Configurations::kMaxItems / 4;

  struct Found {
    std::shared_ptr<const Mask> mask;  // null: not computed yet
    // Configurations of which this one is the canonical form may drop other alternatives. Then the mask must
    // be computed for each of them, in the same steps that after() takes.
    bool drops = false;
  };
  enum class Walk : uint8_t { kShared, kExact };

  Found find(ConfigId config, Walk kind);
  bool takes_text(ConfigId config, uint32_t characters) const;
  // Returns Found::drops.
  bool walk(std::vector<ConfigId>& path, Mask& mask, bool has_plain_tokens, Walk kind);

  const TokenTrie& trie_;
  Configurations& configurations_;
  std::vector<Found> masks_;                                         // by canonical configuration
  std::unordered_map<ConfigId, std::shared_ptr<const Mask>> exact_;  // by configuration, if masks_ drops
  size_t num_masks_ = 0;
};

}  // namespace serval::grammar

// Which tokens of a vocabulary can come next in a text that a grammar describes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/grammar/configurations.h"
#include "engine/grammar/token_trie.h"
#include "vm/state/masks.h"

namespace serval::grammar {

// A bit for each token, as in vm/state/masks.h.
using Mask = std::vector<uint32_t>;

// Finds masks in a walk over the vocabulary's tree, once for each configuration. What can be read in the
// midst of a JSON string is not looked at token by token. Not thread-safe.
class TokenMasks {
 public:
  TokenMasks(const TokenTrie& trie, Configurations& configurations)
      : trie_(trie), configurations_(configurations) {}

  // Tokens after which the text can still be completed.
  std::shared_ptr<const Mask> mask(ConfigId config);
  // After a token's text; kDead where it cannot be read.
  ConfigId after(ConfigId config, int32_t token);
  size_t bytes() const { return num_masks_ * mask_words(trie_.vocab()) * sizeof(uint32_t); }

 private:
  // For one mask. Beyond, which only schemas with very many alternatives come to, tokens of several bytes are
  // left out; those of one byte never are.
  static constexpr uint64_t kMaxWork = 4'000'000;

  Mask find(ConfigId config);
  void walk(std::vector<ConfigId>& path, Mask& mask, bool has_plain_tokens);

  const TokenTrie& trie_;
  Configurations& configurations_;
  std::vector<std::shared_ptr<const Mask>> masks_;  // of configurations that were asked about
  size_t num_masks_ = 0;
};

}  // namespace serval::grammar

#include "engine/grammar/token_masks.h"

#include "vm/state/masks.h"

namespace serval::grammar {
namespace {

void allow(std::span<const int32_t> tokens, Mask& mask) {
  for (const int32_t token : tokens) {
    const auto id = static_cast<uint32_t>(token);
    mask[id / kTokensOfMaskWord] |= 1U << id % kTokensOfMaskWord;
  }
}

}  // namespace

std::shared_ptr<const Mask> TokenMasks::mask(ConfigId config) {
  const ConfigId canonical = configurations_.canonical(config);
  if (canonical >= masks_.size()) masks_.resize(size_t{canonical} + 1);
  if (!masks_[canonical].mask) {
    masks_[canonical] = find(canonical, Walk::kShared);
    ++num_masks_;
  }
  if (!masks_[canonical].drops) return masks_[canonical].mask;
  std::shared_ptr<const Mask>& exact = exact_[config];
  if (!exact) exact = find(config, Walk::kExact).mask;
  return exact;
}

bool TokenMasks::takes_text(ConfigId config, uint32_t characters) const {
  return characters > 0 && characters <= configurations_.text_room(config);
}

TokenMasks::Found TokenMasks::find(ConfigId config, Walk kind) {
  const bool is_text = kind == Walk::kShared && takes_text(config, trie_.most_plain_characters());
  Mask mask(mask_words(trie_.vocab()));
  if (is_text) mask.assign(trie_.plain_tokens().begin(), trie_.plain_tokens().end());
  std::vector<ConfigId> path(trie_.longest_token() + 1);  // path[i]: the configuration after i bytes
  path[0] = config;
  const bool drops =
      walk(path, mask, is_text, kind) || (is_text && configurations_.num_items(config) > kMaxItemsOfText);
  return {std::make_shared<const Mask>(std::move(mask)), drops};
}

bool TokenMasks::walk(std::vector<ConfigId>& path, Mask& mask, bool has_plain_tokens, Walk kind) {
  const std::span<const TokenTrie::Node> nodes = trie_.nodes();
  const uint64_t most_work = configurations_.work() + kMaxWork;
  bool drops = false;
  for (uint32_t n = 0; n < nodes.size();) {
    const TokenTrie::Node& node = nodes[n];
    const ConfigId before = path[node.depth - 1U];
    if (kind == Walk::kShared && takes_text(before, node.plain_characters)) {
      drops |= configurations_.num_items(before) > kMaxItemsOfText;
      if (!(has_plain_tokens && node.follows_plain)) allow(trie_.tokens_below(n), mask);
      n = node.subtree_end;
      continue;
    }
    const bool gives_up = node.depth > 1 && configurations_.work() > most_work &&
                          !configurations_.is_known_after(before, node.byte);
    const ConfigId here = gives_up ? kDead : configurations_.after(before, node.byte);
    drops |= configurations_.is_cut(here);
    path[node.depth] = here;
    if (here == kDead) {
      n = node.subtree_end;
      continue;
    }
    allow(trie_.tokens_at(n), mask);
    ++n;
  }
  return drops;
}

ConfigId TokenMasks::after(ConfigId config, int32_t token) {
  const std::string& text = trie_.text_of(token);
  if (text.empty()) return kDead;
  for (const char c : text) config = configurations_.after_uncached(config, static_cast<uint8_t>(c));
  return config;
}

}  // namespace serval::grammar

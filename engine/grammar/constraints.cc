#include "engine/grammar/constraints.h"

#include <algorithm>

namespace serval::grammar {

std::shared_ptr<const TokenTrie> Constraints::trie() {
  const std::lock_guard lock(trie_mutex_);
  if (!trie_) trie_ = std::make_shared<const TokenTrie>(vocab_, bytes_of_);
  return trie_;
}

std::shared_ptr<Constraint> Constraints::of_format(const Format& format) {
  const std::string key = key_of(format);
  {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(kept_, key, [](const auto& entry) { return entry.first; });
    if (known != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, known);
      return known->second;
    }
  }
  auto constraint = std::make_shared<Constraint>(compile_format(format), trie());
  constraint->precompute_masks();
  const std::lock_guard lock(mutex_);
  kept_.emplace_front(key, constraint);
  if (kept_.size() > kMaxKept) kept_.pop_back();
  return constraint;
}

}  // namespace serval::grammar

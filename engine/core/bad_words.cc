#include "engine/core/bad_words.h"

#include <algorithm>

#include "vm/state/masks.h"

namespace serval {
namespace {

// True if the answer so far ends with `beginning`.
bool ends_with(std::span<const int32_t> generated, std::optional<int32_t> pending,
               std::span<const int32_t> beginning) {
  if (pending && !beginning.empty()) {
    if (beginning.back() != *pending) return false;
    beginning = beginning.first(beginning.size() - 1);
  }
  return generated.size() >= beginning.size() &&
         std::ranges::equal(generated.last(beginning.size()), beginning);
}

}  // namespace

void BadWords::forbid(std::span<uint32_t> mask, std::span<const int32_t> generated,
                      std::optional<int32_t> pending) const {
  for (const std::vector<int32_t>& word : words_) {
    if (!ends_with(generated, pending, std::span(word).first(word.size() - 1))) continue;
    const auto last = static_cast<uint32_t>(word.back());
    mask[last / kTokensOfMaskWord] &= ~(1U << last % kTokensOfMaskWord);
  }
}

}  // namespace serval

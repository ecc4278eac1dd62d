#include "tests/fuzz/constrained_text.h"

#include <memory>
#include <utility>
#include <vector>

#include "engine/grammar/constraint.h"
#include "tests/fuzz/fuzz_target.h"
#include "vm/state/masks.h"

namespace serval::fuzz {
namespace {

using namespace grammar;

constexpr const char* kPieces[] = {"{\"", "\":", "\", \"", "\"}",   "null", "true",
                                   "[[",  "]}",  "12",     "\\u00", "ab",   "\n  "};
constexpr size_t kBytes = 256;

std::string text_of_token(int32_t id) {
  const auto index = static_cast<size_t>(id);
  return index < kBytes ? std::string(1, static_cast<char>(id)) : kPieces[index - kBytes];
}

std::shared_ptr<const TokenTrie> vocabulary() {
  static const auto trie =
      std::make_shared<const TokenTrie>(static_cast<uint32_t>(kBytes + std::size(kPieces)),
                                        [](int32_t id) { return std::optional(text_of_token(id)); });
  return trie;
}

std::vector<int32_t> tokens_of(const Mask& mask) {
  std::vector<int32_t> tokens;
  for (uint32_t id = 0; id < vocabulary()->vocab(); ++id)
    if (mask_allows(mask, id)) tokens.push_back(static_cast<int32_t>(id));
  return tokens;
}

}  // namespace

std::optional<std::string> write_text(Grammar grammar, std::string_view picks) {
  ConstrainedText text(std::make_shared<Constraint>(std::move(grammar), vocabulary()));
  std::string written;
  for (const char pick : picks) {
    const std::vector<int32_t> tokens = tokens_of(*text.place().mask);
    require(!tokens.empty() || text.place().complete, "an incomplete text can continue");
    if (tokens.empty()) break;
    const int32_t token = tokens[static_cast<uint8_t>(pick) % tokens.size()];
    written += text_of_token(token);
    text.add(token);
  }
  return text.place().complete ? std::optional(written) : std::nullopt;
}

}  // namespace serval::fuzz

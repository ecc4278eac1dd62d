// Fuzzes JSON schemas: a schema and, after a NUL, bytes that choose the tokens of a text.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "engine/grammar/constraint.h"
#include "engine/grammar/json_schema.h"
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

// For all choices, a text can always continue or end, and a text that may end is JSON.
void write_text(ConstrainedText& text, std::string_view picks) {
  std::string written;
  for (const char pick : picks) {
    const std::vector<int32_t> tokens = tokens_of(*text.place().mask);
    require(!tokens.empty() || text.place().complete, "an incomplete text can continue");
    if (tokens.empty()) break;
    const int32_t token = tokens[static_cast<uint8_t>(pick) % tokens.size()];
    written += text_of_token(token);
    text.add(token);
  }
  if (text.place().complete) require(nlohmann::json::accept(written), "a complete text is JSON");
}

}  // namespace
}  // namespace serval::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval::fuzz;
  const auto parts = split(text_of(data, size), 2);
  std::optional<serval::grammar::Grammar> grammar;
  if (!accepts([&] { grammar = serval::grammar::compile_json_schema(parts[0]); })) return 0;
  ConstrainedText text(std::make_shared<Constraint>(std::move(*grammar), vocabulary()));
  write_text(text, parts.size() > 1 ? parts[1] : std::string_view());
  return 0;
}

// Fuzzes grammars in GBNF: a grammar and, after a NUL, bytes that choose the tokens of a text.
#include <optional>
#include <string>
#include <string_view>

#include "engine/grammar/configurations.h"
#include "engine/grammar/gbnf.h"
#include "models/tokenizer/utf8.h"
#include "tests/fuzz/constrained_text.h"
#include "tests/fuzz/fuzz_target.h"

namespace serval::fuzz {
namespace {

using namespace grammar;

bool reads(const Grammar& grammar, std::string_view text) {
  constexpr uint32_t kLongestToken = 1;
  Configurations configurations(grammar, kLongestToken);
  ConfigId config = configurations.start();
  for (const char c : text) config = configurations.after(config, static_cast<uint8_t>(c));
  return configurations.is_complete(config);
}

}  // namespace
}  // namespace serval::fuzz

// For all choices, a text can always continue or end, and a text that may end is UTF-8 and of the grammar.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval::fuzz;
  const auto parts = split(text_of(data, size), 2);
  std::optional<serval::grammar::Grammar> grammar;
  if (!accepts([&] { grammar = serval::grammar::compile_gbnf(parts[0]); })) return 0;
  const auto text = write_text(*grammar, parts.size() > 1 ? parts[1] : std::string_view());
  if (!text) return 0;
  std::string storage;
  require(serval::utf8_lossy(*text, &storage).data() == text->data(), "a complete text is UTF-8");
  require(reads(*grammar, *text), "a complete text is of the grammar");
  return 0;
}

// Fuzzes JSON schemas: a schema and, after a NUL, bytes that choose the tokens of a text.
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "nlohmann/json.hpp"

#include "engine/grammar/json_schema.h"
#include "tests/fuzz/constrained_text.h"
#include "tests/fuzz/fuzz_target.h"

// For all choices, a text can always continue or end, and a text that may end is JSON.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval::fuzz;
  const auto parts = split(text_of(data, size), 2);
  std::optional<serval::grammar::Grammar> grammar;
  if (!accepts([&] { grammar = serval::grammar::compile_json_schema(parts[0]); })) return 0;
  const auto text = write_text(std::move(*grammar), parts.size() > 1 ? parts[1] : std::string_view());
  if (text) require(nlohmann::json::accept(*text), "a complete text is JSON");
  return 0;
}

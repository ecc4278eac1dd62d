// Fuzzes a template and its variables: a Jinja text, a NUL, and JSON.
#include <nlohmann/json.hpp>
#include <string>

#include "models/jinja/template.h"
#include "models/tokenizer/utf8.h"
#include "tests/fuzz/fuzz_target.h"

namespace serval::fuzz {
namespace {

// Small, so that a run that reaches a limit is still quick.
constexpr jinja::Limits kLimits = {
    .iterations = 2000, .output_bytes = 1 << 20, .work = 1 << 21, .work_per_byte = 64, .value_depth = 50};

jinja::Value variables_of(std::string_view text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  constexpr size_t kMostText = 4096;  // keeps the nesting below the limit of the readers of files
  if (!json.is_object() || text.size() > kMostText) return jinja::Value::dict({});
  return jinja::from_json(json, jinja::Origin::kData);
}

std::tm same_time() {
  std::tm time{};
  time.tm_year = 125;
  time.tm_mday = 1;
  return time;
}

void check_template(std::string_view source, const jinja::Value& variables) {
  const jinja::Template program(source, "template");
  const jinja::Text text = program.render(variables, same_time, kLimits);
  std::string repaired;
  require(utf8_lossy(text.bytes(), &repaired) == text.bytes(), "a template's output is UTF-8");
  require(text.size() <= kLimits.output_bytes, "a template's output is within the limit");
  require(program.render(variables, same_time, kLimits).bytes() == text.bytes(),
          "a template's output is deterministic");
}

}  // namespace
}  // namespace serval::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval::fuzz;
  const auto parts = split(text_of(data, size), 2);
  const serval::jinja::Value variables = variables_of(parts.size() > 1 ? parts[1] : "");
  accepts([&] { check_template(parts[0], variables); });
  return 0;
}

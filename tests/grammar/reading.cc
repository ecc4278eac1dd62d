#include "tests/grammar/reading.h"

#include "engine/grammar/configurations.h"
#include "engine/grammar/json_schema.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using namespace grammar;

constexpr uint32_t kLongestToken = 16;

ConfigId after(Configurations& configurations, std::string_view text) {
  ConfigId config = configurations.start();
  for (const char c : text) config = configurations.after(config, static_cast<uint8_t>(c));
  return config;
}

}  // namespace

bool reads(const Grammar& grammar, std::string_view text) {
  Configurations configurations(grammar, kLongestToken);
  return configurations.is_complete(after(configurations, text));
}

bool begins(const Grammar& grammar, std::string_view text) {
  Configurations configurations(grammar, kLongestToken);
  return after(configurations, text) != kDead;
}

bool is_valid(const std::string& schema, std::string_view text) {
  return reads(compile_json_schema(schema), text);
}

std::string refusal_of(const std::string& schema) {
  try {
    compile_json_schema(schema);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kUsage ? error.what() : "of another kind";
  }
  return "accepted";
}

}  // namespace serval::testing

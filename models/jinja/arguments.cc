#include "models/jinja/arguments.h"

#include <fmt/format.h>

namespace serval::jinja {

const Value* ArgumentReader::find(std::string_view name) {
  if (next_ < arguments_.positional.size()) return &arguments_.positional[next_++];
  for (const auto& [key, value] : arguments_.named) {
    if (key != name) continue;
    ++named_taken_;
    return &value;
  }
  return nullptr;
}

Value ArgumentReader::take(std::string_view name) {
  const Value* found = find(name);
  if (found == nullptr) evaluation_.fail(fmt::format("{} needs the argument {}", function_, name));
  return *found;
}

Value ArgumentReader::take(std::string_view name, Value otherwise) {
  if (const Value* found = find(name)) return *found;
  return otherwise;
}

Text ArgumentReader::text(std::string_view name, const Value& value) const {
  if (!value.is_text())
    evaluation_.fail(fmt::format("{}: {} is a {}, not a str", function_, name, type_name(value)));
  return value.text();
}

Text ArgumentReader::take_text(std::string_view name) {
  return text(name, take(name));
}

std::int64_t ArgumentReader::integer(std::string_view name, const Value& value) const {
  if (!value.is_integer() && !value.is_boolean())
    evaluation_.fail(fmt::format("{}: {} is a {}, not an int", function_, name, type_name(value)));
  return value.whole();
}

std::int64_t ArgumentReader::take_integer(std::string_view name, std::int64_t otherwise) {
  return integer(name, take(name, Value(otherwise)));
}

void ArgumentReader::finish() const {
  if (next_ < arguments_.positional.size() || named_taken_ < arguments_.named.size())
    evaluation_.fail(fmt::format("{}: unknown or too many arguments", function_));
}

}  // namespace serval::jinja

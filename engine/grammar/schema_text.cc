#include "engine/grammar/schema_text.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace serval::grammar {
namespace {

using Json = SchemaJson;

// Builds the tree from the parser's SAX events.
class TreeBuilder {
 public:
  Json take() { return std::move(root_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double, const std::string& text) {
    return add(Json::binary(std::vector<uint8_t>(text.begin(), text.end())));
  }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception&) { return false; }

 private:
  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& in = *open_.back();
    if (in.is_array()) return &in.get_ref<Json::array_t&>().emplace_back(std::move(value));
    return &in.get_ref<Json::object_t&>().emplace_back(std::move(key_), std::move(value)).second;
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::string key_;
  std::vector<Json*> open_;  // from the root to the innermost
};

std::string_view text_of(const Json& number) {
  const Json::binary_t& bytes = number.get_binary();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void write(const Json& value, bool as_integers, std::string& out) {
  if (value.is_array()) {
    char separator = '[';
    for (const Json& element : value) {
      out += separator;
      write(element, as_integers, out);
      separator = ',';
    }
    out += value.empty() ? "[]" : "]";
  } else if (value.is_object()) {
    char separator = '{';
    for (const auto& [name, member] : value.items()) {
      out += separator + Json(name).dump() + ':';
      write(member, as_integers, out);
      separator = ',';
    }
    out += value.empty() ? "{}" : "}";
  } else if (value.is_binary()) {
    out += as_integers && is_integer(value) ? decimal_of(value)->plain() : std::string(text_of(value));
  } else {
    out += value.dump();
  }
}

bool are_equal_objects(const Json& a, const Json& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, value] : a.items()) {
    const auto other = b.find(name);
    if (other == b.end() || !are_equal(value, *other)) return false;
  }
  return true;
}

}  // namespace

Json parse_schema_text(std::string_view text) {
  TreeBuilder builder;
  Json::sax_parse(text, &builder);
  return builder.take();
}

bool is_number(const Json& value) {
  return value.is_number() || value.is_binary();
}

std::optional<Decimal> decimal_of(const Json& value) {
  if (value.is_binary()) return Decimal::of(text_of(value));
  return value.is_number() ? Decimal::of(value.dump()) : std::nullopt;
}

bool is_integer(const Json& value) {
  const std::optional<Decimal> decimal = decimal_of(value);
  return decimal && decimal->is_integer();
}

bool are_equal(const Json& a, const Json& b) {
  if (is_number(a) && is_number(b)) {
    const auto first = decimal_of(a), second = decimal_of(b);
    return first && second && *first == *second;
  }
  if (a.is_object() && b.is_object()) return are_equal_objects(a, b);
  if (a.is_array() && b.is_array()) return std::equal(a.begin(), a.end(), b.begin(), b.end(), are_equal);
  return a.type() == b.type() && a == b;
}

std::string spelling_of(const Json& value, bool as_integers) {
  std::string out;
  write(value, as_integers, out);
  return out;
}

}  // namespace serval::grammar

#include "models/jinja/json.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/tokenizer/unicode.h"
#include "models/tokenizer/utf8.h"

namespace serval::jinja {
namespace {

// JSON's escapes are UTF-16: characters above U+FFFF take two.
std::string utf16_escape(std::uint32_t c) {
  constexpr std::uint32_t kFirstAfterPlane = 0x10000, kHigh = 0xD800, kLow = 0xDC00, kLowMask = 0x3FF;
  constexpr int kLowBits = 10;
  if (c < kFirstAfterPlane) return fmt::format("\\u{:04x}", c);
  c -= kFirstAfterPlane;
  return fmt::format("\\u{:04x}\\u{:04x}", kHigh + (c >> kLowBits), kLow + (c & kLowMask));
}

std::string escaped(std::string_view character, bool ascii_only) {
  constexpr std::pair<char, char> kShort[] = {{'"', '"'},  {'\\', '\\'}, {'\n', 'n'}, {'\r', 'r'},
                                              {'\t', 't'}, {'\f', 'f'},  {'\b', 'b'}};
  constexpr unsigned char kFirstPrintable = 0x20;
  for (const auto& [control, letter] : kShort) {
    if (character[0] == control) return {'\\', letter};
  }
  const bool plain =
      character.size() == 1 ? static_cast<unsigned char>(character[0]) >= kFirstPrintable : !ascii_only;
  return plain ? std::string(character) : utf16_escape(code_point(character));
}

class Writer {
 public:
  Writer(Evaluation& evaluation, const JsonStyle& style) : evaluation_(evaluation), style_(style) {}

  void write(const Value& value, int level) {
    if (value.is_text()) return write_text(value.text());
    if (value.is_list() && !value.is_generator()) return write_list(value.elements(), level);
    if (value.is_dict()) return write_dict(value.entries(), level);
    add(Text(scalar(value)));
  }

  Text take() { return std::move(out_); }

 private:
  void add(const Text& text) {
    evaluation_.charge(text.size());
    out_.append(text);
  }

  std::string scalar(const Value& value) const {
    if (value.is_none()) return "null";
    if (value.is_boolean()) return value.boolean() ? "true" : "false";
    if (value.is_integer()) return std::to_string(value.whole());
    if (!value.is_float()) evaluation_.fail(fmt::format("tojson: a {} is not JSON", type_name(value)));
    if (std::isnan(value.real())) return "NaN";
    if (std::isinf(value.real())) return value.real() > 0 ? "Infinity" : "-Infinity";
    return float_text(value.real());
  }

  void write_text(const Text& text) {
    add(Text("\""));
    const auto at = text.boundaries();
    for (std::size_t i = 0; i + 1 < at.size(); ++i) {
      const auto character = std::string_view(text.bytes()).substr(at[i], at[i + 1] - at[i]);
      add(Text(escaped(character, style_.ascii_only), text.origin(at[i])));
    }
    add(Text("\""));
  }

  void new_line(int level) {
    if (!style_.indent) return;
    add(Text("\n"));
    for (int i = 0; i < level; ++i) add(*style_.indent);
  }

  void write_list(const List& elements, int level) {
    add(Text("["));
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (i > 0) add(style_.between);
      new_line(level + 1);
      write(elements[i], level + 1);
    }
    if (!elements.empty()) new_line(level);
    add(Text("]"));
  }

  void write_dict(Entries entries, int level) {
    if (style_.sorted) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto& a, const auto& b) { return less(a.first, b.first).value_or(false); });
    }
    add(Text("{"));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) add(style_.between);
      new_line(level + 1);
      const Value& key = entries[i].first;
      write_text(key.is_text() ? key.text() : Text(scalar(key)));
      add(style_.after_key);
      write(entries[i].second, level + 1);
    }
    if (!entries.empty()) new_line(level);
    add(Text("}"));
  }

  Evaluation& evaluation_;
  const JsonStyle& style_;
  Text out_;
};

}  // namespace

Text to_json(Evaluation& evaluation, const Value& value, const JsonStyle& style) {
  Writer writer(evaluation, style);
  writer.write(value, 0);
  return writer.take();
}

Value from_json(const nlohmann::ordered_json& json, Origin origin) {
  const auto text_of = [origin](const std::string& bytes) {
    std::string repaired;
    return Text(std::string(utf8_lossy(bytes, &repaired)), origin);
  };
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return text_of(json.get_ref<const std::string&>());
  if (json.is_array()) {
    List elements;
    for (const auto& element : json) elements.push_back(from_json(element, origin));
    return Value::list(std::move(elements));
  }
  if (!json.is_object()) return {};
  Entries entries;
  for (const auto& [key, value] : json.items()) entries.emplace_back(text_of(key), from_json(value, origin));
  return Value::dict(std::move(entries));
}

}  // namespace serval::jinja

#include "models/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>

#include "models/tokenizer/regex.h"
#include "models/tokenizer/unicode.h"

namespace serval::jinja {

namespace {

struct Extent {
  int depth = 1;
  std::size_t weight = 1;

  void add(const Value& value) {
    depth = std::max(depth, 1 + value.depth());
    weight = std::min(weight + value.weight(), SIZE_MAX / 2);  // the sum of two weights cannot overflow
  }
};

}  // namespace

struct Value::Sequence {
  List elements;
  SequenceKind kind;
  Extent extent;
};
struct Value::Mapping {
  Entries entries;
  Extent extent;
};
struct Value::Callable {
  std::string name;
  Function call;
};

namespace {

Extent extent_of(const List& elements) {
  Extent extent;
  for (const Value& element : elements) extent.add(element);
  return extent;
}

bool equal_lists(const List& a, const List& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

bool equal_dicts(const Value& a, const Value& b) {
  if (a.entries().size() != b.entries().size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&b](const auto& entry) {
    const Value* other = b.find(entry.first);
    return other != nullptr && equal(entry.second, *other);
  });
}

// Python's str.isprintable() for one character.
bool is_printable(std::string_view character) {
  static const Regex kOthers(R"([\p{C}\p{Z}&&[^ ]])", "printable characters");
  return kOthers.find_all(character).empty();
}

std::string hexadecimal_escape(std::uint32_t c) {
  constexpr std::uint32_t kFirstAfterByte = 0x100, kFirstAfterPlane = 0x10000;
  if (c < kFirstAfterByte) return fmt::format("\\x{:02x}", c);
  return c < kFirstAfterPlane ? fmt::format("\\u{:04x}", c) : fmt::format("\\U{:08x}", c);
}

std::string escaped(std::string_view character, char quote) {
  if (character == "\\" || character[0] == quote) return '\\' + std::string(character);
  if (character == "\n") return "\\n";
  if (character == "\r") return "\\r";
  if (character == "\t") return "\\t";
  return is_printable(character) ? std::string(character) : hexadecimal_escape(code_point(character));
}

Text quoted(const Text& text) {
  const std::string& bytes = text.bytes();
  const bool doubled = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos;
  const char quote = doubled ? '"' : '\'';
  const Text mark(std::string(1, quote));
  Text out = mark;
  const auto at = text.boundaries();
  for (std::size_t i = 0; i + 1 < at.size(); ++i) {
    const std::string_view character = std::string_view(bytes).substr(at[i], at[i + 1] - at[i]);
    out.append(Text(escaped(character, quote), text.origin(at[i])));
  }
  out.append(mark);
  return out;
}

Text list_repr(const Value& value) {
  const bool tuple = value.is_tuple();
  Text out(tuple ? "(" : "[");
  for (std::size_t i = 0; i < value.elements().size(); ++i) {
    if (i > 0) out.append(Text(", "));
    out.append(to_repr(value.elements()[i]));
  }
  if (tuple && value.elements().size() == 1) out.append(Text(","));
  out.append(Text(tuple ? ")" : "]"));
  return out;
}

Text dict_repr(const Value& value) {
  Text out("{");
  for (const auto& [key, element] : value.entries()) {
    if (out.size() > 1) out.append(Text(", "));
    out.append(to_repr(key) + Text(": ") + to_repr(element));
  }
  out.append(Text("}"));
  return out;
}

}  // namespace

Value Value::sequence(List elements, SequenceKind kind) {
  const Extent extent = extent_of(elements);
  Value out;
  out.data_ = std::make_shared<const Sequence>(Sequence{std::move(elements), kind, extent});
  return out;
}

Value Value::list(List elements) {
  return sequence(std::move(elements), SequenceKind::kList);
}
Value Value::tuple(List elements) {
  return sequence(std::move(elements), SequenceKind::kTuple);
}
Value Value::generator(List elements) {
  return sequence(std::move(elements), SequenceKind::kGenerator);
}

Value Value::dict(Entries entries) {
  Extent extent;
  for (const auto& [key, value] : entries) {
    extent.add(key);
    extent.add(value);
  }
  Value out;
  out.data_ = std::make_shared<const Mapping>(Mapping{std::move(entries), extent});
  return out;
}

Value Value::function(std::string name, Function call) {
  Value out;
  out.data_ = std::make_shared<const Callable>(Callable{std::move(name), std::move(call)});
  return out;
}

Value Value::name_space(Namespace attributes) {
  Value out;
  out.data_ = std::make_shared<Namespace>(std::move(attributes));
  return out;
}

bool Value::is_tuple() const {
  return is_list() && kind() == SequenceKind::kTuple;
}
bool Value::is_generator() const {
  return is_list() && kind() == SequenceKind::kGenerator;
}
Value::SequenceKind Value::kind() const {
  return std::get<SequencePointer>(data_)->kind;
}
const List& Value::elements() const {
  return std::get<SequencePointer>(data_)->elements;
}
const Entries& Value::entries() const {
  return std::get<MappingPointer>(data_)->entries;
}
const Function& Value::function() const {
  return std::get<CallablePointer>(data_)->call;
}

std::int64_t Value::whole() const {
  return is_boolean() ? static_cast<std::int64_t>(boolean()) : std::get<std::int64_t>(data_);
}

double Value::real() const {
  return is_float() ? std::get<double>(data_) : static_cast<double>(whole());
}

const Value* Value::find(std::string_view key) const {
  for (const auto& [name, value] : entries()) {
    if (name.is_text() && name.text().bytes() == key) return &value;
  }
  return nullptr;
}

const Value* Value::find(const Value& key) const {
  if (key.is_text()) return find(key.text().bytes());
  for (const auto& [name, value] : entries()) {
    if (equal(name, key)) return &value;
  }
  return nullptr;
}

int Value::depth() const {
  if (is_list()) return std::get<SequencePointer>(data_)->extent.depth;
  return is_dict() ? std::get<MappingPointer>(data_)->extent.depth : 0;
}

std::size_t Value::weight() const {
  if (is_text()) return 1 + text().size();
  if (is_list()) return std::get<SequencePointer>(data_)->extent.weight;
  return is_dict() ? std::get<MappingPointer>(data_)->extent.weight : 1;
}

bool truth(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_number()) return value.real() != 0;
  if (value.is_text()) return !value.text().empty();
  if (value.is_list()) return value.is_generator() || !value.elements().empty();
  return !value.is_dict() || !value.entries().empty();
}

bool equal(const Value& a, const Value& b) {
  if (a.is_float() || b.is_float()) return a.is_number() && b.is_number() && a.real() == b.real();
  if (a.is_number()) return b.is_number() && a.whole() == b.whole();
  if (a.is_text()) return b.is_text() && a.text().bytes() == b.text().bytes();
  if (a.is_list()) return b.is_list() && a.kind() == b.kind() && equal_lists(a.elements(), b.elements());
  if (a.is_dict()) return b.is_dict() && equal_dicts(a, b);
  if (a.is_name_space()) return b.is_name_space() && &a.attributes() == &b.attributes();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

std::optional<bool> less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return a.is_float() || b.is_float() ? a.real() < b.real() : a.whole() < b.whole();
  }
  if (a.is_text() && b.is_text())
    return a.text().bytes() < b.text().bytes();  // the bytes of UTF-8 sort as its code points do
  if (!a.is_list() || !b.is_list() || a.kind() != b.kind()) return std::nullopt;
  const auto [one, other] = std::mismatch(a.elements().begin(), a.elements().end(), b.elements().begin(),
                                          b.elements().end(), equal);
  if (one == a.elements().end() || other == b.elements().end()) return other != b.elements().end();
  return less(*one, *other);
}

// fmt and Python both write the shortest digits that give the same value, and use an exponent below 1e-4 and
// from 1e16 on.
std::string float_text(double value) {
  std::string out = fmt::format("{}", value);
  if (std::isfinite(value) && out.find_first_of(".e") == out.npos) out += ".0";
  return out;
}

Text to_text(const Value& value) {
  if (value.is_undefined()) return Text();
  return value.is_text() ? value.text() : to_repr(value);
}

Text to_repr(const Value& value) {
  if (value.is_undefined()) return Text("Undefined");
  if (value.is_none()) return Text("None");
  if (value.is_boolean()) return Text(value.boolean() ? "True" : "False");
  if (value.is_integer()) return Text(std::to_string(value.whole()));
  if (value.is_float()) return Text(float_text(value.real()));
  if (value.is_text()) return quoted(value.text());
  if (value.is_list() && !value.is_generator()) return list_repr(value);
  if (value.is_dict()) return dict_repr(value);
  return Text(fmt::format("<{}>", type_name(value)));
}

std::string_view type_name(const Value& value) {
  if (value.is_undefined()) return "undefined";
  if (value.is_none()) return "None";
  if (value.is_boolean()) return "bool";
  if (value.is_integer()) return "int";
  if (value.is_float()) return "float";
  if (value.is_text()) return "str";
  if (value.is_tuple()) return "tuple";
  if (value.is_generator()) return "generator";
  if (value.is_list()) return "list";
  if (value.is_dict()) return "dict";
  return value.is_callable() ? "function" : "namespace";
}

}  // namespace serval::jinja

// A value of a template. The types are those of Python.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "models/jinja/text.h"

namespace serval::jinja {

class Evaluation;
class Value;

struct Undefined {
  std::string what;  // its name in messages: "'tools'"
};
struct None {};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

using List = std::vector<Value>;

// In insertion order, without equal keys. Lookups are linear: dicts of chats are small.
using Entries = std::vector<std::pair<Value, Value>>;

using Function = std::function<Value(Evaluation&, const Arguments&)>;

// Lists and dicts are immutable, so they cannot contain cycles. A Namespace is mutable, so no container may
// hold one.
class Value {
 public:
  struct Sequence;
  struct Mapping;
  struct Callable;
  using Namespace = std::map<std::string, Value, std::less<>>;
  using TextPointer = std::shared_ptr<const Text>;
  using SequencePointer = std::shared_ptr<const Sequence>;
  using MappingPointer = std::shared_ptr<const Mapping>;
  using CallablePointer = std::shared_ptr<const Callable>;
  using NamespacePointer = std::shared_ptr<Namespace>;

  Value() : data_(None{}) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  Value(bool value) : data_(value) {}
  Value(std::int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}
  Value(const char*) = delete;

  enum class SequenceKind { kList, kTuple, kGenerator };
  static Value sequence(List elements, SequenceKind kind);
  static Value list(List elements);
  static Value tuple(List elements);
  static Value generator(List elements);  // result of map, select and others: always true, without a length
  static Value dict(Entries entries);
  static Value function(std::string name, Function call);
  static Value name_space(Namespace attributes);

  bool is_undefined() const { return holds<Undefined>(); }
  bool is_none() const { return holds<None>(); }
  bool is_boolean() const { return holds<bool>(); }
  bool is_integer() const { return holds<std::int64_t>(); }  // false for a bool
  bool is_float() const { return holds<double>(); }
  bool is_number() const { return is_boolean() || is_integer() || is_float(); }
  bool is_text() const { return holds<TextPointer>(); }
  bool is_list() const { return holds<SequencePointer>(); }  // or a tuple or generator
  bool is_tuple() const;
  bool is_generator() const;
  bool is_dict() const { return holds<MappingPointer>(); }
  bool is_callable() const { return holds<CallablePointer>(); }
  bool is_name_space() const { return holds<NamespacePointer>(); }

  // The value must have the type that the function names.
  const Undefined& undefined() const { return std::get<Undefined>(data_); }
  bool boolean() const { return std::get<bool>(data_); }
  const Text& text() const { return *std::get<TextPointer>(data_); }
  SequenceKind kind() const;
  const List& elements() const;
  const Entries& entries() const;
  const Function& function() const;
  Namespace& attributes() const { return *std::get<NamespacePointer>(data_); }

  std::int64_t whole() const;  // of a bool or an integer
  double real() const;         // of a number

  // The entry of a dict; null if there is none.
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;

  // Nesting depth of lists and dicts; 0 for other values.
  int depth() const;
  // Bytes of text plus number of values. Shared values count each time they occur.
  std::size_t weight() const;

 private:
  template <typename T>
  bool holds() const {
    return std::holds_alternative<T>(data_);
  }

  std::variant<Undefined, None, bool, std::int64_t, double, TextPointer, SequencePointer, MappingPointer,
               CallablePointer, NamespacePointer>
      data_;
};

// Python's bool(), ==, str(), repr() and type names.
bool truth(const Value& value);
bool equal(const Value& a, const Value& b);
Text to_text(const Value& value);
Text to_repr(const Value& value);
std::string_view type_name(const Value& value);
std::string float_text(double value);

// a < b; nullopt if Python does not order the two types.
std::optional<bool> less(const Value& a, const Value& b);

}  // namespace serval::jinja

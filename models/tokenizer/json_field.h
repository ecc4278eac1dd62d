// A value in a JSON file with its path, for error messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace serval {

// Points into the tree, which must outlive it. Functions throw Error(kRuntime), "FILE: a.b[2]: …", for a
// value of the wrong type.
class JsonField {
 public:
  JsonField(const nlohmann::json& value, std::string file) : value_(&value), file_(std::move(file)) {}

  const nlohmann::json& value() const { return *value_; }
  bool is_text() const;
  bool is_array() const;

  // A member of an object. If it is missing or null, find() returns nullopt and at() throws.
  std::optional<JsonField> find(std::string_view key) const;
  JsonField at(std::string_view key) const;

  // Elements of an array.
  std::size_t size() const;
  JsonField element(std::size_t index) const;

  const nlohmann::json& object() const;
  const std::string& text() const;
  bool boolean() const;
  double number() const;
  std::int64_t integer(std::int64_t low, std::int64_t high) const;  // both inclusive

  bool flag(std::string_view key, bool otherwise) const;  // member `key`; `otherwise` if missing or null

  std::string where() const;  // "FILE: a.b[2]"
  [[noreturn]] void fail(std::string_view what) const;

 private:
  JsonField(const nlohmann::json& value, std::string file, std::string path)
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}
  [[noreturn]] void fail_type(std::string_view expected) const;

  const nlohmann::json* value_;
  std::string file_;
  std::string path_;
};

}  // namespace serval

// The location of a schema in the text (a JSON pointer), for messages.
#pragma once

#include <string>
#include <string_view>

namespace serval::grammar {

class SchemaPath {
 public:
  SchemaPath() : text_("#") {}
  SchemaPath operator/(std::string_view key) const { return SchemaPath(text_ + "/" + std::string(key)); }
  SchemaPath operator/(size_t index) const { return *this / std::to_string(index); }
  // Throws Error(kUsage): "json_schema: #/properties/a: PROBLEM".
  [[noreturn]] void refuse(const std::string& problem) const;

 private:
  explicit SchemaPath(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

}  // namespace serval::grammar

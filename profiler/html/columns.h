// Columns of numbers for the page, each as small as its values allow.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace serval::html {

class Columns {
 public:
  // Numbers below 2^53, which are exact in a double; larger ones throw Error(kRuntime).
  void add(const std::string& name, std::span<const uint64_t> values);
  // Stored as differences, zigzag-coded: for values that increase, or change in small steps.
  void add_differences(const std::string& name, std::span<const int64_t> values);
  // Stored as 32-bit floating-point numbers.
  void add_floats(const std::string& name, std::span<const double> values);
  // The texts must not contain line breaks.
  void add_texts(const std::string& name, std::span<const std::string> texts);

  // [{"name", "kind", "count", "bytes"}, …] in the order of their bytes.
  const nlohmann::ordered_json& descriptions() const { return descriptions_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void add_planes(const std::string& name, const char* kind, std::span<const uint64_t> values);

  nlohmann::ordered_json descriptions_ = nlohmann::ordered_json::array();
  std::string bytes_;
};

}  // namespace serval::html

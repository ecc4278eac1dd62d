// Numbers on their way into the page: columns of equal things, each as small as its values allow.
//
// A column of n numbers is stored as byte planes: the lowest byte of all n, then the second byte of all n,
// and so on, as many as the largest of them needs. Planes of like bytes compress well, need no alignment and
// are the same on every machine. viewer/block.js reads them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace serval::html {

class Columns {
 public:
  // Numbers below 2^53, which a double holds exactly; larger ones throw Error(kRuntime).
  void add(const std::string& name, std::span<const uint64_t> values);
  // Adds the values as differences, zigzag-coded: for values that grow, or change in small steps.
  void add_differences(const std::string& name, std::span<const int64_t> values);
  // As 32-bit floating-point numbers.
  void add_floats(const std::string& name, std::span<const double> values);
  // Texts that contain no line break.
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

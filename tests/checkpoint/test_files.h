// Model directories made on the spot, well-formed and otherwise.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "models/llama/config.h"
#include "vm/base/error.h"

namespace serval {

// A directory that is removed with everything in it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, std::string_view content) const;

 private:
  std::filesystem::path path_;
};

// A safetensors file from a header and data, right or wrong.
std::string safetensors_file(std::string_view header, std::string_view data);

struct TestTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string data;
};

// A well-formed file; `padding` spaces after the header's JSON shift the data.
std::string safetensors_file(const std::vector<TestTensor>& tensors, size_t padding = 0);

// The bytes of `values`.
template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// Hidden 64, MLP 32, one layer, two heads over one KV head of 64, 24 tokens.
std::string tiny_config_json(bool tied);
LlamaConfig tiny_config(bool tied = true);

// The value of element `index` of a tensor of the tiny model; exact in bf16, F16 and F32.
float tiny_value(std::string_view tensor, size_t index);

// Every tensor of the tiny model in `dtype`.
std::vector<TestTensor> tiny_tensors(const std::string& dtype, bool tied = true);

// Runs `action` and returns the line of its serval::Error; fails the test where there is none, or more than
// one line.
std::string error_of(const std::function<void()>& action, ErrorKind kind = ErrorKind::kRuntime);

}  // namespace serval

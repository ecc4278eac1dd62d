// Writes model directories for tests, valid and damaged ones.
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
#include "nlohmann/json_fwd.hpp"

#include "models/llama/config.h"
#include "vm/base/error.h"

namespace serval {

// A temporary directory. The destructor removes it with its contents.
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

// A safetensors file from a header and data, which may be wrong.
std::string safetensors_file(std::string_view header, std::string_view data);

struct TestTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string data;
};

// A valid file. `padding` spaces after the header's JSON shift the data.
std::string safetensors_file(const std::vector<TestTensor>& tensors, size_t padding = 0);

// The bytes of `values`.
template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// hidden_size 64, intermediate_size 32, one layer, two heads of 64 and one KV head, 24 tokens.
std::string tiny_config_json(bool tied);
LlamaConfig tiny_config(bool tied = true);

// Element `index` of a tensor of the tiny model; exact in BF16, F16 and F32.
float tiny_value(std::string_view tensor, size_t index);

// All tensors of the tiny model in `dtype`.
std::vector<TestTensor> tiny_tensors(const std::string& dtype, bool tied = true);

// Writes config.json with `quantisation` as its quantization_config, and model.safetensors.
void write_quantised_tiny_model(const TempDir& dir, const nlohmann::json& quantisation,
                                const std::vector<TestTensor>& tensors, bool tied = true);

// Runs `action` and returns the message of its serval::Error. Fails the test if it throws none, or if the
// message has more than one line.
std::string error_of(const std::function<void()>& action, ErrorKind kind = ErrorKind::kRuntime);

}  // namespace serval

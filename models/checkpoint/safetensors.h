// One .safetensors file: named tensors in a memory-mapped file.
//
// Format (github.com/huggingface/safetensors, "Format"): an unsigned little-endian 64-bit header length N; N
// bytes of JSON, {"NAME": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, "__metadata__":
// {string: string}}; then the data, which the tensors' offsets, counted from its first byte, cover without
// overlap or hole.
//
// Every function that takes file content throws Error(kRuntime) with one line that names the file and the
// tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/mapped_file.h"

namespace serval {

struct SafetensorsLimits {
  static constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's own
  static constexpr size_t kMaxDimensions = 8;
  static constexpr size_t kMaxNameBytes = 512;
};

enum class StoredType {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64
};

size_t dtype_bytes(StoredType dtype);
std::string_view dtype_name(StoredType dtype);  // as the format spells it

struct TensorView {
  std::string name;
  StoredType dtype;
  std::vector<int64_t> shape;        // row-major; empty for a scalar
  std::span<const std::byte> bytes;  // of any alignment
};

using TensorMap = std::map<std::string, TensorView, std::less<>>;

// The tensors of a whole file's bytes, which the views point into. `source` starts error lines.
TensorMap parse_safetensors(std::span<const std::byte> file, const std::string& source);

// "[2048, 8192]".
std::string shape_text(std::span<const int64_t> shape);

// Immutable once open; views stay valid, moves included, until it is destroyed.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  const std::string& path() const { return path_; }
  const TensorMap& tensors() const { return tensors_; }

 private:
  std::string path_;
  MappedFile file_;
  TensorMap tensors_;
};

}  // namespace serval

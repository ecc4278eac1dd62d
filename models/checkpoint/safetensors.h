// One .safetensors file: named tensors in a memory-mapped file.
//
// Format (github.com/huggingface/safetensors, "Format"): an unsigned little-endian 64-bit header length N; N
// bytes of JSON, {"NAME": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, "__metadata__":
// {string: string}}; the data. Offsets count from the first byte of the data, and the tensors cover the data
// without overlaps or gaps.
//
// Functions that take file content throw Error(kRuntime) with one line that names the file and the tensor.
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
  static constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as in the reference implementation
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
std::string_view dtype_name(StoredType dtype);  // the format's spelling

struct TensorView {
  std::string name;
  StoredType dtype;
  std::vector<int64_t> shape;        // row-major; empty for a scalar
  std::span<const std::byte> bytes;  // of any alignment
};

using TensorMap = std::map<std::string, TensorView, std::less<>>;

// Parses the bytes of a whole file. The views point into `file`. Error lines start with `source`.
TensorMap parse_safetensors(std::span<const std::byte> file, const std::string& source);

// "[2048, 8192]".
std::string shape_text(std::span<const int64_t> shape);

// Immutable. Views stay valid until the file object is destroyed; moving it keeps them valid.
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

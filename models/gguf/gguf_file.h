// One .gguf file: metadata and named tensors in a memory-mapped file.
//
// Format (github.com/ggml-org/ggml, docs/gguf.md), versions 2 and 3, little-endian: "GGUF"; version, u32;
// number of tensors and number of metadata fields, u64 each; for each field its key, type and value; for each
// tensor its name, number of dimensions, dimensions from the innermost one, type and offset; padding to
// general.alignment; the data. Offsets count from the start of the data. A string is its length, u64, and its
// bytes.
//
// Counts and lengths are checked against the remaining bytes before memory is allocated for them. Functions
// that take file content throw Error(kRuntime) with one line that names the file and the field or tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/mapped_file.h"
#include "models/gguf/ggml_type.h"

namespace serval {

struct GgufLimits {
  static constexpr uint64_t kMaxFields = 1 << 16;
  static constexpr uint64_t kMaxTensors = 1 << 16;
  static constexpr uint64_t kMaxNameBytes = (1 << 16) - 1;  // of keys and tensor names; the format's limit
  static constexpr uint32_t kMaxDimensions = 4;             // ggml's limit
  static constexpr uint32_t kMaxAlignment = 1 << 20;
  static constexpr uint64_t kMaxElements = 1 << 25;  // of all arrays together
};

// The format's numbers.
enum class GgufValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

// A view of a value in the file.
struct GgufValue {
  GgufValueType type;  // of the elements if it is an array
  bool is_array;
  uint64_t count;  // 1 if it is not an array
  std::span<const std::byte> bytes;
};

struct GgufTensor {
  std::string name;
  const GgmlType* type;
  std::vector<int64_t> shape;        // row-major: the innermost dimension comes last
  std::span<const std::byte> bytes;  // of any alignment
};

// Metadata with typed, checked access. Holds views of the file, which must outlive it.
class GgufFields {
 public:
  explicit GgufFields(std::string source) : source_(std::move(source)) {}
  // Returns false if the key exists already.
  bool add(std::string key, GgufValue value) { return values_.emplace(std::move(key), value).second; }

  bool has(std::string_view key) const { return find(key) != nullptr; }
  // The first key with that prefix; empty if there is none.
  std::string first_with_prefix(std::string_view prefix) const;
  std::string_view text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  // Accepts any integer type; requires a value within [least, most].
  int64_t integer(std::string_view key, int64_t least, int64_t most) const;
  std::optional<int64_t> find_integer(std::string_view key, int64_t least, int64_t most) const;
  // Accepts any integer or floating-point type; requires a finite value.
  double number(std::string_view key) const;
  std::optional<double> find_number(std::string_view key) const;
  // True if the field is missing or holds only zeros, false or empty strings.
  bool is_empty_or_zero(std::string_view key) const;
  // Arrays.
  std::vector<std::string_view> texts(std::string_view key) const;
  std::vector<float> floats(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key) const;

  const std::string& source() const { return source_; }
  // Throws Error(kRuntime): "FILE: KEY: problem".
  [[noreturn]] void fail(std::string_view key, const std::string& problem) const;

 private:
  const GgufValue* find(std::string_view key) const;
  const GgufValue& scalar(std::string_view key) const;
  const GgufValue& array(std::string_view key) const;

  std::string source_;
  std::map<std::string, GgufValue, std::less<>> values_;
};

struct GgufContents {
  GgufFields fields;
  std::map<std::string, GgufTensor, std::less<>> tensors;
};

// Parses the bytes of a whole file. The contents point into `file`. Error lines start with `source`.
GgufContents parse_gguf(std::span<const std::byte> file, const std::string& source);

// True if the file starts with GGUF's magic number; false if it cannot be read.
bool looks_like_gguf(const std::filesystem::path& path);

// Immutable. Views stay valid until the file object is destroyed; moving it keeps them valid.
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);
  const std::string& path() const { return path_; }
  const GgufFields& fields() const { return contents_.fields; }
  const std::map<std::string, GgufTensor, std::less<>>& tensors() const { return contents_.tensors; }

 private:
  std::string path_;
  MappedFile file_;
  GgufContents contents_;
};

}  // namespace serval

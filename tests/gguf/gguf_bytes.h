// Writes GGUF files for tests, valid and damaged ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/gguf/gguf_file.h"
#include "tests/checkpoint/test_files.h"

namespace serval {

// The bytes of one number.
template <typename T>
std::string number(T value) {
  return bytes_of<T>({value});
}

inline std::string gguf_string(std::string_view text) {
  return number<uint64_t>(text.size()) + std::string(text);
}

class GgufBytes {
 public:
  // Adds a field of any type. `value` is the bytes after the type's number.
  GgufBytes& field(std::string_view key, GgufValueType type, const std::string& value) {
    fields_.push_back(gguf_string(key) + number(static_cast<uint32_t>(type)) + value);
    return *this;
  }
  GgufBytes& text(std::string_view key, std::string_view value) {
    return field(key, GgufValueType::kString, gguf_string(value));
  }
  GgufBytes& u32(std::string_view key, uint32_t value) {
    return field(key, GgufValueType::kU32, number(value));
  }
  GgufBytes& f32(std::string_view key, float value) { return field(key, GgufValueType::kF32, number(value)); }
  GgufBytes& boolean(std::string_view key, bool value) {
    return field(key, GgufValueType::kBool, number<uint8_t>(value ? 1 : 0));
  }
  GgufBytes& texts(std::string_view key, const std::vector<std::string>& values) {
    std::string elements;
    for (const std::string& value : values) elements += gguf_string(value);
    return array(key, GgufValueType::kString, values.size(), elements);
  }
  GgufBytes& i32s(std::string_view key, const std::vector<int32_t>& values) {
    return array(key, GgufValueType::kI32, values.size(), bytes_of(values));
  }
  GgufBytes& array(std::string_view key, GgufValueType type, uint64_t count, const std::string& elements) {
    return field(key, GgufValueType::kArray, number(static_cast<uint32_t>(type)) + number(count) + elements);
  }
  GgufBytes& without(std::string_view key) {
    std::erase_if(fields_, [&](const std::string& entry) { return entry.starts_with(gguf_string(key)); });
    return *this;
  }

  // Adds a tensor with its data, after earlier tensors at the next multiple of 32. `shape` is row-major.
  GgufBytes& tensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& shape,
                    const std::string& data) {
    data_.resize((data_.size() + 31) / 32 * 32);
    entry(name, type, shape, data_.size());
    data_ += data;
    return *this;
  }
  // Adds the entry of a tensor without any data.
  GgufBytes& entry(std::string_view name, uint32_t type, const std::vector<uint64_t>& shape,
                   uint64_t offset) {
    std::string bytes = gguf_string(name) + number(static_cast<uint32_t>(shape.size()));
    for (auto dimension = shape.rbegin(); dimension != shape.rend(); ++dimension) bytes += number(*dimension);
    tensors_.push_back(bytes + number(type) + number(offset));
    return *this;
  }

  std::string bytes(uint32_t version = 3) const {
    std::string out =
        "GGUF" + number(version) + number<uint64_t>(tensors_.size()) + number<uint64_t>(fields_.size());
    for (const std::string& field : fields_) out += field;
    for (const std::string& tensor : tensors_) out += tensor;
    if (!data_.empty()) out.resize((out.size() + 31) / 32 * 32);
    return out + data_;
  }

 private:
  std::vector<std::string> fields_, tensors_;
  std::string data_;
};

// ggml's ids of a few types.
inline constexpr uint32_t kGgmlF32 = 0, kGgmlF16 = 1, kGgmlQ8_0 = 8, kGgmlBf16 = 30;

// The error line of parsing.
inline std::string gguf_refusal(const std::string& file) {
  return error_of([&] { parse_gguf(std::as_bytes(std::span(file)), "file"); });
}

}  // namespace serval

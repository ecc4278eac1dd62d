// Element types of tensors in GGUF files, with ggml's ids and layouts (ggml.h, enum ggml_type; ggml-common.h,
// block_*). A type stores its elements in blocks of a fixed size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace serval {

// Elements of the largest block.
inline constexpr size_t kMaxBlockElements = 256;

struct GgmlType {
  uint32_t id;
  std::string_view name;
  uint32_t block_elements;
  uint32_t block_bytes;
  // Writes the elements of `blocks` blocks in fp32. Each product and sum is rounded, in the order of the
  // `gguf` Python package, so that the values equal that package's bit for bit.
  void (*decode)(const std::byte* first_block, size_t blocks, float* out);
};

// Null if ggml has no type with that id or Serval does not support it.
const GgmlType* find_ggml_type(uint32_t id);

// A name such as "IQ4_XS"; the number if ggml has no type with that id.
std::string ggml_type_name(uint32_t id);

// "F32, F16, …": the supported types.
std::string readable_ggml_types();

// Writes elements [first, first + out.size()) of `blocks`, rounded to the nearest bf16. `blocks` must hold
// them.
void read_ggml_elements(const GgmlType& type, std::span<const std::byte> blocks, size_t first,
                        std::span<uint16_t> out);

}  // namespace serval

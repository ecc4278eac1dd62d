// The element types of a GGUF file's tensors, as ggml numbers and lays them out (ggml.h, enum ggml_type;
// ggml-common.h, block_*). A type stores its elements in blocks of a fixed size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace serval {

// Elements that the widest block holds.
inline constexpr size_t kMaxBlockElements = 256;

struct GgmlType {
  uint32_t id;
  std::string_view name;
  uint32_t block_elements;
  uint32_t block_bytes;
  // Writes the elements of `blocks` blocks, in fp32: every product and sum is rounded once, in the order of
  // the `gguf` Python package, whose values these are to the bit.
  void (*decode)(const std::byte* first_block, size_t blocks, float* out);
};

// Null where there is no type of that number, or it cannot be read.
const GgmlType* find_ggml_type(uint32_t id);

// "IQ4_XS", or "42" where ggml has no type of that number.
std::string ggml_type_name(uint32_t id);

// "F32, F16, …": the types that can be read.
std::string readable_ggml_types();

// Elements [first, first + out.size()) of a run of blocks, rounded to the nearest bf16. `blocks` holds them.
void read_ggml_elements(const GgmlType& type, std::span<const std::byte> blocks, size_t first,
                        std::span<uint16_t> out);

}  // namespace serval

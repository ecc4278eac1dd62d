#include "models/gguf/ggml_type.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>

#include "models/gguf/dequantise.h"
#include "vm/base/bf16.h"

namespace serval {
namespace {

constexpr GgmlType kReadable[] = {
    {0, "F32", 1, 4, decode_f32},        {1, "F16", 1, 2, decode_f16},
    {30, "BF16", 1, 2, decode_bf16},     {8, "Q8_0", 32, 34, decode_q8_0},
    {2, "Q4_0", 32, 18, decode_q4_0},    {3, "Q4_1", 32, 20, decode_q4_1},
    {6, "Q5_0", 32, 22, decode_q5_0},    {7, "Q5_1", 32, 24, decode_q5_1},
    {10, "Q2_K", 256, 84, decode_q2_k},  {11, "Q3_K", 256, 110, decode_q3_k},
    {12, "Q4_K", 256, 144, decode_q4_k}, {13, "Q5_K", 256, 176, decode_q5_k},
    {14, "Q6_K", 256, 210, decode_q6_k},
};

// ggml's types that Serval does not support.
constexpr std::pair<uint32_t, std::string_view> kOthers[] = {
    {9, "Q8_1"},   {15, "Q8_K"},   {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
    {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},   {22, "IQ2_S"},  {23, "IQ4_XS"},
    {24, "I8"},    {25, "I16"},    {26, "I32"},     {27, "I64"},    {28, "F64"},
    {29, "IQ1_M"}, {34, "TQ1_0"},  {35, "TQ2_0"},   {39, "MXFP4"},
};

}  // namespace

const GgmlType* find_ggml_type(uint32_t id) {
  const auto found = std::ranges::find(kReadable, id, &GgmlType::id);
  return found == std::end(kReadable) ? nullptr : found;
}

std::string ggml_type_name(uint32_t id) {
  if (const GgmlType* type = find_ggml_type(id)) return std::string(type->name);
  for (const auto& [number, name] : kOthers)
    if (number == id) return std::string(name);
  return std::to_string(id);
}

std::string readable_ggml_types() {
  std::string names;
  for (const GgmlType& type : kReadable) names += fmt::format("{}{}", names.empty() ? "" : ", ", type.name);
  return names;
}

void read_ggml_elements(const GgmlType& type, std::span<const std::byte> blocks, size_t first,
                        std::span<uint16_t> out) {
  std::array<float, kMaxBlockElements> values;
  const size_t blocks_at_once = kMaxBlockElements / type.block_elements;
  size_t block = first / type.block_elements;
  size_t skipped = first % type.block_elements;
  for (size_t done = 0; done < out.size();) {
    const size_t wanted = skipped + out.size() - done;
    const size_t count = std::min(blocks_at_once, (wanted + type.block_elements - 1) / type.block_elements);
    type.decode(blocks.data() + block * type.block_bytes, count, values.data());
    const size_t end = std::min(count * type.block_elements, wanted);
    for (size_t i = skipped; i < end; ++i) out[done++] = float_to_bf16(values[i]);
    block += count;
    skipped = 0;
  }
}

}  // namespace serval

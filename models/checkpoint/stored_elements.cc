#include "models/checkpoint/stored_elements.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "vm/base/bf16.h"

namespace serval {
namespace {

template <typename Source, typename ToFloat>
void convert_elements(std::span<const std::byte> source, uint16_t* out, ToFloat to_float) {
  for (size_t i = 0; i < source.size() / sizeof(Source); ++i) {
    Source element;
    std::memcpy(&element, source.data() + i * sizeof(Source), sizeof element);  // may be unaligned
    out[i] = float_to_bf16(to_float(element));
  }
}

bool is_readable(const TensorView& tensor) {
  return tensor.dtype == StoredType::kBF16 || tensor.dtype == StoredType::kF16 ||
         tensor.dtype == StoredType::kF32;
}

}  // namespace

void read_stored_elements(const TensorView& tensor, int64_t first, std::span<uint16_t> out) {
  const size_t element_bytes = dtype_bytes(tensor.dtype);
  const auto source =
      tensor.bytes.subspan(static_cast<size_t>(first) * element_bytes, out.size() * element_bytes);
  if (tensor.dtype == StoredType::kBF16) std::memcpy(out.data(), source.data(), source.size());
  if (tensor.dtype == StoredType::kF16) convert_elements<uint16_t>(source, out.data(), fp16_to_float);
  if (tensor.dtype == StoredType::kF32)
    convert_elements<float>(source, out.data(), [](float value) { return value; });
}

bool equal_as_bf16(const TensorView& a, const TensorView& b) {
  if (a.shape != b.shape) return false;
  if (a.dtype == b.dtype && std::ranges::equal(a.bytes, b.bytes)) return true;
  if (!is_readable(a) || !is_readable(b)) return false;
  constexpr size_t kPiece = 1 << 16;  // elements
  const size_t elements = a.bytes.size() / dtype_bytes(a.dtype);
  std::vector<uint16_t> left(kPiece), right(kPiece);
  for (size_t first = 0; first < elements; first += kPiece) {
    const size_t count = std::min(kPiece, elements - first);
    read_stored_elements(a, static_cast<int64_t>(first), {left.data(), count});
    read_stored_elements(b, static_cast<int64_t>(first), {right.data(), count});
    if (!std::equal(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count), right.begin()))
      return false;
  }
  return true;
}

}  // namespace serval

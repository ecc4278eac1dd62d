#include "profiler/html/columns.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <vector>

#include "vm/base/error.h"

namespace serval::html {
namespace {

constexpr int kBitsOfByte = 8;
constexpr uint64_t kExactlyDouble = uint64_t{1} << 53;

uint64_t zigzag(int64_t value) {
  return value >= 0 ? 2 * static_cast<uint64_t>(value) : 2 * static_cast<uint64_t>(-(value + 1)) + 1;
}

}  // namespace

void Columns::add(const std::string& name, std::span<const uint64_t> values) {
  add_planes(name, "plain", values);
}

void Columns::add_differences(const std::string& name, std::span<const int64_t> values) {
  std::vector<uint64_t> coded;
  coded.reserve(values.size());
  int64_t before = 0;
  for (const int64_t value : values) {
    coded.push_back(zigzag(value - before));
    before = value;
  }
  add_planes(name, "delta", coded);
}

void Columns::add_floats(const std::string& name, std::span<const double> values) {
  std::vector<uint64_t> bits;
  bits.reserve(values.size());
  for (const double value : values) bits.push_back(std::bit_cast<uint32_t>(static_cast<float>(value)));
  add_planes(name, "float", bits);
}

void Columns::add_texts(const std::string& name, std::span<const std::string> texts) {
  const size_t begin = bytes_.size();
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) bytes_ += '\n';
    bytes_ += texts[i];
  }
  descriptions_.push_back(
      {{"name", name}, {"kind", "text"}, {"count", texts.size()}, {"bytes", bytes_.size() - begin}});
}

void Columns::add_planes(const std::string& name, const char* kind, std::span<const uint64_t> values) {
  const uint64_t most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  if (most >= kExactlyDouble) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("html: {} has {}; a page holds less than {}", name, most, kExactlyDouble));
  }
  int planes = 1;
  while (most >> (kBitsOfByte * planes) != 0) ++planes;
  for (int plane = 0; plane < planes; ++plane) {
    for (const uint64_t value : values) bytes_ += static_cast<char>(value >> (kBitsOfByte * plane) & 0xff);
  }
  descriptions_.push_back({{"name", name}, {"kind", kind}, {"count", values.size()}, {"bytes", planes}});
}

}  // namespace serval::html

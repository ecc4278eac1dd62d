#include "models/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "vm/base/error.h"
#include "vm/base/json_fields.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

using nlohmann::json;
using Limits = SafetensorsLimits;

static_assert(std::endian::native == std::endian::little,
              "tensors are used in place, and the format is little-endian");

constexpr const char* kMetadataKey = "__metadata__";

struct DTypeInfo {
  StoredType dtype;
  std::string_view name;
  size_t bytes;
};

constexpr auto kDTypes = std::to_array<DTypeInfo>({
    {StoredType::kBool, "BOOL", 1},
    {StoredType::kU8, "U8", 1},
    {StoredType::kI8, "I8", 1},
    {StoredType::kF8E4M3, "F8_E4M3", 1},
    {StoredType::kF8E5M2, "F8_E5M2", 1},
    {StoredType::kF8E8M0, "F8_E8M0", 1},
    {StoredType::kI16, "I16", 2},
    {StoredType::kU16, "U16", 2},
    {StoredType::kF16, "F16", 2},
    {StoredType::kBF16, "BF16", 2},
    {StoredType::kI32, "I32", 4},
    {StoredType::kU32, "U32", 4},
    {StoredType::kF32, "F32", 4},
    {StoredType::kI64, "I64", 8},
    {StoredType::kU64, "U64", 8},
    {StoredType::kF64, "F64", 8},
});

const DTypeInfo& info(StoredType dtype) {
  return kDTypes[static_cast<size_t>(dtype)];
}

constexpr bool table_is_in_enum_order() {
  for (size_t i = 0; i < kDTypes.size(); ++i)
    if (kDTypes[i].dtype != static_cast<StoredType>(i)) return false;
  return true;
}
static_assert(table_is_in_enum_order());

struct Layout {
  std::string_view header;          // JSON
  std::span<const std::byte> data;  // data_offsets count from its start
};

Layout split_file(std::span<const std::byte> file, const std::string& source) {
  uint64_t header_bytes = 0;
  if (file.size() < sizeof header_bytes)
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: {} bytes, too short for a safetensors file", source, file.size()));
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const std::span<const std::byte> rest = file.subspan(sizeof header_bytes);
  if (header_bytes > Limits::kMaxHeaderBytes)
    throw Error(ErrorKind::kRuntime, fmt::format("{}: header length: found {} bytes; limit: {}", source,
                                                 header_bytes, Limits::kMaxHeaderBytes));
  if (header_bytes > rest.size())
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: header length: found {} bytes, but only {} follow (truncated?)", source,
                            header_bytes, rest.size()));
  const auto* text = reinterpret_cast<const char*>(rest.data());
  return {std::string_view(text, header_bytes), rest.subspan(header_bytes)};
}

json parse_header(std::string_view header, const std::string& source) {
  const std::string name = source + ": header";
  if (!header.starts_with('{')) throw Error(ErrorKind::kRuntime, name + ": does not start with '{'");
  return parse_json_text(header, name);
}

// Reads one entry of the header and checks its offsets against its shape and the data's size.
// check_coverage() checks offsets of different tensors against each other.
class EntryReader {
 public:
  struct Entry {
    StoredType dtype;
    std::vector<int64_t> shape;
    uint64_t begin;
    uint64_t end;
  };

  EntryReader(const std::string& source, const std::string& name, const json& value)
      : where_(fmt::format("{}: tensor {}", source, shown(name))), fields_(value, where_) {
    if (name.size() > Limits::kMaxNameBytes)
      throw Error(ErrorKind::kRuntime, fmt::format("{}: a name of {} bytes; limit: {}", where_, name.size(),
                                                   Limits::kMaxNameBytes));
  }

  Entry read(uint64_t data_bytes) const {
    Entry entry = {.dtype = read_dtype(), .shape = read_shape(), .begin = 0, .end = 0};
    const auto [begin, end] = read_offsets();
    if (begin > end || end > data_bytes)
      fields_.fail("data_offsets",
                   fmt::format("found [{}, {}], the file holds {} bytes of data", begin, end, data_bytes));
    const std::optional<uint64_t> needed = shape_bytes(entry.shape, info(entry.dtype).bytes);
    if (!needed || *needed != end - begin)
      fields_.fail("data_offsets", fmt::format("found {} bytes, but shape {} of {} takes {}", end - begin,
                                               shape_text(entry.shape), dtype_name(entry.dtype),
                                               needed ? std::to_string(*needed) : "more than 2^63"));
    entry.begin = begin;
    entry.end = end;
    return entry;
  }

 private:
  StoredType read_dtype() const {
    const std::string name = fields_.text_or("dtype", "");
    for (const DTypeInfo& candidate : kDTypes)
      if (candidate.name == name) return candidate.dtype;
    fields_.fail("dtype", fmt::format("found {}, which is not a known type", shown(name)));
  }

  std::vector<int64_t> read_shape() const {
    const json& value = array("shape");
    if (value.size() > Limits::kMaxDimensions)
      fields_.fail("shape",
                   fmt::format("found {} dimensions; limit: {}", value.size(), Limits::kMaxDimensions));
    std::vector<int64_t> shape;
    for (const json& dimension : value) {
      if (!dimension.is_number_unsigned() || dimension.get<uint64_t>() > INT64_MAX)
        fields_.fail("shape", fmt::format("found {}, expected integers from 0 to 2^63 - 1", shown(value)));
      shape.push_back(dimension.get<int64_t>());
    }
    return shape;
  }

  std::pair<uint64_t, uint64_t> read_offsets() const {
    const json& value = array("data_offsets");
    if (value.size() != 2 || !value[0].is_number_unsigned() || !value[1].is_number_unsigned())
      fields_.fail("data_offsets", fmt::format("found {}, expected [begin, end]", shown(value)));
    return {value[0].get<uint64_t>(), value[1].get<uint64_t>()};
  }

  const json& array(const char* key) const {
    const json* value = fields_.find(key);
    if (value == nullptr || !value->is_array()) fields_.fail(key, "missing, or not an array");
    return *value;
  }

  // nullopt if the product exceeds 63 bits.
  static std::optional<uint64_t> shape_bytes(std::span<const int64_t> shape, size_t element_bytes) {
    if (std::ranges::find(shape, 0) != shape.end()) return 0;
    auto bytes = static_cast<int64_t>(element_bytes);
    for (const int64_t dimension : shape)
      if (__builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
    return static_cast<uint64_t>(bytes);
  }

  std::string where_;
  JsonFields fields_;
};

void check_metadata(const json& metadata, const std::string& source) {
  if (!metadata.is_object())
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: {}: expected an object of strings", source, kMetadataKey));
  for (const auto& [key, value] : metadata.items())
    if (!value.is_string())
      throw Error(ErrorKind::kRuntime, fmt::format("{}: {}: {}: found {}, expected a string", source,
                                                   kMetadataKey, shown(key), shown(value)));
}

// Requires that each byte of the data belongs to exactly one tensor.
void check_coverage(const TensorMap& tensors, std::span<const std::byte> data, const std::string& source) {
  std::vector<const TensorView*> by_offset;
  for (const auto& [name, tensor] : tensors) by_offset.push_back(&tensor);
  std::ranges::sort(by_offset, {}, [](const TensorView* tensor) {
    return std::pair(tensor->bytes.data(),
                     tensor->bytes.size());  // empty tensors sort before others at the same offset
  });
  const std::byte* covered = data.data();
  for (const TensorView* tensor : by_offset) {
    const std::byte* begin = tensor->bytes.data();
    if (begin < covered)
      throw Error(ErrorKind::kRuntime,
                  fmt::format("{}: tensor {}: data_offsets: overlaps another tensor by {} bytes", source,
                              shown(tensor->name), covered - begin));
    if (begin > covered)
      throw Error(ErrorKind::kRuntime,
                  fmt::format("{}: tensor {}: data_offsets: {} bytes before it belong to no tensor", source,
                              shown(tensor->name), begin - covered));
    covered = begin + tensor->bytes.size();
  }
  const std::byte* end = data.data() + data.size();
  if (covered != end)
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: the last {} bytes belong to no tensor", source, end - covered));
}

}  // namespace

size_t dtype_bytes(StoredType dtype) {
  return info(dtype).bytes;
}

std::string_view dtype_name(StoredType dtype) {
  return info(dtype).name;
}

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

TensorMap parse_safetensors(std::span<const std::byte> file, const std::string& source) {
  const Layout layout = split_file(file, source);
  const json header = parse_header(layout.header, source);
  TensorMap tensors;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      check_metadata(value, source);
      continue;
    }
    EntryReader::Entry entry = EntryReader(source, name, value).read(layout.data.size());
    const auto bytes = layout.data.subspan(entry.begin, entry.end - entry.begin);
    tensors.emplace(name, TensorView{name, entry.dtype, std::move(entry.shape), bytes});
  }
  check_coverage(tensors, layout.data, source);
  return tensors;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path.string()), file_(path), tensors_(parse_safetensors(file_.bytes(), path_)) {}

}  // namespace serval

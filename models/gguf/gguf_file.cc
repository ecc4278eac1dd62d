#include "models/gguf/gguf_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

using Limits = GgufLimits;

static_assert(std::endian::native == std::endian::little, "values are copied from the little-endian file");

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kFirstVersion = 2, kLastVersion = 3;  // version 1 has 32-bit lengths
constexpr uint32_t kDefaultAlignment = 32;
constexpr const char* kAlignmentKey = "general.alignment";

// Bytes of a value; 0 for strings and arrays, which have no fixed size.
constexpr size_t scalar_bytes(GgufValueType type) {
  constexpr std::array<size_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<size_t>(type)];
}

// Reads from the front of the file.
class Reader {
 public:
  Reader(std::span<const std::byte> file, const std::string& source) : file_(file), source_(source) {}

  // `what` names the item in error lines.
  std::span<const std::byte> take(uint64_t bytes, const std::string& what) {
    if (bytes > left()) {
      throw Error(ErrorKind::kRuntime,
                  fmt::format("{}: {}: needs {} bytes, but only {} are left (truncated?)", source_, what,
                              bytes, left()));
    }
    const auto out = file_.subspan(at_, bytes);
    at_ += bytes;
    return out;
  }
  template <typename T>
  T number(const std::string& what) {
    T out;
    std::memcpy(&out, take(sizeof out, what).data(), sizeof out);
    return out;
  }
  std::string name(const std::string& what) {
    const auto length = number<uint64_t>(what);
    if (length > Limits::kMaxNameBytes)
      fail(what, fmt::format("a name of {} bytes; limit: {}", length, Limits::kMaxNameBytes));
    const auto bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // Reads a number of items that take at least `min_bytes` each.
  uint64_t count(const std::string& what, uint64_t min_bytes, uint64_t most) {
    const auto items = number<uint64_t>(what);
    if (items > most) fail(what, fmt::format("found {}; limit: {}", items, most));
    if (items > left() / min_bytes)
      fail(what, fmt::format("found {}, but only {} bytes are left (truncated?)", items, left()));
    return items;
  }
  [[noreturn]] void fail(const std::string& what, const std::string& problem) const {
    throw Error(ErrorKind::kRuntime, fmt::format("{}: {}: {}", source_, what, problem));
  }
  uint64_t left() const { return file_.size() - at_; }
  uint64_t position() const { return at_; }

 private:
  std::span<const std::byte> file_;
  const std::string& source_;
  uint64_t at_ = 0;
};

GgufValueType read_type(Reader& reader, const std::string& what) {
  const auto number = reader.number<uint32_t>(what);
  if (number > static_cast<uint32_t>(GgufValueType::kF64))
    reader.fail(what, fmt::format("found the type {}, the format has 0 to 12", number));
  return static_cast<GgufValueType>(number);
}

void skip_values(Reader& reader, GgufValueType type, uint64_t count, const std::string& what) {
  if (type == GgufValueType::kArray) reader.fail(what, "an array of arrays is not supported");
  if (type == GgufValueType::kString) {
    for (uint64_t i = 0; i < count; ++i) reader.take(reader.number<uint64_t>(what), what);
    return;
  }
  const uint64_t bytes = scalar_bytes(type);
  if (count > reader.left() / bytes)
    reader.fail(what, fmt::format("{} elements of {} bytes, but only {} bytes are left (truncated?)", count,
                                  bytes, reader.left()));
  const auto values = reader.take(count * bytes, what);
  const auto is_boolean = [](std::byte value) { return value <= std::byte{1}; };
  if (type == GgufValueType::kBool && !std::ranges::all_of(values, is_boolean))
    reader.fail(what, "found a value that is neither 0 (false) nor 1 (true)");
}

// Limits the elements of all arrays together, before the new array's elements are read.
void check_elements(const Reader& reader, const GgufValue& value, uint64_t& elements,
                    const std::string& what) {
  if (value.count > Limits::kMaxElements - elements) {
    reader.fail(what, fmt::format("{} elements, after {} of other arrays; limit: {} together", value.count,
                                  elements, Limits::kMaxElements));
  }
  elements += value.count;
}

// `elements` counts the elements of all arrays read so far.
GgufValue read_value(Reader& reader, std::span<const std::byte> file, uint64_t& elements,
                     const std::string& what) {
  GgufValue value{read_type(reader, what), false, 1, {}};
  if (value.type == GgufValueType::kArray) {
    value.is_array = true;
    value.type = read_type(reader, what);
    value.count = reader.number<uint64_t>(what);
    check_elements(reader, value, elements, what);
  }
  const uint64_t begin = reader.position();
  skip_values(reader, value.type, value.count, what);
  value.bytes = file.subspan(begin, reader.position() - begin);
  return value;
}

GgufFields read_fields(Reader& reader, std::span<const std::byte> file, uint64_t count,
                       const std::string& source) {
  GgufFields fields(source);
  uint64_t elements = 0;
  for (uint64_t i = 0; i < count; ++i) {
    std::string key = reader.name(fmt::format("metadata field {}", i));
    const std::string what = in_quotes(key);
    if (!fields.add(std::move(key), read_value(reader, file, elements, what)))
      reader.fail(what, "appears twice");
  }
  return fields;
}

struct PlacedTensor {
  GgufTensor tensor;
  uint64_t offset;  // in the data
  uint64_t bytes;
};

// nullopt if the product exceeds 63 bits.
std::optional<uint64_t> stored_bytes(const GgmlType& type, std::span<const int64_t> shape) {
  int64_t bytes = shape.back() / type.block_elements;
  if (__builtin_mul_overflow(bytes, int64_t{type.block_bytes}, &bytes)) return std::nullopt;
  for (const int64_t dimension : shape.first(shape.size() - 1))
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

std::vector<int64_t> read_shape(Reader& reader, const std::string& what) {
  const auto dimensions = reader.number<uint32_t>(what);
  if (dimensions < 1 || dimensions > Limits::kMaxDimensions)
    reader.fail(what, fmt::format("{} dimensions; limit: 1 to {}", dimensions, Limits::kMaxDimensions));
  std::vector<int64_t> shape(dimensions);
  for (auto dimension = shape.rbegin(); dimension != shape.rend(); ++dimension) {
    const auto size = reader.number<uint64_t>(what);
    if (size < 1 || std::cmp_greater(size, INT64_MAX))
      reader.fail(what, fmt::format("a dimension of {}; limit: 1 to 2^63 - 1", size));
    *dimension = static_cast<int64_t>(size);
  }
  return shape;
}

PlacedTensor read_tensor(Reader& reader, uint64_t index, uint64_t alignment) {
  PlacedTensor placed = {};
  placed.tensor.name = reader.name(fmt::format("tensor {}", index));
  const std::string what = "tensor " + in_quotes(placed.tensor.name);
  placed.tensor.shape = read_shape(reader, what);
  const auto type = reader.number<uint32_t>(what);
  placed.offset = reader.number<uint64_t>(what);
  placed.tensor.type = find_ggml_type(type);
  if (placed.tensor.type == nullptr) {
    reader.fail(what, fmt::format("type {} is not supported; supported: {}", ggml_type_name(type),
                                  readable_ggml_types()));
  }
  const GgmlType& known = *placed.tensor.type;
  if (placed.tensor.shape.back() % known.block_elements != 0) {
    reader.fail(what, fmt::format("rows of {} elements, {} has blocks of {}", placed.tensor.shape.back(),
                                  known.name, known.block_elements));
  }
  const auto bytes = stored_bytes(known, placed.tensor.shape);
  if (!bytes) reader.fail(what, "more than 2^63 bytes");
  placed.bytes = *bytes;
  if (placed.offset % alignment != 0)
    reader.fail(what,
                fmt::format("offset {} is not a multiple of the alignment {}", placed.offset, alignment));
  return placed;
}

uint64_t read_alignment(const GgufFields& fields) {
  const auto alignment = fields.find_integer(kAlignmentKey, 1, Limits::kMaxAlignment);
  if (alignment && !std::has_single_bit(static_cast<uint64_t>(*alignment)))
    fields.fail(kAlignmentKey, fmt::format("found {}, expected a power of two", *alignment));
  return static_cast<uint64_t>(alignment.value_or(kDefaultAlignment));
}

// Requires that tensors lie within the data and do not overlap.
void check_offsets(std::vector<const PlacedTensor*> tensors, uint64_t data_bytes, const Reader& reader) {
  std::ranges::sort(tensors, {}, &PlacedTensor::offset);
  uint64_t end = 0;
  for (const PlacedTensor* placed : tensors) {
    const std::string what = "tensor " + in_quotes(placed->tensor.name);
    if (placed->offset > data_bytes || placed->bytes > data_bytes - placed->offset) {
      reader.fail(what, fmt::format("{} bytes at offset {}, the file holds {} bytes of data (truncated?)",
                                    placed->bytes, placed->offset, data_bytes));
    }
    if (placed->offset < end)
      reader.fail(what, fmt::format("overlaps another tensor by {} bytes", end - placed->offset));
    end = placed->offset + placed->bytes;
  }
}

struct Header {
  uint64_t tensors, fields;
};

Header read_header(Reader& reader) {
  const auto magic = reader.take(kMagic.size(), "magic number");
  const std::string_view found(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (found != kMagic)
    reader.fail("magic number", fmt::format("found {}, expected \"GGUF\"", in_quotes(found)));
  const auto version = reader.number<uint32_t>("version");
  if (version == __builtin_bswap32(kFirstVersion) || version == __builtin_bswap32(kLastVersion))
    reader.fail("version", "a big-endian file; supported: little-endian ones");
  if (version < kFirstVersion || version > kLastVersion) {
    reader.fail("version",
                fmt::format("found {}; supported: {} and {}", version, kFirstVersion, kLastVersion));
  }
  constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;  // name, number of dimensions, one, type, offset
  constexpr uint64_t kMinFieldBytes = 8 + 4 + 1;           // key, type, value
  const uint64_t tensors = reader.count("number of tensors", kMinTensorBytes, Limits::kMaxTensors);
  return {tensors, reader.count("number of metadata fields", kMinFieldBytes, Limits::kMaxFields)};
}

}  // namespace

GgufContents parse_gguf(std::span<const std::byte> file, const std::string& source) {
  Reader reader(file, source);
  const Header header = read_header(reader);
  GgufContents contents{read_fields(reader, file, header.fields, source), {}};
  const uint64_t alignment = read_alignment(contents.fields);
  std::vector<PlacedTensor> tensors;
  for (uint64_t i = 0; i < header.tensors; ++i) tensors.push_back(read_tensor(reader, i, alignment));
  const uint64_t data = (reader.position() + alignment - 1) / alignment * alignment;
  const uint64_t data_bytes = data > file.size() ? 0 : file.size() - data;
  std::vector<const PlacedTensor*> places;
  for (const PlacedTensor& placed : tensors) places.push_back(&placed);
  check_offsets(std::move(places), data_bytes, reader);
  for (PlacedTensor& placed : tensors) {
    placed.tensor.bytes = file.subspan(data + placed.offset, placed.bytes);
    std::string name = placed.tensor.name;
    if (!contents.tensors.emplace(name, std::move(placed.tensor)).second)
      reader.fail("tensor " + in_quotes(name), "appears twice");
  }
  return contents;
}

bool looks_like_gguf(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::array<char, kMagic.size()> begin{};
  std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  return std::string_view(begin.data(), begin.size()) == kMagic;
}

GgufFile::GgufFile(const std::filesystem::path& path)
    : path_(path.string()), file_(path), contents_(parse_gguf(file_.bytes(), path_)) {}

}  // namespace serval

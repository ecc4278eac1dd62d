// Program files, as docs/program_format.md describes them: little-endian, fixed-width, no padding except in
// records.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <string_view>
#include <type_traits>

#include "vm/base/error.h"
#include "vm/base/write_file.h"
#include "vm/program.h"

namespace serval {
namespace {

static_assert(std::endian::native == std::endian::little,
              "program files are little-endian and written as they lie");

constexpr char kMagic[8] = {'S', 'E', 'R', 'V', 'A', 'L', 'P', '\n'};
constexpr uint32_t kVersion = 4;
constexpr uint32_t kMaxText = 1 << 16;  // bytes of a name or a metadata value

// Names appear in error lines and listings, where a control character would end a line or drive a terminal.
bool has_control_character(std::string_view text) {
  constexpr char kDelete = 0x7f;
  return std::any_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ') || c == kDelete; });
}

class Writer {
 public:
  template <class T>
  void value(const T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    raw(&v, sizeof v);
  }
  void text(const std::string& s) {
    if (s.size() > kMaxText)
      throw Error(ErrorKind::kRuntime,
                  fmt::format("program: text of {} bytes; limit: {}", s.size(), kMaxText));
    if (has_control_character(s)) throw Error(ErrorKind::kRuntime, "program: text with a control character");
    value(static_cast<uint32_t>(s.size()));
    raw(s.data(), s.size());
  }
  template <class T>
  void array(const std::vector<T>& v) {
    value(static_cast<uint32_t>(v.size()));
    raw(v.data(), v.size() * sizeof(T));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void raw(const void* p, size_t n) {
    const auto* from = static_cast<const std::byte*>(p);
    bytes_.insert(bytes_.end(), from, from + n);
  }
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  template <class T>
  T value(const char* field) {
    static_assert(std::is_trivially_copyable_v<T>);
    T out;
    std::memcpy(&out, take(field, sizeof out), sizeof out);
    return out;
  }
  template <class T>
  T enumerator(const char* field, int count) {
    const auto v = value<std::underlying_type_t<T>>(field);
    if (v >= static_cast<std::underlying_type_t<T>>(count))
      fail(field, fmt::format("{}; limit: {}", v, count - 1));
    return static_cast<T>(v);
  }
  std::string text(const char* field) {
    const auto size = value<uint32_t>(field);
    if (size > kMaxText) fail(field, fmt::format("{} bytes; limit: {}", size, kMaxText));
    const std::string_view text(reinterpret_cast<const char*>(take(field, size)), size);
    if (has_control_character(text)) fail(field, "contains a control character");
    return std::string(text);
  }
  // A finite number of at least `least`.
  double number(const char* field, double least) {
    const auto v = value<double>(field);
    if (!std::isfinite(v) || v < least) fail(field, fmt::format("{}, expected at least {}", v, least));
    return v;
  }
  // Compares the count with the remaining bytes before it allocates.
  template <class T>
  std::vector<T> array(const char* field) {
    const uint64_t count = value<uint32_t>(field);
    const std::byte* from = take(field, count * sizeof(T));
    std::vector<T> out(count);
    if (count > 0) std::memcpy(out.data(), from, count * sizeof(T));
    return out;
  }
  // Number of elements that are read one by one; each takes at least `least` bytes.
  uint32_t count(const char* field, uint64_t least) {
    const auto n = value<uint32_t>(field);
    if (n > (bytes_.size() - at_) / least)
      fail(field, fmt::format("{} elements in {} bytes", n, bytes_.size() - at_));
    return n;
  }
  void finish() {
    if (at_ != bytes_.size()) fail("end", fmt::format("{} bytes too many", bytes_.size() - at_));
  }
  [[noreturn]] void fail(const char* field, const std::string& what) const {
    throw Error(ErrorKind::kRuntime, fmt::format("{}: {}: {}", name_, field, what));
  }

 private:
  const std::byte* take(const char* field, uint64_t n) {
    if (n > bytes_.size() - at_) fail(field, fmt::format("needs {} bytes, {} left", n, bytes_.size() - at_));
    const std::byte* p = bytes_.data() + at_;
    at_ += n;
    return p;
  }
  std::span<const std::byte> bytes_;
  std::string name_;
  size_t at_ = 0;
};

void write_machine(const Machine& m, Writer& w) {
  w.text(m.name);
  w.value(m.sms);
  w.value(m.pages_per_sm);
  for (const double v : {m.gb_per_s, m.sm_gb_per_s, m.sm_gflop_per_s, m.synchronise_us, m.instruction_us})
    w.value(v);
}

Machine read_machine(Reader& r) {
  constexpr double kAboveZero = std::numeric_limits<double>::min();
  Machine m;
  m.name = r.text("machine.name");
  m.sms = r.value<uint32_t>("machine.sms");
  m.pages_per_sm = r.value<uint32_t>("machine.pages_per_sm");
  m.gb_per_s = r.number("machine.gb_per_s", kAboveZero);
  m.sm_gb_per_s = r.number("machine.sm_gb_per_s", kAboveZero);
  m.sm_gflop_per_s = r.number("machine.sm_gflop_per_s", kAboveZero);
  m.synchronise_us = r.number("machine.synchronise_us", 0);
  m.instruction_us = r.number("machine.instruction_us", 0);
  return m;
}

void write_tensor(const Tensor& t, Writer& w) {
  w.text(t.name);
  w.value(t.rows);
  w.value(t.cols);
  w.value(t.dtype);
  w.value(t.kind);
  w.value(t.image);
  w.value(t.row_order);
  w.value(t.device);
  w.value(t.head_dim);
}

Tensor read_tensor(Reader& r) {
  constexpr int kNumRowOrders = 2;
  Tensor t;
  t.name = r.text("tensor.name");
  t.rows = r.value<uint64_t>("tensor.rows");
  t.cols = r.value<uint64_t>("tensor.cols");
  t.dtype = r.enumerator<DType>("tensor.dtype", kNumDTypes);
  t.kind = r.enumerator<TensorKind>("tensor.kind", kNumTensorKinds);
  t.image = r.enumerator<Image>("tensor.image", kNumImages);
  t.row_order = r.enumerator<RowOrder>("tensor.row_order", kNumRowOrders);
  t.device = r.value<uint8_t>("tensor.device");
  t.head_dim = r.value<uint32_t>("tensor.head_dim");
  return t;
}
constexpr uint64_t kLeastTensorBytes = 29;
constexpr uint64_t kLeastMetadataBytes = 8;

}  // namespace

std::vector<std::byte> serialise(const Program& p) {
  Writer w;
  w.value(kMagic);
  w.value(kVersion);
  w.value(p.queue_kind);
  w.value(p.num_devices);
  w.value(p.gate_counter);
  w.value(p.limits);
  w.value(p.order);
  w.value(p.heads);
  write_machine(p.machine, w);
  w.array(p.instructions);
  w.array(p.queue_begin);
  w.array(p.waits);
  w.array(p.signals);
  w.array(p.counters);
  w.value(static_cast<uint32_t>(p.tensors.size()));
  for (const Tensor& t : p.tensors) write_tensor(t, w);
  w.value(static_cast<uint32_t>(p.metadata.size()));
  for (const auto& [key, value] : p.metadata) {
    w.text(key);
    w.text(value);
  }
  return w.take();
}

Program deserialise(std::span<const std::byte> bytes, const std::string& name) {
  constexpr int kNumQueueKinds = 2;
  Reader r(bytes, name);
  const auto magic = r.value<std::array<char, sizeof kMagic>>("magic");
  if (std::memcmp(magic.data(), kMagic, sizeof kMagic) != 0) r.fail("magic", "not a Serval program");
  const auto version = r.value<uint32_t>("version");
  if (version != kVersion) {
    r.fail("version",
           fmt::format("{}, this build reads {}: compile the program again with serval schedule -o", version,
                       kVersion));
  }
  Program p;
  p.queue_kind = r.enumerator<QueueKind>("queue_kind", kNumQueueKinds);
  p.num_devices = r.value<uint32_t>("num_devices");
  p.gate_counter = r.value<uint32_t>("gate_counter");
  p.limits = r.value<StateLimits>("limits");
  p.order = r.enumerator<Order>("order", kNumOrders);
  p.heads = r.value<HeadShape>("heads");
  p.machine = read_machine(r);
  p.instructions = r.array<Instruction>("instructions");
  p.queue_begin = r.array<uint32_t>("queue_begin");
  p.waits = r.array<Wait>("waits");
  p.signals = r.array<Signal>("signals");
  p.counters = r.array<Counter>("counters");
  for (const Counter& c : p.counters) {
    if (c.scope > CounterScope::kSystem)
      r.fail("counter.scope", fmt::format("{}", static_cast<int>(c.scope)));
  }
  for (uint32_t n = r.count("tensors", kLeastTensorBytes); n > 0; --n) p.tensors.push_back(read_tensor(r));
  for (uint32_t n = r.count("metadata", kLeastMetadataBytes); n > 0; --n) {
    std::string key = r.text("metadata.key");
    p.metadata[std::move(key)] = r.text("metadata.value");
  }
  r.finish();
  try {
    check_structure(p);
  } catch (const Error& e) {
    throw Error(e.kind(), name + ": " + e.what());
  }
  return p;
}

void write_program(const Program& program, const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = serialise(program);
  write_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Program read_program(const std::filesystem::path& path) {
  constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) throw Error(ErrorKind::kRuntime, path.string() + ": " + error.message());
  if (size > kMaxFileBytes) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: {} bytes; limit: {}", path.string(), size, kMaxFileBytes));
  }
  std::vector<std::byte> bytes(size);
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (!in) throw Error(ErrorKind::kRuntime, path.string() + ": could not be read");
  return deserialise(bytes, path.string());
}

}  // namespace serval

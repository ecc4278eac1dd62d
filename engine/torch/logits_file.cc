#include "engine/torch/logits_file.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>

#include "vm/error.h"

namespace serval {
namespace {

constexpr size_t kHeaderAlignment = 8;

template <class T>
void write_values(std::ofstream& out, std::span<const T> values) {
  out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
}

std::string header_of(std::span<const int32_t> tokens, const std::vector<NamedLogits>& tables) {
  size_t end = tokens.size_bytes();
  std::string header =
      fmt::format(R"({{"tokens":{{"dtype":"I32","shape":[{}],"data_offsets":[0,{}]}})", tokens.size(), end);
  for (const NamedLogits& table : tables) {
    const size_t begin = end;
    end += table.logits.size_bytes();
    header += fmt::format(R"(,"{}":{{"dtype":"F32","shape":[{},{}],"data_offsets":[{},{}]}})", table.name,
                          tokens.size(), table.logits.size() / tokens.size(), begin, end);
  }
  header += '}';
  header.append((kHeaderAlignment - header.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  return header;
}

}  // namespace

void write_logits_file(const std::filesystem::path& path, std::span<const int32_t> tokens,
                       const std::vector<NamedLogits>& tables) {
  const std::string header = header_of(tokens, tables);
  const uint64_t header_bytes = header.size();
  std::ofstream out(path, std::ios::binary);
  write_values(out, std::span<const uint64_t>(&header_bytes, 1));
  out << header;
  write_values(out, tokens);
  for (const NamedLogits& table : tables) write_values(out, table.logits);
  out.close();
  if (!out) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
  }
}

}  // namespace serval

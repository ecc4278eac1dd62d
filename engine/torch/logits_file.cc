#include "engine/torch/logits_file.h"

#include <fmt/format.h>

#include "vm/base/write_file.h"

namespace serval {
namespace {

constexpr size_t kHeaderAlignment = 8;

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
  FileWriter file(path);
  file.write_values(std::span<const uint64_t>(&header_bytes, 1));
  file.write(header);
  file.write_values(tokens);
  for (const NamedLogits& table : tables) file.write_values(std::span<const float>(table.logits));
  file.commit();
}

}  // namespace serval

// A .safetensors file, as it is; and once more with a length that fits the header put before it, since few
// mutations keep those eight bytes right.
#include <cstdint>
#include <string>

#include "models/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz_target.h"

namespace serval::fuzz {
namespace {

void read_file(std::string_view file) {
  accepts([&] {
    size_t covered = 0;
    for (const auto& [name, tensor] : parse_safetensors(bytes_of(file), "file")) {
      promise(name == tensor.name, "a tensor is filed under its name");
      const auto* begin = reinterpret_cast<const char*>(tensor.bytes.data());
      promise(tensor.bytes.empty() ||
                  (begin >= file.data() && begin + tensor.bytes.size() <= file.data() + file.size()),
              "tensors lie within the file");
      covered += tensor.bytes.size();
    }
    promise(covered <= file.size(), "tensors do not overlap");
  });
}

// The header ends with the last brace.
std::string with_length(std::string_view input) {
  const uint64_t header_bytes = input.rfind('}') + 1;
  return std::string(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes) + std::string(input);
}

}  // namespace
}  // namespace serval::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval::fuzz;
  read_file(text_of(data, size));
  read_file(with_length(text_of(data, size)));
  return 0;
}

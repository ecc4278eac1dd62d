// Fuzzes the reader of .safetensors files: the input as it is, then the input with the header's correct
// length before it.
#include <cstdint>
#include <string>

#include "models/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/safetensors_input.h"

namespace serval::fuzz {
namespace {

void read_file(std::string_view file) {
  accepts([&] {
    size_t covered = 0;
    for (const auto& [name, tensor] : parse_safetensors(bytes_of(file), "file")) {
      require(name == tensor.name, "a tensor's key is its name");
      const auto* begin = reinterpret_cast<const char*>(tensor.bytes.data());
      require(tensor.bytes.empty() ||
                  (begin >= file.data() && begin + tensor.bytes.size() <= file.data() + file.size()),
              "tensors lie within the file");
      covered += tensor.bytes.size();
    }
    require(covered <= file.size(), "tensors do not overlap");
  });
}

}  // namespace
}  // namespace serval::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval::fuzz;
  read_file(text_of(data, size));
  read_file(with_length(text_of(data, size)));
  return 0;
}

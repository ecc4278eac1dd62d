// Fuzzes the reader of model.safetensors.index.json.
#include "models/checkpoint/checkpoint.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval::fuzz;
  accepts([&] {
    for (const auto& [tensor, shard] : serval::parse_index(text_of(data, size), "index")) {
      require(
          shard.find('/') == shard.npos && shard.find('\0') == shard.npos && shard != ".." && !shard.empty(),
          "a shard lies in the model's folder");
    }
  });
  return 0;
}

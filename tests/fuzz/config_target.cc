// Fuzzes the readers of config.json and, after a NUL, generation_config.json.
#include <cmath>

#include "models/generation_config.h"
#include "models/llama/rope.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/llama/configs.h"

namespace serval::fuzz {
namespace {

void check(const LlamaConfig& c) {
  require(c.hidden_size > 0 && c.hidden_size <= ConfigLimits::kMaxHiddenSize, "hidden_size is in range");
  require(c.num_heads > 0 && c.num_heads % c.num_kv_heads == 0, "heads form groups");
  require(c.num_parameters() > 0 && c.weight_bytes_per_token() > 0, "sizes do not overflow");
  for (const int32_t id : c.eos_ids) require(id >= 0 && id < c.vocab_size, "eos_ids are tokens");
  require(!c.bos_id || (*c.bos_id >= 0 && *c.bos_id < c.vocab_size), "bos_id is a token");
  for (const float frequency : rope_inverse_frequencies(c)) {
    require(std::isfinite(frequency) && frequency >= 0, "frequencies are numbers");
  }
  for (const auto& [name, value] : c.generation)
    require(value >= 0, "recommended parameters are not negative");
}

}  // namespace
}  // namespace serval::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval::fuzz;
  const std::vector<std::string_view> parts = split(text_of(data, size), 2);
  serval::LlamaConfig config;
  const bool accepted = accepts([&] { config = serval::parse_config(parts[0], "config"); });
  if (!accepted) return 0;
  check(config);
  if (parts.size() < 2) return 0;
  if (accepts([&] { serval::apply_generation_config(parts[1], "generation", config); })) check(config);
  return 0;
}

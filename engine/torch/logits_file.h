// Logits for other programs to read: a safetensors file (docs/oracle.md lists its tensors).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace serval {

struct NamedLogits {
  std::string name;               // of plain ASCII without quotes
  std::span<const float> logits;  // [tokens, vocab]
};

// Writes "tokens" I32 [tokens] and each of `tables` F32 [tokens, vocab]. Throws Error(kRuntime) naming the
// file and what the system said.
void write_logits_file(const std::filesystem::path& path, std::span<const int32_t> tokens,
                       const std::vector<NamedLogits>& tables);

}  // namespace serval

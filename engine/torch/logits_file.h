// Writes logits for other programs as a safetensors file (docs/verification.md lists its tensors).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace serval {

struct NamedLogits {
  std::string name;               // plain ASCII without quotes
  std::span<const float> logits;  // [tokens, vocab]
};

// Writes "tokens" I32 [tokens] and each of `tables` F32 [tokens, vocab]. Throws Error(kRuntime) with the
// file's name and the system's message.
void write_logits_file(const std::filesystem::path& path, std::span<const int32_t> tokens,
                       const std::vector<NamedLogits>& tables);

}  // namespace serval

#include "models/gguf/pre_tokenizers.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace serval {
namespace {

constexpr std::string_view kLlama3 = R"json({"type": "Sequence", "pretokenizers": [
  {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})json";

constexpr std::string_view kQwen2 = R"json({"type": "Sequence", "pretokenizers": [
  {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})json";

constexpr std::string_view kSmolLm = R"json({"type": "Sequence", "pretokenizers": [
  {"type": "Digits", "individual_digits": true},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]})json";

constexpr std::string_view kGpt2 =
    R"json({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})json";

constexpr std::string_view kTekken = R"json({"type": "Sequence", "pretokenizers": [
  {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})json";

constexpr GgufPreTokenizer kPreTokenizers[] = {
    {"llama-bpe", kLlama3, true, true, false}, {"llama3", kLlama3, true, true, false},
    {"qwen2", kQwen2, false, false, true},     {"deepseek-r1-qwen", kQwen2, false, false, true},
    {"smollm", kSmolLm, false, false, false},  {"gpt-2", kGpt2, false, false, false},
    {"tekken", kTekken, true, true, false},
};

}  // namespace

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name) {
  const auto found = std::ranges::find(kPreTokenizers, name, &GgufPreTokenizer::name);
  return found == std::end(kPreTokenizers) ? nullptr : found;
}

std::string gguf_pre_tokenizer_names() {
  std::string names;
  for (const GgufPreTokenizer& each : kPreTokenizers)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
  return names;
}

}  // namespace serval

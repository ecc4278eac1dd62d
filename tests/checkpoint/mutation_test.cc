// With randomly damaged input, a parser returns or throws serval::Error. It does nothing else.
#include <functional>
#include <random>
#include <span>
#include <string>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/safetensors.h"
#include "models/generation_config.h"
#include "models/llama/rope.h"
#include "tests/checkpoint/test_files.h"
#include "tests/llama/configs.h"

namespace serval {
namespace {

constexpr int kRounds = 5000;

// Damages up to four places: changes or removes bytes, repeats text, inserts pieces of JSON, or truncates.
std::string damaged(std::string text, std::mt19937& random) {
  static const std::vector<std::string> kPieces = {"{",
                                                   "}",
                                                   "[",
                                                   "]",
                                                   ",",
                                                   ":",
                                                   "\"",
                                                   "-",
                                                   "1e999",
                                                   "null",
                                                   "true",
                                                   "18446744073709551615",
                                                   "9223372036854775808",
                                                   "\\u0000",
                                                   "0.5",
                                                   std::string(1, '\0'),
                                                   "\xFF",
                                                   "\n",
                                                   "F32",
                                                   "shape"};
  const int edits = 1 + static_cast<int>(random() % 4);
  for (int edit = 0; edit < edits && !text.empty(); ++edit) {
    const size_t at = random() % text.size();
    const size_t length = random() % 8;
    switch (random() % 5) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, kPieces[random() % kPieces.size()]);
        break;
      case 3:
        text.insert(at, text.substr(random() % text.size(), length));
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

void survive(const std::string& good, const std::function<void(const std::string&)>& parse) {
  std::mt19937 random(1);
  for (int round = 0; round < kRounds; ++round) {
    const std::string input = damaged(good, random);
    try {
      parse(input);
    } catch (const Error& error) {
      const std::string line = error.what();
      ASSERT_EQ(line.find('\n'), line.npos) << line;
      ASSERT_LT(line.size(), 500) << line;
    }
  }
}

TEST(DamagedInput, NeverGetsPastTheSafetensorsParser) {
  const std::string good = safetensors_file({{"a", "F32", {2, 1}, "12345678"}, {"b", "BF16", {3}, "abcdef"}});
  survive(good, [](const std::string& file) {
    for (const auto& [name, tensor] : parse_safetensors(std::as_bytes(std::span(file)), "file")) {
      if (tensor.bytes.empty()) continue;
      const auto* text = reinterpret_cast<const char*>(tensor.bytes.data());
      ASSERT_GE(text, file.data());
      ASSERT_LE(text + tensor.bytes.size(), file.data() + file.size());
    }
  });
}

TEST(DamagedInput, NeverGetsPastTheSafetensorsHeader) {
  const std::string header = R"({"a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}})";
  survive(header, [](const std::string& text) {
    const std::string file = safetensors_file(text, "12345678");
    parse_safetensors(std::as_bytes(std::span(file)), "file");
  });
}

TEST(DamagedInput, NeverGetsPastTheIndexParser) {
  survive(R"({"metadata": {"total_size": 8}, "weight_map": {"a": "x.safetensors", "b": "y.safetensors"}})",
          [](const std::string& text) {
            for (const auto& [tensor, shard] : parse_index(text, "index"))
              ASSERT_EQ(shard.find('/'), shard.npos);
          });
}

TEST(DamagedInput, NeverGetsPastTheConfigParser) {
  survive(tiny_config_json(true), [](const std::string& text) {
    const LlamaConfig config = parse_config(text, "config");
    ASSERT_EQ(rope_inverse_frequencies(config).size(), static_cast<size_t>(config.head_dim / 2));
    ASSERT_GT(config.num_parameters(), 0);
  });
}

TEST(DamagedInput, NeverGetsPastTheGenerationConfigParser) {
  survive(
      R"({"bos_token_id": 3, "eos_token_id": [4, 5], "do_sample": true, "temperature": 0.6, "top_k": 40})",
      [](const std::string& text) {
        LlamaConfig config = tiny_config();
        apply_generation_config(text, "generation", config);
      });
}

}  // namespace
}  // namespace serval

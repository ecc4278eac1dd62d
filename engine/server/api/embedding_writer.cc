#include "engine/server/api/embedding_writer.h"

#include <bit>
#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"

#include "engine/server/api/json_text.h"

namespace serval::server {
namespace {

// A JSON array; each number is the shortest that reads as the same float.
std::string numbers_of(std::span<const float> values) {
  constexpr size_t kLongest = 32;  // digits of a float with sign, point and exponent, and more
  std::string text = "[";
  for (const float value : values) {
    char digits[kLongest];
    if (text.size() > 1) text += ',';
    text.append(digits, std::to_chars(digits, digits + kLongest, value).ptr);
  }
  return text + ']';
}

class EmbeddingWriter final : public AnswerWriter {
 public:
  EmbeddingWriter(bool base64, const AnswerIdentity& identity) : base64_(base64), model_(identity.model) {}

  // The values are written directly: a tree of JSON would take many times their size.
  std::string complete(const std::vector<Piece>& choices, const Usage& usage) override {
    std::string answer = R"({"object":"list","data":[)";
    for (size_t i = 0; i < choices.size(); ++i) {
      const std::vector<float>& values = choices[i].embedding;
      const std::string embedding = base64_ ? fmt::format("\"{}\"", base64_of(values)) : numbers_of(values);
      answer += fmt::format(R"({}{{"object":"embedding","index":{},"embedding":{}}})", i > 0 ? "," : "", i,
                            embedding);
    }
    return answer + fmt::format(R"(],"model":{},"usage":{{"prompt_tokens":{},"total_tokens":{}}}}})",
                                json_text(model_), usage.prompt_tokens, usage.prompt_tokens);
  }
  std::string begin(size_t) override { return {}; }
  std::string piece(size_t, const Piece&) override { return {}; }
  std::string end(const Usage&) override { return {}; }

 private:
  const bool base64_;
  const std::string model_;
};

}  // namespace

std::string base64_of(std::span<const float> values) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr uint32_t kByteBits = 8, kDigitBits = 6, kMask = (1U << kDigitBits) - 1;
  std::string text;
  text.reserve((values.size_bytes() + 2) / 3 * 4);
  uint32_t left = 0, bits = 0;  // of bytes whose bits are not all written
  for (const float value : values) {
    for (uint32_t shift = 0; shift < sizeof(float) * kByteBits; shift += kByteBits) {
      left = left << kByteBits | (std::bit_cast<uint32_t>(value) >> shift & 0xff);
      for (bits += kByteBits; bits >= kDigitBits; bits -= kDigitBits)
        text += kDigits[left >> (bits - kDigitBits) & kMask];
    }
  }
  if (bits > 0) text += kDigits[left << (kDigitBits - bits) & kMask];
  while (text.size() % 4 != 0) text += '=';
  return text;
}

std::unique_ptr<AnswerWriter> make_embedding_writer(const TextRequest& request,
                                                    const AnswerIdentity& identity) {
  return std::make_unique<EmbeddingWriter>(request.base64, identity);
}

}  // namespace serval::server

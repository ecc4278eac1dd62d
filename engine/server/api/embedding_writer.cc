#include "engine/server/api/embedding_writer.h"

#include <bit>
#include <charconv>
#include <span>
#include <string>
#include <vector>

#include "fmt/format.h"

#include "engine/server/api/json_text.h"
#include "vm/base/base64.h"

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

// The values as little-endian 32-bit floats.
std::string base64_of(std::span<const float> values) {
  static_assert(std::endian::native == std::endian::little);
  return base64({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
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

std::unique_ptr<AnswerWriter> make_embedding_writer(const TextRequest& request,
                                                    const AnswerIdentity& identity) {
  return std::make_unique<EmbeddingWriter>(request.base64, identity);
}

}  // namespace serval::server

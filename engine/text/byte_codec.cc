#include "fmt/format.h"

#include "engine/text/text_codec.h"
#include "models/tokenizer/utf8.h"
#include "vm/base/error.h"

namespace serval {
namespace {

constexpr int32_t kByteTokens = 256;

std::string bytes_of(int32_t token) {
  return token >= kByteTokens ? fmt::format("<{}>", token) : std::string(1, static_cast<char>(token));
}

class ByteStream final : public TextStream {
 public:
  std::string push(int32_t token) override {
    const std::string bytes = bytes_of(token);
    return token >= kByteTokens ? utf8_.flush() + bytes : utf8_.push(bytes);
  }
  std::string flush() override { return utf8_.flush(); }

 private:
  Utf8Stream utf8_;
};

class ByteCodec final : public TextCodec {
 public:
  explicit ByteCodec(int32_t vocab_size) : vocab_size_(vocab_size) {}

  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& /*options*/) const override {
    std::string storage;
    std::vector<int32_t> ids;
    for (const char c : utf8_lossy(text, &storage)) ids.push_back(token_of(static_cast<unsigned char>(c)));
    return ids;
  }

  std::string decode(std::span<const int32_t> ids, SpecialTokens /*special*/) const override {
    ByteStream stream;
    std::string text;
    for (const int32_t id : ids) text += stream.push(id);
    return text + stream.flush();
  }

  std::unique_ptr<TextStream> stream(SpecialTokens /*special*/) const override {
    return std::make_unique<ByteStream>();
  }
  std::optional<std::string> token_bytes(int32_t id, SpecialTokens /*special*/) const override {
    return bytes_of(id);
  }

 private:
  int32_t token_of(unsigned char byte) const {
    if (byte < vocab_size_) return byte;
    throw Error(ErrorKind::kUsage, fmt::format("prompt: byte {} has no token; limit: {} (the vocabulary)",
                                               byte, vocab_size_ - 1));
  }

  int32_t vocab_size_;
};

}  // namespace

std::unique_ptr<TextCodec> make_byte_codec(int32_t vocab_size) {
  return std::make_unique<ByteCodec>(vocab_size);
}

}  // namespace serval

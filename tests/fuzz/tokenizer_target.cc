// Fuzzes tokenizer.json and, each after a NUL, tokenizer_config.json and a text to encode.
#include <string>

#include "models/tokenizer/stream_decoder.h"
#include "models/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz_target.h"

namespace serval::fuzz {
namespace {

// Short, because a hostile pattern may be slow; the pattern's time limit is for a whole text.
constexpr size_t kMaxTextBytes = 64;

std::string decoded_in_stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  StreamDecoder decoder(tokenizer, false);
  std::string text;
  for (const int32_t id : ids) text += decoder.push(id);
  return text + decoder.flush();
}

void use(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int32_t> ids = tokenizer.encode(text, true);
  for (const int32_t id : ids) require(tokenizer.has(id), "ids of a text are tokens");
  require(tokenizer.decode(ids, false) == decoded_in_stream(tokenizer, ids),
          "text that comes in pieces is the text");
  for (const int32_t id : tokenizer.encode_plain(text)) require(tokenizer.has(id), "plain ids are tokens");
  tokenizer.decode(ids, true);
}

}  // namespace
}  // namespace serval::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval::fuzz;
  constexpr size_t kParts = 3;
  std::vector<std::string_view> parts = split(text_of(data, size), kParts);
  parts.resize(kParts);
  accepts([&] {
    const serval::Tokenizer tokenizer = serval::Tokenizer::from_json(parts[0], parts[1]);
    use(tokenizer, parts[2].substr(0, kMaxTextBytes));
  });
  return 0;
}

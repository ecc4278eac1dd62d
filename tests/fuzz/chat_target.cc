// Fuzzes a checkpoint's chat template with a client's conversation. The first byte has switches; then follow,
// each after a NUL, the template, and roles and contents in turn.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "models/tokenizer/byte_level.h"
#include "models/tokenizer/chat_template.h"
#include "models/tokenizer/stream_decoder.h"
#include "models/tokenizer/utf8.h"
#include "tests/fuzz/fuzz_target.h"

namespace serval::fuzz {
namespace {

constexpr int kBytes = 256;
constexpr size_t kMaxParts = 64;
enum Switch : uint8_t { kGenerationPrompt = 1, kChatMl = 2 };

// Has the 256 bytes, a few merges, Llama 3's pattern, and the control tokens of both formats.
Tokenizer make_tokenizer() {
  constexpr const char* kPattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
      R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
  nlohmann::json vocab;
  for (int byte = 0; byte < kBytes; ++byte) {
    vocab[byte_level_encode(std::string(1, static_cast<char>(byte)))] = byte;
  }
  int next = kBytes;
  for (const char* merged : {"us", "er", "user", "<|", "|>"}) vocab[merged] = next++;
  nlohmann::json added = nlohmann::json::array();
  for (const char* control : {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
                              "<|im_start|>", "<|im_end|>"}) {
    added.push_back({{"id", next++}, {"content", control}, {"special", true}});
  }
  const nlohmann::json split = {
      {"type", "Split"}, {"pattern", {{"Regex", kPattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const nlohmann::json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const nlohmann::json tokenizer = {
      {"added_tokens", added},
      {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"u s", "e r", "us er", "< |", "| >"}}}}};
  return Tokenizer::from_json(tokenizer.dump());
}

std::string repaired(std::string_view text) {
  std::string storage;
  return std::string(utf8_lossy(text, &storage));
}

std::string in_pieces(std::string_view text) {
  Utf8Stream stream;
  std::string out;
  for (size_t at = 0; at < text.size(); at += 1 + at % 3) {
    out += stream.push(text.substr(at, 1 + at % 3));
  }
  return out + stream.flush();
}

void check_text(const Tokenizer& tokenizer, std::string_view text) {
  const std::string sound = repaired(text);
  require(repaired(sound) == sound, "repaired text is sound");
  require(in_pieces(text) == sound, "pieces are repaired like the whole");
  const std::vector<int32_t> ids = tokenizer.encode_plain(text);
  require(std::none_of(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer.is_special(id); }),
          "no control token comes from plain text");
  require(tokenizer.decode(ids, false) == sound, "decoding gives the text back");
}

// Decodes arbitrary ids, also ids without a token.
void check_stream(const Tokenizer& tokenizer, std::string_view bytes) {
  std::vector<int32_t> ids;
  for (const char c : bytes) ids.push_back(static_cast<int32_t>(c) * 3);
  StreamDecoder decoder(tokenizer, true);
  std::string text;
  for (const int32_t id : ids) {
    const std::string piece = decoder.push(id);
    require(repaired(piece) == piece, "each piece is sound");
    text += piece;
  }
  require(text + decoder.flush() == tokenizer.decode(ids, true), "the pieces make the text");
}

void check_tokens(const Tokenizer& tokenizer, const ChatTemplate& format,
                  const std::vector<ChatTurn>& messages, bool prompt) {
  require(
      tokenizer.decode(format.encode(tokenizer, messages, prompt), false) == format.render(messages, prompt),
      "tokens are what is rendered");
}

void check_conversation(const Tokenizer& tokenizer, const ChatTemplate& format,
                        std::vector<ChatTurn> messages, bool prompt) {
  const auto controls = [&](const std::vector<int32_t>& ids) {
    return std::count_if(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer.is_special(id); });
  };
  check_tokens(tokenizer, format, messages, prompt);
  const std::vector<int32_t> ids = format.encode(tokenizer, messages, prompt);
  for (ChatTurn& message : messages) message.content.clear();
  require(controls(ids) == controls(format.encode(tokenizer, messages, prompt)),
          "contents add no control token");
}

}  // namespace
}  // namespace serval::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval;
  using namespace serval::fuzz;
  static const Tokenizer tokenizer = make_tokenizer();
  if (size == 0) return 0;
  const uint8_t switches = data[0];
  const std::vector<std::string_view> parts = split(text_of(data + 1, size - 1), kMaxParts);
  std::vector<ChatTurn> messages;
  for (size_t i = 1; i + 1 < parts.size(); i += 2) {
    messages.push_back({std::string(parts[i]), std::string(parts[i + 1])});
  }
  for (const std::string_view part : parts) {
    check_text(tokenizer, part);
    check_stream(tokenizer, part);
  }
  const bool prompt = (switches & kGenerationPrompt) != 0;
  const ChatTemplate format =
      ChatTemplate::of_name((switches & kChatMl) != 0 ? "chatml" : "llama3", tokenizer);
  accepts([&] { check_conversation(tokenizer, format, messages, prompt); });
  accepts([&] {
    check_tokens(tokenizer, ChatTemplate::of_text(parts[0], "template", "", tokenizer), messages, prompt);
  });
  return 0;
}

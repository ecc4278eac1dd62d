// Implements parse_sentencepiece_file(): reads the fields of sentencepiece_model.proto that a BPE model needs
// from the wire format of protocol buffers (protobuf.dev, "Encoding").
#include <cstring>
#include <fmt/format.h>

#include "models/tokenizer/sentencepiece.h"
#include "models/tokenizer/vocabulary.h"
#include "vm/base/error.h"

namespace serval {
namespace {

// A field of a message.
struct Field {
  std::uint64_t number;
  std::uint64_t value;     // for a varint, or four or eight bytes
  std::string_view bytes;  // for a string or a message
};

class Message {
 public:
  Message(std::string_view bytes, const std::string& source) : rest_(bytes), source_(source) {}

  bool has_more() const { return !rest_.empty(); }

  Field next() {
    enum { kVarint = 0, kEightBytes = 1, kLength = 2, kFourBytes = 5 };
    const std::uint64_t tag = varint();
    Field field{tag >> 3, 0, {}};
    switch (tag & 7) {
      case kVarint:
        field.value = varint();
        break;
      case kEightBytes:
        std::memcpy(&field.value, take(8).data(), 8);
        break;
      case kLength:
        field.bytes = take(varint());
        break;
      case kFourBytes:
        std::memcpy(&field.value, take(4).data(), 4);
        break;
      default:
        fail("not a SentencePiece model: a field of an unknown wire type");
    }
    return field;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kRuntime, source_ + ": " + what);
  }

 private:
  std::string_view take(std::uint64_t bytes) {
    if (bytes > rest_.size())
      fail(fmt::format("a field of {} bytes, but only {} are left (truncated?)", bytes, rest_.size()));
    const std::string_view out = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return out;
  }
  std::uint64_t varint() {
    constexpr int kPayloadBits = 7, kMostBits = 64;
    std::uint64_t value = 0;
    for (int shift = 0; shift < kMostBits; shift += kPayloadBits) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    fail("not a SentencePiece model: a number of more than 64 bits");
  }

  std::string_view rest_;
  const std::string& source_;
};

SentencePiece read_piece(Message message) {
  enum { kPiece = 1, kScore = 2, kType = 3 };
  SentencePiece piece;
  while (message.has_more()) {
    const Field field = message.next();
    if (field.number == kPiece) piece.text = field.bytes;
    if (field.number == kScore) {
      const auto bits = static_cast<std::uint32_t>(field.value);
      std::memcpy(&piece.score, &bits, sizeof bits);
    }
    if (field.number == kType) {
      if (field.value < 1 || field.value > 6)
        message.fail(fmt::format("a piece of type {}; limit: 1 to 6", field.value));
      piece.type = static_cast<SentencePiece::Type>(field.value);
    }
  }
  return piece;
}

void read_trainer(Message message, SentencePieceModel& model) {
  enum { kModelType = 3, kSpaceAsSuffix = 24, kByteFallback = 35, kBos = 41, kEos = 42 };
  constexpr std::uint64_t kUnigram = 1, kBpe = 2;
  std::uint64_t type = kUnigram;  // the format's default
  bool byte_fallback = false;
  const auto token = [](std::uint64_t value) {  // −1 means that the model has none
    return value > kMaxTokenId ? std::nullopt : std::optional(static_cast<std::int32_t>(value));
  };
  while (message.has_more()) {
    const Field field = message.next();
    if (field.number == kModelType) type = field.value;
    if (field.number == kByteFallback) byte_fallback = field.value != 0;
    if (field.number == kBos) model.bos = token(field.value);
    if (field.number == kEos) model.eos = token(field.value);
    if (field.number == kSpaceAsSuffix && field.value != 0)
      message.fail("trainer_spec.treat_whitespace_as_suffix: true is not supported");
  }
  if (type != kBpe)
    message.fail(fmt::format("trainer_spec.model_type: {} is not supported; supported: 2 (BPE)", type));
  if (!byte_fallback) message.fail("trainer_spec.byte_fallback: false is not supported");
}

void read_normalizer(Message message, SentencePieceModel& model) {
  enum { kCharacterMap = 2, kDummyPrefix = 3, kRemoveSpaces = 4, kEscapeSpaces = 5 };
  bool removes_spaces = true, escapes_spaces = true;
  while (message.has_more()) {
    const Field field = message.next();
    if (field.number == kCharacterMap && !field.bytes.empty())
      message.fail("normalizer_spec.precompiled_charsmap: not supported; supported: models without it");
    if (field.number == kDummyPrefix)
      model.adds_space = field.value != 0 ? AddedSpace::kAlways : AddedSpace::kNever;
    if (field.number == kRemoveSpaces) removes_spaces = field.value != 0;
    if (field.number == kEscapeSpaces) escapes_spaces = field.value != 0;
  }
  if (removes_spaces) message.fail("normalizer_spec.remove_extra_whitespaces: true is not supported");
  if (!escapes_spaces) message.fail("normalizer_spec.escape_whitespaces: false is not supported");
}

}  // namespace

SentencePieceModel parse_sentencepiece_file(std::string_view file, const std::string& source) {
  enum { kPieces = 1, kTrainer = 2, kNormalizer = 3 };
  SentencePieceModel model;
  model.source = source;
  model.bos = 1;  // the format's defaults
  model.eos = 2;
  bool has_trainer = false, has_normalizer = false;
  for (Message message(file, source); message.has_more();) {
    const Field field = message.next();
    const Message inner(field.bytes, source);
    if (field.number == kPieces) {
      if (model.pieces.size() > kMaxTokenId)
        message.fail(fmt::format("more than {} pieces", kMaxTokenId + 1));
      model.pieces.push_back(read_piece(inner));
    }
    if (field.number == kTrainer) read_trainer(inner, model);
    if (field.number == kNormalizer) read_normalizer(inner, model);
    has_trainer |= field.number == kTrainer;
    has_normalizer |= field.number == kNormalizer;
  }
  if (!has_trainer || !has_normalizer)
    throw Error(ErrorKind::kRuntime,
                source + ": not a SentencePiece model: trainer_spec or normalizer_spec is missing");
  return model;
}

}  // namespace serval

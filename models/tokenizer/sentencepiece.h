// A SentencePiece model of type BPE (github.com/google/sentencepiece), as Llama 2 and Mistral have it,
// wherever it comes from: pieces with scores, of which the best pair is merged first, and 256 pieces for the
// bytes of characters that no piece has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/tokenizer.h"

namespace serval {

struct SentencePiece {
  // The numbers of sentencepiece_model.proto, and of GGUF.
  enum class Type : std::int64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  std::string text;  // with U+2581 for a space
  float score = 0;
  Type type = Type::kNormal;
};

// Where a space is put before text.
enum class AddedSpace {
  kNever,
  kAlways,           // SentencePiece's way: before every text, also between control tokens
  kUnlessThere,      // transformers' `legacy: true`: the same, but not before text that begins with a space
  kFirstUnlessThere  // transformers' `legacy: false`: moreover not after a control token
};

struct SentencePieceModel {
  std::string source;  // starts error lines
  std::vector<SentencePiece> pieces;
  std::optional<std::int32_t> bos, eos;
  AddedSpace adds_space = AddedSpace::kAlways;
  bool adds_bos = true, adds_eos = false;
};

// Throws Error(kRuntime) with one line: a piece that is not UTF-8, too long or there twice, a score that is
// no number, a byte without a piece, a BOS or EOS that is no piece.
Tokenizer make_sentencepiece_tokenizer(const SentencePieceModel& model);

// tokenizer.model of a directory, with what the files beside it add: added tokens and named ones
// (models/tokenizer/added_token_files.h), and of tokenizer_config.json `add_bos_token`, `add_eos_token`,
// `add_prefix_space` and `legacy`, as transformers 5.23 reads them.
Tokenizer load_sentencepiece_tokenizer(const std::filesystem::path& model_dir);

// The bytes of a tokenizer.model, a protocol buffer. Throws Error(kRuntime) with one line, also where the
// model is of another type or changes characters (normalizer_spec).
SentencePieceModel parse_sentencepiece_file(std::string_view file, const std::string& source);

}  // namespace serval

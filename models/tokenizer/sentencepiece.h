// SentencePiece models of type BPE (github.com/google/sentencepiece), as in Llama 2 and Mistral, from
// tokenizer.model or GGUF. Pieces have scores: the pair whose result has the highest score is merged first.
// 256 byte pieces encode characters that have no piece.
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
  // Numbers of sentencepiece_model.proto and of GGUF.
  enum class Type : std::int64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  std::string text;  // U+2581 stands for a space
  float score = 0;
  Type type = Type::kNormal;
};

// When a space is added before a text.
enum class AddedSpace {
  kNever,
  kAlways,             // as SentencePiece: before every text, also between control tokens
  kUnlessPresent,      // transformers' `legacy: true`: before every text that does not begin with a space
  kFirstUnlessPresent  // transformers' `legacy: false`: as above, but only at the start of the whole text
};

struct SentencePieceModel {
  std::string source;  // starts error lines
  std::vector<SentencePiece> pieces;
  std::optional<std::int32_t> bos, eos;
  AddedSpace adds_space = AddedSpace::kAlways;
  bool adds_bos = true, adds_eos = false;
};

// Throws Error(kRuntime) with one line for a piece that is not UTF-8, too long or a duplicate, for a score
// that is NaN, for a byte without a piece, and for a BOS or EOS that is not a piece.
Tokenizer make_sentencepiece_tokenizer(const SentencePieceModel& model);

// Reads tokenizer.model and the files beside it, as transformers 5.23 does: added and named tokens
// (models/tokenizer/added_token_files.h), and `add_bos_token`, `add_eos_token`, `add_prefix_space` and
// `legacy` of tokenizer_config.json.
Tokenizer load_sentencepiece_tokenizer(const std::filesystem::path& model_dir);

// Parses a tokenizer.model, a protocol buffer. Throws Error(kRuntime) with one line for a damaged file, a
// model type other than BPE, or a normalizer_spec that changes characters.
SentencePieceModel parse_sentencepiece_file(std::string_view file, const std::string& source);

}  // namespace serval

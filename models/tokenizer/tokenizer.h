// Encodes text to token ids and decodes them, as Hugging Face's `tokenizers` does for byte-level BPE (GPT-2,
// Llama 3, …) and for SentencePiece's BPE with byte fallback (Llama 2, Mistral). Added tokens are searched in
// the original text; a `normalized` one beside a normalizer is refused unless it is special. The format is
// tokenizer.json of `tokenizers` 0.23. Unknown fields that would change the result are refused by name;
// `truncation` and `padding`, which are for training, are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/bpe_merge.h"
#include "models/tokenizer/text_span.h"

namespace serval {

struct AddedTokenFiles;
struct TokenFilter;

inline constexpr std::size_t kMaxTokenizerFileBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxEncodedTextBytes = std::size_t{1} << 30;

// Immutable and thread-safe. Copies share the tables.
class Tokenizer {
 public:
  // Reads tokenizer.json, or tokenizer.model if that is missing, and the files beside it
  // (models/tokenizer/added_token_files.h). Throws Error(kRuntime) with one line: "…/tokenizer.json: FIELD:
  // PROBLEM".
  static Tokenizer load(const std::filesystem::path& model_dir);

  // Reads the texts of tokenizer.json and tokenizer_config.json. An empty `config_text` means that there is
  // no tokenizer_config.json.
  static Tokenizer from_json(std::string_view tokenizer_text, std::string_view config_text = {});

  // Reads the parsed contents of tokenizer.json and tokenizer_config.json. `merges`, if given, replace those
  // of the tree. Error lines start with `source`.
  static Tokenizer from_trees(const nlohmann::json& tokenizer, const nlohmann::json& config,
                              const std::string& source,
                              std::optional<std::vector<BpeMerge>> merges = std::nullopt);

  // Encodes `text`. Invalid UTF-8 counts as U+FFFD. Added tokens in the text, including control tokens, are
  // recognised. `add_special_tokens` adds the tokens of the post-processor (such as BOS). Throws
  // Error(kUsage) for a text of more than kMaxEncodedTextBytes, Error(kRuntime) if a pattern of the tokenizer
  // takes too long on it.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const;

  // Adds the tokens of the post-processor around `ids`.
  std::vector<std::int32_t> with_special_tokens(std::vector<std::int32_t> ids) const;

  // Encodes untrusted text: control tokens in it are encoded as ordinary characters. Never returns the id of
  // a special token, unless it is a single byte or the `unk_token`. Tokens of `also_as_text` are treated like
  // special tokens.
  std::vector<std::int32_t> encode_plain(std::string_view text,
                                         std::span<const std::int32_t> also_as_text = {}) const;

  // Encodes valid UTF-8 that is untrusted outside the spans `trusted` (in order, none empty), which the
  // template wrote. Control tokens are recognised in the spans only. Outside them, special tokens, added
  // tokens that occur in the spans, and tokens of `also_as_text` are encoded as ordinary characters.
  std::vector<std::int32_t> encode_partly_trusted(std::string_view text, std::span<const TextSpan> trusted,
                                                  std::span<const std::int32_t> also_as_text = {}) const;

  // Joins the bytes of the tokens and replaces invalid UTF-8 by U+FFFD. Ids without a token are skipped. The
  // space that SentencePiece adds before a text is removed. An added token always decodes to its content;
  // `tokenizers` garbles added tokens with characters of the byte alphabet, such as "é".
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const;

  // The bytes of a token, which may be part of a character. Empty if there is no such token. The view is
  // valid as long as the tokenizer or a copy of it exists.
  std::string_view token_bytes(std::int32_t id) const;

  bool has(std::int32_t id) const;
  bool is_special(std::int32_t id) const;
  bool is_added(std::int32_t id) const;  // true for special tokens, too
  std::int32_t vocab_size() const;       // largest id + 1; smaller ids may be unused

  // Finds a token by its spelling in tokenizer.json: "<|eot_id|>", or "Ġthe" for " the".
  std::optional<std::int32_t> find(std::string_view token) const;

  // "bos_token" and "eos_token" of tokenizer_config.json.
  std::optional<std::int32_t> bos_id() const;
  std::optional<std::int32_t> eos_id() const;

 private:
  struct Tables;
  static Tokenizer of_files(nlohmann::json tree, const std::string& name, AddedTokenFiles files);
  explicit Tokenizer(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}
  std::vector<std::int32_t> encode_text(std::string_view text, const TokenFilter& filter,
                                        std::span<const TextSpan> trusted = {}) const;

  std::shared_ptr<const Tables> tables_;
};

}  // namespace serval

// Text to token ids and back, as Hugging Face's `tokenizers` does it for byte-level BPE (GPT-2, Llama 3, …)
// and for SentencePiece's BPE with byte fallback (Llama 2, Mistral). Added tokens are looked for in the text
// as it is; those that are `normalized` beside a normalizer are refused, unless they are special. The format
// is that of tokenizer.json as `tokenizers` 0.23 writes it; fields that would change the result and are not
// known here are refused by name, `truncation` and `padding` (they are for training) are ignored.
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

// Immutable; every member may be called from several threads at once. Copies share the tables.
class Tokenizer {
 public:
  // Reads tokenizer.json, or tokenizer.model where there is none, and the files beside it
  // (models/tokenizer/added_token_files.h). Throws Error(kRuntime), one line: "…/tokenizer.json: FIELD: what
  // is wrong".
  static Tokenizer load(const std::filesystem::path& model_dir);

  // The same from text in memory; an empty `config_text` stands for no tokenizer_config.json.
  static Tokenizer from_json(std::string_view tokenizer_text, std::string_view config_text = {});

  // The same from trees: what tokenizer.json and tokenizer_config.json would have; `source` starts error
  // lines.
  // Merges may come apart from the tree of it.
  static Tokenizer from_trees(const nlohmann::json& tokenizer, const nlohmann::json& config,
                              const std::string& source,
                              std::optional<std::vector<BpeMerge>> merges = std::nullopt);

  // The ids of `text`; what is not UTF-8 in it counts as U+FFFD. Added tokens in the text, control tokens
  // among them, are recognised. With `add_special_tokens`, the tokens of the post-processor (BOS) are put
  // around it. Throws Error(kUsage) for a text of more than kMaxEncodedTextBytes, Error(kRuntime) where a
  // pattern of the tokenizer takes unreasonably long on it.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const;

  // The same ids with the tokens of the post-processor around them.
  std::vector<std::int32_t> with_special_tokens(std::vector<std::int32_t> ids) const;

  // For untrusted text: control tokens in it are encoded as the characters they are written
  // with. Never returns the id of a special token, unless the tokenizer has one that is a single byte or the
  // `unk_token`. `also_as_text` are tokens to be treated like special ones.
  std::vector<std::int32_t> encode_plain(std::string_view text,
                                         std::span<const std::int32_t> also_as_text = {}) const;

  // The same for valid UTF-8 of which the stretches `trusted` (in order, none empty) are the template's own:
  // there control tokens are recognised. Elsewhere those that the trusted stretches have, and those of
  // `also_as_text`, are text, whether or not the tokenizer calls them special.
  std::vector<std::int32_t> encode_partly_trusted(std::string_view text, std::span<const TextSpan> trusted,
                                                  std::span<const std::int32_t> also_as_text = {}) const;

  // The bytes of the tokens, joined; what is not UTF-8 in that becomes U+FFFD. Ids without a token stand for
  // nothing.
  // Of a text that began with the space which SentencePiece puts before one, the space is left out.
  // An added token always stands for its content; `tokenizers` garbles those whose characters, such as "é",
  // are also in the byte alphabet.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const;

  // What a token stands for, which need not be whole characters. Empty where there is no such token.
  // The view lives as long as the tokenizer or a copy of it.
  std::string_view token_bytes(std::int32_t id) const;

  bool has(std::int32_t id) const;
  bool is_special(std::int32_t id) const;
  bool is_added(std::int32_t id) const;  // special ones are
  std::int32_t vocab_size() const;       // largest id + 1; ids in between may be unused

  // The token that tokenizer.json writes so: "<|eot_id|>", or "Ġthe" for " the".
  std::optional<std::int32_t> find(std::string_view token) const;

  // `bos_token` and `eos_token` of tokenizer_config.json.
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

#include "models/gguf/gguf_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "spdlog/spdlog.h"

#include "models/gguf/pre_tokenizers.h"
#include "models/jinja/template.h"
#include "models/tokenizer/sentencepiece.h"
#include "models/tokenizer/utf8.h"
#include "models/tokenizer/vocabulary.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

using nlohmann::json;

constexpr const char* kModelKey = "tokenizer.ggml.model";
constexpr const char* kPreKey = "tokenizer.ggml.pre";
constexpr const char* kTokensKey = "tokenizer.ggml.tokens";
constexpr const char* kTypesKey = "tokenizer.ggml.token_type";
constexpr const char* kMergesKey = "tokenizer.ggml.merges";
constexpr const char* kScoresKey = "tokenizer.ggml.scores";
constexpr const char* kAddSpaceKey = "tokenizer.ggml.add_space_prefix";
constexpr const char* kAddBosKey = "tokenizer.ggml.add_bos_token";
constexpr const char* kAddEosKey = "tokenizer.ggml.add_eos_token";
constexpr const char* kBosKey = "tokenizer.ggml.bos_token_id";
constexpr const char* kEosKey = "tokenizer.ggml.eos_token_id";
constexpr const char* kTemplateKey = "tokenizer.chat_template";

// llama.cpp (enum llama_token_type) uses SentencePiece's numbers.
using TokenType = SentencePiece::Type;

// The tokens and their types, checked.
class Tokens {
 public:
  explicit Tokens(const GgufFields& fields) : fields_(fields), texts_(fields.texts(kTokensKey)) {
    if (texts_.empty() || texts_.size() > kMaxTokenId + std::size_t{1})
      fields.fail(kTokensKey, fmt::format("{} tokens; limit: 1 to {}", texts_.size(), kMaxTokenId + 1));
    if (fields.has(kTypesKey)) types_ = fields.integers(kTypesKey);
    if (!types_.empty() && types_.size() != texts_.size()) {
      fields.fail(kTypesKey, fmt::format("{} types for {} tokens", types_.size(), texts_.size()));
    }
  }

  std::size_t size() const { return texts_.size(); }
  TokenType type(std::size_t id) const {
    return types_.empty() ? TokenType::kNormal : static_cast<TokenType>(types_[id]);
  }
  // Refuses tokens that are not valid UTF-8, on which all later code relies.
  std::string text(std::size_t id) const {
    std::string repaired;
    const std::string_view text = utf8_lossy(texts_[id], &repaired);
    if (text != texts_[id]) fields_.fail(kTokensKey, fmt::format("token {} is not UTF-8", id));
    return std::string(text);
  }
  // Text of the token whose id is in field `key`.
  std::optional<std::string> named(const char* key) const {
    const auto id = named_id(key);
    return id ? std::optional(text(static_cast<std::size_t>(*id))) : std::nullopt;
  }
  std::optional<std::int32_t> named_id(const char* key) const {
    const auto id = fields_.find_integer(key, 0, static_cast<int64_t>(texts_.size()) - 1);
    return id ? std::optional(static_cast<std::int32_t>(*id)) : std::nullopt;
  }

 private:
  const GgufFields& fields_;
  std::vector<std::string_view> texts_;
  std::vector<int64_t> types_;  // empty: all normal
};

json added_token(std::size_t id, std::string text, bool special) {
  return {{"id", id}, {"content", std::move(text)}, {"special", special}, {"normalized", false}};
}

// Adds the tokens in tokenizer.json's format. Unused tokens are left out: no text contains them.
void add_tokens(const Tokens& tokens, const GgufFields& fields, json& tree) {
  json vocabulary = json::object(), added = json::array();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    switch (tokens.type(id)) {
      case TokenType::kControl:
      case TokenType::kUnknown:
        added.push_back(added_token(id, tokens.text(id), true));
        break;
      case TokenType::kUserDefined:
        added.push_back(added_token(id, tokens.text(id), false));
        break;
      case TokenType::kUnused:
        break;
      default:
        if (!vocabulary.emplace(tokens.text(id), id).second)
          fields.fail(kTokensKey, fmt::format("{} appears twice", in_quotes(tokens.text(id))));
    }
  }
  tree["model"]["vocab"] = std::move(vocabulary);
  tree["added_tokens"] = std::move(added);
}

void add_merges(const GgufFields& fields, json& tree) {
  json merges = json::array();
  for (const std::string_view merge : fields.texts(kMergesKey)) {
    std::string repaired;
    merges.push_back(std::string(utf8_lossy(merge, &repaired)));
  }
  tree["model"]["merges"] = std::move(merges);
}

// Adds a post-processor that puts BOS before a text and EOS after it, if the file asks for them.
void add_post_processor(const GgufFields& fields, const Tokens& tokens, bool bos_by_default, json& tree) {
  json single = json::array({{{"Sequence", {{"id", "A"}}}}}), special = json::object();
  const auto token = [&](const char* key) {
    const auto id = fields.integer(key, 0, static_cast<int64_t>(tokens.size()) - 1);
    const std::string name = tokens.text(static_cast<std::size_t>(id));
    special[name] = {{"ids", json::array({id})}};
    return json{{"SpecialToken", {{"id", name}}}};
  };
  if (fields.boolean_or(kAddBosKey, bos_by_default && fields.has(kBosKey)))
    single.insert(single.begin(), token(kBosKey));
  if (fields.boolean_or(kAddEosKey, false)) single.push_back(token(kEosKey));
  tree["post_processor"] = {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", special}};
}

json named_tokens(const Tokens& tokens) {
  json config = json::object();
  if (const auto bos = tokens.named(kBosKey)) config["bos_token"] = *bos;
  if (const auto eos = tokens.named(kEosKey)) config["eos_token"] = *eos;
  return config;
}

const GgufPreTokenizer& pre_tokenizer_of(const GgufFields& fields) {
  constexpr std::string_view kDefault = "gpt-2";
  if (!fields.has(kPreKey)) spdlog::warn("{}: {}: missing; using {}", fields.source(), kPreKey, kDefault);
  const std::string name = fields.text_or(kPreKey, kDefault);
  const GgufPreTokenizer* found = find_gguf_pre_tokenizer(name);
  if (found == nullptr) {
    fields.fail(kPreKey, fmt::format("{} is not supported; supported: {}", in_quotes(name),
                                     gguf_pre_tokenizer_names()));
  }
  return *found;
}

Tokenizer read_byte_level(const GgufFields& fields) {
  const Tokens tokens(fields);
  const GgufPreTokenizer& pre = pre_tokenizer_of(fields);
  json tree = {{"model", {{"type", "BPE"}, {"ignore_merges", pre.ignore_merges}}},
               {"pre_tokenizer", json::parse(pre.json)},
               {"decoder", {{"type", "ByteLevel"}}}};
  if (pre.nfc) tree["normalizer"] = {{"type", "NFC"}};
  add_tokens(tokens, fields, tree);
  add_merges(fields, tree);
  add_post_processor(fields, tokens, pre.adds_bos, tree);
  return Tokenizer::from_trees(tree, named_tokens(tokens), fields.source() + ": tokenizer");
}

Tokenizer read_sentencepiece(const GgufFields& fields) {
  const Tokens tokens(fields);
  const std::vector<float> scores = fields.floats(kScoresKey);
  if (scores.size() != tokens.size())
    fields.fail(kScoresKey, fmt::format("{} scores for {} tokens", scores.size(), tokens.size()));
  SentencePieceModel model;
  model.source = fields.source() + ": tokenizer";
  for (std::size_t id = 0; id < tokens.size(); ++id)
    model.pieces.push_back({tokens.text(id), scores[id], tokens.type(id)});
  model.bos = tokens.named_id(kBosKey);
  model.eos = tokens.named_id(kEosKey);
  model.adds_space = fields.boolean_or(kAddSpaceKey, true) ? AddedSpace::kAlways : AddedSpace::kNever;
  model.adds_bos = fields.boolean_or(kAddBosKey, true);
  model.adds_eos = fields.boolean_or(kAddEosKey, false);
  return make_sentencepiece_tokenizer(model);
}

// Refuses fields that would change the text or the tokens, unless they are false or empty. Other fields that
// llama.cpp reads name tokens that do not affect encoding (padding, unknown, fill-in-the-middle, …) or belong
// to other kinds of tokenizers.
void check_options(const GgufFields& fields) {
  for (const char* name : {"add_sep_token", "normalizer.lowercase", "normalizer.strip_accents",
                           "precompiled_charsmap", "remove_extra_whitespaces", "suppress_tokens"}) {
    const std::string key = std::string("tokenizer.ggml.") + name;
    if (!fields.is_empty_or_zero(key)) fields.fail(key, "supported: tokenizers without it");
  }
}

}  // namespace

bool has_gguf_tokenizer(const GgufFields& fields) {
  return fields.has(kModelKey);
}

Tokenizer read_gguf_tokenizer(const GgufFields& fields) {
  check_options(fields);
  const std::string_view model = fields.text(kModelKey);
  if (model == "gpt2") return read_byte_level(fields);
  if (model == "llama") return read_sentencepiece(fields);
  fields.fail(kModelKey, fmt::format("{} is not supported; supported: gpt2 and llama", in_quotes(model)));
}

ChatTemplate read_gguf_chat_template(const GgufFields& fields, const Tokenizer& tokenizer) {
  const std::string where = fmt::format("{}: {}", fields.source(), kTemplateKey);
  if (!fields.has(kTemplateKey)) ChatTemplate::refuse_missing(where);
  const std::string_view text = fields.text(kTemplateKey);
  if (text.size() > jinja::kMaxTemplateBytes) {
    fields.fail(kTemplateKey, fmt::format("{} bytes; limit: {}", text.size(), jinja::kMaxTemplateBytes));
  }
  return ChatTemplate::of_text(text, where, std::filesystem::path(fields.source()).filename().string(),
                               tokenizer);
}

}  // namespace serval

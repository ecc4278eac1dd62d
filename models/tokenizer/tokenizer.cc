#include "models/tokenizer/tokenizer.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/tokenizer/added_token_files.h"
#include "models/tokenizer/added_tokens.h"
#include "models/tokenizer/bpe.h"
#include "models/tokenizer/json_field.h"
#include "models/tokenizer/normalizer.h"
#include "models/tokenizer/post_processor.h"
#include "models/tokenizer/pre_tokenizer.h"
#include "models/tokenizer/sentencepiece.h"
#include "models/tokenizer/utf8.h"
#include "models/tokenizer/vocabulary.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

// Calls fn(step), or for a Sequence, fn(step) for each step in its member `list_key`.
template <class Fn>
void for_each_step(const JsonField& step, std::string_view list_key, Fn&& fn) {
  if (step.at("type").text() != "Sequence") return fn(step);
  const JsonField list = step.at(list_key);
  for (std::size_t i = 0; i < list.size(); ++i) for_each_step(list.element(i), list_key, fn);
}

[[noreturn]] void refuse_type(const JsonField& step, std::string_view supported) {
  const JsonField type = step.at("type");
  type.fail(fmt::format("{} is not supported; supported: {}", in_quotes(type.text()), supported));
}

void check_byte_level_decoder(const JsonField& decoder) {
  for_each_step(decoder, "decoders", [](const JsonField& step) {
    if (step.at("type").text() != "ByteLevel") refuse_type(step, "ByteLevel");
  });
}

// Checks the decoder of a SentencePiece tokenizer. Returns whether it removes a space at the beginning. The
// vocabulary has replaced U+2581 by spaces already.
bool read_sentencepiece_decoder(const JsonField& decoder) {
  bool strips = false;
  for_each_step(decoder, "decoders", [&](const JsonField& step) {
    const std::string& type = step.at("type").text();
    if (type == "Strip") {
      const bool one_space = step.at("content").text() == " " &&
                             step.at("start").integer(0, INT32_MAX) == 1 &&
                             step.at("stop").integer(0, INT32_MAX) == 0;
      if (!one_space) step.fail("supported: one space at the start");
      strips = true;
    } else if (type == "Replace") {
      if (step.at("pattern").at("String").text() != kWrittenSpace || step.at("content").text() != " ")
        step.fail("supported: U+2581 to a space");
    } else if (type == "Metaspace") {
      const auto scheme = step.find("prepend_scheme");
      strips = !scheme || scheme->text() != "never";
    } else if (type != "ByteFallback" && type != "Fuse") {
      refuse_type(step, "Sequence, Replace, ByteFallback, Fuse, Strip and Metaspace");
    }
  });
  return strips;
}

TokenSpelling spelling_of(const JsonField& tokenizer) {
  const bool byte_fallback = tokenizer.at("model").flag("byte_fallback", false);
  return byte_fallback ? TokenSpelling::kSentencePiece : TokenSpelling::kByteLevel;
}

Normalizer read_normalizer(const JsonField& tokenizer, const Vocabulary& vocabulary) {
  const auto field = tokenizer.find("normalizer");
  Normalizer normalizer = field ? Normalizer(*field) : Normalizer();
  for (const AddedToken& token : vocabulary.added_tokens()) {
    if (normalizer.changes_text() && token.normalized && !token.special) {
      tokenizer.at("added_tokens")
          .fail(fmt::format("{} is normalized, which is not supported beside a normalizer",
                            in_quotes(token.content)));
    }
  }
  const auto pre_tokenizer = tokenizer.find("pre_tokenizer");
  if (vocabulary.spelling() == TokenSpelling::kSentencePiece && pre_tokenizer)
    normalizer.add_metaspace(*pre_tokenizer);
  return normalizer;
}

// SentencePiece merges over the whole text, without a pre-tokenizer.
std::optional<PreTokenizer> read_pre_tokenizer(const JsonField& tokenizer, TokenSpelling spelling) {
  if (spelling == TokenSpelling::kSentencePiece) return std::nullopt;
  return PreTokenizer(tokenizer.at("pre_tokenizer"));
}

PostProcessor read_post_processor(const JsonField& tokenizer, const Vocabulary& vocabulary) {
  const auto field = tokenizer.find("post_processor");
  return field ? PostProcessor(*field, vocabulary) : PostProcessor();
}

// A token in tokenizer_config.json is its content, or an object with the content.
std::optional<std::int32_t> read_named_token(const JsonField& config, std::string_view key,
                                             const Vocabulary& vocabulary) {
  const auto field = config.find(key);
  if (!field) return std::nullopt;
  const std::string& content = field->is_text() ? field->text() : field->at("content").text();
  const auto id = vocabulary.find(content);
  if (!id) field->fail(fmt::format("{} is not in the vocabulary", in_quotes(content)));
  return id;
}

}  // namespace

struct Tokenizer::Tables {
  Tables(const JsonField& tokenizer, const std::optional<JsonField>& config,
         std::optional<std::vector<BpeMerge>> merges = std::nullopt)
      : vocabulary(tokenizer, spelling_of(tokenizer)),
        added_tokens(vocabulary.added_tokens()),
        normalizer(read_normalizer(tokenizer, vocabulary)),
        pre_tokenizer(read_pre_tokenizer(tokenizer, vocabulary.spelling())),
        bpe(tokenizer.at("model"), vocabulary, std::move(merges)),
        post_processor(read_post_processor(tokenizer, vocabulary)) {
    if (vocabulary.spelling() == TokenSpelling::kSentencePiece) {
      strips_space = read_sentencepiece_decoder(tokenizer.at("decoder"));
    } else {
      check_byte_level_decoder(tokenizer.at("decoder"));
    }
    if (!config) return;
    bos = read_named_token(*config, "bos_token", vocabulary);
    eos = read_named_token(*config, "eos_token", vocabulary);
  }

  Tables(const Tables&) = delete;  // members point to each other
  Tables& operator=(const Tables&) = delete;

  Vocabulary vocabulary;
  AddedTokenFinder added_tokens;
  Normalizer normalizer;
  std::optional<PreTokenizer> pre_tokenizer;
  Bpe bpe;
  PostProcessor post_processor;
  bool strips_space = false;  // decode() removes a space at the beginning
  std::optional<std::int32_t> bos, eos;
};

Tokenizer Tokenizer::of_files(nlohmann::json tree, const std::string& name, AddedTokenFiles files) {
  merge_added_tokens(tree, files);
  const JsonField tokenizer(tree, name);
  if (files.config.is_null()) return Tokenizer(std::make_shared<const Tables>(tokenizer, std::nullopt));
  const std::string config = (files.directory / "tokenizer_config.json").string();
  return Tokenizer(std::make_shared<const Tables>(tokenizer, JsonField(files.config, config)));
}

Tokenizer Tokenizer::load(const std::filesystem::path& model_dir) {
  const auto path = model_dir / "tokenizer.json";
  if (!std::filesystem::exists(path) && std::filesystem::exists(model_dir / "tokenizer.model"))
    return load_sentencepiece_tokenizer(model_dir);
  return of_files(parse_json_file(path, kMaxTokenizerFileBytes), path.string(),
                  AddedTokenFiles::read(model_dir));
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_text, std::string_view config_text) {
  AddedTokenFiles files;
  if (!config_text.empty()) files.config = parse_json_text(config_text, "tokenizer_config.json");
  return of_files(parse_json_text(tokenizer_text, "tokenizer.json"), "tokenizer.json", std::move(files));
}

Tokenizer Tokenizer::from_trees(const nlohmann::json& tokenizer, const nlohmann::json& config,
                                const std::string& source, std::optional<std::vector<BpeMerge>> merges) {
  return Tokenizer(std::make_shared<const Tables>(JsonField(tokenizer, source), JsonField(config, source),
                                                  std::move(merges)));
}

std::vector<std::int32_t> Tokenizer::encode_text(std::string_view text, const TokenFilter& filter,
                                                 std::span<const TextSpan> trusted) const {
  if (text.size() > kMaxEncodedTextBytes) {
    throw Error(ErrorKind::kUsage,
                fmt::format("a text of {} bytes to encode; limit: {}", text.size(), kMaxEncodedTextBytes));
  }
  std::string repaired;
  text = utf8_lossy(text, &repaired);
  std::vector<std::int32_t> ids;
  for (const TextSegment& segment : tables_->added_tokens.segment(text, filter, {text, trusted})) {
    if (segment.token) {
      ids.push_back(*segment.token);
      continue;
    }
    std::string changed;
    const bool at_begin = segment.text.data() == text.data();
    const std::string_view normal = tables_->normalizer.apply(segment.text, at_begin, &changed);
    if (!tables_->pre_tokenizer) {
      tables_->bpe.encode(normal, filter, &ids);
      continue;
    }
    std::deque<std::string> storage;
    for (const std::string_view word : tables_->pre_tokenizer->split(normal, &storage)) {
      tables_->bpe.encode(word, filter, &ids);
    }
  }
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::vector<std::int32_t> ids = encode_text(text, TokenFilter{});
  return add_special_tokens ? with_special_tokens(std::move(ids)) : ids;
}

std::vector<std::int32_t> Tokenizer::with_special_tokens(std::vector<std::int32_t> ids) const {
  const PostProcessor& around = tables_->post_processor;
  ids.insert(ids.begin(), around.prefix().begin(), around.prefix().end());
  ids.insert(ids.end(), around.suffix().begin(), around.suffix().end());
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_plain(std::string_view text,
                                                  std::span<const std::int32_t> also_as_text) const {
  return encode_text(text, {.special = true, .others = also_as_text});
}

std::vector<std::int32_t> Tokenizer::encode_partly_trusted(std::string_view text,
                                                           std::span<const TextSpan> trusted,
                                                           std::span<const std::int32_t> also_as_text) const {
  std::vector<std::int32_t> controls(also_as_text.begin(), also_as_text.end());
  for (const TextSpan& span : trusted) {
    const std::string_view own = text.substr(span.begin, span.end - span.begin);
    for (const TextSegment& segment : tables_->added_tokens.segment(own, TokenFilter{})) {
      if (segment.token && std::find(controls.begin(), controls.end(), *segment.token) == controls.end())
        controls.push_back(*segment.token);
    }
  }
  return encode_text(text, {.special = true, .others = controls}, trusted);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    if (!skip_special_tokens || !is_special(id)) bytes += token_bytes(id);
  }
  std::string_view text = bytes;
  if (tables_->strips_space && text.starts_with(' ')) text.remove_prefix(1);
  std::string repaired;
  return std::string(utf8_lossy(text, &repaired));
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  return tables_->vocabulary.bytes(id);
}
bool Tokenizer::has(std::int32_t id) const {
  return tables_->vocabulary.has(id);
}
bool Tokenizer::is_special(std::int32_t id) const {
  return tables_->vocabulary.is_special(id);
}
bool Tokenizer::is_added(std::int32_t id) const {
  const auto& added = tables_->vocabulary.added_tokens();
  return std::any_of(added.begin(), added.end(), [id](const AddedToken& token) { return token.id == id; });
}
std::int32_t Tokenizer::vocab_size() const {
  return tables_->vocabulary.size();
}
std::optional<std::int32_t> Tokenizer::find(std::string_view token) const {
  return tables_->vocabulary.find(token);
}
std::optional<std::int32_t> Tokenizer::bos_id() const {
  return tables_->bos;
}
std::optional<std::int32_t> Tokenizer::eos_id() const {
  return tables_->eos;
}

}  // namespace serval

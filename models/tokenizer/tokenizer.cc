#include "models/tokenizer/tokenizer.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/tokenizer/added_tokens.h"
#include "models/tokenizer/bpe.h"
#include "models/tokenizer/json_field.h"
#include "models/tokenizer/post_processor.h"
#include "models/tokenizer/pre_tokenizer.h"
#include "models/tokenizer/utf8.h"
#include "models/tokenizer/vocabulary.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

// Fails unless `step` and everything inside it (a Sequence has its steps in `list_key`) is of the type
// `known`, which may be empty: then nothing but empty sequences is.
void require_only(const JsonField& step, std::string_view list_key, std::string_view known) {
  const JsonField type = step.at("type");
  if (type.text() == "Sequence") {
    const JsonField list = step.at(list_key);
    for (std::size_t i = 0; i < list.size(); ++i) require_only(list.element(i), list_key, known);
  } else if (type.text() != known) {
    const std::string only = known.empty() ? "none is" : fmt::format("{} is", known);
    type.fail(fmt::format("{} is not supported ({})", in_quotes(type.text()), only));
  }
}

PostProcessor read_post_processor(const JsonField& tokenizer, const Vocabulary& vocabulary) {
  const auto field = tokenizer.find("post_processor");
  return field ? PostProcessor(*field, vocabulary) : PostProcessor();
}

// A token of tokenizer_config.json: its content, or an object with the content.
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
  Tables(const JsonField& tokenizer, const std::optional<JsonField>& config)
      : vocabulary(tokenizer),
        added_tokens(vocabulary.added_tokens()),
        pre_tokenizer(tokenizer.at("pre_tokenizer")),
        bpe(tokenizer.at("model"), vocabulary),
        post_processor(read_post_processor(tokenizer, vocabulary)) {
    if (const auto normalizer = tokenizer.find("normalizer")) require_only(*normalizer, "normalizers", "");
    require_only(tokenizer.at("decoder"), "decoders", "ByteLevel");
    if (!config) return;
    bos = read_named_token(*config, "bos_token", vocabulary);
    eos = read_named_token(*config, "eos_token", vocabulary);
  }

  Tables(const Tables&) = delete;  // parts refer to one another
  Tables& operator=(const Tables&) = delete;

  Vocabulary vocabulary;
  AddedTokenFinder added_tokens;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  PostProcessor post_processor;
  std::optional<std::int32_t> bos, eos;
};

Tokenizer Tokenizer::load(const std::filesystem::path& model_dir) {
  const auto path = model_dir / "tokenizer.json";
  const auto config_path = model_dir / "tokenizer_config.json";
  const nlohmann::json tree = parse_json_file(path, kMaxTokenizerFileBytes);
  const JsonField tokenizer(tree, path.string());
  if (!std::filesystem::exists(config_path))
    return Tokenizer(std::make_shared<const Tables>(tokenizer, std::nullopt));
  const nlohmann::json config_tree = parse_json_file(config_path, kMaxTokenizerFileBytes);
  return Tokenizer(std::make_shared<const Tables>(tokenizer, JsonField(config_tree, config_path.string())));
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_text, std::string_view config_text) {
  const std::string name = "tokenizer.json", config_name = "tokenizer_config.json";
  const nlohmann::json tree = parse_json_text(tokenizer_text, name);
  const JsonField tokenizer(tree, name);
  if (config_text.empty()) return Tokenizer(std::make_shared<const Tables>(tokenizer, std::nullopt));
  const nlohmann::json config_tree = parse_json_text(config_text, config_name);
  return Tokenizer(std::make_shared<const Tables>(tokenizer, JsonField(config_tree, config_name)));
}

Tokenizer Tokenizer::from_trees(const nlohmann::json& tokenizer, const nlohmann::json& config,
                                const std::string& source) {
  return Tokenizer(std::make_shared<const Tables>(JsonField(tokenizer, source), JsonField(config, source)));
}

std::vector<std::int32_t> Tokenizer::encode_text(std::string_view text, const TokenFilter& filter,
                                                 std::span<const TextSpan> trusted) const {
  if (text.size() > kMaxEncodedTextBytes) {
    throw Error(ErrorKind::kUsage, fmt::format("a text of {} bytes to encode, the limit is {}", text.size(),
                                               kMaxEncodedTextBytes));
  }
  std::string repaired;
  text = utf8_lossy(text, &repaired);
  std::vector<std::int32_t> ids;
  for (const TextSegment& segment : tables_->added_tokens.segment(text, filter, {text, trusted})) {
    if (segment.token) {
      ids.push_back(*segment.token);
      continue;
    }
    std::deque<std::string> storage;
    for (const std::string_view word : tables_->pre_tokenizer.split(segment.text, &storage)) {
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
  std::string repaired;
  return std::string(utf8_lossy(bytes, &repaired));
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

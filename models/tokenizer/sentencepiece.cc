#include "models/tokenizer/sentencepiece.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "models/tokenizer/added_token_files.h"
#include "models/tokenizer/json_field.h"
#include "models/tokenizer/normalizer.h"
#include "models/tokenizer/utf8.h"
#include "models/tokenizer/vocabulary.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"
#include "vm/base/text_file.h"

namespace serval {
namespace {

using nlohmann::json;
using Type = SentencePiece::Type;

// Limits the time to find all merges. Published models have pieces of up to 93 bytes.
constexpr std::size_t kMaxPieceBytes = 256;

[[noreturn]] void fail(const SentencePieceModel& model, const std::string& what) {
  throw Error(ErrorKind::kRuntime, fmt::format("{}: {}", model.source, what));
}

void check_pieces(const SentencePieceModel& model) {
  if (model.pieces.empty() || model.pieces.size() > kMaxTokenId + std::size_t{1})
    fail(model, fmt::format("{} pieces; limit: 1 to {}", model.pieces.size(), kMaxTokenId + 1));
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    std::string repaired;
    if (utf8_lossy(piece.text, &repaired) != piece.text) fail(model, fmt::format("piece {}: not UTF-8", id));
    if (piece.text.empty() || piece.text.size() > kMaxPieceBytes)
      fail(model, fmt::format("piece {}: {} bytes; limit: 1 to {}", id, piece.text.size(), kMaxPieceBytes));
    if (std::isnan(piece.score)) fail(model, fmt::format("piece {}: its score is not a number", id));
  }
  for (const auto& [token, name] : {std::pair(model.bos, "BOS"), {model.eos, "EOS"}}) {
    if (token && (*token < 0 || std::cmp_greater_equal(*token, model.pieces.size())))
      fail(model, fmt::format("{}: piece {}; limit: 0 to {}", name, *token, model.pieces.size() - 1));
  }
}

// User-defined pieces are searched in the original text, before spaces become U+2581.
std::string content_of(const SentencePiece& piece) {
  std::string content;
  for (std::string_view rest = piece.text; !rest.empty();) {
    const std::size_t space = rest.find(kWrittenSpace);
    content += rest.substr(0, space);
    if (space == std::string_view::npos) break;
    content += ' ';
    rest.remove_prefix(space + kWrittenSpace.size());
  }
  return content;
}

json added_token(std::size_t id, std::string content, bool special) {
  return {{"id", id}, {"content", std::move(content)}, {"special", special}, {"normalized", false}};
}

// Adds the pieces in tokenizer.json's format. Unused pieces are left out: no text contains them.
void add_pieces(const SentencePieceModel& model, json& tree) {
  json vocabulary = json::object(), added = json::array();
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    switch (piece.type) {
      case Type::kControl:
      case Type::kUnknown:
        added.push_back(added_token(id, piece.text, true));
        break;
      case Type::kUserDefined:
        added.push_back(added_token(id, content_of(piece), false));
        break;
      case Type::kUnused:
        break;
      default:
        if (!vocabulary.emplace(piece.text, id).second)
          fail(model, fmt::format("piece {}: {} appears twice", id, in_quotes(piece.text)));
    }
  }
  tree["model"]["vocab"] = std::move(vocabulary);
  tree["added_tokens"] = std::move(added);
}

json normalizer_of(const SentencePieceModel& model) {
  if (model.adds_space != AddedSpace::kAlways) return nullptr;
  const json prepend = {{"type", "Prepend"}, {"prepend", kWrittenSpace}};
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kWrittenSpace}};
  return {{"type", "Sequence"}, {"normalizers", {prepend, replace}}};
}

// Metaspace, which replaces spaces if normalizer_of() does not.
json pre_tokenizer_of(const SentencePieceModel& model) {
  const char* scheme = "never";
  if (model.adds_space == AddedSpace::kAlways) return nullptr;
  if (model.adds_space == AddedSpace::kUnlessPresent) scheme = "always";
  if (model.adds_space == AddedSpace::kFirstUnlessPresent) scheme = "first";
  return {
      {"type", "Metaspace"}, {"replacement", kWrittenSpace}, {"split", false}, {"prepend_scheme", scheme}};
}

json decoder_of(const SentencePieceModel& model) {
  json steps = json::array({{{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (model.adds_space != AddedSpace::kNever)
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

// The id of an added token or a token of the vocabulary.
std::optional<json> id_of(const json& tree, const json& content) {
  for (const json& added : tree["added_tokens"])
    if (added["content"] == content) return added["id"];
  const json& vocabulary = tree["model"]["vocab"];
  const auto found = content.is_string() ? vocabulary.find(content.get<std::string>()) : vocabulary.end();
  return found == vocabulary.end() ? std::nullopt : std::optional<json>(*found);
}

// Adds a post-processor that puts the BOS and EOS of `config` around a text, if the model asks for them.
void add_post_processor(const SentencePieceModel& model, const json& config, json& tree) {
  json single = json::array({{{"Sequence", {{"id", "A"}}}}}), special = json::object();
  const auto token = [&](const char* key) -> std::optional<json> {
    const json named = config.value(key, json());
    const json content = named.is_object() ? named.value("content", json()) : named;
    const auto id = id_of(tree, content);
    if (!id) return std::nullopt;
    special[content.get<std::string>()] = {{"ids", json::array({*id})}};
    return json{{"SpecialToken", {{"id", content}}}};
  };
  const auto bos = token("bos_token"), eos = token("eos_token");
  if (bos && model.adds_bos) single.insert(single.begin(), *bos);
  if (eos && model.adds_eos) single.push_back(*eos);
  tree["post_processor"] = {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", special}};
}

json named_tokens(const SentencePieceModel& model) {
  json config = json::object();
  if (model.bos) config["bos_token"] = model.pieces[static_cast<std::size_t>(*model.bos)].text;
  if (model.eos) config["eos_token"] = model.pieces[static_cast<std::size_t>(*model.eos)].text;
  return config;
}

// All merges of two normal pieces into a third. Results with the same score have the same rank, so that the
// leftmost pair is merged first.
std::vector<BpeMerge> merges_of(const SentencePieceModel& model) {
  std::unordered_map<std::string_view, std::int32_t> ids;
  std::vector<float> scores;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type != Type::kNormal) continue;
    ids.emplace(model.pieces[id].text, static_cast<std::int32_t>(id));
    scores.push_back(model.pieces[id].score);
  }
  std::ranges::sort(scores, std::greater());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<BpeMerge> merges;
  for (const auto& [text, id] : ids) {
    const float score = model.pieces[static_cast<std::size_t>(id)].score;
    const auto rank = std::ranges::lower_bound(scores, score, std::greater()) - scores.begin();
    for (std::size_t cut = utf8_first(text).bytes; cut < text.size();
         cut += utf8_first(text.substr(cut)).bytes) {
      const auto left = ids.find(text.substr(0, cut)), right = ids.find(text.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      merges.push_back({left->second, right->second, static_cast<std::int32_t>(rank), id});
    }
  }
  return merges;
}

json tree_of(const SentencePieceModel& model) {
  check_pieces(model);
  json tree = {{"model", {{"type", "BPE"}, {"byte_fallback", true}}},
               {"normalizer", normalizer_of(model)},
               {"pre_tokenizer", pre_tokenizer_of(model)},
               {"decoder", decoder_of(model)}};
  add_pieces(model, tree);
  return tree;
}

Tokenizer tokenizer_of(const SentencePieceModel& model, json tree, const json& config) {
  add_post_processor(model, config, tree);
  return Tokenizer::from_trees(tree, config, model.source, merges_of(model));
}

void read_config(const JsonField& config, SentencePieceModel& model) {
  model.adds_bos = config.flag("add_bos_token", model.adds_bos);
  model.adds_eos = config.flag("add_eos_token", model.adds_eos);
  const bool adds_space = config.flag("add_prefix_space", model.adds_space != AddedSpace::kNever);
  const AddedSpace where =
      config.flag("legacy", false) ? AddedSpace::kUnlessPresent : AddedSpace::kFirstUnlessPresent;
  model.adds_space = adds_space ? where : AddedSpace::kNever;
}

}  // namespace

Tokenizer make_sentencepiece_tokenizer(const SentencePieceModel& model) {
  json tree = tree_of(model);  // checks the pieces before named_tokens() reads them
  return tokenizer_of(model, std::move(tree), named_tokens(model));
}

Tokenizer load_sentencepiece_tokenizer(const std::filesystem::path& model_dir) {
  const std::string path = (model_dir / "tokenizer.model").string();
  SentencePieceModel model = parse_sentencepiece_file(read_text_file(path, kMaxTokenizerFileBytes), path);
  AddedTokenFiles files = AddedTokenFiles::read(model_dir);
  const json none = json::object();
  read_config(files.config.is_null()
                  ? JsonField(none, path)
                  : JsonField(files.config, (model_dir / "tokenizer_config.json").string()),
              model);
  json tree = tree_of(model);
  merge_added_tokens(tree, files);
  json config = named_tokens(model);
  for (const char* key : {"bos_token", "eos_token"})
    if (files.config.is_object() && files.config.contains(key)) config[key] = files.config[key];
  return tokenizer_of(model, std::move(tree), config);
}

}  // namespace serval

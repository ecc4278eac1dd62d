#include "models/tokenizer/added_token_files.h"

#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>
#include <spdlog/spdlog.h>
#include <string_view>
#include <utility>

#include "models/tokenizer/json_field.h"
#include "models/tokenizer/tokenizer.h"
#include "models/tokenizer/vocabulary.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

using nlohmann::json;

constexpr std::string_view kDecoderKey = "added_tokens_decoder";
constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kAddedFile = "added_tokens.json";
constexpr const char* kSpecialFile = "special_tokens_map.json";
constexpr std::string_view kNamedTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                             "pad_token", "cls_token", "mask_token"};
constexpr std::string_view kNamedLists[] = {"additional_special_tokens", "extra_special_tokens"};

json read_if_exists(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return nullptr;
  return parse_json_file(path, kMaxTokenizerFileBytes);
}

// A named token is its content, or an object with the content.
const std::string& content_of(const JsonField& field) {
  return field.is_text() ? field.text() : field.at("content").text();
}

// Calls fn(field) for each named token of a tokenizer_config.json or special_tokens_map.json.
template <class Fn>
void for_each_named_token(const JsonField& object, Fn&& fn) {
  for (const std::string_view key : kNamedTokens)
    if (const auto field = object.find(key)) fn(*field);
  for (const std::string_view key : kNamedLists) {
    const auto list = object.find(key);
    if (!list) continue;
    if (list->is_array()) {
      for (std::size_t i = 0; i < list->size(); ++i) fn(list->element(i));
    } else {
      for (const auto& [name, token] : list->object().items()) fn(list->at(name));
    }
  }
}

// Finds the tokens of a tokenizer.json's tree by content and by id.
class TokenTree {
 public:
  explicit TokenTree(json& tokenizer) : tokenizer_(tokenizer) {
    json& added = tokenizer_["added_tokens"];
    if (added.is_null()) added = json::array();
    if (!added.is_array()) return;  // the reader of the tree refuses it
    for (std::size_t i = 0; i < added.size(); ++i) {
      const json& token = added[i];
      if (!token.is_object() || !token.contains("content") || !token["content"].is_string()) continue;
      if (!token.contains("id") || !token["id"].is_number_integer()) continue;
      index_.emplace(token["content"].get<std::string>(), i);
      contents_.emplace(token["id"].get<std::int64_t>(), token["content"].get<std::string>());
    }
  }

  bool is_usable() const {
    const auto model = tokenizer_.find("model");
    return tokenizer_["added_tokens"].is_array() && model != tokenizer_.end() && model->is_object() &&
           model->contains("vocab") && (*model)["vocab"].is_object();
  }
  // Null if it is not an added token.
  json* find_added(const std::string& content) {
    const auto found = index_.find(content);
    return found == index_.end() ? nullptr : &tokenizer_["added_tokens"][found->second];
  }
  std::optional<std::int64_t> id_of(const std::string& content) {
    if (const json* added = find_added(content)) return (*added)["id"].get<std::int64_t>();
    const json& vocabulary = tokenizer_["model"]["vocab"];
    const auto found = vocabulary.find(content);
    return found != vocabulary.end() && found->is_number_integer() ? std::optional(found->get<std::int64_t>())
                                                                   : std::nullopt;
  }
  // Content of the token with that id; nullopt if no token has it.
  std::optional<std::string> content_of_id(std::int64_t id) {
    if (!is_indexed_) {
      for (const auto& [content, value] : tokenizer_["model"]["vocab"].items())
        if (value.is_number_integer()) contents_.emplace(value.get<std::int64_t>(), content);
      is_indexed_ = true;
    }
    const auto found = contents_.find(id);
    return found == contents_.end() ? std::nullopt : std::optional(found->second);
  }
  void add(json token) {
    const auto content = token["content"].get<std::string>();
    json& added = tokenizer_["added_tokens"];
    contents_.emplace(token["id"].get<std::int64_t>(), content);
    index_.emplace(content, added.size());
    added.push_back(std::move(token));
  }

 private:
  json& tokenizer_;
  std::map<std::string, std::size_t> index_;      // content of an added token → its index
  std::map<std::int64_t, std::string> contents_;  // id → content
  bool is_indexed_ = false;                       // contents_ includes model.vocab
};

std::set<std::string> named_contents(const JsonField& config) {
  std::set<std::string> contents;
  for_each_named_token(config, [&](const JsonField& field) { contents.insert(content_of(field)); });
  return contents;
}

// If the tree has the token or the id already, both must match.
void check_id(TokenTree& tree, const JsonField& field, const std::string& content, std::int64_t id) {
  if (const auto known = tree.id_of(content)) {
    if (*known == id) return;
    field.fail(fmt::format("{} has the id {} here, but {} in the tokenizer", in_quotes(content), id, *known));
  }
  if (const auto other = tree.content_of_id(id)) {
    field.fail(fmt::format("the id {} is {} here, but {} in the tokenizer", id, in_quotes(content),
                           in_quotes(*other)));
  }
}

std::int64_t id_of_key(const JsonField& field, const std::string& key) {
  std::int64_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id < 0 || id > kMaxTokenId)
    field.fail(fmt::format("the key is {}, expected an id from 0 to {}", in_quotes(key), kMaxTokenId));
  return id;
}

// A token in tokenizer.json's format, with the defaults of AddedToken in `tokenizers`.
json added_token(const JsonField& field, std::int64_t id) {
  const bool special = field.flag("special", false);
  return {{"id", id},
          {"content", field.at("content").text()},
          {"single_word", field.flag("single_word", false)},
          {"lstrip", field.flag("lstrip", false)},
          {"rstrip", field.flag("rstrip", false)},
          {"normalized", field.flag("normalized", !special)},
          {"special", special}};
}

// A flag of a token in tokenizer.json. The reader of the tree checks its type.
bool flag_of(const json& token, const char* key, bool otherwise) {
  const auto found = token.find(key);
  return found != token.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

// True if two tokens of tokenizer.json have the same flags.
bool is_same_token(const json& a, const json& b) {
  for (const char* key : {"single_word", "lstrip", "rstrip", "special"})
    if (flag_of(a, key, false) != flag_of(b, key, false)) return false;
  const auto is_normalized = [](const json& token) {
    return flag_of(token, "normalized", !flag_of(token, "special", false));
  };
  return is_normalized(a) == is_normalized(b);
}

void merge_decoder(TokenTree& tree, const JsonField& decoder, const std::set<std::string>& named) {
  std::map<std::int64_t, std::string> keys;  // tokens are added in the order of their ids
  for (const auto& [key, value] : decoder.object().items()) keys.emplace(id_of_key(decoder, key), key);
  for (const auto& [id, key] : keys) {
    const JsonField field = decoder.at(key);
    json token = added_token(field, id);
    const auto content = token["content"].get<std::string>();
    check_id(tree, field, content, id);
    json* known = tree.find_added(content);
    if (known != nullptr && flag_of(*known, "special", false))
      token["special"] = true;  // as `tokenizers` does
    if (known != nullptr && is_same_token(*known, token)) continue;
    if (named.contains(content)) token["special"] = true;
    if (known != nullptr) {
      *known = std::move(token);
    } else {
      tree.add(std::move(token));
    }
  }
}

void merge_added_file(TokenTree& tree, const JsonField& file, const std::set<std::string>& named) {
  std::map<std::int64_t, std::string> contents;
  for (const auto& [content, value] : file.object().items()) {
    const JsonField field = file.at(content);
    const std::int64_t id = field.integer(0, kMaxTokenId);
    check_id(tree, field, content, id);
    if (!contents.emplace(id, content).second) field.fail(fmt::format("a second token with the id {}", id));
  }
  for (const auto& [id, content] : contents) {
    if (tree.find_added(content) != nullptr) continue;
    const bool special = named.contains(content);
    tree.add({{"id", id}, {"content", content}, {"special", special}, {"normalized", !special}});
  }
}

// Beside added_tokens_decoder, added_tokens.json may only repeat known tokens. Others are ignored with a
// warning.
void check_added_file(TokenTree& tree, const JsonField& file) {
  for (const auto& [content, value] : file.object().items()) {
    const JsonField field = file.at(content);
    check_id(tree, field, content, field.integer(0, kMaxTokenId));
    if (!tree.id_of(content)) {
      spdlog::warn("{}: {} is ignored, as in transformers: {} lacks it", field.where(), in_quotes(content),
                   kDecoderKey);
    }
  }
}

void merge_special_map(const JsonField& map, json& config) {
  for (const auto& [key, value] : map.object().items()) {
    const auto found = config.find(key);
    const auto content = [](const json& token) {
      return token.is_object() && token.contains("content") ? token["content"] : token;
    };
    if (found != config.end() && !found->is_null() && content(*found) != content(value) &&
        !value.is_array()) {
      spdlog::warn("{}: {} is used, as in transformers; {} differs", map.where(), in_quotes(key),
                   kConfigFile);
    }
    config[key] = value;
  }
}

void merge_named(TokenTree& tree, const JsonField& config) {
  for_each_named_token(config, [&](const JsonField& field) {
    const std::string& content = content_of(field);
    const auto id = tree.id_of(content);
    if (!id || tree.find_added(content) != nullptr) return;
    json token = {{"id", *id}, {"content", content}, {"normalized", false}};
    if (!field.is_text()) token = added_token(field, *id);
    token["special"] = true;
    tree.add(std::move(token));
  });
}

}  // namespace

AddedTokenFiles AddedTokenFiles::read(const std::filesystem::path& directory) {
  return {directory, read_if_exists(directory / kConfigFile), read_if_exists(directory / kAddedFile),
          read_if_exists(directory / kSpecialFile)};
}

void merge_added_tokens(json& tokenizer, AddedTokenFiles& files) {
  if (!tokenizer.is_object()) return;
  TokenTree tree(tokenizer);
  if (!tree.is_usable()) return;
  const auto field = [&](const json& value, const char* name) {
    return JsonField(value, (files.directory / name).string());
  };
  const bool has_config = !files.config.is_null(), has_file = !files.added_tokens.is_null();
  const auto decoder = has_config ? field(files.config, kConfigFile).find(kDecoderKey) : std::nullopt;
  if (!decoder && !files.special.is_null()) {
    if (!has_config) files.config = json::object();
    merge_special_map(field(files.special, kSpecialFile), files.config);
  }
  const json none = json::object();
  const JsonField config = files.config.is_null() ? JsonField(none, "") : field(files.config, kConfigFile);
  const std::set<std::string> named = named_contents(config);
  if (decoder) {
    merge_decoder(tree, config.at(kDecoderKey), named);
    if (has_file) check_added_file(tree, field(files.added_tokens, kAddedFile));
  } else if (has_file) {
    merge_added_file(tree, field(files.added_tokens, kAddedFile), named);
  }
  merge_named(tree, config);
}

}  // namespace serval

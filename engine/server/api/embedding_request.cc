#include "engine/server/api/embedding_request.h"

#include <algorithm>
#include <string_view>

#include "fmt/format.h"

#include "engine/server/api/body_fields.h"
#include "engine/server/api/limits.h"
#include "engine/server/api/model_name.h"
#include "engine/server/api/prompts.h"
#include "vm/base/json_fields.h"

namespace serval::server {
namespace {

using nlohmann::json;

struct EmbeddingParameter {
  std::string_view name;
  std::string_view type;
  std::string_view fallback;  // in words
  std::string limit;          // in words; empty: none
  std::string_view meaning;
};

const std::vector<EmbeddingParameter>& embedding_parameters() {
  static const std::vector<EmbeddingParameter> all = {
      {"model", "string", "the one that is served", "", ""},
      {"input", "string, token ids, or an array of either", "required",
       fmt::format("up to {} inputs, each within the context", api_limit::kEmbeddingInputs), "the texts"},
      {"encoding_format", "string", "`float`", "`float` or `base64`",
       "`base64`: each embedding is a string, the base64 of its values as little-endian 32-bit floats"},
      {"dimensions", "integer", "the model's hidden size", "1 to the model's hidden size",
       "only the first values, normalised anew; for models that are trained so that these suffice"},
      {"user", "string", "", fmt::format("{} bytes", api_limit::kNameBytes),
       "appears in the request's log line"},
      {"normalize", "boolean", "as the model's files say, else true", "",
       "scales each embedding to a length of 1"},
      {"truncate_prompt_tokens", "integer", "none", "-1, or 1 to the context",
       "keeps only this many of an input's last tokens; -1: as many as the context has"},
      {"add_special_tokens", "boolean", "true", "",
       "the tokenizer's own tokens around a text, such as BOS or an end of text"},
      {"parse_special", "boolean", "true", "",
       "control tokens that are written in a text mean these tokens; false: they are text"},
      {"cache_salt", "string", "none", fmt::format("1 to {} bytes", api_limit::kSaltBytes),
       "inputs share keys and values only with those that have the same salt"},
      {"priority", "integer", "0", fmt::format("-{0} to {0}", api_limit::kPriority),
       "smaller ones are served first"}};
  return all;
}

void refuse_unsupported(const json& body) {
  for (const auto& [name, value] : body.items()) {
    if (value.is_null() || std::ranges::find(embedding_parameters(), name, &EmbeddingParameter::name) !=
                               embedding_parameters().end())
      continue;
    throw ApiError(400, "unsupported_parameter", shown(name) + ": unknown", name);
  }
}

bool read_base64(const BodyFields& fields) {
  const auto format = fields.text("encoding_format", api_limit::kNameBytes);
  if (!format || *format == "float") return false;
  if (*format == "base64") return true;
  refuse_parameter("encoding_format", shown_value(*format) + "; expected float or base64");
}

}  // namespace

TextRequest parse_embedding_request(const std::string& body, const ModelDefaults& defaults) {
  const json parsed = parse_body(body);
  const BodyFields fields(parsed);
  refuse_unsupported(parsed);
  check_model_name(fields, defaults.name);
  const json* input = fields.find("input");
  if (input == nullptr) throw ApiError(400, "missing_parameter", "input: required", "input");
  TextRequest request{.path = TextPath::kEmbeddings};
  request.prompts = parse_prompts(*input, "input", api_limit::kEmbeddingInputs);
  request.base64 = read_base64(fields);
  request.user = fields.text("user", api_limit::kNameBytes).value_or("");
  request.truncate_prompt_tokens = read_truncation(fields);
  Request& asked = request.request;
  const TokenizeOptions options = read_tokenize_options(fields);
  asked.special = options.special;
  asked.add_special_tokens = options.add_special_tokens;
  asked.max_tokens = 0;
  asked.dimensions = static_cast<int>(fields.integer("dimensions", 1, INT32_MAX).value_or(0));
  asked.normalize = fields.boolean("normalize");
  asked.cache_salt = read_cache_salt(fields);
  asked.priority =
      static_cast<int>(fields.integer("priority", -api_limit::kPriority, api_limit::kPriority).value_or(0));
  return request;
}

std::string embedding_parameter_table() {
  std::string table =
      "| parameter | type | default | limit | what it is |\n| --- | --- | --- | --- | --- |\n";
  for (const EmbeddingParameter& p : embedding_parameters())
    table += fmt::format("| `{}` | {} | {} | {} | {} |\n", p.name, p.type, p.fallback, p.limit, p.meaning);
  return table;
}

}  // namespace serval::server

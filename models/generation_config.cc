#include "models/generation_config.h"

#include "fmt/format.h"

#include "vm/json_file.h"

namespace serval {
namespace {

using nlohmann::json;
using Limits = ConfigLimits;

std::optional<int32_t> read_token_id(const JsonFields& fields, const char* key, const json& value,
                                     int vocab_size) {
  if (!value.is_number_integer() || value < 0 || value >= vocab_size)
    fields.fail(key,
                fmt::format("found {}, expected a token id below vocab_size {}", shown(value), vocab_size));
  return value.get<int32_t>();
}

}  // namespace

void read_special_tokens(const JsonFields& fields, ModelShape& model) {
  if (const json* bos = fields.find("bos_token_id"))
    model.bos_id = read_token_id(fields, "bos_token_id", *bos, model.vocab_size);
  const json* eos = fields.find("eos_token_id");
  if (eos == nullptr) return;
  const json ids = eos->is_array() ? *eos : json::array({*eos});
  if (ids.size() > Limits::kMaxEosIds)
    fields.fail("eos_token_id", fmt::format("found {} ids, the limit is {}", ids.size(), Limits::kMaxEosIds));
  model.eos_ids.clear();
  for (const json& id : ids)
    model.eos_ids.push_back(*read_token_id(fields, "eos_token_id", id, model.vocab_size));
}

void read_generation_config(const JsonFields& fields, ModelShape& model) {
  constexpr double kMaxTemperature = 100;
  constexpr double kMaxPenalty = 100;
  read_special_tokens(fields, model);
  GenerationDefaults& defaults = model.generation;
  if (!fields.boolean_or("do_sample", true)) {
    defaults.temperature = 0.0F;
  } else if (fields.has("temperature")) {
    defaults.temperature = static_cast<float>(fields.number("temperature", 0, kMaxTemperature));
  }
  if (fields.has("top_p")) defaults.top_p = static_cast<float>(fields.number("top_p", 0, 1));
  if (fields.has("top_k"))
    defaults.top_k = static_cast<int>(fields.integer("top_k", 0, Limits::kMaxVocabSize));
  if (fields.has("repetition_penalty"))
    defaults.repetition_penalty = static_cast<float>(fields.number("repetition_penalty", 0, kMaxPenalty));
}

void apply_generation_config(std::string_view json_text, const std::string& source, ModelShape& model) {
  const json document = parse_json_text(json_text, source);
  read_generation_config(JsonFields(document, source), model);
}

}  // namespace serval

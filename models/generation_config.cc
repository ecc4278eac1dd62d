#include "models/generation_config.h"

#include <cmath>

#include "fmt/format.h"

#include "instructions/sample/ranges.h"
#include "vm/base/json_file.h"

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

std::optional<double> read_sampling(const JsonFields& fields, const SamplingRange& range) {
  const json* value = fields.find(range.name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  const bool whole = !range.is_whole || value->is_number_integer();
  if (!range.holds(number) || !whole)
    fields.fail(range.name, fmt::format("found {}; limit: {}", shown(*value), range.text()));
  return number;
}

}  // namespace

void read_special_tokens(const JsonFields& fields, ModelShape& model) {
  if (const json* bos = fields.find("bos_token_id"))
    model.bos_id = read_token_id(fields, "bos_token_id", *bos, model.vocab_size);
  const json* eos = fields.find("eos_token_id");
  if (eos == nullptr) return;
  const json ids = eos->is_array() ? *eos : json::array({*eos});
  if (ids.size() > Limits::kMaxEosIds)
    fields.fail("eos_token_id", fmt::format("found {} ids; limit: {}", ids.size(), Limits::kMaxEosIds));
  model.eos_ids.clear();
  for (const json& id : ids)
    model.eos_ids.push_back(*read_token_id(fields, "eos_token_id", id, model.vocab_size));
}

void read_generation_config(const JsonFields& fields, ModelShape& model) {
  read_special_tokens(fields, model);
  for (const SamplingRange* range : sampling_range::kRecommended) {
    if (const auto number = read_sampling(fields, *range)) model.generation[range->name] = *number;
  }
  if (!fields.boolean_or("do_sample", true)) model.generation[sampling_range::kTemperature.name] = 0;
}

void apply_generation_config(std::string_view json_text, const std::string& source, ModelShape& model) {
  const json document = parse_json_text(json_text, source);
  read_generation_config(JsonFields(document, source), model);
}

}  // namespace serval

#include "engine/cli/input/score_lines.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "fmt/format.h"

#include "engine/cli/input/prompts.h"
#include "vm/base/error.h"
#include "vm/base/json_fields.h"
#include "vm/base/json_file.h"

namespace serval::cli {
namespace {

using nlohmann::json;

// One line's object.
class LineFields {
 public:
  LineFields(const json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object_.is_object()) refuse("expected an object with text, or with prompt and continuation");
    for (const auto& [name, value] : object_.items()) {
      constexpr std::string_view kKnown[] = {"text", "prompt", "continuation", "id"};
      if (std::ranges::find(kKnown, name) == std::end(kKnown))
        refuse(fmt::format("{}: unknown; expected text, prompt, continuation or id", shown(name)));
    }
  }

  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(ErrorKind::kUsage, place_ + ": " + problem);
  }
  bool has(const char* name) const { return object_.contains(name); }
  std::string text(const char* name) const {
    const json& value = object_.at(name);
    if (!value.is_string()) refuse(fmt::format("{}: {}; expected a text", name, shown(value)));
    return repair_utf8(value.get<std::string>());
  }
  std::string full_text(const char* name) const {
    std::string value = text(name);
    if (value.empty()) refuse(fmt::format("{}: empty; expected at least 1 token", name));
    return value;
  }
  nlohmann::ordered_json id() const {
    if (!has("id")) return {};
    const json& value = object_.at("id");
    if (!value.is_string() && !value.is_number_integer())
      refuse(fmt::format("id: {}; expected a text or a whole number", shown(value)));
    return value;
  }

 private:
  const json& object_;
  const std::string place_;
};

json parse_line(const std::string& line, const std::string& place) {
  try {
    return parse_json_text(line, place);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, error.what());
  }
}

ScoreLine read_line(const std::string& line, const std::string& place) {
  const json object = parse_line(line, place);
  const LineFields fields(object, place);
  ScoreLine read{.place = place, .id = fields.id()};
  if (fields.has("text")) {
    if (fields.has("prompt") || fields.has("continuation"))
      fields.refuse("text: not with prompt or continuation; set either, not both");
    read.text = fields.full_text("text");
    return read;
  }
  if (!fields.has("continuation")) fields.refuse("expected text, or prompt and continuation");
  if (fields.has("prompt")) read.prompt = fields.text("prompt");
  read.text = fields.full_text("continuation");
  read.is_continuation = true;
  return read;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

std::vector<ScoreLine> parse_score_lines(const std::string& text, const std::string& file) {
  std::vector<ScoreLine> lines;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (!is_blank(line)) lines.push_back(read_line(line, fmt::format("{}: line {}", file, number)));
  }
  if (lines.empty()) throw Error(ErrorKind::kUsage, file + ": no lines; expected a JSON object a line");
  return lines;
}

}  // namespace serval::cli

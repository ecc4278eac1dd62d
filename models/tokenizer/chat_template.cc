#include "models/tokenizer/chat_template.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "models/tokenizer/json_field.h"
#include "models/tokenizer/unicode.h"
#include "models/tokenizer/utf8.h"
#include "vm/error.h"
#include "vm/json_file.h"

namespace serval {
namespace {

constexpr std::size_t kMaxTemplateBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxRoleBytes = 64;

// White space as Python's str.strip() sees it, which is what Jinja's `trim` calls: four separators more than
// Unicode's.
bool is_stripped(std::string_view character) {
  const std::uint32_t c = code_point(character);
  return is_white_space(character) || (c >= 0x1C && c <= 0x1F);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_stripped(first_character(text)))
    text.remove_prefix(first_character(text).size());
  while (!text.empty() && is_stripped(last_character(text))) text.remove_suffix(last_character(text).size());
  return text;
}

void check_role(std::string_view role) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (role.empty() || role.size() > kMaxRoleBytes || !std::all_of(role.begin(), role.end(), allowed)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("chat message: role {}: must be 1 to {} letters, digits, '_' or '-'",
                            in_quotes(role), kMaxRoleBytes));
  }
}

std::int32_t id_of(const Tokenizer& tokenizer, std::string_view token) {
  if (const auto id = tokenizer.find(token)) return *id;
  throw Error(ErrorKind::kRuntime, fmt::format("chat template: the vocabulary has no {}", token));
}

// `chat_template` of tokenizer_config.json is the program, or a list of {name, template}.
std::optional<std::string> program_of(const JsonField& config) {
  const auto field = config.find("chat_template");
  if (!field) return std::nullopt;
  if (field->is_text()) return field->text();
  if (field->size() == 0) field->fail("has no template");
  for (std::size_t i = 0; i < field->size(); ++i) {
    const JsonField entry = field->element(i);
    if (entry.at("name").text() == "default") return entry.at("template").text();
  }
  return field->element(0).at("template").text();
}

}  // namespace

struct ChatTemplate::Format {
  std::string_view name;
  std::string_view bos;         // a control token, or empty
  std::string_view start;       // a control token
  std::string_view after_role;  // a control token, or empty
  std::string_view gap;         // text between role and content
  std::string_view end;         // a control token
  std::string_view after_end;   // text between messages
  bool trims;                   // white space around the content
  std::array<std::string_view, 3> stops;
};

// A stretch of the rendered conversation: one control token, or text that must not become one.
struct ChatTemplate::Part {
  std::string text;
  bool control;
};

std::span<const ChatTemplate::Format> ChatTemplate::formats() {
  static constexpr Format kFormats[] = {
      {.name = "llama3",
       .bos = "<|begin_of_text|>",
       .start = "<|start_header_id|>",
       .after_role = "<|end_header_id|>",
       .gap = "\n\n",
       .end = "<|eot_id|>",
       .after_end = "",
       .trims = true,
       .stops = {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"}},
      {.name = "chatml",
       .bos = "",
       .start = "<|im_start|>",
       .after_role = "",
       .gap = "\n",
       .end = "<|im_end|>",
       .after_end = "\n",
       .trims = false,
       .stops = {"<|im_end|>", "<|endoftext|>"}},
  };
  return kFormats;
}

std::vector<std::string> ChatTemplate::names() {
  std::vector<std::string> names;
  for (const Format& format : formats()) names.emplace_back(format.name);
  return names;
}

std::string ChatTemplate::choices() {
  return fmt::format("--chat-template {}", fmt::join(names(), "|"));
}

std::string_view ChatTemplate::name() const {
  return format_->name;
}

ChatTemplate ChatTemplate::of(const Format& format, std::string bos, const std::string& where,
                              const Tokenizer& tokenizer) {
  for (const std::string_view token : {std::string_view(bos), format.start, format.after_role, format.end}) {
    if (token.empty() || tokenizer.find(token)) continue;
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: the {} template needs {}, which the vocabulary lacks; choose with {}", where,
                            format.name, token, choices()));
  }
  return ChatTemplate(format, std::move(bos));
}

ChatTemplate ChatTemplate::named(std::string_view name, const Tokenizer& tokenizer) {
  for (const Format& format : formats()) {
    if (format.name == name) return of(format, std::string(format.bos), "chat template", tokenizer);
  }
  throw Error(ErrorKind::kUsage,
              fmt::format("chat template {}: unknown; choose with {}", in_quotes(name), choices()));
}

ChatTemplate ChatTemplate::recognise(const std::filesystem::path& model_dir, const Tokenizer& tokenizer) {
  const auto own_file = model_dir / "chat_template.jinja";
  if (std::filesystem::exists(own_file)) {
    return recognise_text(read_text_file(own_file, kMaxTemplateBytes), own_file.string(), tokenizer);
  }
  const auto config_path = model_dir / "tokenizer_config.json";
  std::optional<std::string> program;
  if (std::filesystem::exists(config_path)) {
    const nlohmann::json config = parse_json_file(config_path, kMaxTokenizerFileBytes);
    program = program_of(JsonField(config, config_path.string()));
  }
  if (!program) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: chat_template: missing; choose with {}", config_path.string(), choices()));
  }
  return recognise_text(*program, config_path.string() + ": chat_template", tokenizer);
}

ChatTemplate ChatTemplate::recognise_text(std::string_view jinja, const std::string& where,
                                          const Tokenizer& tokenizer) {
  const auto mentions = [jinja](std::string_view mark) { return jinja.find(mark) != jinja.npos; };
  const Format* found = nullptr;
  int matches = 0;
  for (const Format& format : formats()) {
    if (!mentions(format.start) || !mentions(format.after_role) || !mentions(format.end)) continue;
    found = &format;
    ++matches;
  }
  if (matches != 1) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: not one of the known templates; choose with {}", where, choices()));
  }
  if (mentions("bos_token") && tokenizer.bos_id()) {
    return of(*found, std::string(tokenizer.token_bytes(*tokenizer.bos_id())), where, tokenizer);
  }
  return of(*found, std::string(found->bos), where, tokenizer);
}

std::vector<ChatTemplate::Part> ChatTemplate::parts(std::span<const ChatTurn> messages,
                                                    bool add_generation_prompt) const {
  std::vector<Part> parts;
  const auto control = [&parts](std::string_view token) {
    if (!token.empty()) parts.push_back({std::string(token), true});
  };
  // Text that follows text is one stretch, or else the tokenizer would cut it where the model never saw a
  // cut.
  const auto text = [&parts](std::string_view more) {
    if (parts.empty() || parts.back().control) parts.push_back({"", false});
    parts.back().text += more;
  };
  const auto begin_message = [&](std::string_view role) {
    control(format_->start);
    text(role);
    control(format_->after_role);
    text(format_->gap);
  };
  control(bos_);
  for (const ChatTurn& message : messages) {
    check_role(message.role);
    std::string repaired;
    const std::string_view content = utf8_lossy(message.content, &repaired);
    begin_message(message.role);
    text(format_->trims ? trimmed(content) : content);
    control(format_->end);
    text(format_->after_end);
  }
  if (add_generation_prompt) begin_message("assistant");
  return parts;
}

std::string ChatTemplate::render(std::span<const ChatTurn> messages, bool add_generation_prompt) const {
  std::string text;
  for (const Part& part : parts(messages, add_generation_prompt)) text += part.text;
  return text;
}

std::vector<std::int32_t> ChatTemplate::encode(const Tokenizer& tokenizer, std::span<const ChatTurn> messages,
                                               bool add_generation_prompt) const {
  // Some checkpoints do not mark these as special.
  std::vector<std::int32_t> control_ids = stop_ids(tokenizer);
  for (const std::string_view token :
       {std::string_view(bos_), format_->start, format_->after_role, format_->end}) {
    if (!token.empty()) control_ids.push_back(id_of(tokenizer, token));
  }
  std::vector<std::int32_t> ids;
  for (const Part& part : parts(messages, add_generation_prompt)) {
    if (part.control) {
      ids.push_back(id_of(tokenizer, part.text));
    } else {
      const auto text = tokenizer.encode_plain(part.text, control_ids);
      ids.insert(ids.end(), text.begin(), text.end());
    }
  }
  return ids;
}

std::vector<std::int32_t> ChatTemplate::stop_ids(const Tokenizer& tokenizer) const {
  std::vector<std::int32_t> ids;
  for (const std::string_view token : format_->stops) {
    if (const auto id = tokenizer.find(token); id && !token.empty()) ids.push_back(*id);
  }
  return ids;
}

}  // namespace serval

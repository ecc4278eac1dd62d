#include "models/tokenizer/chat_template.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "models/jinja/template.h"
#include "models/tokenizer/json_field.h"
#include "models/tokenizer/utf8.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

constexpr std::size_t kMaxRoleBytes = 64;

struct BuiltIn {
  std::string_view name;
  std::string_view jinja;
  std::array<std::string_view, 4> tokens;  // required in the vocabulary
};

constexpr BuiltIn kBuiltIn[] = {
    {"llama3",
     "{{ '<|begin_of_text|>' }}{% for message in messages %}"
     "{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + "
     "'<|eot_id|>' }}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
     {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
    {"chatml",
     "{% for message in messages %}"
     "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
     {"<|im_start|>", "<|im_end|>"}},
};

// If a template uses one token of a group, models tuned with it may end an answer with any token of the
// group.
constexpr std::array<std::string_view, 3> kEndTokenGroups[] = {
    {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"},
    {"<|im_end|>", "<|endoftext|>"},
    {"<end_of_turn>", "<eos>"},
    {"<|end|>", "<|endoftext|>"},
};

const BuiltIn* find_built_in(std::string_view name) {
  const auto found = std::find_if(std::begin(kBuiltIn), std::end(kBuiltIn),
                                  [name](const BuiltIn& each) { return each.name == name; });
  return found == std::end(kBuiltIn) ? nullptr : found;
}

std::string choices() {
  return fmt::format("--chat-template {}|FILE", fmt::join(ChatTemplate::names(), "|"));
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

// Some templates build a control token from the role. Only these roles may become part of one.
jinja::Origin origin_of_role(std::string_view role) {
  constexpr std::string_view kRoles[] = {"system", "user", "assistant", "tool", "developer", "ipython"};
  const bool known = std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
  return known ? jinja::Origin::kTemplate : jinja::Origin::kData;
}

jinja::Text data_text(const std::string& bytes) {
  std::string repaired;
  return jinja::Text(std::string(utf8_lossy(bytes, &repaired)), jinja::Origin::kData);
}

// `name` is what messages call the text. `is_expected`: ordered_json::is_object, for example.
nlohmann::ordered_json parsed_json(const std::string& text, const char* name, const char* expected,
                                   bool (*is_expected)(const nlohmann::ordered_json&)) {
  constexpr int kMostDepth = 90;  // below the templates' own limit
  try {
    parse_json_text(text, name, kMostDepth);  // checks nesting and repeated keys
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, error.what());
  }
  auto value = nlohmann::ordered_json::parse(text);
  if (is_expected(value)) return value;
  throw Error(ErrorKind::kUsage, fmt::format("{}: expected {}", name, expected));
}

bool is_object(const nlohmann::ordered_json& value) {
  return value.is_object();
}
bool is_array(const nlohmann::ordered_json& value) {
  return value.is_array();
}

jinja::Value call_of(const ChatCall& call) {
  const auto arguments =
      parsed_json(call.arguments, "messages: tool_calls: arguments", "a JSON object", is_object);
  jinja::Entries function = {{jinja::Text("name"), data_text(call.name)},
                             {jinja::Text("arguments"), jinja::from_json(arguments, jinja::Origin::kData)}};
  return jinja::Value::dict({{jinja::Text("id"), data_text(call.id)},
                             {jinja::Text("type"), jinja::Text("function")},
                             {jinja::Text("function"), jinja::Value::dict(std::move(function))}});
}

// Templates test which members a message has, so it has none that are empty, apart from the content.
jinja::Value message_of(const ChatTurn& turn) {
  check_role(turn.role);
  jinja::Entries message = {{jinja::Text("role"), jinja::Text(turn.role, origin_of_role(turn.role))},
                            {jinja::Text("content"), data_text(turn.content)}};
  const auto add = [&message](const char* name, const std::string& text) {
    if (!text.empty()) message.emplace_back(jinja::Text(name), data_text(text));
  };
  add("name", turn.name);
  add("tool_call_id", turn.call_id);
  add("reasoning_content", turn.reasoning);
  add("thinking", turn.reasoning);  // as transformers does, for templates that read this name
  if (!turn.calls.empty()) {
    jinja::List calls;
    for (const ChatCall& call : turn.calls) calls.push_back(call_of(call));
    message.emplace_back(jinja::Text("tool_calls"), jinja::Value::list(std::move(calls)));
  }
  return jinja::Value::dict(std::move(message));
}

// Stands at the end of the content that is continued, while the template writes it. The space at its end
// shows whether the template keeps spaces there.
constexpr std::string_view kContinued = "\uE000the answer continues here\uE000 ";

std::vector<ChatTurn> with_continuation(std::span<const ChatTurn> messages) {
  if (messages.empty() || messages.back().content.empty())
    throw Error(ErrorKind::kUsage,
                "continue_final_message: the last message has no content; expected text to continue");
  std::vector<ChatTurn> turns(messages.begin(), messages.end());
  turns.back().content += kContinued;
  return turns;
}

jinja::Text up_to_continuation(const jinja::Text& text) {
  const size_t at = text.bytes().rfind(kContinued.substr(0, kContinued.size() - 1));
  if (at == std::string::npos)
    throw Error(ErrorKind::kUsage,
                "continue_final_message: the chat template does not write the last message's content");
  const jinja::Text before = text.slice(0, at);
  const bool keeps_spaces = text.bytes().compare(at, kContinued.size(), kContinued) == 0;
  return keeps_spaces ? before : before.stripped(jinja::Text::Ends::kRight);
}

// "chat_template" of tokenizer_config.json is the template, or a list of {name, template}.
std::optional<std::string> template_of(const JsonField& config) {
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

// The template refuses the conversation or fails on it, so it is wrong for this model. The message names the
// template without its path: clients of a server must not see paths.
[[noreturn]] void fail_on_messages(std::string_view where, const std::string& name,
                                   std::string_view problem) {
  if (problem.starts_with(where)) problem.remove_prefix(where.size());
  while (problem.starts_with(':') || problem.starts_with(' ')) problem.remove_prefix(1);
  throw Error(ErrorKind::kUsage, fmt::format("messages: chat template {}: {}",
                                             std::filesystem::path(name).filename().string(), problem));
}

std::optional<jinja::Text> text_of(const Tokenizer& tokenizer, std::optional<std::int32_t> token) {
  if (!token) return std::nullopt;
  std::string repaired;
  return jinja::Text(std::string(utf8_lossy(tokenizer.token_bytes(*token), &repaired)));
}

std::vector<TextSpan> spans_of(const jinja::Text& text, jinja::Origin origin) {
  std::vector<TextSpan> spans;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.origin(i) != origin) continue;
    if (spans.empty() || spans.back().end != i) spans.push_back({i, i});
    spans.back().end = i + 1;
  }
  return spans;
}

}  // namespace

struct ChatTemplate::Loaded {
  jinja::Template program;
  std::string source, where, name;
  std::optional<jinja::Text> bos, eos;
  std::vector<std::int32_t> stop_ids;
};

std::vector<std::string> ChatTemplate::names() {
  std::vector<std::string> names;
  for (const BuiltIn& each : kBuiltIn) names.emplace_back(each.name);
  return names;
}

bool ChatTemplate::exists(const std::string& name_or_file) {
  std::error_code none;
  return find_built_in(name_or_file) != nullptr || std::filesystem::is_regular_file(name_or_file, none);
}

const std::string& ChatTemplate::name() const {
  return loaded_->name;
}
const std::string& ChatTemplate::source() const {
  return loaded_->source;
}
std::vector<std::int32_t> ChatTemplate::stop_ids() const {
  return loaded_->stop_ids;
}

ChatTemplate ChatTemplate::of_text(std::string_view jinja, std::string where, std::string name,
                                   const Tokenizer& tokenizer) {
  jinja::Template program(jinja, where);
  auto loaded = std::make_shared<Loaded>(Loaded{std::move(program),
                                                std::string(jinja),
                                                std::move(where),
                                                std::move(name),
                                                text_of(tokenizer, tokenizer.bos_id()),
                                                text_of(tokenizer, tokenizer.eos_id()),
                                                {}});
  loaded->stop_ids = ChatTemplate(loaded).find_stop_ids(tokenizer);
  return ChatTemplate(std::move(loaded));
}

ChatTemplate ChatTemplate::of_name(const std::string& name_or_file, const Tokenizer& tokenizer) {
  const BuiltIn* found = find_built_in(name_or_file);
  if (found == nullptr && exists(name_or_file)) {
    return of_text(read_text_file(name_or_file, jinja::kMaxTemplateBytes), name_or_file, name_or_file,
                   tokenizer);
  }
  if (found == nullptr) {
    throw Error(ErrorKind::kUsage, fmt::format("chat template {}: neither a file nor a name; choose with {}",
                                               in_quotes(name_or_file), choices()));
  }
  for (const std::string_view token : found->tokens) {
    if (token.empty() || tokenizer.find(token)) continue;
    throw Error(ErrorKind::kRuntime,
                fmt::format("chat template: {} needs {}, which the vocabulary lacks; choose with {}",
                            found->name, token, choices()));
  }
  return of_text(found->jinja, "chat template " + name_or_file, name_or_file, tokenizer);
}

ChatTemplate ChatTemplate::of_checkpoint(const std::filesystem::path& model_dir, const Tokenizer& tokenizer) {
  const auto own_file = model_dir / "chat_template.jinja";
  if (std::filesystem::exists(own_file)) {
    return of_text(read_text_file(own_file, jinja::kMaxTemplateBytes), own_file.string(),
                   own_file.filename().string(), tokenizer);
  }
  const auto config_path = model_dir / "tokenizer_config.json";
  std::optional<std::string> program;
  if (std::filesystem::exists(config_path)) {
    const nlohmann::json config = parse_json_file(config_path, kMaxTokenizerFileBytes);
    program = template_of(JsonField(config, config_path.string()));
  }
  const std::string where = config_path.string() + ": chat_template";
  if (!program) refuse_missing(where);
  return of_text(*program, where, config_path.filename().string(), tokenizer);
}

void ChatTemplate::refuse_missing(const std::string& where) {
  throw Error(ErrorKind::kRuntime, fmt::format("{}: missing; choose with {}", where, choices()));
}

jinja::Text ChatTemplate::render_text(std::span<const ChatTurn> messages, const ChatPrompt& prompt) const {
  if (prompt.continue_final_message) {
    if (prompt.add_generation_prompt)
      throw Error(ErrorKind::kUsage, "continue_final_message: not with add_generation_prompt");
    ChatPrompt whole = prompt;
    whole.continue_final_message = false;
    return up_to_continuation(render_text(with_continuation(messages), whole));
  }
  const jinja::Value variables = jinja::Value::dict(variables_of(messages, prompt));
  try {
    return loaded_->program.render(variables);
  } catch (const Error& error) {
    fail_on_messages(loaded_->where, loaded_->name, error.what());
  }
}

jinja::Entries ChatTemplate::variables_of(std::span<const ChatTurn> messages,
                                          const ChatPrompt& prompt) const {
  jinja::List list;
  for (const ChatTurn& message : messages) list.push_back(message_of(message));
  jinja::Entries variables = {{jinja::Text("messages"), jinja::Value::list(std::move(list))},
                              {jinja::Text("tools"), jinja::Value()},
                              {jinja::Text("documents"), jinja::Value()},
                              {jinja::Text("add_generation_prompt"), prompt.add_generation_prompt}};
  if (loaded_->bos) variables.emplace_back(jinja::Text("bos_token"), *loaded_->bos);
  if (loaded_->eos) variables.emplace_back(jinja::Text("eos_token"), *loaded_->eos);
  const auto set = [&variables](const std::string& name, jinja::Value value) {
    const auto same = [&name](const auto& entry) { return entry.first.text().bytes() == name; };
    const auto known = std::find_if(variables.begin(), variables.end(), same);
    if (known == variables.end()) {
      variables.emplace_back(jinja::Text(name), std::move(value));
    } else {
      known->second = std::move(value);
    }
  };
  if (!prompt.tools.empty())
    set("tools",
        jinja::from_json(parsed_json(prompt.tools, "tools", "a JSON array", is_array), jinja::Origin::kData));
  if (!prompt.variables.empty()) {
    const auto more = parsed_json(prompt.variables, "chat_template_kwargs", "a JSON object", is_object);
    for (const auto& [name, value] : more.items()) set(name, jinja::from_json(value, jinja::Origin::kData));
  }
  return variables;
}

std::string ChatTemplate::render(std::span<const ChatTurn> messages, const ChatPrompt& prompt) const {
  return render_text(messages, prompt).bytes();
}

std::vector<std::int32_t> ChatTemplate::encode(const Tokenizer& tokenizer, std::span<const ChatTurn> messages,
                                               const ChatPrompt& prompt) const {
  const jinja::Text text = render_text(messages, prompt);
  return tokenizer.encode_partly_trusted(text.bytes(), spans_of(text, jinja::Origin::kTemplate),
                                         loaded_->stop_ids);
}

namespace {

// True if a token can end an answer: a special token, or an added token in <…> or […]. Other added tokens may
// be plain text, such as runs of line ends.
bool is_control(const Tokenizer& tokenizer, std::int32_t id) {
  if (tokenizer.is_special(id)) return true;
  const std::string_view text = tokenizer.token_bytes(id);
  const bool in_brackets =
      (text.starts_with('<') && text.ends_with('>')) || (text.starts_with('[') && text.ends_with(']'));
  return tokenizer.is_added(id) && in_brackets;
}

}  // namespace

// Renders a sample conversation: the first control token after its answer, and the other tokens of its group.
std::vector<std::int32_t> ChatTemplate::find_stop_ids(const Tokenizer& tokenizer) const {
  const std::vector<ChatTurn> probe = {{"user", "Hello."}, {"assistant", "Hello."}};
  jinja::Text text;
  try {
    text = render_text(probe, {.add_generation_prompt = false});
  } catch (const Error&) {
    return {};  // the template needs other conversations; the configuration's EOS still ends answers
  }
  const auto contents = spans_of(text, jinja::Origin::kData);
  if (contents.empty()) return {};
  const jinja::Text rest = text.slice(contents.back().end, text.size());
  const auto tokens = tokenizer.encode(rest.bytes(), /*add_special_tokens=*/false);
  const auto end =
      std::find_if(tokens.begin(), tokens.end(), [&](std::int32_t id) { return is_control(tokenizer, id); });
  if (end == tokens.end()) return {};
  std::vector<std::int32_t> ids = {*end};
  const auto is_end = [&](std::string_view token) { return !token.empty() && tokenizer.find(token) == *end; };
  for (const auto& group : kEndTokenGroups) {
    if (std::none_of(group.begin(), group.end(), is_end)) continue;
    for (const std::string_view token : group) {
      const auto id = token.empty() ? std::nullopt : tokenizer.find(token);
      if (id && std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
    }
  }
  return ids;
}

}  // namespace serval

#include "engine/server/api/message_blocks.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/server/api/limits.h"

namespace serval::server {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string type_of(const BodyFields& block) {
  const auto type = block.text("type", api_limit::kNameBytes);
  if (!type) refuse_parameter(block.full_name("type"), "absent; expected a type of block");
  return *type;
}

std::string required_text(const BodyFields& block, const char* name) {
  const auto text = block.text(name, SIZE_MAX);
  if (!text) refuse_parameter(block.full_name(name), "absent; expected a string");
  return *text;
}

// Calls read(block, index) for each block of an array.
template <class Read>
void read_blocks(const json& blocks, const std::string& name, Read&& read) {
  if (blocks.size() > api_limit::kContentParts)
    refuse_parameter(name, fmt::format("{} blocks; limit: {}", blocks.size(), api_limit::kContentParts));
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::string of_block = fmt::format("{}[{}]", name, i);
    if (!blocks[i].is_object()) refuse_parameter(of_block, shown_value(blocks[i]) + "; expected an object");
    read(BodyFields(blocks[i], of_block + "."), i);
  }
}

std::string text_of_block(const BodyFields& block) {
  block.refuse_others({"type", "text", "cache_control", "citations"});
  check_cache_control(block);
  const json* citations = block.find("citations");
  if (citations != nullptr && !(citations->is_array() && citations->empty()))
    refuse_parameter(block.full_name("citations"), shown_value(*citations) + "; only null is supported");
  return required_text(block, "text");
}

// A string, or an array of blocks of text. Absent: empty.
std::string text_of(const BodyFields& fields, const char* member) {
  const json* content = fields.find(member);
  if (content == nullptr) return {};
  if (content->is_string()) return content->get<std::string>();
  const std::string name = fields.full_name(member);
  if (!content->is_array())
    refuse_parameter(name, shown_value(*content) + "; expected a string or blocks of text");
  std::string text;
  read_blocks(*content, name, [&](const BodyFields& block, size_t /*index*/) {
    const std::string type = type_of(block);
    if (type != "text")
      refuse_parameter(block.full_name("type"), shown_value(type) + "; only text is supported");
    text += text_of_block(block);
  });
  return text;
}

class TurnReader {
 public:
  explicit TurnReader(const std::string& body) : body_(body) {}

  void add_system(const std::string& text) {
    if (!text.empty()) turns_.messages.push_back({.role = "system", .content = text});
  }
  void add(const json& message, size_t index) {
    const std::string name = fmt::format("messages[{}]", index);
    if (!message.is_object()) refuse_parameter(name, shown_value(message) + "; expected an object");
    const BodyFields fields(message, name + ".");
    fields.refuse_others({"role", "content"});
    const auto role = fields.text("role", api_limit::kNameBytes);
    if (role != "user" && role != "assistant")
      refuse_parameter(name + ".role", (role ? shown_value(*role) : "absent") +
                                           "; expected user or assistant; a system prompt is in system");
    add_content(fields, *role, index);
  }
  MessageTurns take() {
    const ChatMessage& last = turns_.messages.back();
    turns_.continues_answer = last.role == "assistant";
    if (turns_.continues_answer && !last.tool_calls.empty())
      refuse_parameter("messages", "the last block is tool_use; expected its tool_result");
    return std::move(turns_);
  }

 private:
  void add_content(const BodyFields& fields, const std::string& role, size_t index) {
    const json* content = fields.find("content");
    const std::string name = fields.full_name("content");
    if (content == nullptr) refuse_parameter(name, "absent; expected a string or blocks");
    if (!content->is_string() && !content->is_array())
      refuse_parameter(name, shown_value(*content) + "; expected a string or blocks");
    joins_ = true;
    if (content->is_string()) return add_text(role, content->get<std::string>());
    if (content->empty()) refuse_parameter(name, "empty; expected at least 1 block");
    read_blocks(*content, name, [&](const BodyFields& block, size_t of) {
      role == "user" ? add_user_block(block) : add_assistant_block(block, index, of);
    });
  }

  void add_user_block(const BodyFields& block) {
    const std::string type = type_of(block);
    if (type == "text") {
      add_text("user", text_of_block(block));
    } else if (type == "tool_result") {
      add_result(block);
    } else {
      refuse_parameter(block.full_name("type"),
                       shown_value(type) + "; only text and tool_result are supported");
    }
  }

  void add_result(const BodyFields& block) {
    block.refuse_others({"type", "tool_use_id", "content", "is_error", "cache_control"});
    check_cache_control(block);
    block.boolean("is_error");
    const std::string id = required_text(block, "tool_use_id");
    if (!call_ids_.contains(id))
      refuse_parameter(block.full_name("tool_use_id"), shown_value(id) + "; no tool_use before has this id");
    turns_.messages.push_back({.role = "tool", .content = text_of(block, "content"), .tool_call_id = id});
  }

  void add_assistant_block(const BodyFields& block, size_t message, size_t index) {
    const std::string type = type_of(block);
    if (type == "text") {
      add_text("assistant", text_of_block(block));
    } else if (type == "tool_use") {
      add_call(block, message, index);
    } else if (type == "thinking") {
      block.refuse_others({"type", "thinking", "signature"});
      block.text("signature", SIZE_MAX);
      turn_of("assistant").reasoning_content += required_text(block, "thinking");
    } else {
      refuse_parameter(block.full_name("type"),
                       shown_value(type) + "; only text, thinking and tool_use are supported");
    }
  }

  void add_call(const BodyFields& block, size_t message, size_t index) {
    block.refuse_others({"type", "id", "name", "input", "caller", "cache_control"});
    check_cache_control(block);
    const json* caller = block.find("caller");
    if (caller != nullptr && *caller != json{{"type", "direct"}})
      refuse_parameter(block.full_name("caller"), shown_value(*caller) + "; only direct is supported");
    const std::string id = required_text(block, "id");
    const std::string name = required_text(block, "name");
    for (const auto& [member, value] : {std::pair("id", id), {"name", name}}) {
      if (value.empty() || value.size() > api_limit::kNameBytes)
        refuse_parameter(block.full_name(member),
                         fmt::format("{} bytes; limit: 1 to {}", value.size(), api_limit::kNameBytes));
    }
    const json* input = block.find("input");
    if (input == nullptr || !input->is_object())
      refuse_parameter(block.full_name("input"), (input == nullptr ? "absent" : shown_value(*input)) +
                                                     std::string("; expected an object"));
    if (!call_ids_.insert(id).second)
      refuse_parameter(block.full_name("id"), shown_value(id) + "; another tool_use has this id");
    if (!written_) written_ = ordered_json::parse(body_);
    const std::string arguments = written_->at("messages")[message]["content"][index]["input"].dump();
    turn_of("assistant").tool_calls.push_back({id, name, arguments});
  }

  // The message to which a block of `role` belongs.
  ChatMessage& turn_of(const std::string& role) {
    auto& messages = turns_.messages;
    if (messages.empty() || messages.back().role != role) messages.push_back({.role = role});
    return messages.back();
  }

  // Texts of a message are joined as they are, and those of two messages with an empty line.
  void add_text(const std::string& role, const std::string& text) {
    std::string& content = turn_of(role).content;
    if (std::exchange(joins_, false) && !content.empty()) content += "\n\n";
    content += text;
  }

  const std::string& body_;
  std::optional<ordered_json> written_;  // the body with its order, once it is needed
  MessageTurns turns_;
  std::set<std::string> call_ids_;
  bool joins_ = false;  // the next text is the first of its message
};

}  // namespace

void check_cache_control(const BodyFields& fields) {
  const json* value = fields.find("cache_control");
  if (value == nullptr) return;
  const std::string name = fields.full_name("cache_control");
  if (!value->is_object()) refuse_parameter(name, shown_value(*value) + "; expected an object");
  const BodyFields control(*value, name + ".");
  control.refuse_others({"type", "ttl"});
  if (control.text("type", api_limit::kNameBytes) != "ephemeral")
    refuse_parameter(name + ".type", "expected ephemeral");
  const auto ttl = control.text("ttl", api_limit::kNameBytes);
  if (ttl && *ttl != "5m" && *ttl != "1h") refuse_parameter(name + ".ttl", "expected 5m or 1h");
}

MessageTurns parse_turns(const BodyFields& fields, const std::string& body) {
  const json* messages = fields.find("messages");
  if (messages == nullptr) throw ApiError(400, "missing_parameter", "messages: required", "messages");
  if (!messages->is_array() || messages->empty())
    refuse_parameter("messages", (messages->empty() ? "empty" : shown_value(*messages)) +
                                     std::string("; expected an array of at least one message"));
  if (messages->size() > api_limit::kMessages)
    refuse_parameter("messages",
                     fmt::format("{} messages; limit: {}", messages->size(), api_limit::kMessages));
  TurnReader reader(body);
  reader.add_system(text_of(fields, "system"));
  for (size_t i = 0; i < messages->size(); ++i) reader.add((*messages)[i], i);
  return reader.take();
}

}  // namespace serval::server

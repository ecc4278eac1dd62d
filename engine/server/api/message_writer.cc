#include "engine/server/api/message_writer.h"

#include <optional>
#include <utility>

#include "engine/server/api/json_text.h"

namespace serval::server {
namespace {

using nlohmann::ordered_json;

// Tokens that were found in the KV cache do not count as input again.
ordered_json usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"thinking_tokens", usage.reasoning_tokens}}}};
}

ordered_json text_block(const std::string& text) {
  return {{"type", "text"}, {"text", text}};
}

// The signature, with which Anthropic's API proves that it has written the block, is empty.
ordered_json thinking_block(const std::string& thinking) {
  return {{"type", "thinking"}, {"thinking", thinking}, {"signature", ""}};
}

ordered_json call_block(const CallPiece& call, ordered_json input) {
  return {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", std::move(input)}};
}

ordered_json input_of(const CallPiece& call) {
  const ordered_json input = ordered_json::parse(call.arguments, nullptr, /*allow_exceptions=*/false);
  return input.is_object() ? input : ordered_json::object();
}

ordered_json content_of(const Piece& answer) {
  ordered_json content = ordered_json::array();
  if (!answer.reasoning.empty()) content.push_back(thinking_block(answer.reasoning));
  if (!answer.text.empty()) content.push_back(text_block(answer.text));
  for (const CallPiece& call : answer.calls) content.push_back(call_block(call, input_of(call)));
  return content;
}

class MessageWriter final : public AnswerWriter {
 public:
  MessageWriter(const TextRequest& request, AnswerIdentity identity)
      : identity_(std::move(identity)),
        prompt_tokens_(request.prompt_ids.empty() ? 0
                                                  : static_cast<int64_t>(request.prompt_ids.front().size())) {
  }

  std::string complete(const std::vector<Piece>& choices, const Usage& usage) override {
    note_end(choices.front());
    return json_text(message(content_of(choices.front()), usage));
  }

  // How many of the prompt's tokens are in the KV cache is not known yet.
  std::string begin(size_t /*choice*/) override {
    const Usage usage{.prompt_tokens = prompt_tokens_};
    return event("message_start", {{"message", message(ordered_json::array(), usage)}});
  }

  std::string piece(size_t /*choice*/, const Piece& piece) override {
    std::string events;
    if (!piece.reasoning.empty()) {
      events += open(Block::kThinking, thinking_block(""));
      events += delta({{"type", "thinking_delta"}, {"thinking", piece.reasoning}});
    }
    if (!piece.text.empty()) {
      events += open(Block::kText, text_block(""));
      events += delta({{"type", "text_delta"}, {"text", piece.text}});
    }
    for (const CallPiece& call : piece.calls) events += call_events(call);
    if (!piece.finish_reason.empty()) note_end(piece);
    return events;
  }

  std::string end(const Usage& usage) override {
    const ordered_json stop = {{"stop_reason", stop_reason_}, {"stop_sequence", stop_sequence_}};
    std::string events = close();
    events += event("message_delta", {{"delta", stop}, {"usage", usage_json(usage)}});
    return events + event("message_stop", ordered_json::object());
  }

  std::string error(const ApiError& error) override {
    return "event: error\n" + event_of(error_json(error, ApiStyle::kAnthropic));
  }

 private:
  enum class Block { kNone, kThinking, kText, kCall };

  void note_end(const Piece& piece) {
    const auto* const stop = std::get_if<std::string>(&piece.stop_reason);
    if (piece.finish_reason == "length")
      stop_reason_ = "max_tokens";
    else if (piece.finish_reason == "tool_calls")
      stop_reason_ = "tool_use";
    else
      stop_reason_ = stop == nullptr ? "end_turn" : "stop_sequence";
    if (stop_reason_ == "stop_sequence") stop_sequence_ = *stop;
  }

  ordered_json message(ordered_json content, const Usage& usage) const {
    return {{"id", identity_.id},
            {"type", "message"},
            {"role", "assistant"},
            {"model", identity_.model},
            {"content", std::move(content)},
            {"stop_reason", stop_reason_},
            {"stop_sequence", stop_sequence_},
            {"usage", usage_json(usage)}};
  }

  std::string call_events(const CallPiece& call) {
    std::string events;
    if (!call.name.empty()) {
      events += close();
      events += open(Block::kCall, call_block(call, ordered_json::object()));
    }
    if (!call.arguments.empty())
      events += delta({{"type", "input_json_delta"}, {"partial_json", call.arguments}});
    if (call.ends) events += close();
    return events;
  }

  // Events that end the open block and begin another one, unless a block of this kind is open.
  std::string open(Block kind, ordered_json block) {
    if (open_ == kind) return {};
    std::string events = close();
    open_ = kind;
    events += event("content_block_start", {{"index", index_}, {"content_block", std::move(block)}});
    if (index_ == 0) events += event("ping", ordered_json::object());
    return events;
  }

  std::string close() {
    if (std::exchange(open_, Block::kNone) == Block::kNone) return {};
    return event("content_block_stop", {{"index", index_++}});
  }

  std::string delta(ordered_json change) const {
    return event("content_block_delta", {{"index", index_}, {"delta", std::move(change)}});
  }

  static std::string event(const std::string& type, const ordered_json& members) {
    ordered_json all = {{"type", type}};
    all.update(members);
    return "event: " + type + "\n" + event_of(json_text(all));
  }

  const AnswerIdentity identity_;
  const int64_t prompt_tokens_;
  Block open_ = Block::kNone;
  int64_t index_ = 0;                         // of the open block, or of the next one
  ordered_json stop_reason_, stop_sequence_;  // null before the end
};

}  // namespace

std::unique_ptr<AnswerWriter> make_message_writer(const TextRequest& request,
                                                  const AnswerIdentity& identity) {
  return std::make_unique<MessageWriter>(request, identity);
}

}  // namespace serval::server

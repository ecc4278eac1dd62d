#include "engine/server/api/response_writer.h"

#include <optional>
#include <utility>

#include "engine/server/api/json_text.h"

namespace serval::server {
namespace {

using nlohmann::ordered_json;

ordered_json text_part(const std::string& text) {
  return {{"type", "output_text"}, {"text", text}, {"annotations", ordered_json::array()}};
}

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(text);
}

ordered_json usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

class ResponseWriter final : public AnswerWriter {
 public:
  ResponseWriter(const TextRequest& request, AnswerIdentity identity)
      : request_(request.response),
        sampling_(request.request.sampling),
        max_tokens_(request.request.max_tokens),
        identity_(std::move(identity)),
        message_("msg_" + identity_.id.substr(identity_.id.find('_') + 1)) {}

  std::string complete(const std::vector<Piece>& choices, const Usage& usage) override {
    text_ = choices.front().text;
    reason_ = choices.front().finish_reason;
    return json_text(response(status(), usage));
  }

  std::string begin(size_t /*choice*/) override {
    const ordered_json begun = response("in_progress", std::nullopt);
    std::string events = event("response.created", {{"response", begun}});
    events += event("response.in_progress", {{"response", begun}});
    events += event("response.output_item.added",
                    {{"output_index", 0}, {"item", message("in_progress", ordered_json::array())}});
    events += event("response.content_part.added", place("part", text_part("")));
    return events;
  }

  std::string piece(size_t /*choice*/, const Piece& piece) override {
    if (!piece.finish_reason.empty()) reason_ = piece.finish_reason;
    if (piece.text.empty()) return {};
    text_ += piece.text;
    ordered_json delta = place("delta", piece.text);
    delta["logprobs"] = ordered_json::array();
    return event("response.output_text.delta", delta);
  }

  std::string end(const Usage& usage) override {
    ordered_json done = place("text", text_);
    done["logprobs"] = ordered_json::array();
    std::string events = event("response.output_text.done", done);
    events += event("response.content_part.done", place("part", text_part(text_)));
    events += event("response.output_item.done", {{"output_index", 0}, {"item", whole_message()}});
    events += event(std::string("response.") + status(), {{"response", response(status(), usage)}});
    return events;
  }

 private:
  const char* status() const { return reason_ == "length" ? "incomplete" : "completed"; }

  // The members that locate the message's only part, and `name`.
  ordered_json place(const char* name, ordered_json value) const {
    ordered_json at = {{"item_id", message_}, {"output_index", 0}, {"content_index", 0}};
    at[name] = std::move(value);
    return at;
  }
  ordered_json message(const char* status, ordered_json content) const {
    return {{"id", message_},
            {"type", "message"},
            {"status", status},
            {"role", "assistant"},
            {"content", std::move(content)}};
  }
  ordered_json whole_message() const { return message(status(), ordered_json::array({text_part(text_)})); }

  ordered_json response(const std::string& status, const std::optional<Usage>& usage) const {
    const bool ended = usage.has_value();
    ordered_json all = {{"id", identity_.id},
                        {"object", "response"},
                        {"created_at", identity_.created},
                        {"status", status},
                        {"error", nullptr},
                        {"incomplete_details", nullptr},
                        {"instructions", text_or_null(request_.instructions)},
                        {"max_output_tokens", max_tokens_ < 0 ? ordered_json() : ordered_json(max_tokens_)},
                        {"model", identity_.model},
                        {"output", ordered_json::array()},
                        {"parallel_tool_calls", true},
                        {"previous_response_id", nullptr},
                        {"store", false},
                        {"temperature", sampling_.temperature},
                        {"text", {{"format", ordered_json::parse(request_.format)}}},
                        {"tool_choice", "auto"},
                        {"tools", ordered_json::array()},
                        {"top_p", sampling_.top_p},
                        {"truncation", "disabled"},
                        {"usage", ended ? usage_json(*usage) : ordered_json()},
                        {"metadata", ordered_json::object()}};
    if (ended) all["output"].push_back(whole_message());
    if (status == "incomplete") all["incomplete_details"] = {{"reason", "max_output_tokens"}};
    return all;
  }

  std::string event(const std::string& type, const ordered_json& members) {
    ordered_json all = {{"type", type}, {"sequence_number", next_event_++}};
    all.update(members);
    return "event: " + type + "\n" + event_of(json_text(all));
  }

  const ResponseRequest request_;
  const SamplingParams sampling_;
  const int max_tokens_;
  const AnswerIdentity identity_;
  const std::string message_;  // the message's id
  std::string text_, reason_;
  int64_t next_event_ = 0;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_response_writer(const TextRequest& request,
                                                   const AnswerIdentity& identity) {
  return std::make_unique<ResponseWriter>(request, identity);
}

}  // namespace serval::server

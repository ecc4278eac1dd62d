#include "engine/server/api/response_writer.h"

#include <optional>
#include <utility>
#include <vector>

#include "engine/server/api/json_text.h"

namespace serval::server {
namespace {

using nlohmann::ordered_json;

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(text);
}

ordered_json usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

// An element of a response's output.
struct Item {
  enum class Kind { kReasoning, kMessage, kCall };
  Kind kind = Kind::kMessage;
  std::string id = {};
  std::string text = {};                // or the arguments of a call
  std::string call_id = {}, name = {};  // of a call
  bool is_complete = false;

  ordered_json part() const {
    if (kind == Kind::kReasoning) return {{"type", "reasoning_text"}, {"text", text}};
    return {{"type", "output_text"}, {"text", text}, {"annotations", ordered_json::array()}};
  }
  ordered_json json(const char* status, bool with_content) const {
    if (kind == Kind::kCall)
      return {{"id", id},     {"type", "function_call"}, {"status", status}, {"call_id", call_id},
              {"name", name}, {"arguments", text}};
    const ordered_json content = with_content ? ordered_json::array({part()}) : ordered_json::array();
    if (kind == Kind::kReasoning)
      return {{"id", id},
              {"type", "reasoning"},
              {"summary", ordered_json::array()},
              {"content", content},
              {"status", status}};
    return {{"id", id}, {"type", "message"}, {"status", status}, {"role", "assistant"}, {"content", content}};
  }
};

class ResponseWriter final : public AnswerWriter {
 public:
  ResponseWriter(const TextRequest& request, AnswerIdentity identity)
      : request_(request.response),
        sampling_(request.request.sampling),
        max_tokens_(request.request.max_tokens),
        parallel_(request.tools.parallel),
        identity_(std::move(identity)),
        number_(identity_.id.substr(identity_.id.find('_') + 1)) {}

  std::string complete(const std::vector<Piece>& choices, const Usage& usage) override {
    const Piece& whole = choices.front();
    reason_ = whole.finish_reason;
    if (!whole.reasoning.empty()) add_item(Item::Kind::kReasoning).text = whole.reasoning;
    if (!whole.text.empty() || whole.calls.empty()) add_item(Item::Kind::kMessage).text = whole.text;
    for (const CallPiece& call : whole.calls) {
      Item& item = add_call(call);
      item.text = call.arguments;
      item.is_complete = call.ends;
    }
    return json_text(response(status(), usage));
  }

  std::string begin(size_t /*choice*/) override {
    const ordered_json begun = response("in_progress", std::nullopt);
    std::string events = event("response.created", {{"response", begun}});
    return events += event("response.in_progress", {{"response", begun}});
  }

  std::string piece(size_t /*choice*/, const Piece& piece) override {
    if (!piece.finish_reason.empty()) reason_ = piece.finish_reason;
    if (!piece.calls.empty()) return call_events(piece.calls.front());
    if (!piece.reasoning.empty()) return text_events(Item::Kind::kReasoning, piece.reasoning);
    return piece.text.empty() ? std::string() : text_events(Item::Kind::kMessage, piece.text);
  }

  std::string end(const Usage& usage) override {
    std::string events;
    if (items_.empty()) events += open(add_item(Item::Kind::kMessage));
    events += close();
    const char* last = reason_ == "length" ? "response.incomplete" : "response.completed";
    return events + event(last, {{"response", response(status(), usage)}});
  }

 private:
  const char* status() const { return reason_ == "length" ? "incomplete" : "completed"; }
  // The last item is where a limit has cut the answer.
  const char* status_of(const Item& item) const {
    return &item == &items_.back() && !item.is_complete ? status() : "completed";
  }

  Item& add_item(Item::Kind kind) {
    const char* prefix = kind == Item::Kind::kReasoning ? "rs_" : kind == Item::Kind::kCall ? "fc_" : "msg_";
    std::string id = prefix + number_;
    if (!items_.empty()) id += "_" + std::to_string(items_.size());
    items_.push_back({.kind = kind, .id = std::move(id)});
    return items_.back();
  }
  Item& add_call(const CallPiece& call) {
    Item& item = add_item(Item::Kind::kCall);
    item.call_id = call.id;
    item.name = call.name;
    return item;
  }

  // The members that locate the last item, and `name`.
  ordered_json place(const char* name, ordered_json value) const {
    ordered_json at = {{"item_id", items_.back().id}, {"output_index", items_.size() - 1}};
    at[name] = std::move(value);
    return at;
  }
  // As place(), for the only part of the last item.
  ordered_json place_in_part(const char* name, ordered_json value) const {
    ordered_json at = place("content_index", 0);
    at[name] = std::move(value);
    return at;
  }
  ordered_json item_place(ordered_json item) const {
    return {{"output_index", items_.size() - 1}, {"item", std::move(item)}};
  }

  // The events with which the last item begins and ends.
  std::string open(const Item& item) {
    std::string events = event("response.output_item.added", item_place(item.json("in_progress", false)));
    if (item.kind != Item::Kind::kCall)
      events += event("response.content_part.added", place_in_part("part", item.part()));
    is_open_ = true;
    return events;
  }
  std::string close() {
    if (!std::exchange(is_open_, false)) return {};
    const Item& item = items_.back();
    std::string events;
    if (item.kind == Item::Kind::kCall) {
      ordered_json done = place("arguments", item.text);
      done["name"] = item.name;
      events += event("response.function_call_arguments.done", done);
    } else {
      const bool is_message = item.kind == Item::Kind::kMessage;
      ordered_json done = place_in_part("text", item.text);
      if (is_message) done["logprobs"] = ordered_json::array();
      events += event(is_message ? "response.output_text.done" : "response.reasoning_text.done", done);
      events += event("response.content_part.done", place_in_part("part", item.part()));
    }
    return events + event("response.output_item.done", item_place(item.json(status_of(item), true)));
  }

  std::string text_events(Item::Kind kind, const std::string& text) {
    std::string events;
    if (!is_open_ || items_.back().kind != kind) {
      if (!items_.empty()) items_.back().is_complete = true;
      events += close();
      events += open(add_item(kind));
    }
    items_.back().text += text;
    ordered_json delta = place_in_part("delta", text);
    if (kind == Item::Kind::kReasoning) return events + event("response.reasoning_text.delta", delta);
    delta["logprobs"] = ordered_json::array();
    return events + event("response.output_text.delta", delta);
  }

  std::string call_events(const CallPiece& call) {
    std::string events;
    if (!call.id.empty()) {
      if (!items_.empty()) items_.back().is_complete = true;
      events += close();
      events += open(add_call(call));
    }
    items_.back().text += call.arguments;
    if (!call.arguments.empty())
      events += event("response.function_call_arguments.delta", place("delta", call.arguments));
    items_.back().is_complete = call.ends;
    return call.ends ? events + close() : events;
  }

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
                        {"parallel_tool_calls", parallel_},
                        {"previous_response_id", nullptr},
                        {"store", false},
                        {"temperature", sampling_.temperature},
                        {"text", {{"format", ordered_json::parse(request_.format)}}},
                        {"tool_choice", ordered_json::parse(request_.tool_choice)},
                        {"tools", ordered_json::parse(request_.tools)},
                        {"top_p", sampling_.top_p},
                        {"truncation", "disabled"},
                        {"usage", ended ? usage_json(*usage) : ordered_json()},
                        {"metadata", ordered_json::object()}};
    if (ended)
      for (const Item& item : items_) all["output"].push_back(item.json(status_of(item), true));
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
  const bool parallel_;
  const AnswerIdentity identity_;
  const std::string number_;  // the part of the response's id that its items share
  std::vector<Item> items_;
  bool is_open_ = false;  // the last item
  std::string reason_;
  int64_t next_event_ = 0;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_response_writer(const TextRequest& request,
                                                   const AnswerIdentity& identity) {
  return std::make_unique<ResponseWriter>(request, identity);
}

}  // namespace serval::server

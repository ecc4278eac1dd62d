#include "engine/server/api/answer_format.h"

#include <utility>

#include "engine/server/api/json_text.h"

namespace serval::server {
namespace {

using nlohmann::ordered_json;

// U+FFFD stands for bytes that are no whole character by themselves.
constexpr const char* kReplacement = "\xEF\xBF\xBD";

ordered_json bytes_of(const std::string& text) {
  if (text.find(kReplacement) != std::string::npos) return nullptr;
  ordered_json bytes = ordered_json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

ordered_json likeliest_of(const TokenLogprob& token) {
  ordered_json likeliest = ordered_json::object();
  for (const LikelyToken& one : token.likeliest) likeliest[one.text] = one.log_probability;
  return likeliest;
}

ordered_json chat_token(const std::string& text, float log_probability) {
  return {{"token", text}, {"logprob", log_probability}, {"bytes", bytes_of(text)}};
}

ordered_json completion_logprobs(const Piece& piece) {
  if (!piece.with_logprobs) return nullptr;
  ordered_json likeliest = ordered_json::array();
  ordered_json tokens = ordered_json::array(), values = tokens, offsets = tokens;
  for (const TokenLogprob& token : piece.logprobs) {
    tokens.push_back(token.text);
    values.push_back(token.log_probability);
    offsets.push_back(token.text_offset);
    likeliest.push_back(likeliest_of(token));
  }
  return {{"tokens", tokens},
          {"token_logprobs", values},
          {"top_logprobs", piece.with_likeliest ? likeliest : ordered_json()},
          {"text_offset", offsets}};
}

ordered_json chat_logprobs(const Piece& piece) {
  if (!piece.with_logprobs) return nullptr;
  ordered_json content = ordered_json::array();
  for (const TokenLogprob& token : piece.logprobs) {
    ordered_json shown = chat_token(token.text, token.log_probability);
    shown["top_logprobs"] = ordered_json::array();
    for (const LikelyToken& one : token.likeliest)
      shown["top_logprobs"].push_back(chat_token(one.text, one.log_probability));
    content.push_back(std::move(shown));
  }
  return {{"content", content}, {"refusal", nullptr}};
}

ordered_json finish_of(const Piece& piece) {
  return piece.finish_reason.empty() ? ordered_json() : ordered_json(piece.finish_reason);
}

ordered_json completion_choice(size_t index, const Piece& piece) {
  return {{"index", index},
          {"text", piece.text},
          {"logprobs", completion_logprobs(piece)},
          {"finish_reason", finish_of(piece)}};
}

ordered_json chat_choice(size_t index, const Piece& piece) {
  return {{"index", index},
          {"message", {{"role", "assistant"}, {"content", piece.text}, {"refusal", nullptr}}},
          {"logprobs", chat_logprobs(piece)},
          {"finish_reason", finish_of(piece)}};
}

ordered_json chat_delta(size_t index, const ordered_json& delta, const Piece& piece) {
  return {{"index", index},
          {"delta", delta},
          {"logprobs", chat_logprobs(piece)},
          {"finish_reason", finish_of(piece)}};
}

ordered_json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

ordered_json envelope(const AnswerIdentity& identity, const char* object) {
  return {{"id", identity.id}, {"object", object}, {"created", identity.created}, {"model", identity.model}};
}

const char* object_of_event(TextPath path) {
  return path == TextPath::kChat ? "chat.completion.chunk" : "text_completion";
}

ordered_json event_json(const AnswerIdentity& identity, TextPath path, ordered_json choices, bool counts) {
  ordered_json event = envelope(identity, object_of_event(path));
  event["choices"] = std::move(choices);
  if (counts) event["usage"] = nullptr;
  return event;
}

}  // namespace

std::string event_of(const std::string& json) {
  return "data: " + json + "\n\n";
}

std::string AnswerFormat::complete(const std::vector<Piece>& choices, const Usage& usage) const {
  const bool chat = path_ == TextPath::kChat;
  ordered_json answer = envelope(identity_, chat ? "chat.completion" : "text_completion");
  answer["choices"] = ordered_json::array();
  for (size_t i = 0; i < choices.size(); ++i)
    answer["choices"].push_back(chat ? chat_choice(i, choices[i]) : completion_choice(i, choices[i]));
  answer["usage"] = usage_json(usage);
  return json_text(answer);
}

std::string AnswerFormat::first_event(size_t choice, bool counts) const {
  if (path_ == TextPath::kCompletions) return {};
  const ordered_json delta = {{"role", "assistant"}, {"content", ""}};
  return event_of(json_text(
      event_json(identity_, path_, ordered_json::array({chat_delta(choice, delta, Piece())}), counts)));
}

std::string AnswerFormat::event(size_t choice, const Piece& piece, bool counts) const {
  ordered_json delta = ordered_json::object();
  if (!piece.text.empty() || piece.finish_reason.empty()) delta["content"] = piece.text;
  const ordered_json choices = ordered_json::array(
      {path_ == TextPath::kChat ? chat_delta(choice, delta, piece) : completion_choice(choice, piece)});
  return event_of(json_text(event_json(identity_, path_, choices, counts)));
}

std::string AnswerFormat::usage_event(const Usage& usage) const {
  ordered_json event = event_json(identity_, path_, ordered_json::array(), false);
  event["usage"] = usage_json(usage);
  return event_of(json_text(event));
}

}  // namespace serval::server

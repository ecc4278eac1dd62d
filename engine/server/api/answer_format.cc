#include "engine/server/api/answer_format.h"

#include <set>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "engine/server/api/json_text.h"
#include "models/tokenizer/utf8.h"

namespace serval::server {
namespace {

using nlohmann::ordered_json;

// Null for a token that is not part of the text, so that the bytes of all tokens, joined, are the text.
ordered_json bytes_of(const LikelyToken& token) {
  if (!token.in_text) return nullptr;
  ordered_json bytes = ordered_json::array();
  for (const char c : token.bytes) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

// The token's text or, as OpenAI writes it, "bytes:\xe6\x97" for bytes that are not whole characters.
std::string name_of(const LikelyToken& token) {
  std::string storage;
  if (utf8_lossy(token.bytes, &storage).data() == token.bytes.data()) return token.bytes;
  std::string name = "bytes:";
  for (const char c : token.bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

// A member for each of the likeliest tokens and for the drawn one, which always keeps its own name. If
// several other tokens have one name (such as "A" and a byte token 0x41), the likeliest gets it and the rest
// are named "token_id:ID", as in vLLM.
ordered_json likeliest_of(const TokenLogprob& drawn) {
  ordered_json likeliest = ordered_json::object();
  const std::string own = name_of(drawn.token);
  std::set<std::string> taken = {own};
  bool has_own = false;
  for (const LikelyToken& token : drawn.likeliest) {
    if (token.id == drawn.token.id) {
      likeliest[own] = token.log_probability;
      has_own = true;
      continue;
    }
    std::string name = name_of(token);
    if (!taken.insert(name).second) name = fmt::format("token_id:{}", token.id);
    while (likeliest.contains(name)) name += '\'';
    likeliest[name] = token.log_probability;
  }
  if (!has_own) likeliest[own] = drawn.token.log_probability;
  return likeliest;
}

ordered_json chat_token(const LikelyToken& token) {
  return {{"token", name_of(token)}, {"logprob", token.log_probability}, {"bytes", bytes_of(token)}};
}

ordered_json completion_logprobs(const Piece& piece) {
  if (!piece.with_logprobs) return nullptr;
  ordered_json likeliest = ordered_json::array();
  ordered_json tokens = ordered_json::array(), values = tokens, offsets = tokens;
  for (const TokenLogprob& drawn : piece.logprobs) {
    tokens.push_back(name_of(drawn.token));
    offsets.push_back(drawn.text_offset);
    values.push_back(drawn.is_scored ? ordered_json(drawn.token.log_probability) : ordered_json());
    likeliest.push_back(drawn.is_scored ? likeliest_of(drawn) : ordered_json());
  }
  return {{"tokens", tokens},
          {"token_logprobs", values},
          {"top_logprobs", piece.with_likeliest ? likeliest : ordered_json()},
          {"text_offset", offsets}};
}

// One token as vLLM writes it. The rank is known of the likeliest tokens; of others it is null.
ordered_json ranked_token(const LikelyToken& token, ordered_json rank) {
  std::string storage;
  return {{"logprob", token.log_probability},
          {"rank", std::move(rank)},
          {"decoded_token", std::string(utf8_lossy(token.bytes, &storage))}};
}

// vLLM's `prompt_logprobs`: for each token of the prompt an object that has, by their ids, the token itself
// and the likeliest in its place; null for the first.
ordered_json prompt_logprobs(const Piece& piece) {
  ordered_json all = ordered_json::array();
  for (const TokenLogprob& token : piece.prompt) {
    if (!token.is_scored) {
      all.push_back(nullptr);
      continue;
    }
    ordered_json tokens = {{std::to_string(token.token.id), ranked_token(token.token, nullptr)}};
    for (size_t i = 0; i < token.likeliest.size(); ++i)
      tokens[std::to_string(token.likeliest[i].id)] = ranked_token(token.likeliest[i], i + 1);
    all.push_back(std::move(tokens));
  }
  return all;
}

ordered_json chat_logprobs(const Piece& piece) {
  if (!piece.with_logprobs) return nullptr;
  ordered_json content = ordered_json::array();
  for (const TokenLogprob& drawn : piece.logprobs) {
    ordered_json shown = chat_token(drawn.token);
    shown["top_logprobs"] = ordered_json::array();
    for (const LikelyToken& token : drawn.likeliest) shown["top_logprobs"].push_back(chat_token(token));
    content.push_back(std::move(shown));
  }
  return {{"content", content}, {"refusal", nullptr}};
}

std::string quoted(const std::string& text) {
  return json_text(text);
}

std::string member(const char* name, const std::vector<int32_t>& ids) {
  return fmt::format(R"(,"{}":[{}])", name, fmt::join(ids, ","));
}

// Members about the prompt, of a choice or, in chats, of the answer; empty if they were not asked for.
std::string prompt_members(const Piece& piece) {
  std::string members;
  if (piece.with_prompt) members += R"(,"prompt_logprobs":)" + json_text(prompt_logprobs(piece));
  if (piece.prompt_token_ids != nullptr) members += member("prompt_token_ids", *piece.prompt_token_ids);
  return members;
}

// vLLM's members that most answers do not have.
std::string extras_of(const Piece& piece) {
  std::string extras;
  if (const auto* text = std::get_if<std::string>(&piece.stop_reason))
    extras += R"(,"stop_reason":)" + quoted(*text);
  if (const auto* token = std::get_if<int32_t>(&piece.stop_reason))
    extras += fmt::format(R"(,"stop_reason":{})", *token);
  if (piece.token_ids) extras += member("token_ids", *piece.token_ids);
  return extras;
}

// A choice as JSON. `value` is the JSON of its member `name`: "text", "message" or "delta".
std::string choice_text(size_t index, const char* name, const std::string& value,
                        const ordered_json& logprobs, const Piece& piece) {
  return fmt::format(R"({{"index":{},"{}":{},"logprobs":{},"finish_reason":{}{}}})", index, name, value,
                     logprobs.is_null() ? "null" : json_text(logprobs),
                     piece.finish_reason.empty() ? "null" : quoted(piece.finish_reason), extras_of(piece));
}

std::string completion_choice(size_t index, const Piece& piece) {
  std::string choice = choice_text(index, "text", quoted(piece.text), completion_logprobs(piece), piece);
  choice.insert(choice.size() - 1, prompt_members(piece));
  return choice;
}

// The content is null if the answer only has calls.
std::string chat_choice(size_t index, const Piece& piece) {
  const bool only_calls = piece.text.empty() && !piece.calls.empty();
  ordered_json message = {{"role", "assistant"},
                          {"content", only_calls ? ordered_json() : ordered_json(piece.text)},
                          {"refusal", nullptr}};
  if (!piece.reasoning.empty()) message["reasoning_content"] = piece.reasoning;
  for (const CallPiece& call : piece.calls)
    message["tool_calls"].push_back({{"id", call.id},
                                     {"type", "function"},
                                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  return choice_text(index, "message", json_text(message), chat_logprobs(piece), piece);
}

std::string call_delta(const CallPiece& call) {
  ordered_json delta = {{"index", call.index}};
  if (!call.id.empty()) {
    delta["id"] = call.id;
    delta["type"] = "function";
    delta["function"]["name"] = call.name;
  }
  delta["function"]["arguments"] = call.arguments;
  return R"({"tool_calls":[)" + json_text(delta) + "]}";
}

std::string chat_delta(size_t index, const Piece& piece) {
  std::string delta = "{}";
  if (!piece.calls.empty()) {
    delta = call_delta(piece.calls.front());
  } else if (!piece.reasoning.empty()) {
    delta = R"({"reasoning_content":)" + quoted(piece.reasoning) + "}";
  } else if (!piece.text.empty() || piece.finish_reason.empty()) {
    delta = R"({"content":)" + quoted(piece.text) + "}";
  }
  return choice_text(index, "delta", delta, chat_logprobs(piece), piece);
}

ordered_json usage_json(TextPath path, const Usage& usage) {
  ordered_json all = {{"prompt_tokens", usage.prompt_tokens},
                      {"completion_tokens", usage.completion_tokens},
                      {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
                      {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
  if (path == TextPath::kChat)
    all["completion_tokens_details"] = {{"reasoning_tokens", usage.reasoning_tokens}};
  return all;
}

// A piece that only says that a call's arguments are complete, which chats do not say.
bool is_silent(TextPath path, const Piece& piece) {
  return path == TextPath::kChat && piece.finish_reason.empty() && !piece.calls.empty() &&
         piece.calls.front().ends && piece.calls.front().arguments.empty() && piece.logprobs.empty();
}

const char* object_of(TextPath path, bool streams) {
  if (path != TextPath::kChat) return "text_completion";
  return streams ? "chat.completion.chunk" : "chat.completion";
}

// The answer's JSON up to the choices. The caller appends the choices, a ']' and the remaining members.
std::string opening(const AnswerIdentity& identity, const char* object) {
  std::string text = json_text(
      {{"id", identity.id}, {"object", object}, {"created", identity.created}, {"model", identity.model}});
  text.pop_back();
  return text + R"(,"choices":[)";
}

}  // namespace

std::string event_of(const std::string& json) {
  return "data: " + json + "\n\n";
}

AnswerFormat::AnswerFormat(TextPath path, const AnswerIdentity& identity)
    : path_(path),
      answer_opening_(opening(identity, object_of(path, false))),
      event_opening_(opening(identity, object_of(path, true))) {}

std::string AnswerFormat::complete(const std::vector<Piece>& choices, const Usage& usage) const {
  std::string answer = answer_opening_;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) answer += ',';
    answer += path_ == TextPath::kChat ? chat_choice(i, choices[i]) : completion_choice(i, choices[i]);
  }
  answer += ']';
  // A conversation has one prompt, which all choices answer.
  if (path_ == TextPath::kChat && !choices.empty()) answer += prompt_members(choices.front());
  return answer + R"(,"usage":)" + json_text(usage_json(path_, usage)) + "}";
}

std::string AnswerFormat::first_event(size_t choice, bool with_usage,
                                      const std::vector<int32_t>* prompt_token_ids) const {
  if (path_ == TextPath::kCompletions) return {};
  const char* role = R"({"role":"assistant","content":""})";
  return event_of_choice(choice_text(choice, "delta", role, nullptr, Piece()), with_usage, prompt_token_ids);
}

std::string AnswerFormat::event(size_t choice, const Piece& piece, bool with_usage) const {
  if (is_silent(path_, piece)) return {};
  return event_of_choice(
      path_ == TextPath::kChat ? chat_delta(choice, piece) : completion_choice(choice, piece), with_usage);
}

std::string AnswerFormat::usage_event(const Usage& usage) const {
  return event_of(event_opening_ + R"(],"usage":)" + json_text(usage_json(path_, usage)) + "}");
}

// Joins text instead of building JSON: it runs for every token of every stream.
std::string AnswerFormat::event_of_choice(const std::string& choice, bool with_usage,
                                          const std::vector<int32_t>* prompt_token_ids) const {
  const std::string prompt =
      prompt_token_ids == nullptr ? std::string() : member("prompt_token_ids", *prompt_token_ids);
  return event_of(event_opening_ + choice + (with_usage ? R"(],"usage":null)" : "]") + prompt + "}");
}

}  // namespace serval::server

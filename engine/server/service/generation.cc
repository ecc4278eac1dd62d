#include "engine/server/service/generation.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "engine/server/http/request_id.h"
#include "engine/server/service/characters.h"
#include "engine/server/service/prompt_tokens.h"
#include "vm/base/error.h"

namespace serval::server {
namespace {

double seconds_since(Generation::Clock::time_point begin) {
  return std::chrono::duration<double>(Generation::Clock::now() - begin).count();
}

FairQueue::Ticket ticket_of(const Generation::Arrival& arrival, const EncodedRequest& request) {
  const auto answers =
      static_cast<uint32_t>(request.prompts.size()) * static_cast<uint32_t>(request.text.request.n);
  return {arrival.number, arrival.key, request.text.request.priority, answers};
}

std::string reason_of(Finish finish) {
  return finish == Finish::kLength ? "length" : "stop";
}

// The error for an answer that ended early.
ApiError error_of(const Response& response) {
  if (response.finish == Finish::kDeadline)
    return {504, "timeout", "the request took longer than the server's time limit; its tokens are lost"};
  if (response.finish == Finish::kCancelled) return {503, "shutting_down", "the server is shutting down"};
  return engine_error(response.error_kind, response.error);
}

// Clients skip comment lines (html.spec.whatwg.org, "server-sent events").
constexpr std::string_view kComment = ": the answer is being made\n\n";

HttpHeaders id_headers(const std::string& id, TextPath path) {
  HttpHeaders headers = {{kRequestIdHeader, id}};
  if (path == TextPath::kMessages) headers.emplace_back(kAnthropicIdHeader, id);
  return headers;
}

HttpResponse stream_head(const std::string& id, TextPath path) {
  HttpHeaders headers = id_headers(id, path);
  headers.insert(headers.begin(), {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}});
  return {.content_type = "text/event-stream; charset=utf-8", .headers = std::move(headers)};
}

}  // namespace

Generation::Generation(Arrival arrival, EncodedRequest request, const AnswerIdentity& identity, OnEnd on_end,
                       OnGap on_gap)
    : arrival_(std::move(arrival)),
      request_(std::move(request)),
      writer_(make_answer_writer(request_.text, identity)),
      ticket_(ticket_of(arrival_, request_)),
      on_end_(std::move(on_end)),
      on_gap_(std::move(on_gap)),
      scores_(request_.prompts.size()),
      unfinished_(ticket_.answers) {
  for (uint32_t i = 0; i < ticket_.answers; ++i) answers_.push_back({.pieces = AnswerPieces(request_.shape)});
  const std::string& own = arrival_.exchange->request().request_id;
  record_.id = identity.id;
  record_.request_id = own.empty() ? identity.id : own;
  last_sent_ = arrival_.at;
  record_.key = arrival_.key;
  record_.path = arrival_.path;
  record_.user = request_.text.user;
  record_.stream = request_.text.stream;
  record_.body_bytes = arrival_.exchange->request().body.size();
  for (size_t i = 0; i < answers_.size(); ++i) {
    const size_t echoed = count_characters(request_.echoes[prompt_of(i)]);
    answers_[i].token_characters = answers_[i].text_characters = echoed;
  }
}

void Generation::listen() {
  arrival_.exchange->on_disconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_disconnect();
  });
}

void Generation::start(Engine& engine, EventPump& pump) {
  engine_ = &engine;
  before_engine_s_ = seconds_since(arrival_.at);
  try {
    for (size_t i = 0; i < request_.prompts.size(); ++i) {
      Request& request = request_.prompts[i];
      if (arrival_.deadline) {
        const std::chrono::duration<double, std::milli> left = *arrival_.deadline - Clock::now();
        request.deadline_ms = std::max(left.count(), 1.0);
      }
      handles_.push_back(engine.submit(request, pump.sink(shared_from_this(), i)));
    }
  } catch (const Error& error) {
    return fail(engine_error(error.kind(), error.what()));
  }
  // Sent before the first token: prefill of a long prompt may take longer than a proxy waits for the head.
  if (request_.text.stream) begin_stream();
}

void Generation::keep_alive(Clock::time_point now, std::chrono::milliseconds silence) {
  if (!request_.text.stream || ended_ || now - last_sent_ < silence) return;
  begin_stream();
  write(std::string(kComment));
}

size_t Generation::index_of(size_t prompt, uint32_t answer) const {
  return prompt * static_cast<size_t>(request_.text.request.n) + answer;
}

void Generation::on_event(size_t prompt, const RequestEvent& event) {
  if (ended_) return;
  // They come with the first event of a prompt's first answer, before all events of its other answers.
  if (!event.response.prompt_logprobs.empty()) scores_[prompt] = event.response.prompt_logprobs;
  const size_t index = index_of(prompt, event.answer);
  if (event.kind == RequestEvent::Kind::kToken) return on_token(index, event.token);
  on_finish(prompt, index, event.response);
}

void Generation::on_token(size_t index, const TokenEvent& token) {
  Answer& answer = answers_[index];
  const auto now = Clock::now();
  if (answer.last_token) on_gap_(std::chrono::duration<double>(now - *answer.last_token).count());
  answer.last_token = now;
  if (record_.first_token_s == 0) record_.first_token_s = seconds_since(arrival_.at);
  ++usage_.completion_tokens;
  ++answer.tokens;
  answer.log_probability += token.log_probability;
  answer.last_id = token.token;
  if (request_.text.return_token_ids) answer.unsent_ids.push_back(token.token);
  if (lists_token(token)) add_logprob(answer, token);
  if (answer.pieces.counts_tokens())
    answer.pieces.count(engine_->token_bytes(token.token, true).value_or(""));
  answer.text_characters += count_characters(token.text);
  deliver(index, answer.pieces.push(token.text));
}

// Sends pieces, or keeps them for the whole answer.
void Generation::deliver(size_t index, std::vector<Piece> pieces) {
  for (Piece& piece : pieces) {
    if (!request_.text.stream) {
      append(answers_[index].whole, piece);
    } else {
      begin(index);
      send(index, std::move(piece));
    }
  }
}

// With `echo`, clients expect one entry for each token of the prompt and of the answer: lm-eval drops the
// last.
bool Generation::lists_token(const TokenEvent& token) const {
  return request_.text.logprobs && (request_.text.echo || !ends_text(token));
}

// True if the token ends the answer and is not part of its text.
bool Generation::ends_text(const TokenEvent& token) const {
  const Request& asked = request_.text.request;
  const std::vector<int32_t>& own = asked.stop_token_ids;
  if (token.finish == Finish::kEos) return !asked.include_stop_in_text || asked.skip_special_tokens;
  return token.finish == Finish::kStop && !asked.include_stop_in_text &&
         std::ranges::find(own, token.token) != own.end();
}

void Generation::set_logprob_flags(Piece& piece) const {
  piece.with_logprobs = request_.text.logprobs;
  piece.with_likeliest = request_.text.request.top_logprobs > 0;
}

LikelyToken Generation::likely(int32_t id, float log_probability) const {
  const bool in_text = engine_->token_bytes(id, !request_.text.request.skip_special_tokens).has_value();
  return {id, engine_->token_bytes(id, true).value_or(""), in_text, log_probability};
}

void Generation::add_logprob(Answer& answer, const TokenEvent& token) {
  TokenLogprob logprob{likely(token.token, token.log_probability), answer.token_characters};
  for (const TopLogprob& top : token.top_logprobs)
    logprob.likeliest.push_back(likely(top.token, top.log_probability));
  if (logprob.token.in_text)
    answer.token_characters += count_characters(answer.characters.push(logprob.token.bytes));
  answer.unsent.push_back(std::move(logprob));
}

// Takes the log probabilities of tokens whose text was delivered, or all. Tokens of a stop string stay,
// because their text is never delivered.
std::vector<TokenLogprob> Generation::take_logprobs(Answer& answer, bool all) {
  const auto end =
      all ? answer.unsent.end() : std::ranges::find_if(answer.unsent, [&](const TokenLogprob& of) {
        return of.text_offset >= answer.text_characters;
      });
  std::vector<TokenLogprob> taken(std::make_move_iterator(answer.unsent.begin()),
                                  std::make_move_iterator(end));
  answer.unsent.erase(answer.unsent.begin(), end);
  return taken;
}

void Generation::begin_stream() {
  if (std::exchange(streaming_, true)) return;
  last_sent_ = Clock::now();
  arrival_.exchange->begin_stream(stream_head(record_.request_id, request_.text.path));
}

size_t Generation::prompt_of(size_t index) const {
  return index / static_cast<size_t>(request_.text.request.n);
}

std::vector<TokenLogprob> Generation::prompt_tokens(size_t index, uint32_t likeliest) const {
  const size_t prompt = prompt_of(index);
  return tokens_of_prompt(*engine_, request_.prompts[prompt].prompt_ids, scores_[prompt],
                          request_.echoes[prompt], likeliest);
}

// The prompt as the beginning of an answer.
Piece Generation::echo_of(size_t index) {
  Piece piece{.text = request_.echoes[prompt_of(index)]};
  if (!request_.text.echo || !request_.text.logprobs) return piece;
  set_logprob_flags(piece);
  piece.logprobs = prompt_tokens(index, request_.text.request.top_logprobs);
  return piece;
}

// Sends the answer's first event and, with `echo`, the prompt.
void Generation::begin(size_t index) {
  begin_stream();
  Answer& answer = answers_[index];
  if (std::exchange(answer.begun, true)) return;
  write(writer_->begin(index));
  const Piece echo = echo_of(index);
  if (!echo.text.empty() || !echo.logprobs.empty()) write(writer_->piece(index, echo));
}

void Generation::write(const std::string& event) {
  if (event.empty()) return;
  last_sent_ = Clock::now();
  arrival_.exchange->write(event);
}

void Generation::send(size_t index, Piece piece) {
  if (ended_) return;
  if (request_.text.logprobs) {
    set_logprob_flags(piece);
    const bool all = !piece.finish_reason.empty() && !answers_[index].stopped;
    piece.logprobs = take_logprobs(answers_[index], all);
  }
  if (request_.text.return_token_ids) piece.token_ids = std::exchange(answers_[index].unsent_ids, {});
  write(writer_->piece(index, piece));
}

void Generation::on_finish(size_t prompt, size_t index, const Response& response) {
  Answer& answer = answers_[index];
  if (answer.finished) return;
  const bool leads = index == index_of(prompt, 0);
  if (leads) {
    usage_.prompt_tokens += response.prompt_tokens;
    usage_.cached_tokens += response.cached_tokens;
    constexpr double kMilliseconds = 1e-3;
    if (prompt == 0) record_.queue_s = before_engine_s_ + response.timings.queue_ms * kMilliseconds;
  }
  const bool well = response.finish == Finish::kEos || response.finish == Finish::kStop ||
                    response.finish == Finish::kLength;
  if (response.finish == Finish::kError && response.error_kind == ErrorKind::kDeviceFault)
    fault_ = response.error;
  if (!well) return fail(error_of(response));
  answer.finished = true;
  --unfinished_;
  answer.stopped = response.finish == Finish::kStop;
  deliver(index, answer.pieces.finish());
  if (answer.pieces.counts_tokens()) usage_.reasoning_tokens += answer.pieces.reasoning_tokens();
  last_reason_ = request_.text.path == TextPath::kEmbeddings ? "stop" : reason_of(response.finish);
  answer.whole.embedding = response.embedding;
  const bool calls = last_reason_ == "stop" && answer.pieces.has_calls();
  const std::string shown_reason = calls ? "tool_calls" : last_reason_;
  StopReason stop_reason;
  if (!response.stop.empty())
    stop_reason = response.stop;
  else if (answer.stopped)
    stop_reason = answer.last_id;
  if (request_.text.stream) {
    begin(index);
    send(index, {.finish_reason = shown_reason, .stop_reason = std::move(stop_reason)});
  } else {
    answer.whole.finish_reason = shown_reason;
    answer.whole.stop_reason = std::move(stop_reason);
  }
  if (unfinished_ == 0 && !ended_) complete();
}

// The indices of the answers to return: the likeliest first, or all in their order.
std::vector<size_t> Generation::best_answers(size_t prompt) const {
  std::vector<size_t> indices(static_cast<size_t>(request_.text.request.n));
  std::iota(indices.begin(), indices.end(), index_of(prompt, 0));
  const auto returned = static_cast<size_t>(request_.text.answers);
  if (returned == indices.size()) return indices;
  std::ranges::stable_sort(indices, std::greater<>(), [this](size_t index) {
    const Answer& answer = answers_[index];
    return answer.log_probability / static_cast<double>(std::max<size_t>(answer.tokens, 1));
  });
  indices.resize(returned);
  return indices;
}

Piece Generation::whole_answer(size_t index) {
  Answer& answer = answers_[index];
  Piece whole = std::move(answer.whole);
  Piece echo = echo_of(index);
  whole.text.insert(0, echo.text);
  whole.logprobs = std::move(echo.logprobs);
  set_logprob_flags(whole);
  std::ranges::move(take_logprobs(answer, !answer.stopped), std::back_inserter(whole.logprobs));
  if (request_.text.return_token_ids) whole.token_ids = std::move(answer.unsent_ids);
  if (const auto& likeliest = request_.text.prompt_logprobs) {
    whole.with_prompt = true;
    whole.prompt = prompt_tokens(index, *likeliest);
  }
  return whole;
}

void Generation::complete() {
  Exchange& exchange = *arrival_.exchange;
  if (request_.text.stream) {
    exchange.write(writer_->end(usage_));
    exchange.end_stream();
  } else {
    std::vector<Piece> choices;
    for (size_t prompt = 0; prompt < request_.prompts.size(); ++prompt) {
      for (const size_t index : best_answers(prompt)) choices.push_back(whole_answer(index));
    }
    exchange.respond({.headers = id_headers(record_.request_id, request_.text.path),
                      .body = writer_->complete(choices, usage_)});
  }
  end(last_reason_);
}

void Generation::fail(const ApiError& error) {
  if (ended_) return;
  if (streaming_) {
    arrival_.exchange->write(writer_->error(error));
    arrival_.exchange->end_stream();
  } else {
    record_.status = error.status;
    const bool is_message = request_.text.path == TextPath::kMessages;
    arrival_.exchange->respond(
        error_response(error, is_message ? ApiStyle::kAnthropic : ApiStyle::kOpenAi, record_.request_id));
  }
  end(error.code);
}

void Generation::on_disconnect() {
  end("gone");
}

void Generation::end(const std::string& reason) {
  if (std::exchange(ended_, true)) return;
  record_.reason = reason;
  record_.prompt_tokens = usage_.prompt_tokens;
  record_.cached_tokens = usage_.cached_tokens;
  record_.completion_tokens = usage_.completion_tokens;
  record_.total_s = seconds_since(arrival_.at);
  const auto self = shared_from_this();  // on_end may drop the last other reference
  handles_.clear();                      // cancels the answers that still run
  on_end_(*this);
}

}  // namespace serval::server

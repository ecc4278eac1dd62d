// One text request: waits, runs in the engine and answers its client.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/answer/answer_parser.h"
#include "engine/include/serval/engine.h"
#include "engine/server/api/answer_writer.h"
#include "engine/server/api/api_error.h"
#include "engine/server/api/text_request.h"
#include "engine/server/http/exchange.h"
#include "engine/server/metrics/request_record.h"
#include "engine/server/service/answer_pieces.h"
#include "engine/server/service/event_pump.h"
#include "engine/server/service/fair_queue.h"
#include "models/tokenizer/utf8.h"

namespace serval::server {

// A request with its prompts as token ids, checked against the engine's limits.
struct EncodedRequest {
  TextRequest text;
  std::vector<Request> prompts;
  std::vector<std::string> echoes;  // for each prompt, the text to prepend to its answers; empty: none
  AnswerShape shape;                // of every answer
};

// Used on the loop's thread only.
class Generation final : public EventTarget, public std::enable_shared_from_this<Generation> {
 public:
  using Clock = std::chrono::steady_clock;
  // Called once, when the answer is complete, has failed, or the client has disconnected.
  using OnEnd = std::function<void(Generation&)>;
  // Called for each token of an answer but the first, with the time since the previous token.
  using OnGap = std::function<void(double seconds)>;

  struct Arrival {
    uint64_t number = 0;
    std::string key;
    std::string path;
    std::shared_ptr<Exchange> exchange;
    Clock::time_point at = {};
    std::optional<Clock::time_point> deadline = {};
  };

  Generation(Arrival arrival, EncodedRequest request, const AnswerIdentity& identity, OnEnd on_end,
             OnGap on_gap);

  const FairQueue::Ticket& ticket() const { return ticket_; }
  const RequestRecord& record() const { return record_; }
  const std::optional<Clock::time_point>& deadline() const { return arrival_.deadline; }
  bool started() const { return engine_ != nullptr; }  // submitted to the engine

  const std::string& fault() const { return fault_; }  // the device fault that ended it; empty: none

  // From now on, ends the request when the client disconnects.
  void listen();
  // Submits the prompts to the engine. Fails if the engine refuses them.
  void start(Engine& engine, EventPump& pump);
  // Sends the error to the client, as an event if the stream has begun, and ends the request.
  void fail(const ApiError& error);
  // Sends a comment line on a stream that has been silent for `silence`, after its head if that is not sent.
  void keep_alive(Clock::time_point now, std::chrono::milliseconds silence);
  void on_event(size_t prompt, const RequestEvent& event) override;

 private:
  struct Answer {
    AnswerPieces pieces;
    Piece whole = {};                       // the answer so far, if it is not streamed
    std::vector<TokenLogprob> unsent = {};  // tokens whose text the engine has not delivered yet
    Utf8Stream characters = {};             // decodes the bytes of all tokens
    size_t token_characters = 0;            // complete characters of all tokens, an echoed prompt included
    size_t text_characters = 0;             // likewise, of the text that the engine has delivered
    std::optional<Clock::time_point> last_token = {};
    double log_probability = 0;            // sum of its tokens'
    size_t tokens = 0;                     // number of tokens
    int32_t last_id = 0;                   // of the last token
    std::vector<int32_t> unsent_ids = {};  // for return_token_ids
    bool begun = false, finished = false;
    bool stopped = false;  // by a stop string or one of the request's stop tokens
  };

  size_t index_of(size_t prompt, uint32_t answer) const;
  void on_token(size_t index, const TokenEvent& token);
  void deliver(size_t index, std::vector<Piece> pieces);
  void on_finish(size_t prompt, size_t index, const Response& response);
  void begin_stream();
  void begin(size_t index);
  void write(const std::string& event);
  bool lists_token(const TokenEvent& token) const;
  bool ends_text(const TokenEvent& token) const;
  void set_logprob_flags(Piece& piece) const;
  LikelyToken likely(int32_t id, float log_probability) const;
  void add_logprob(Answer& answer, const TokenEvent& token);
  static std::vector<TokenLogprob> take_logprobs(Answer& answer, bool all);
  size_t prompt_of(size_t index) const;
  std::vector<TokenLogprob> prompt_tokens(size_t index, uint32_t likeliest) const;
  Piece echo_of(size_t index);
  Piece whole_answer(size_t index);
  void send(size_t index, Piece piece);
  std::vector<size_t> best_answers(size_t prompt) const;
  void complete();
  void on_disconnect();
  void end(const std::string& reason);

  Arrival arrival_;
  EncodedRequest request_;
  const std::unique_ptr<AnswerWriter> writer_;
  const FairQueue::Ticket ticket_;
  OnEnd on_end_;
  OnGap on_gap_;
  Engine* engine_ = nullptr;  // null before start()
  std::vector<RequestHandle> handles_;
  std::vector<std::vector<PromptLogprob>> scores_;  // for each prompt
  std::vector<Answer> answers_;
  size_t unfinished_;
  bool streaming_ = false;  // the head of the stream was sent
  bool ended_ = false;
  Usage usage_;
  RequestRecord record_;
  Clock::time_point last_sent_;  // when the stream last sent something; initially the arrival
  std::string last_reason_, fault_;
  double before_engine_s_ = 0;
};

}  // namespace serval::server

// One request of text on its way: it waits, runs in the engine, and answers its client.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/include/serval/engine.h"
#include "engine/server/api/answer_writer.h"
#include "engine/server/api/api_error.h"
#include "engine/server/api/text_request.h"
#include "engine/server/http/exchange.h"
#include "engine/server/metrics/request_record.h"
#include "engine/server/service/event_pump.h"
#include "engine/server/service/fair_queue.h"
#include "models/tokenizer/utf8.h"

namespace serval::server {

// A request whose prompts are token ids, each with the engine's limits kept.
struct EncodedRequest {
  TextRequest text;
  std::vector<Request> prompts;
  std::vector<std::string> echoes;  // of each prompt, what its answers' texts begin with; empty: nothing
};

// For the loop's thread.
class Generation final : public EventTarget, public std::enable_shared_from_this<Generation> {
 public:
  using Clock = std::chrono::steady_clock;
  // Called once, when nothing is left to do: the answer is complete, or its client has gone.
  using OnEnd = std::function<void(Generation&)>;
  // A token came so long after the one before it.
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
  bool started() const { return engine_ != nullptr; }  // the engine has it

  const std::string& fault() const { return fault_; }  // of the engine, if it has ended by one

  // Its client is heeded from now on.
  void listen();
  // Submits it. What the engine refuses is answered with 400.
  void start(Engine& engine, EventPump& pump);
  // Tells the client, if it can still be told, and ends.
  void fail(const ApiError& error);
  // A stream that has said nothing for so long gets a comment line, and its head if that is not out.
  void break_silence(Clock::time_point now, std::chrono::milliseconds silence);
  void on_event(size_t prompt, const RequestEvent& event) override;

 private:
  struct Answer {
    Piece whole = {};                       // where it is not streamed
    std::vector<TokenLogprob> unsent = {};  // of tokens whose text has not come yet
    Utf8Stream characters = {};             // of the bytes of all tokens
    size_t token_characters = 0;            // complete ones of these
    size_t text_characters = 0;             // of the text that has come
    std::optional<Clock::time_point> last_token = {};
    bool begun = false, finished = false;
    bool stopped = false;  // by a stop string or a stop token of its own
  };

  size_t index_of(size_t prompt, uint32_t answer) const;
  void on_token(size_t index, const TokenEvent& token);
  void on_finish(size_t prompt, size_t index, const Response& response);
  void begin_stream();
  void begin(size_t index);
  void write(const std::string& event);
  bool ends_text(const TokenEvent& token) const;
  void mark(Piece& piece) const;
  LikelyToken likely(int32_t id, float log_probability) const;
  void add_logprob(Answer& answer, const TokenEvent& token);
  static std::vector<TokenLogprob> take_logprobs(Answer& answer, bool all);
  void send(size_t index, Piece piece);
  void complete();
  void gone();
  void end(const std::string& reason);

  Arrival arrival_;
  EncodedRequest request_;
  const std::unique_ptr<AnswerWriter> writer_;
  const FairQueue::Ticket ticket_;
  OnEnd on_end_;
  OnGap on_gap_;
  Engine* engine_ = nullptr;  // once it runs
  std::vector<RequestHandle> handles_;
  std::vector<Answer> answers_;
  size_t unfinished_;
  bool streaming_ = false;  // the head of a stream is out
  bool ended_ = false;
  Usage usage_;
  RequestRecord record_;
  Clock::time_point last_sent_;  // of what its stream has, or when it came
  std::string last_reason_, fault_;
  double before_engine_s_ = 0;
};

}  // namespace serval::server

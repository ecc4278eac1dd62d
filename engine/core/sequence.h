// One answer to a request: how far it is, the text it has made, and what a pass needs to know of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "engine/core/channel.h"
#include "engine/core/kv_chain.h"
#include "engine/core/planner.h"
#include "engine/core/request.h"
#include "engine/grammar/constraint.h"
#include "engine/include/serval/engine.h"
#include "engine/text/stop_matcher.h"
#include "engine/text/text_codec.h"
#include "vm/state/output.h"
#include "vm/state/slots.h"

namespace serval {

using TimePoint = std::chrono::steady_clock::time_point;

// Smaller is served first.
struct ServiceOrder {
  int priority = 0;
  uint64_t arrival = 0;
  uint32_t answer = 0;
  friend bool operator==(const ServiceOrder&, const ServiceOrder&) = default;
  friend bool operator<(const ServiceOrder& a, const ServiceOrder& b) {
    return std::tie(a.priority, a.arrival, a.answer) < std::tie(b.priority, b.arrival, b.answer);
  }
};

struct LaunchShare;  // engine/core/planned_launch.h

// Waits, runs with a slot and KV blocks, may have to wait again, and ends. Not thread-safe.
class Sequence {
 public:
  // Answer `answer` of the request. `load_ms` is passed on to the response.
  Sequence(PreparedRequest request, uint32_t answer, std::shared_ptr<Channel> channel,
           std::unique_ptr<TextStream> text, double load_ms, TimePoint submitted);

  const ServiceOrder& order() const { return order_; }
  void arrive(uint64_t arrival) { order_.arrival = arrival; }
  Channel& channel() { return *channel_; }
  const std::optional<TimePoint>& deadline() const { return deadline_; }
  bool reuses_prefix() const { return request_.reuse_prefix; }

  // All that is known: the prompt, then what was generated.
  std::span<const int32_t> tokens() const { return tokens_; }
  uint32_t length() const { return static_cast<uint32_t>(tokens_.size()); }
  uint32_t computed() const { return computed_; }
  bool generates() const { return request_.max_tokens > 0; }
  uint32_t generated() const { return length() - prompt_length_; }
  SequenceView view() const;
  bool prompt_is_read() const { return computed_ >= prompt_length_; }
  bool finished() const { return summary_.finish != Finish::kNone; }
  bool failed() const { return summary_.finish == Finish::kError; }
  // It has ended and the program does not know it: it would go on in the launch in flight.
  bool ended_by_host() const { return finished() && !ended_by_program_; }

  // Runs from now on, in `slot`, with the KV blocks of `chain` and the first `reused` tokens in them.
  void join(uint32_t slot, std::unique_ptr<KvChain> chain, uint32_t reused, TimePoint now);
  // Gives its blocks back; what it has generated is read again like a prompt when it joins next.
  void leave();
  uint32_t slot() const { return slot_; }
  // What it has of the launch in flight, until whose end it keeps its slot and blocks; null: nothing.
  LaunchShare* share() const { return share_; }
  void set_share(LaunchShare* share) { share_ = share; }
  KvChain& chain() { return *chain_; }
  // What its slot of the state block must hold when it joins; later only the length of its history changes.
  SequenceSlot slot_state() const;
  std::span<const LogitBias> logit_bias() const { return request_.logit_bias; }
  bool lists_top() const { return request_.top_logprobs > 0; }
  // Not every token may be drawn: of the next one, write_mask() says which. `behind`: a token that is sampled
  // and not accepted yet, behind which it is drawn.
  bool is_constrained() const { return constrained_.has_value(); }
  void write_mask(std::span<uint32_t> mask, std::optional<int32_t> behind = std::nullopt) const;

  // More tokens were found in the KV cache: the first `reused` are.
  void reuse(uint32_t reused);
  // `tokens` more positions of those known are in the KV cache. Returns the last event if it ends so.
  std::optional<RequestEvent> positions_computed(uint32_t tokens, TimePoint now);
  // A token was sampled for it; of `top` it reads what it has asked for. Throws Error(kDeviceFault) if it is
  // not the one that comes next. If its logits are not finite it ends with an error, and text that was held
  // back is dropped.
  RequestEvent accept(const OutputToken& output, const TopTokens& top, TimePoint now);
  // The last event, of a sequence that has ended.
  RequestEvent last_event() const;
  // Ends it; text that was held back is dropped, so that the response has what the events had.
  RequestEvent end(Finish finish);
  RequestEvent fail(ErrorKind kind, std::string error);

  // Answers that begin with the same prompt, which they join for once it is read.
  std::vector<std::unique_ptr<Sequence>> followers;

 private:
  std::string text_of(int32_t token, Finish finish_without_stop);
  Finish finish_of(const OutputToken& output) const;
  void check_output(const OutputToken& output) const;

  ServiceOrder order_;
  PreparedRequest request_;  // but for the prompt, which is in tokens_
  uint32_t prompt_length_;
  uint32_t end_;  // positions that are run are < end_
  std::vector<int32_t> tokens_;
  std::shared_ptr<Channel> channel_;
  std::unique_ptr<TextStream> text_;
  StopMatcher matcher_;
  std::optional<grammar::ConstrainedText> constrained_;

  std::unique_ptr<KvChain> chain_;  // while it runs
  uint32_t slot_ = 0;
  LaunchShare* share_ = nullptr;
  uint32_t computed_ = 0;
  uint32_t joined_length_ = 0;  // tokens that were known when it joined
  bool ended_by_program_ = false;
  Response summary_;  // without text and tokens
  TimePoint submitted_;
  std::optional<TimePoint> deadline_;
  std::optional<TimePoint> joined_, first_token_;
};

}  // namespace serval

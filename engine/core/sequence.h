// One answer to a request: its progress, its text, and its input to a pass.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "engine/core/bad_words.h"
#include "engine/core/channel.h"
#include "engine/core/draft_control.h"
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

// The smaller one is served first.
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
  // `answer` is the number of the answer within the request. `load_ms` is copied into the response.
  Sequence(PreparedRequest request, uint32_t answer, std::shared_ptr<Channel> channel,
           std::unique_ptr<TextStream> text, double load_ms, TimePoint submitted);

  const ServiceOrder& order() const { return order_; }
  void arrive(uint64_t arrival) { order_.arrival = arrival; }
  Channel& channel() { return *channel_; }
  const std::optional<TimePoint>& deadline() const { return deadline_; }
  bool reuses_prefix() const { return request_.reuse_prefix; }
  const std::string& cache_salt() const { return request_.cache_salt; }

  // All known tokens: the prompt, then the generated ones.
  std::span<const int32_t> tokens() const { return tokens_; }
  uint32_t length() const { return static_cast<uint32_t>(tokens_.size()); }
  uint32_t computed() const { return computed_; }
  bool generates() const { return request_.max_tokens > 0; }
  uint32_t generated() const { return length() - prompt_length_; }
  SequenceView view() const;
  bool prompt_is_read() const { return computed_ >= prompt_length_; }
  bool finished() const { return summary_.finish != Finish::kNone; }
  bool failed() const { return summary_.finish == Finish::kError; }
  // The host has ended it and the program does not know: the launch in flight would continue it.
  bool ended_by_host() const { return finished() && !ended_by_program_; }

  // Starts to run in `slot` with the KV blocks of `chain`, which contain its first `reused` tokens.
  void join(uint32_t slot, std::unique_ptr<KvChain> chain, uint32_t reused, TimePoint now);
  // Releases its blocks; when it joins again, its generated tokens are read like a prompt.
  void leave();
  uint32_t slot() const { return slot_; }
  // Its part in the launch in flight; it keeps its slot and blocks until that ends. Null: none.
  LaunchShare* share() const { return share_; }
  void set_share(LaunchShare* share) { share_ = share; }
  // Drafts of its passes. It gets none, whatever is allowed, if the draw of a token depends on the tokens
  // just before it (penalties, grammars, bad words), or if the likeliest tokens are listed.
  void allow_drafts(const DraftLimits& limits);
  DraftControl& drafts() { return drafts_; }
  const DraftControl& drafts() const { return drafts_; }
  KvChain& chain() { return *chain_; }
  // The content of its slot in the state block when it joins; later only the length of its history changes.
  SequenceSlot slot_state() const;
  std::span<const LogitBias> logit_bias() const { return request_.logit_bias; }
  bool lists_top() const { return request_.top_logprobs > 0; }
  // True if the request is for an embedding: its scored rows are then those whose hidden states are pooled.
  bool is_pooled() const { return request_.pooling.has_value(); }
  // Whether the hidden state at `position` is added to those before it.
  bool adds_hidden_state(uint32_t position) const;
  // Likeliest tokens to list in a launch. `scores`: it has rows for log-probabilities of the prompt's tokens.
  uint32_t num_top(bool scores) const;
  // True if a grammar or bad words restrict the next token; write_mask() gives the allowed tokens. `pending`:
  // a token that is sampled but not accepted yet; the mask is for the token after it.
  bool is_constrained() const { return constrained_.has_value() || !bad_words_.empty(); }
  void write_mask(std::span<uint32_t> mask, std::optional<int32_t> pending = std::nullopt) const;

  // Limit of the tokens whose keys and values may be taken from the KV cache: the next row that wants logits
  // is computed.
  uint32_t reuse_limit() const;
  // The first `reused` tokens were found in the KV cache.
  void reuse(uint32_t reused);
  // `tokens` more of the known positions are in the KV cache. Returns the last event if this ends it.
  std::optional<RequestEvent> positions_computed(uint32_t tokens, TimePoint now);
  // Accepts what the passes have pooled of the whole prompt, before the last positions_computed(). Returns
  // the last event if it is not finite.
  std::optional<RequestEvent> pool(std::span<const float> pooled);
  // Accepts the log-probabilities of the prompt's next tokens, or that their hidden states are pooled. `top`
  // may be empty if none were asked for.
  // Throws Error(kDeviceFault) if they are those of other tokens. Returns the last event if logits are not
  // finite.
  std::optional<RequestEvent> score(std::span<const OutputToken> tokens, std::span<const TopTokens> top);
  // Accepts a sampled token. `top` is used if the request asked for it. Throws Error(kDeviceFault) if the
  // token is not for the next position. If its logits are not finite, the sequence ends with an error and
  // held-back text is dropped.
  RequestEvent accept(const OutputToken& output, const TopTokens& top, TimePoint now);
  // The last event of a sequence that has ended.
  RequestEvent last_event();
  // Ends it. Held-back text is dropped, so that the response matches the events.
  RequestEvent end(Finish finish);
  RequestEvent fail(ErrorKind kind, std::string error);

  // Answers to the same prompt; they join once it is read.
  std::vector<std::unique_ptr<Sequence>> followers;

 private:
  void write_grammar_mask(std::span<uint32_t> mask, std::optional<int32_t> pending) const;
  std::string text_of(int32_t token, Finish finish_without_stop);
  Finish finish_of(const OutputToken& output) const;
  void check_output(const OutputToken& output) const;
  void check_score(const OutputToken& output) const;
  void want_scores(uint32_t answer);
  RequestEvent fail_not_finite(uint32_t position);
  void add_scores(RequestEvent& event);

  ServiceOrder order_;
  PreparedRequest request_;  // without the prompt, which is in tokens_
  uint32_t prompt_length_;
  uint32_t end_;  // limit of the positions that are run
  std::vector<int32_t> tokens_;
  std::shared_ptr<Channel> channel_;
  std::unique_ptr<TextStream> text_;
  StopMatcher matcher_;
  BadWords bad_words_;
  std::optional<grammar::ConstrainedText> constrained_;

  std::unique_ptr<KvChain> chain_;  // set while it runs
  uint32_t slot_ = 0;
  LaunchShare* share_ = nullptr;
  DraftControl drafts_;
  uint32_t computed_ = 0;
  uint32_t joined_length_ = 0;  // tokens known when it joined
  // Positions whose rows still want the log-probability of the token after them, or to be pooled:
  // [next_score_, score_end_).
  uint32_t next_score_ = 0, score_end_ = 0;
  std::vector<PromptLogprob> scores_;  // until the first event
  bool ended_by_program_ = false;
  Response summary_;  // without text and tokens
  TimePoint submitted_;
  std::optional<TimePoint> deadline_;
  std::optional<TimePoint> joined_, first_token_;
};

}  // namespace serval

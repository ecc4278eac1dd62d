#include "engine/core/sequence.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "fmt/format.h"

#include "engine/core/embedding.h"
#include "engine/core/sampling_parameters.h"
#include "vm/layout/kv_cache.h"
#include "vm/state/masks.h"

namespace serval {
namespace {

double milliseconds(TimePoint::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// One year: longer than any engine runs, and far from overflowing a duration.
constexpr double kLongestDeadlineMs = 1000.0 * 3600 * 24 * 365;

std::optional<TimePoint> deadline_of(const PreparedRequest& request, TimePoint submitted) {
  if (!request.deadline_ms) return std::nullopt;
  const std::chrono::duration<double, std::milli> time(std::min(*request.deadline_ms, kLongestDeadlineMs));
  return submitted + std::chrono::duration_cast<TimePoint::duration>(time);
}

}  // namespace

Sequence::Sequence(PreparedRequest request, uint32_t answer, std::shared_ptr<Channel> channel,
                   std::unique_ptr<TextStream> text, double load_ms, TimePoint submitted)
    : order_{request.priority, 0, answer},
      request_(std::move(request)),
      prompt_length_(static_cast<uint32_t>(request_.prompt.size())),
      end_(request_.positions()),
      tokens_(std::move(request_.prompt)),
      channel_(std::move(channel)),
      text_(std::move(text)),
      matcher_(std::move(request_.stop), request_.include_stop_in_text),
      bad_words_(std::move(request_.bad_words)),
      submitted_(submitted),
      deadline_(deadline_of(request_, submitted)) {
  if (request_.constraint) constrained_.emplace(request_.constraint, request_.reasoning_limit);
  want_scores(answer);
  request_.sampling.stream += answer;
  summary_.prompt_tokens = static_cast<int>(prompt_length_);
  summary_.timings.load_ms = load_ms;
}

void Sequence::want_scores(uint32_t answer) {
  if (request_.pooling) {
    const PooledPositions positions = pooled_positions(request_.pooling->pooling, prompt_length_);
    next_score_ = positions.begin;
    score_end_ = positions.end;
  } else if (request_.prompt_logprobs && answer == 0) {
    next_score_ = request_.prompt_logprobs_from - 1;
    score_end_ = prompt_length_ - 1;
  }
}

bool Sequence::adds_hidden_state(uint32_t position) const {
  return request_.pooling && request_.pooling->pooling == Pooling::kMean && position > 0;
}

SequenceView Sequence::view() const {
  return {.computed = computed_,
          .length = length(),
          .end = end_,
          .blocks = chain_->size(),
          .generates = generates(),
          .prompt = joined_length_,
          .score_begin = next_score_,
          .score_end = score_end_,
          .drafts = drafts_.next()};
}

void Sequence::allow_drafts(const DraftLimits& limits) {
  const bool draws_alone = !is_constrained() && !lists_top() && !has_penalties(slot_state());
  drafts_ = DraftControl(request_.speculative && generates() && draws_alone ? limits : DraftLimits{});
}

uint32_t Sequence::num_top(bool scores) const {
  const uint32_t of_prompt = scores ? request_.prompt_logprobs.value_or(0) : 0;
  return std::max(request_.top_logprobs, of_prompt);
}

uint32_t Sequence::reuse_limit() const {
  return next_score_ < score_end_ ? next_score_ : length() - 1;
}

void Sequence::join(uint32_t slot, std::unique_ptr<KvChain> chain, uint32_t reused, TimePoint now) {
  slot_ = slot;
  chain_ = std::move(chain);
  computed_ = reused;
  joined_length_ = length();
  if (joined_) return;
  joined_ = now;
  summary_.timings.queue_ms = milliseconds(now - submitted_);
  summary_.cached_tokens = static_cast<int>(reused);
}

void Sequence::leave() {
  chain_.reset();
  computed_ = 0;
  if (is_pooled()) want_scores(order_.answer);  // its slot, and what was pooled there, are another's now
}

SequenceSlot Sequence::slot_state() const {
  const SamplingParams& sampling = request_.sampling;
  SequenceSlot slot;
  slot.seed = sampling.seed;
  slot.sequence = sampling.stream;
  for (const SamplingParameter& parameter : sampling_parameters()) parameter.copy(sampling, slot);
  slot.end_position = end_;
  slot.num_stop_tokens = static_cast<uint32_t>(request_.stop_tokens.size());
  std::ranges::copy(request_.stop_tokens, slot.stop_tokens);
  slot.history_length = length();
  slot.prompt_length = prompt_length_;
  slot.first_stop = prompt_length_ + request_.min_tokens;
  slot.num_biases = static_cast<uint32_t>(request_.logit_bias.size());
  slot.num_top = request_.top_logprobs;
  slot.masked = is_constrained() ? 1 : 0;
  slot.extras = extras_of(slot);
  return slot;
}

void Sequence::write_mask(std::span<uint32_t> mask, std::optional<int32_t> pending) const {
  const auto write_other = [&] {
    if (constrained_) return write_grammar_mask(mask, pending);
    std::ranges::fill(mask, ~0U);
  };
  write_other();
  if (bad_words_.empty()) return;
  bad_words_.forbid(mask, tokens().subspan(prompt_length_), pending);
  if (std::ranges::all_of(mask, [](uint32_t word) { return word == 0; })) write_other();
}

// A stop token may be drawn before the text is complete only if nothing else can follow; the grammar always
// allows some continuation (engine/grammar/constraint.cc).
void Sequence::write_grammar_mask(std::span<uint32_t> mask, std::optional<int32_t> pending) const {
  const grammar::Constraint::Place place = pending ? constrained_->after(*pending) : constrained_->place();
  std::ranges::copy(*place.mask, mask.begin());
  for (const int32_t token : request_.stop_tokens) {
    const auto id = static_cast<uint32_t>(token);
    const uint32_t bit = 1U << id % kTokensOfMaskWord;
    uint32_t& word = mask[id / kTokensOfMaskWord];
    word = place.complete ? word | bit : word & ~bit;
  }
  if (std::ranges::all_of(mask, [](uint32_t word) { return word == 0; }))
    std::ranges::copy(*place.mask, mask.begin());
}

void Sequence::reuse(uint32_t reused) {
  if (generated() == 0) summary_.cached_tokens += static_cast<int>(reused - computed_);
  computed_ = reused;
}

std::optional<RequestEvent> Sequence::positions_computed(uint32_t tokens, TimePoint now) {
  computed_ += tokens;
  if (!prompt_is_read() || generated() > 0) return std::nullopt;
  summary_.timings.prompt_ms = milliseconds(now - submitted_);
  if (generates()) return std::nullopt;
  ended_by_program_ = true;
  return end(Finish::kLength);
}

std::optional<RequestEvent> Sequence::score(std::span<const OutputToken> tokens,
                                            std::span<const TopTokens> top) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    check_score(tokens[i]);
    if (tokens[i].finish == FinishReason::kNotFinite) {
      ended_by_program_ = true;
      return fail_not_finite(tokens[i].position);
    }
    if (is_pooled()) {
      ++next_score_;
      continue;
    }
    PromptLogprob& scored =
        scores_.emplace_back(PromptLogprob{tokens[i].token, tokens[i].log_probability, {}});
    if (*request_.prompt_logprobs > 0) {
      for (const SampledToken& t : std::span(top[i].token).first(*request_.prompt_logprobs))
        scored.top_logprobs.push_back({t.token, t.log_probability});
    }
    ++next_score_;
  }
  return std::nullopt;
}

std::optional<RequestEvent> Sequence::pool(std::span<const float> pooled) {
  summary_.embedding = embedding_of(pooled, *request_.pooling, prompt_length_, request_.dimensions);
  if (std::ranges::all_of(summary_.embedding, [](float value) { return std::isfinite(value); }))
    return std::nullopt;
  summary_.embedding.clear();
  ended_by_program_ = true;
  return fail_not_finite(prompt_length_);
}

// Moves the prompt's log-probabilities into the first event.
void Sequence::add_scores(RequestEvent& event) {
  event.response.prompt_logprobs = std::exchange(scores_, {});
}

RequestEvent Sequence::fail_not_finite(uint32_t position) {
  return fail(ErrorKind::kRuntime,
              fmt::format("token {} of the text: the model's {} are NaN or infinite (weights that are "
                          "not finite, or activations that overflow)",
                          is_pooled() ? position - 1 : position, is_pooled() ? "hidden states" : "logits"));
}

RequestEvent Sequence::accept(const OutputToken& output, const TopTokens& top, TimePoint now) {
  check_output(output);
  computed_ = output.position;
  ended_by_program_ = output.finish != FinishReason::kNone;
  if (output.finish == FinishReason::kNotFinite) return fail_not_finite(output.position);
  if (!first_token_) first_token_ = now;
  summary_.timings.decode_ms = milliseconds(now - *first_token_);
  tokens_.push_back(output.token);
  const Finish finish = finish_of(output);
  if (constrained_ && finish == Finish::kNone) constrained_->add(output.token);
  RequestEvent event;
  event.answer = order_.answer;
  add_scores(event);
  event.token.sequence = order_.answer;
  event.token.token = output.token;
  event.token.log_probability = output.log_probability;
  for (const SampledToken& t : std::span(top.token).first(request_.top_logprobs))
    event.token.top_logprobs.push_back({t.token, t.log_probability});
  event.token.text = text_of(output.token, finish);
  summary_.stop = matcher_.matched();
  summary_.finish = event.token.finish = matcher_.stopped() ? Finish::kStop : finish;
  return event;
}

// A request's own stop token is no text, as a stop string is none, unless the request includes what ends its
// text. Nor is the model's end-of-text token after a constrained text, or where control tokens are written.
std::string Sequence::text_of(int32_t token, Finish finish_without_stop) {
  std::string text;
  const bool includes_end = request_.include_stop_in_text;
  const bool hides_eos = constrained_ || (!request_.skip_special_tokens && !includes_end);
  const bool only_ends = (finish_without_stop == Finish::kStop && !includes_end) ||
                         (hides_eos && finish_without_stop == Finish::kEos);
  if (!only_ends) text = matcher_.push(text_->push(token));
  if (finish_without_stop == Finish::kNone) return text;
  text += matcher_.push(text_->flush());
  return matcher_.stopped() ? text : text + matcher_.flush();
}

Finish Sequence::finish_of(const OutputToken& output) const {
  if (output.finish == FinishReason::kLength) return Finish::kLength;
  if (output.finish != FinishReason::kStopToken) return Finish::kNone;
  return request_.is_own_stop_token(output.token) ? Finish::kStop : Finish::kEos;
}

void Sequence::check_output(const OutputToken& output) const {
  if (output.position == length() && output.position <= end_) return;
  throw Error(ErrorKind::kDeviceFault, fmt::format("a token for position {} arrived; expected {}; limit: {}",
                                                   output.position, length(), end_));
}

void Sequence::check_score(const OutputToken& output) const {
  // `pool` names the row's token, `sample` the one after it.
  const uint32_t position = next_score_ + 1;
  if (next_score_ < score_end_ && output.valid != 0 && output.position == position &&
      output.token == tokens_[is_pooled() ? next_score_ : position])
    return;
  throw Error(ErrorKind::kDeviceFault,
              fmt::format("the result of token {} at position {} arrived; expected position {}", output.token,
                          output.position, position));
}

RequestEvent Sequence::last_event() {
  const bool failed = summary_.finish == Finish::kError;
  RequestEvent event;
  event.kind = failed ? RequestEvent::Kind::kError : RequestEvent::Kind::kFinished;
  event.answer = order_.answer;
  event.response = summary_;
  add_scores(event);
  return event;
}

RequestEvent Sequence::end(Finish finish) {
  assert(!finished());
  summary_.finish = finish;
  return last_event();
}

RequestEvent Sequence::fail(ErrorKind kind, std::string error) {
  summary_.error = std::move(error);
  summary_.error_kind = kind;
  return end(Finish::kError);
}

}  // namespace serval

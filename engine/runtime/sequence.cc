#include "engine/runtime/sequence.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

#include "vm/layout/kv_cache.h"

namespace serval {
namespace {

double milliseconds(Sequence::Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

SequenceSlot make_slot(const PreparedRequest& request) {
  SequenceSlot slot;
  slot.seed = request.sampling.seed;
  slot.sequence = request.sampling.stream;
  slot.temperature = request.sampling.temperature;
  slot.top_k = request.sampling.top_k;
  slot.top_p = request.sampling.top_p;
  slot.min_p = request.sampling.min_p;
  slot.repetition_penalty = request.sampling.repetition_penalty;
  slot.end_position = request.positions();
  slot.num_stop_tokens = static_cast<uint32_t>(request.stop_tokens.size());
  std::copy(request.stop_tokens.begin(), request.stop_tokens.end(), slot.stop_tokens);
  return slot;
}

}  // namespace

Sequence::Sequence(uint64_t handle, PreparedRequest request, std::unique_ptr<TextStream> text, KvLease lease,
                   double load_ms)
    : handle_(handle),
      request_(std::move(request)),
      text_(std::move(text)),
      matcher_(std::move(request_.stop)),
      lease_(std::move(lease)),
      slot_(make_slot(request_)),
      joined_(Clock::now()) {
  for (const int32_t token : request_.prompt) remember(token);
  response_.prompt_tokens = static_cast<int>(request_.prompt.size());
  response_.timings.load_ms = load_ms;
}

bool Sequence::ended_by_host() const {
  return response_.finish == Finish::kStop || response_.finish == Finish::kCancelled;
}

SequenceProgress Sequence::progress() const {
  return {computed_, static_cast<uint32_t>(request_.prompt.size()), request_.max_tokens > 0};
}

uint32_t Sequence::length() const {
  return static_cast<uint32_t>(request_.prompt.size() + response_.tokens.size());
}

int32_t Sequence::token_at(uint32_t position) const {
  const size_t prompt = request_.prompt.size();
  return position < prompt ? request_.prompt[position] : response_.tokens[position - prompt];
}

void Sequence::remember(int32_t token) {
  slot_.history[slot_.history_length++ % kHistoryTokens] = token;
}

void Sequence::hold_blocks_to(uint32_t last) {
  lease_.grow_to(blocks_for_tokens(std::min(last + 1, request_.positions())));
}

void Sequence::prompt_computed(uint32_t tokens) {
  computed_ += tokens;
  if (computed_ < request_.prompt.size()) return;
  response_.timings.prompt_ms = milliseconds(Clock::now() - joined_);
  if (request_.max_tokens == 0) response_.finish = Finish::kLength;
}

std::optional<TokenEvent> Sequence::accept(const OutputToken& output) {
  check_output(output);
  computed_ = output.position;
  if (output.finish == FinishReason::kNotFinite) {
    fail(
        fmt::format("token {} of the text: the model's logits are NaN or infinite (weights that are, or "
                    "activations that overflow)",
                    output.position));
    return std::nullopt;
  }
  const Clock::time_point now = Clock::now();
  if (response_.tokens.empty()) first_token_ = now;
  response_.timings.decode_ms = milliseconds(now - first_token_);

  response_.tokens.push_back(output.token);
  response_.log_probabilities.push_back(output.log_probability);
  remember(output.token);
  const Finish finish = finish_of(output.finish);
  TokenEvent event{handle_, output.token, output.log_probability, text_of(output.token, finish)};
  response_.text += event.text;
  response_.finish = matcher_.stopped() ? Finish::kStop : finish;
  event.finish = response_.finish;
  return event;
}

std::string Sequence::text_of(int32_t token, Finish finish_without_stop) {
  std::string text = matcher_.push(text_->push(token));
  if (finish_without_stop == Finish::kNone) return text;
  text += matcher_.push(text_->flush());
  return matcher_.stopped() ? text : text + matcher_.flush();
}

Finish Sequence::finish_of(FinishReason reason) const {
  if (reason == FinishReason::kStopToken) return Finish::kEos;
  return reason == FinishReason::kLength ? Finish::kLength : Finish::kNone;
}

void Sequence::check_output(const OutputToken& output) const {
  if (output.position == length() && output.position <= slot_.end_position) return;
  throw Error(ErrorKind::kDeviceFault,
              fmt::format("sequence {}: a token for position {} came; expected {}, limit {}", handle_,
                          output.position, length(), slot_.end_position));
}

void Sequence::fail(std::string error) {
  response_.finish = Finish::kError;
  response_.error = std::move(error);
}

void Sequence::cancel() {
  if (!finished()) response_.finish = Finish::kCancelled;
}

Response Sequence::take() {
  lease_.release();
  return std::move(response_);
}

}  // namespace serval

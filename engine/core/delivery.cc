#include "engine/core/delivery.h"

#include <algorithm>
#include <utility>

namespace serval {

DeferredOutput::DeferredOutput(PlannedLaunch of, const PassOutput& output)
    : launch(std::move(of)), pass(output.pass), ended(output.ended) {
  const auto first_tokens = output.tokens.first(launch.logit_rows);
  const auto first_top = output.top.first(launch.lists_top ? launch.logit_rows : 0);
  tokens.assign(first_tokens.begin(), first_tokens.end());
  top.assign(first_top.begin(), first_top.end());
}

void Delivery::publish_masks(const PlannedLaunch& launch, const PassOutput& output) {
  for (const LaunchShare& share : launch.shares) {
    if (!share.logit_row || !share.sequence->is_constrained()) continue;
    const OutputToken& drawn = output.tokens[*share.logit_row];
    if (drawn.finish == FinishReason::kNone) state_.publish_mask(*share.sequence, drawn);
  }
}

void Delivery::release_masks(const PlannedLaunch& launch) {
  for (const LaunchShare& share : launch.shares) {
    if (share.logit_row && share.sequence->is_constrained()) state_.release_mask(*share.sequence);
  }
}

void Delivery::deliver(const PlannedLaunch& launch, const PassOutput& output) {
  if (output.pass == 0) deliver_positions(launch, output);
  for (const LaunchShare& share : launch.shares) {
    // Tokens that a launch produces after a stop string or a cancellation are dropped.
    if (share.logit_row && !share.sequence->finished()) deliver_token(share, output);
  }
  flush();
}

void Delivery::deliver_positions(const PlannedLaunch& launch, const PassOutput& output) {
  for (const LaunchShare& share : launch.shares) {
    Sequence& sequence = *share.sequence;
    // The sequence ended, or its last token was dropped, while the launch ran.
    if (sequence.finished() || sequence.computed() + share.rows > sequence.length()) continue;
    if (auto failed = deliver_scores(share, output)) {
      post_end(sequence, std::move(*failed));
      continue;
    }
    if (auto last = sequence.positions_computed(share.rows, output.ended))
      post_end(sequence, std::move(*last));
  }
}

std::optional<RequestEvent> Delivery::deliver_scores(const LaunchShare& share, const PassOutput& output) {
  Sequence& sequence = *share.sequence;
  if (share.scored > 0) {
    const auto tokens = output.tokens.subspan(share.first_scored, share.scored);
    const auto top = output.top.empty() ? output.top : output.top.subspan(share.first_scored, share.scored);
    if (auto failed = sequence.score(tokens, top)) return failed;
  }
  const bool is_read = sequence.computed() + share.rows == sequence.length();
  return sequence.is_pooled() && is_read ? sequence.pool(state_.pooled(sequence)) : std::nullopt;
}

void Delivery::deliver_token(const LaunchShare& share, const PassOutput& output) {
  Sequence& sequence = *share.sequence;
  if (output.pass > 0) ++counts_.later_rows;
  if (sequence.channel().cancel_wanted()) return expiry_.report_cancelled();  // must not go on without it
  const auto tokens = output.tokens.subspan(*share.logit_row, 1 + share.drafts);
  if (tokens.front().valid == 0)
    throw Error(ErrorKind::kDeviceFault, backend_ + ": a pass has ended without its token");
  const auto valid = [](const OutputToken& token) { return token.valid != 0; };
  const auto right = static_cast<uint32_t>(std::ranges::find_if_not(tokens, valid) - tokens.begin()) - 1;
  count_drafts(share, tokens.front().drafts, right, output.pass);
  static constexpr TopTokens kNoTop;
  const TopTokens& top = output.top.empty() ? kNoTop : output.top[*share.logit_row];
  for (uint32_t i = 0; i <= right && !sequence.finished(); ++i) {
    if (i > 0 && sequence.channel().cancel_wanted()) return expiry_.report_cancelled();
    RequestEvent event = sequence.accept(tokens[i], top, output.ended);
    if (event.kind != RequestEvent::Kind::kToken) return post_end(sequence, std::move(event));
    ++counts_.generated_tokens;
    post(sequence, std::move(event));
    if (sequence.finished()) post_end(sequence, sequence.last_event());
  }
}

void Delivery::count_drafts(const LaunchShare& share, uint32_t drafts, uint32_t right, uint32_t pass) {
  if (share.drafts == 0) return;
  share.sequence->drafts().count_pass(drafts, right);
  if (drafts == 0) return;
  if (pass > 0) counts_.later_rows += drafts;
  ++counts_.drafts.passes;
  counts_.drafts.drafted += drafts;
  counts_.drafts.accepted += right;
  static_assert(DraftStats::kPlaces == kMaxDrafts);
  for (uint32_t i = 0; i < right; ++i) ++counts_.drafts.accepted_at[i];
}

void Delivery::post(Sequence& sequence, RequestEvent event) {
  Channel& channel = sequence.channel();
  channel.post(std::move(event));
  const std::shared_ptr<EventQueue>& queue = channel.queue();
  if (queue != nullptr && (to_flush_.empty() || to_flush_.back() != queue)) to_flush_.push_back(queue);
}

void Delivery::post_end(Sequence& sequence, RequestEvent event) {
  ++counts_.finished;
  ended_.some = true;
  ended_.by_host |= sequence.ended_by_host();
  post(sequence, std::move(event));
}

void Delivery::flush() {
  for (const auto& queue : to_flush_) queue->flush();
  to_flush_.clear();
}

}  // namespace serval

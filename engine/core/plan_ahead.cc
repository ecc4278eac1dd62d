// The part of the pass loop that works while a launch runs: it delivers the tokens of the launch before,
// plans the next launch and writes its state, so that it can begin as soon as the running one ends.
#include <algorithm>
#include <utility>

#include "engine/core/pass_loop.h"

namespace serval {

// The host owns the state again; sequences that are in flight keep their slots and blocks.
void PassLoop::while_running() {
  if (put_off_) {
    give_masks(put_off_->launch, put_off_->output());
    hand_out_put_off();
    retire();
  }
  if (is_to_sweep(now_())) return backend_.request_stop();
  const size_t running = running_.size();
  admit();
  const bool joined = running_.size() > running;
  // A launch of one pass ends soon enough, and its results are predictable.
  if (current_.passes > 1 && (joined || some_ended_by_host_)) return backend_.request_stop();
  some_finished_ = false;  // those places are taken
  plan_ahead();
}

// Views for the next plan: for sequences in flight their progress after the launch, provided that no token
// ends them; for others their current progress.
void PassLoop::view_after_launch() {
  planned_.clear();
  views_.clear();
  for (const auto& sequence : running_) {
    SequenceView view = sequence->view();
    if (LaunchShare* share = sequence->share()) {
      const std::optional<SequenceView> after = after_launch(view, share->rows, current_.passes);
      share->ends = sequence->finished() || !after;
      if (share->ends) continue;
      view = *after;
    }
    planned_.push_back(sequence.get());
    views_.push_back(view);
  }
}

void PassLoop::plan_ahead() {
  view_after_launch();
  if (planned_.empty()) return;
  look_up_prefixes();
  // More blocks may be released in time. Sequences that are about to end still hold theirs, so even a single
  // remaining sequence may have too few.
  const CoreView view{views_, pool_.available()};
  if (!blocks_suffice(view, 1)) return;
  const PassPlan pass_plan = plan(view, limits_);
  next_ = write(pass_plan);
  try {
    backend_.prepare({.passes = next_->passes, .reads_prompts = next_->reads_prompts});
    next_->is_prepared = true;
  } catch (const std::exception&) {
    next_.reset();  // run() will report the same error
  }
}

// Returns whether the launch in flight has left what the next one was planned for. `output` is of its last
// pass.
bool PassLoop::is_as_expected(const PassOutput& output) const {
  return !is_to_sweep(output.ended) && std::ranges::all_of(current_.shares, [&](const LaunchShare& share) {
    if (share.sequence->finished()) return share.ends;
    if (!share.logit_row) return true;
    const OutputToken& token = output.tokens[*share.logit_row];
    const bool ends = token.finish != FinishReason::kNone;
    return token.valid != 0 && token.position == share.sequence->length() && ends == share.ends;
  });
}

// Copies the results, which the next launch overwrites.
void PassLoop::put_off(const PassOutput& output) {
  const bool lists_top = std::ranges::any_of(current_.shares, [](const LaunchShare& share) {
    return share.logit_row && share.sequence->lists_top();
  });
  const auto tokens = output.tokens.first(current_.logit_rows);
  const auto top = output.top.first(lists_top ? current_.logit_rows : 0);
  for (const LaunchShare& share : current_.shares) {
    if (share.logit_row && !share.ends) state_.write_token(*share.sequence, tokens[*share.logit_row].token);
    share.sequence->set_share(nullptr);
  }
  put_off_.emplace(PutOff{.launch = std::move(current_),
                          .pass = output.pass,
                          .ended = output.ended,
                          .tokens = {tokens.begin(), tokens.end()},
                          .top = {top.begin(), top.end()}});
  current_ = {};
}

void PassLoop::hand_out_put_off() {
  const PutOff last = std::move(*std::exchange(put_off_, std::nullopt));
  hand_out(last.launch, last.output());
}

// Between launches: delivers deferred results at once and discards the plan.
void PassLoop::drop_plan() {
  next_.reset();
  try {
    hand_out_put_off();
    retire();
  } catch (...) {
    fail_running(std::current_exception());
  }
}

}  // namespace serval

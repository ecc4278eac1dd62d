#include "engine/core/pass_loop.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "fmt/format.h"

#include "vm/layout/kv_cache.h"

namespace serval {
namespace {

// Limit of passes in a launch when the host has no decision to make between them. Longer launches save no
// more.
constexpr uint32_t kLaunchPasses = 64;
// Hash domain of KV blocks. Both arithmetic classes share it: which class computed the keys of generated
// tokens depends on the size of the pass, unless all programs have the same class.
constexpr uint64_t kDomain = 0;

PlannerLimits limits_of(const StateLimits& state, uint32_t max_sequences) {
  PlannerLimits limits;
  limits.max_rows = state.rows;
  limits.max_sequences = std::min(state.rows, state.sequences);
  if (max_sequences > 0) limits.max_sequences = std::min(limits.max_sequences, max_sequences);
  limits.max_passes = std::min(kLaunchPasses, launch_passes(state.rows));
  return limits;
}

}  // namespace

PassLoop::PassLoop(Backend& backend, std::shared_ptr<CoreSignals> signals, const PassLoopOptions& options)
    : backend_(backend),
      signals_(std::move(signals)),
      now_(options.now),
      fault_at_launch_(options.fault_at_launch),
      limits_(limits_of(backend.limits(), options.max_sequences)),
      pool_(backend.limits().kv_blocks, options.hash_seed),
      state_(backend.state(), limits_.max_sequences) {
  const uint32_t context = backend.limits().max_context;
  if (pool_.num_blocks() >= blocks_for_tokens(context)) return;
  throw Error(ErrorKind::kOutOfMemory,
              fmt::format("KV cache: {} blocks of {} tokens; a context of {} needs {}", pool_.num_blocks(),
                          kKvBlockTokens, context, blocks_for_tokens(context)));
}

PassLoop::~PassLoop() = default;

void PassLoop::add(std::unique_ptr<Sequence> sequence) {
  sequence->arrive(++arrivals_);
  followers_ += static_cast<uint32_t>(sequence->followers.size());
  for (const auto& follower : sequence->followers) follower->arrive(arrivals_);
  note_deadline(*sequence);
  if (next_ && has_room()) next_->passes = 1;  // this one joins while next_ runs
  wait_again(std::move(sequence));
}

void PassLoop::wait_again(std::unique_ptr<Sequence> sequence) {
  const ServiceOrder order = sequence->order();
  waiting_.emplace(order, std::move(sequence));
}

void PassLoop::note_deadline(const Sequence& sequence) {
  const std::optional<TimePoint>& deadline = sequence.deadline();
  if (deadline && (!next_deadline_ || *deadline < *next_deadline_)) next_deadline_ = deadline;
}

bool PassLoop::step() {
  if (next_ && is_to_sweep(now_())) drop_plan();
  if (next_) {
    current_ = std::move(*next_);
    next_.reset();
  } else {
    sweep();
    admit();
    if (running_.empty()) {
      launch_ended_.reset();
      flush_events();
      return false;
    }
    current_ = write(make_plan());
  }
  launch();
  if (next_) return true;
  retire();
  flush_events();
  if (idle()) launch_ended_.reset();
  return true;
}

std::optional<Finish> PassLoop::reason_to_end(Sequence& sequence, TimePoint now) const {
  if (sequence.channel().cancel_wanted()) return Finish::kCancelled;
  if (sequence.deadline() && *sequence.deadline() <= now) return Finish::kDeadline;
  return std::nullopt;
}

bool PassLoop::is_to_sweep(TimePoint now) const {
  return signals_->cancelled || (next_deadline_ && *next_deadline_ <= now);
}

// Ends cancelled and late sequences, if there can be any. Followers come after their leader in the queue.
void PassLoop::sweep() {
  const bool cancelled = signals_->cancelled.exchange(false);
  if (!cancelled && !next_deadline_) return;
  const TimePoint now = now_();
  if (!cancelled && now < *next_deadline_) return;
  next_deadline_.reset();
  for (const auto& sequence : running_) {
    if (const auto reason = reason_to_end(*sequence, now)) {
      post_end(*sequence, sequence->end(*reason));
    } else {
      note_deadline(*sequence);
    }
  }
  retire();
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    Sequence& sequence = *next->second;
    if (const auto reason = reason_to_end(sequence, now)) {
      post_end(sequence, sequence.end(*reason));
      release_followers(sequence);
      next = waiting_.erase(next);
    } else {
      note_deadline(sequence);
      ++next;
    }
  }
}

void PassLoop::view_running() {
  planned_.clear();
  views_.clear();
  for (const auto& sequence : running_) {
    planned_.push_back(sequence.get());
    views_.push_back(sequence->view());
  }
}

void PassLoop::admit() {
  while (!waiting_.empty() && try_to_join(*waiting_.begin()->second)) {
    std::unique_ptr<Sequence> joined = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    const auto position =
        std::upper_bound(running_.begin(), running_.end(), joined->order(),
                         [](const ServiceOrder& order, const auto& other) { return order < other->order(); });
    running_.insert(position, std::move(joined));
  }
}

// The number of available blocks that its tokens would take.
uint32_t PassLoop::blocks_to_join(const Sequence& sequence) const {
  const uint32_t blocks = blocks_for_tokens(sequence.length());
  if (!sequence.reuses_prefix()) return blocks;
  return blocks - pool_.match(kDomain, sequence.tokens().first(sequence.length() - 1)).held;
}

bool PassLoop::try_to_join(Sequence& sequence) {
  if (running_.size() >= limits_.max_sequences) return false;
  const uint32_t blocks = blocks_for_tokens(sequence.length());
  if (!may_join(running_.size(), pool_.available(), limits_, blocks)) {
    const bool refused = refusal_ && refusal_->order == sequence.order();
    if (refused && pool_.available() <= refusal_->available) return false;
    refusal_ = {sequence.order(), pool_.available()};
    if (!may_join(running_.size(), pool_.available(), limits_, blocks_to_join(sequence))) return false;
  }
  auto chain = std::make_unique<KvChain>(pool_, kDomain);
  const uint32_t reused =
      sequence.reuses_prefix() ? chain->reuse(sequence.tokens(), sequence.length() - 1) : 0;
  [[maybe_unused]] const bool enough = chain->grow_to(blocks);
  assert(enough);
  sequence.join(state_.take_slot(), std::move(chain), reused, now_());
  state_.write_slot(sequence);
  stats_.prompt_tokens += sequence.length();
  stats_.cached_tokens += reused;
  return true;
}

// A prompt may have the same beginning as one that another sequence has read in the meantime. Looks up only
// prompts that the next pass can read, to save time, and none that a launch in flight reads: their blocks are
// being written.
void PassLoop::look_up_prefixes() {
  uint32_t rows = limits_.max_rows;
  for (size_t i = 0; i < planned_.size() && rows > 0; ++i) {
    Sequence& sequence = *planned_[i];
    const uint32_t computed = views_[i].computed;
    if (views_[i].length - computed == 1) continue;
    if (sequence.share() == nullptr && sequence.reuses_prefix() && computed % kKvBlockTokens == 0) {
      const uint32_t reused = sequence.chain().reuse(sequence.tokens(), sequence.length() - 1);
      stats_.cached_tokens += reused - computed;
      sequence.reuse(reused);
      views_[i] = sequence.view();
    }
    rows -= std::min(rows, views_[i].length - views_[i].computed);
  }
}

PassPlan PassLoop::make_plan() {
  view_running();
  look_up_prefixes();
  PassPlan pass_plan = plan({views_, pool_.available()}, limits_);
  while (pass_plan.give_back) {
    give_back(*pass_plan.give_back);
    view_running();
    pass_plan = plan({views_, pool_.available()}, limits_);
  }
  return pass_plan;
}

// Limits `passes` to the number before the host has to decide something.
uint32_t PassLoop::passes_to_decision(uint32_t passes) const {
  // Followers join once the prompt is read, and only the last pass's likeliest tokens are kept.
  const auto ends_launch = [](const Sequence* sequence) {
    return !sequence->followers.empty() || sequence->lists_top();
  };
  if (std::ranges::any_of(planned_, ends_launch)) return 1;
  if (waiting_.empty()) return passes;
  // A waiting sequence gets the next free place: either one is free before the launch, or the first sequence
  // that ends frees one.
  if (planned_.size() < running_.size()) return 1;
  for (const SequenceView& view : views_) {
    if (view.generates) passes = std::min(passes, tokens_to_end(view));
  }
  return passes;
}

PlannedLaunch PassLoop::write(const PassPlan& plan) {
  const uint32_t passes = passes_to_decision(plan.passes);
  for (size_t i = 0; i < planned_.size(); ++i) {
    [[maybe_unused]] const bool enough = planned_[i]->chain().grow_to(blocks_for_launch(views_[i], passes));
    assert(enough);  // blocks_suffice() has checked this
  }
  PlannedLaunch launch = state_.write(plan, planned_, views_);
  launch.passes = passes;
  return launch;
}

// Leaves its computed blocks for other sequences.
void PassLoop::leave_blocks(Sequence& sequence) {
  if (sequence.reuses_prefix() && !sequence.failed())
    sequence.chain().leave(sequence.tokens(), sequence.computed());
}

void PassLoop::give_back(uint32_t index) {
  std::unique_ptr<Sequence> sequence = std::move(running_[index]);
  running_.erase(running_.begin() + index);
  state_.give_back_slot(sequence->slot());
  leave_blocks(*sequence);
  sequence->leave();
  ++stats_.preemptions;
  wait_again(std::move(sequence));
}

void PassLoop::release_followers(Sequence& sequence) {
  for (auto& follower : sequence.followers) {
    note_deadline(*follower);
    wait_again(std::move(follower));
    --followers_;
  }
  sequence.followers.clear();
}

// Called after a launch or while its successor is in flight. Publishes full blocks, and removes sequences
// that have ended unless they are in flight.
void PassLoop::retire() {
  bool some_left = false;
  for (auto& sequence : running_) {
    if (sequence->reuses_prefix() && !sequence->failed())
      sequence->chain().publish(sequence->tokens(), sequence->computed());
    if (sequence->finished() || sequence->prompt_is_read()) release_followers(*sequence);
    if (!sequence->finished() || sequence->share() != nullptr) continue;
    state_.give_back_slot(sequence->slot());
    leave_blocks(*sequence);
    sequence.reset();
    some_left = true;
  }
  if (some_left) std::erase(running_, nullptr);
}

void PassLoop::fail_running(const std::exception_ptr& failure) {
  ErrorKind kind = ErrorKind::kRuntime;
  std::string line;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    kind = error.kind();
    line = error.what();
  } catch (const std::bad_alloc&) {
    kind = ErrorKind::kOutOfMemory;
    line = "out of memory";
  } catch (const std::exception& error) {
    line = error.what();
  }
  for (const auto& sequence : running_) {
    if (!sequence->finished()) post_end(*sequence, sequence->fail(kind, line));
  }
  retire();
  pool_.drop_kept();  // the launch may have written anywhere
}

void PassLoop::end_all(Finish finish) {
  if (next_) drop_plan();
  for (const auto& sequence : running_) post_end(*sequence, sequence->end(finish));
  retire();
  for (auto next = waiting_.begin(); next != waiting_.end(); next = waiting_.erase(next)) {
    post_end(*next->second, next->second->end(finish));
    release_followers(*next->second);
  }
  flush_events();
}

EngineStats PassLoop::stats() const {
  EngineStats stats = stats_;
  stats.running = static_cast<uint32_t>(running_.size());
  stats.waiting = static_cast<uint32_t>(waiting_.size()) + followers_;
  stats.kv_blocks = pool_.num_blocks();
  stats.kv_blocks_held = pool_.held();
  stats.kv_blocks_kept = pool_.kept();
  return stats;
}

}  // namespace serval

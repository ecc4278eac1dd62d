#include "engine/core/pass_loop.h"

#include <algorithm>
#include <new>
#include <utility>

#include "fmt/format.h"

#include "vm/layout/kv_cache.h"

namespace serval {
namespace {

// Limit of passes in a launch when the host has no decision to make between them. Longer launches save no
// more.
constexpr uint32_t kLaunchPasses = 64;

PlannerLimits limits_of(Backend& backend, const PassLoopOptions& options) {
  const StateLimits& state = backend.limits();
  const uint32_t max_sequences = options.max_sequences;
  PlannerLimits limits;
  limits.max_rows = state.rows;
  limits.max_logit_rows = logit_rows(state);
  limits.max_sequences = std::min(state.rows, state.sequences);
  if (max_sequences > 0) limits.max_sequences = std::min(limits.max_sequences, max_sequences);
  limits.max_passes = std::min(kLaunchPasses, launch_passes(state.rows));
  limits.drafts_by_model = options.draft_model != nullptr;
  if (options.drafts.most > 0) limits.max_draft_rows = backend.draft_rows();
  return limits;
}

std::unique_ptr<DraftModel> draft_model_of(const PassLoopOptions& options) {
  if (options.draft_model == nullptr) return nullptr;
  return std::make_unique<DraftModel>(
      *options.draft_model,
      DraftModelOptions{
          .least = options.drafts.least, .p_min = options.draft_p_min, .hash_seed = options.hash_seed});
}

bool is_finite(const OutputToken& token) {
  return token.finish != FinishReason::kNotFinite;
}

double milliseconds(TimePoint begin, TimePoint end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

}  // namespace

PassLoop::PassLoop(Backend& backend, std::shared_ptr<CoreSignals> signals, const PassLoopOptions& options)
    : backend_(backend),
      signals_(std::move(signals)),
      now_(options.now),
      fault_at_launch_(options.fault_at_launch),
      drafts_(options.drafts),
      limits_(limits_of(backend, options)),
      pool_(backend.limits().kv_blocks, options.hash_seed),
      draft_model_(draft_model_of(options)),
      state_(backend.state(), limits_.max_sequences, drafts_, limits_.drafts_by_model),
      expiry_(signals_),
      waiting_(expiry_),
      running_(pool_, state_, limits_, now_, draft_model_.get()),
      planner_(running_, waiting_, pool_, state_, limits_),
      delivery_(state_, expiry_, backend.name()) {
  const uint32_t context = backend.limits().max_context;
  if (pool_.num_blocks() >= blocks_for_tokens(context)) return;
  throw Error(ErrorKind::kOutOfMemory,
              fmt::format("KV cache: {} blocks of {} tokens; a context of {} needs {}", pool_.num_blocks(),
                          kKvBlockTokens, context, blocks_for_tokens(context)));
}

PassLoop::~PassLoop() = default;

void PassLoop::add(std::unique_ptr<Sequence> sequence) {
  if (next_ && has_room()) next_->passes = 1;  // this one joins while next_ runs
  const auto allow = [this](Sequence& s) {
    s.allow_drafts({.most = drafts_.most, .least = drafts_.least, .by_model = limits_.drafts_by_model});
  };
  allow(*sequence);
  for (const auto& follower : sequence->followers) allow(*follower);
  waiting_.add(std::move(sequence));
}

bool PassLoop::step() {
  if (next_ && expiry_.is_due(now_())) drop_plan();
  if (!next_) {
    end_expired();
    running_.admit(waiting_);
    if (running_.empty()) {
      launch_ended_.reset();
      delivery_.flush();
      return false;
    }
  }
  try {
    take_plan();
    launch();
  } catch (...) {
    give_up(std::current_exception());
  }
  if (next_) return true;
  running_.retire(waiting_);
  delivery_.flush();
  if (idle()) launch_ended_.reset();
  return true;
}

// Sets current_. The draft model reads before, so that the plan knows what it can draft.
void PassLoop::take_plan() {
  with_draft_model([&](DraftModel& model) { model.read({running_.begin(), running_.end()}); });
  if (next_) {
    current_ = std::move(*next_);
    next_.reset();
    return;
  }
  current_ = planner_.plan_next();
  if (!current_.has_drafts()) return;
  with_draft_model([&](DraftModel& model) { model.draft(current_, backend_.state()); });
}

// Its time is none between two launches for which the backend waits for the host.
void PassLoop::with_draft_model(const std::function<void(DraftModel&)>& call) {
  if (!draft_model_) return;
  const TimePoint begin = now_();
  call(*draft_model_);
  if (launch_ended_) *launch_ended_ += now_() - begin;
}

// Ends cancelled and late sequences.
void PassLoop::end_expired() {
  const TimePoint now = now_();
  if (!expiry_.begin_check(now)) return;
  for (const auto& sequence : running_) {
    if (const auto reason = expiry_.check(*sequence, now))
      delivery_.post_end(*sequence, sequence->end(*reason));
  }
  running_.retire(waiting_);
  waiting_.end_if(
      [&](Sequence& sequence) { return expiry_.check(sequence, now); },
      [&](Sequence& sequence, Finish reason) { delivery_.post_end(sequence, sequence.end(reason)); });
}

void PassLoop::launch() {
  delivery_.ended() = {};
  passes_done_ = 0;
  failure_ = nullptr;
  ++stats_.launches;
  for (LaunchShare& share : current_.shares) share.sequence->set_share(&share);
  const TimePoint begin = now_();
  if (launch_ended_) {
    ++stats_.gaps;
    stats_.gap_ms += milliseconds(*launch_ended_, begin);
  }
  try {
    run_launch();
  } catch (...) {
    if (!failure_) failure_ = std::current_exception();
  }
  launch_ended_ = now_();
  stats_.pass_ms += milliseconds(begin, *launch_ended_);
  stats_.kernel_ms += backend_.kernel_us().value_or(0) * 1e-3;
  end_shares(current_);
  if (failure_) return give_up(std::exchange(failure_, nullptr));
  if (!deferred_) next_.reset();
}

void PassLoop::run_launch() {
  // The backend's threads are running when it calls back, so an exception is kept until they are done.
  const auto guarded = [&](const auto& call) {
    if (failure_) return;
    try {
      call();
    } catch (...) {
      failure_ = std::current_exception();
      backend_.request_stop();
      delivery_.release_masks(current_);
    }
  };
  if (stats_.launches == fault_at_launch_)
    throw Error(ErrorKind::kDeviceFault, fmt::format("launch {}: fault_at_launch", stats_.launches));
  backend_.run(
      {.passes = current_.passes,
       .reads_prompts = current_.reads_prompts,
       .is_prepared = current_.is_prepared},
      [&](uint32_t pass) { guarded([&] { after_pass(pass); }); }, [&] { guarded([&] { while_running(); }); });
  if (passes_done_ == 0 && !failure_)
    throw Error(ErrorKind::kDeviceFault, backend_.name() + ": a launch ended before its first pass");
}

void PassLoop::after_pass(uint32_t pass) {
  const TimePoint now = now_();
  ++passes_done_;
  ++stats_.passes;
  if (pass == 0) stats_.rows += current_.rows;
  const PassOutput output{pass, now, backend_.state().output[pass], backend_.state().top};
  if (next_ && pass + 1 == current_.passes && is_as_expected(output)) return defer(output);
  if (pass + 1 < current_.passes) delivery_.publish_masks(current_, output);
  delivery_.deliver(current_, output);
  if (launch_is_stale(now)) backend_.request_stop();
}

bool PassLoop::launch_is_stale(TimePoint now) {
  const Delivery::Ended& ended = delivery_.ended();
  if (ended.by_host || expiry_.is_due(now)) return true;
  const bool room = ended.some || has_room();
  return (room && signals_->arrived) || (ended.some && !waiting_.empty());
}

// Returns whether the launch in flight has left what the next one was planned for. `output` is of its last
// pass.
bool PassLoop::is_as_expected(const PassOutput& output) const {
  return !expiry_.is_due(output.ended) && std::ranges::all_of(current_.shares, [&](const LaunchShare& share) {
    if (share.sequence->finished()) return share.ends;
    const auto scored = output.tokens.subspan(share.first_scored, share.scored);
    if (!std::ranges::all_of(scored, is_finite)) return false;
    if (!share.logit_row) return true;
    const OutputToken& token = output.tokens[*share.logit_row];
    const bool ends = token.finish != FinishReason::kNone;
    return token.valid != 0 && token.position == share.sequence->length() && ends == share.ends;
  });
}

// The next launch may begin: its state gets the tokens, which are delivered while it runs.
void PassLoop::defer(const PassOutput& output) {
  for (const LaunchShare& share : current_.shares) {
    if (share.logit_row && !share.ends)
      state_.write_token(*share.sequence, output.tokens[*share.logit_row].token);
  }
  end_shares(current_);
  deferred_.emplace(std::exchange(current_, {}), output);
}

void PassLoop::end_shares(PlannedLaunch& launch) {
  for (const LaunchShare& share : launch.shares) {
    share.sequence->set_share(nullptr);
    share.sequence->drafts().end_launch(share.drafts, launch.passes);
  }
}

void PassLoop::deliver_deferred() {
  const DeferredOutput last = std::move(*deferred_);
  deferred_.reset();
  delivery_.deliver(last.launch, last.output());
}

// Called while the launch runs on its own copy of the state. Delivers the tokens of the launch before, plans
// the next launch and writes its state. Sequences in flight keep their slots and blocks.
void PassLoop::while_running() {
  if (deferred_) {
    delivery_.publish_masks(deferred_->launch, deferred_->output());
    deliver_deferred();
    running_.retire(waiting_);
  }
  if (expiry_.is_due(now_())) return backend_.request_stop();
  const bool joined = running_.admit(waiting_) > 0;
  // A launch of one pass ends soon enough, and its results are predictable.
  if (current_.passes > 1 && (joined || delivery_.ended().by_host)) return backend_.request_stop();
  delivery_.ended().some = false;  // those places are taken
  plan_ahead();
}

void PassLoop::plan_ahead() {
  next_ = planner_.plan_after(current_);
  if (!next_) return;
  try {
    backend_.prepare({.passes = next_->passes, .reads_prompts = next_->reads_prompts});
    next_->is_prepared = true;
  } catch (const std::exception&) {
    next_.reset();  // run() will report the same error
  }
}

// Between launches: delivers deferred results at once and discards the plan.
void PassLoop::drop_plan() {
  next_.reset();
  try {
    deliver_deferred();
    running_.retire(waiting_);
  } catch (...) {
    fail_running(std::current_exception());
  }
}

// Still delivers the tokens of the launch before the one that failed.
void PassLoop::give_up(const std::exception_ptr& failure) {
  next_.reset();
  try {
    if (deferred_) deliver_deferred();
  } catch (...) {
    deferred_.reset();
  }
  fail_running(failure);
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
    if (!sequence->finished()) delivery_.post_end(*sequence, sequence->fail(kind, line));
  }
  running_.retire(waiting_);
  pool_.drop_kept();  // the launch may have written anywhere
  if (draft_model_) draft_model_->drop_kept();
}

void PassLoop::end_all(Finish finish) {
  if (next_) drop_plan();
  for (const auto& sequence : running_) delivery_.post_end(*sequence, sequence->end(finish));
  running_.retire(waiting_);
  waiting_.end_if(
      [&](Sequence&) { return std::optional(finish); },
      [&](Sequence& sequence, Finish reason) { delivery_.post_end(sequence, sequence.end(reason)); });
  delivery_.flush();
}

EngineStats PassLoop::stats() const {
  EngineStats stats = stats_;
  stats.running = static_cast<uint32_t>(running_.size());
  stats.waiting = waiting_.size();
  stats.kv_blocks = pool_.num_blocks();
  stats.kv_blocks_held = pool_.held();
  stats.kv_blocks_kept = pool_.kept();
  const RunningSequences::Counts& joined = running_.counts();
  stats.prompt_tokens = joined.prompt_tokens;
  stats.cached_tokens = joined.cached_tokens + planner_.cached_tokens();
  stats.preemptions = joined.preemptions;
  const Delivery::Counts& delivered = delivery_.counts();
  stats.finished = delivered.finished;
  stats.generated_tokens = delivered.generated_tokens;
  stats.drafts = delivered.drafts;
  if (draft_model_) stats.drafts.ms = draft_model_->ms();
  stats.rows += delivered.later_rows;
  return stats;
}

}  // namespace serval

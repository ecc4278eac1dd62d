// The loop's own time: what it does between two passes, over a backend whose passes take none. The aims: at
// most 5 us a pass of 16 sequences that none joins or leaves, at most 30 us with one that joins and one that
// leaves. PromptsForAGpu also counts what a GPU's backend does on the CPU before a launch: it plans attention
// and checks the state. us_gap is the part of that for which a GPU would have nothing to do: from the end of
// a launch until the state of the next one is ready.
#include <algorithm>
#include <benchmark/benchmark.h>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/backend/prepare_state.h"
#include "engine/backend/state_copy.h"
#include "engine/compile/gpu_programs.h"
#include "engine/core/pass_loop.h"
#include "engine/text/text_codec.h"
#include "instructions/planned_attention/plan_launch.h"
#include "models/presets.h"
#include "vm/layout/kv_cache.h"
#include "vm/state/check.h"

namespace serval {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kContext = 4096;
constexpr int32_t kVocabulary = 1000;
constexpr int32_t kToken = 65;

Program program_of(uint32_t rows, uint32_t sequences) {
  Program program;
  program.limits = {.vocab = kVocabulary,
                    .max_context = kContext,
                    .kv_blocks = sequences * blocks_for_tokens(kContext),
                    .rows = rows,
                    .sequences = sequences};
  return program;
}

// Each row that wants logits gets the same token. Its own time is measured, to be left out.
class InstantBackend final : public Backend {
 public:
  explicit InstantBackend(Program program)
      : program_(std::move(program)),
        attention_(attention_plan_shape(program_)),
        state_(program_.limits),
        own_(program_.limits) {}

  std::string name() const override { return "instant"; }
  const Program& program() const override { return program_; }
  StateBlock& state() override { return state_; }
  void request_stop() noexcept override { stop_ = true; }
  std::span<const float> logits(int) override { return {}; }

  void prepare(const Launch& launch) override {
    if (attention_) prepare_state(program_, attention_, launch.passes, state_);
  }

  void run(const Launch& launch, const std::function<void(uint32_t)>& on_pass,
           const std::function<void()>& on_begun) override {
    if (launch.is_prepared) {
      check_tokens(program_, state_);
    } else {
      prepare(launch);
    }
    Clock::time_point begin = Clock::now();
    if (ended_) {
      gap += begin - *ended_;
      ++gaps;
    }
    copy_launch(state_, own_);
    stop_ = false;
    own_time += Clock::now() - begin;
    if (on_begun) on_begun();
    begin = Clock::now();
    for (uint32_t pass = 0; pass < launch.passes && !stop_; ++pass) {
      run_pass(pass);
      own_time += Clock::now() - begin;
      on_pass(pass);
      begin = Clock::now();
    }
    ended_ = Clock::now();
    own_time += *ended_ - begin;
  }
  void rest() { ended_.reset(); }

  Clock::duration own_time{0}, gap{0};
  uint32_t gaps = 0;

 private:
  void run_pass(uint32_t pass) {
    for (size_t r = 0; r < own_.rows.size(); ++r) {
      PassRow& row = own_.rows[r];
      OutputToken& output = state_.output[pass][r];
      output = {};
      if (!row_is_active(row)) continue;
      row.active = row.wants_logits;
      if (row.wants_logits == 0) continue;
      const bool ends = ++row.position >= own_.slots[row.slot].end_position;
      output = {1, row.slot, kToken, -1, row.position, ends ? FinishReason::kLength : FinishReason::kNone};
      row.active = ends ? 0 : 1;
    }
  }

  const Program program_;
  const std::optional<AttentionPlanShape> attention_;  // of a program for a GPU
  StateBlock state_;
  StateBlock own_;  // of the launch in flight
  std::optional<Clock::time_point> ended_;
  bool stop_ = false;
};

class Requests {
 public:
  explicit Requests(uint32_t sequences) : Requests(program_of(sequences, sequences)) {}
  explicit Requests(Program program)
      : backend(std::move(program)), loop(backend, signals_, {}), text_(make_byte_codec(kVocabulary)) {}

  void add(uint32_t max_tokens, std::vector<int32_t> prompt = {kToken}) {
    PreparedRequest request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    const auto sink = [](const RequestEvent& event) { benchmark::DoNotOptimize(event.token.token); };
    loop.add(std::make_unique<Sequence>(request, 0, std::make_shared<Channel>(signals_, sink),
                                        text_->stream(), 0, Clock::now()));
  }

 private:
  std::shared_ptr<CoreSignals> signals_ = std::make_shared<CoreSignals>();

 public:
  InstantBackend backend;
  PassLoop loop;

 private:
  std::unique_ptr<TextCodec> text_;
};

void report(benchmark::State& state, const Requests& requests, Clock::duration all) {
  const std::chrono::duration<double, std::micro> loop = all - requests.backend.own_time;
  const EngineStats stats = requests.loop.stats();
  state.counters["us_a_pass"] = loop.count() / static_cast<double>(stats.passes);
  state.counters["us_a_launch"] = loop.count() / static_cast<double>(stats.launches);
  const std::chrono::duration<double, std::micro> gap = requests.backend.gap;
  state.counters["us_gap"] = gap.count() / std::max(1U, requests.backend.gaps);
}

// None joins, none leaves: launches of 64 passes.
void SteadyPasses(benchmark::State& state) {
  Requests requests(static_cast<uint32_t>(state.range(0)));
  Clock::duration all{0};
  for (auto _ : state) {
    if (requests.loop.idle()) {
      requests.backend.rest();
      for (int64_t i = 0; i < state.range(0); ++i) requests.add(kContext - 1);
    }
    const Clock::time_point begin = Clock::now();
    requests.loop.step();
    all += Clock::now() - begin;
  }
  report(state, requests, all);
}

// In each launch, of one pass, one sequence joins and another leaves; the others go on.
void PassesWithJoinsAndLeaves(benchmark::State& state) {
  Requests requests(static_cast<uint32_t>(state.range(0)));
  requests.add(1);
  Clock::duration all{0};
  for (auto _ : state) {
    while (requests.loop.stats().running + requests.loop.stats().waiting < state.range(0))
      requests.add(kContext - 1);
    const Clock::time_point begin = Clock::now();
    requests.add(1);  // waits for the place of the one before, so that the launch ends
    requests.loop.step();
    all += Clock::now() - begin;
  }
  report(state, requests, all);
}

Program gpu_program(uint32_t sequences, uint32_t tokens) {
  const ProgramLimits limits{.context = tokens, .sequences = sequences, .rows = kLeastGpuTokens};
  return *compile_gpu_program(*find_preset("llama-3.2-1b"), h200_machine(), limits, {}, kLeastGpuTokens,
                              true);
}

// As many prompts of 512 tokens are read, 2,048 tokens a pass, as sequences run.
void PromptsForAGpu(benchmark::State& state) {
  constexpr uint32_t kPrompt = 512, kAnswer = 64;
  const auto sequences = static_cast<uint32_t>(state.range(0));
  Requests requests(gpu_program(sequences, kPrompt + kAnswer));
  int32_t first = 0;  // each prompt begins with another
  Clock::duration all{0};
  for (auto _ : state) {
    if (requests.loop.idle()) {
      requests.backend.rest();
      for (uint32_t i = 0; i < sequences; ++i) {
        std::vector<int32_t> prompt(kPrompt, kToken);
        prompt.front() = first++ % kVocabulary;
        requests.add(kAnswer, std::move(prompt));
      }
    }
    const Clock::time_point begin = Clock::now();
    requests.loop.step();
    all += Clock::now() - begin;
  }
  report(state, requests, all);
}

BENCHMARK(PromptsForAGpu)->Arg(64)->Arg(256);
BENCHMARK(SteadyPasses)->Arg(1)->Arg(16)->Arg(256)->Arg(1024);
BENCHMARK(PassesWithJoinsAndLeaves)->Arg(16)->Arg(256)->Arg(1024);

}  // namespace
}  // namespace serval

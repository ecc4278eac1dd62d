// Recording on the GPU, in each of the kernels: it does not change any bit of a launch's results, and its
// events are complete and consistent.
#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "engine/backend/device_backend.h"
#include "engine/runtime/token_trace.h"
#include "tests/device/rows_of_pass.h"
#include "tests/llama/tiny_model.h"
#include "tests/profiler/sound_trace.h"

namespace serval::testing {
namespace {

constexpr uint64_t kSeed = 3;
constexpr uint32_t kContext = 320;
// Two warps may record the same moment some cycles apart.
constexpr int64_t kSameMoment_ns = 500;
// The clocks of different SMs are aligned to less than this (docs/profiling.md). Their rates differ, by 10 µs
// after four passes, and are hard to estimate from passes as short as these.
constexpr int64_t kOneClock_ns = 30'000;

// A kernel (instructions/sm90/kernels.def), with a model and rows that use it. Sequences with one row
// generate, others are prompts.
struct Case {
  const char* name;
  LlamaConfig config;
  bool tiles;
  uint32_t rows;
  uint32_t rows_of_sequence = 1;
  uint32_t sms = 0;  // 0: all
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

// Uses the embedding as the LM head.
LlamaConfig tied(LlamaConfig config) {
  config.tie_word_embeddings = true;
  return config;
}

std::vector<Case> cases() {
  const LlamaConfig small = tiny_parts_config(), large = tied(tiny_large_heads_config()),
                    norms = tied(tiny_head_norms_config());
  return {{"OneRowHeads64", tiny_config(), false, 1},
          {"OneRowHeads128", large, false, 1},
          {"OneRowHeadNorms", norms, false, 1},
          {"FourRows", tiny_config(), false, 3},
          {"EightRows", large, false, 8},
          {"SixteenRows", norms, false, 16},
          {"TileOrderHeads64", small, true, 1},
          {"TileOrderHeads128", large, true, 1},
          {"Decode64Heads64", small, true, 40},
          {"Decode64Heads128", large, true, 64},
          {"Tiles64Heads64", small, true, 64, 32},
          {"Tiles64Heads128", norms, true, 60, 20},
          {"WideTiles", large, true, 64, 1, 3},
          {"Decode256Heads64", small, true, 300},
          {"Decode256Heads128", norms, true, 300},
          {"Tiles256Heads64", small, true, 300, 100},
          {"Tiles256Heads128", large, true, 300, 300}};
}

Case case_of(const std::string& name) {
  const std::vector<Case> all = cases();
  return *std::ranges::find(all, name, &Case::name);
}

// Results of a launch.
struct Given {
  std::vector<int32_t> tokens;             // of all passes
  std::vector<std::vector<float>> logits;  // of the last pass
  friend bool operator==(const Given&, const Given&) = default;
};

class RecordingOnGpu : public ::testing::TestWithParam<Case> {
 protected:
  uint32_t passes() const { return GetParam().rows_of_sequence > 1 ? 1 : 4; }
  Given launch(uint32_t passes) {
    const Case& c = GetParam();
    StateBlock& state = backend_->state();
    write_pass(state, random_tokens(c.config, c.rows, 1), c.rows_of_sequence);
    const uint32_t wanting = std::min(c.rows, logit_rows(state.limits));
    Given given;
    const auto take_tokens = [&](uint32_t pass) {
      for (uint32_t r = 0; r < wanting; ++r) given.tokens.push_back(state.output[pass][r].token);
    };
    backend_->run({.passes = passes, .reads_prompts = c.rows_of_sequence > 1}, take_tokens);
    for (uint32_t r = 0; r < wanting; ++r) {
      const std::span<const float> logits = backend_->logits(static_cast<int>(r));
      given.logits.emplace_back(logits.begin(), logits.end());
    }
    EXPECT_EQ(given.tokens.size(), size_t{passes} * wanting);
    return given;
  }
  // Records the program that the previous launch has run.
  void record(uint32_t passes, RecordingDetail detail = RecordingDetail::kMoments) {
    keep_last_tokens(*backend_, passes, detail);
  }
  Trace trace(uint32_t tokens) { return trace_of_last_tokens(*backend_, tokens, {}, {}); }
  Backend& backend() { return *backend_; }
  const Program& program() { return backend_->program(); }

 private:
  static BackendOptions options() {
    const Case& c = GetParam();
    BackendOptions options;
    options.limits.context = kContext;
    options.limits.batch_invariant = c.tiles;
    if (c.tiles) options.limits.rows = c.rows;
    if (c.tiles) options.limits.sequences = c.rows / c.rows_of_sequence;
    options.sms = c.sms;
    options.stall_timeout_s = 5;
    return options;
  }

  const std::unique_ptr<Backend> backend_ =
      make_device_backend(GetParam().config, *make_random_weights(GetParam().config, kSeed), options());
};
std::string name_of_case(const ::testing::TestParamInfo<Case>& test) {
  return test.param.name;
}
INSTANTIATE_TEST_SUITE_P(Kernels, RecordingOnGpu, ::testing::ValuesIn(cases()), name_of_case);

TEST_P(RecordingOnGpu, DoesNotShowInTheResults) {
  const Given expected = launch(passes());
  for (const RecordingDetail detail : {RecordingDetail::kMoments, RecordingDetail::kStarving}) {
    record(passes(), detail);
    EXPECT_TRUE(launch(passes()) == expected);
  }
  backend().record(0);
  EXPECT_TRUE(launch(passes()) == expected);
  EXPECT_EQ(backend().events(), nullptr);
}

// For each instruction and each kind of event, a bit for each pass that has such an event.
using Seen = std::vector<std::array<uint32_t, kNumEventKinds>>;

void take_events_of(const EventRings& rings, uint32_t sm, const Program& program, uint32_t passes,
                    Seen& seen) {
  ASSERT_LE(rings.written[sm], rings.capacity) << "SM " << sm << ": events were overwritten";
  for (uint32_t n = 0; n < rings.written[sm]; ++n) {
    const Event& event = rings.events[size_t{sm} * rings.capacity + n];
    SCOPED_TRACE(
        fmt::format("SM {}, event {}, instruction {}, pass {}", sm, n, event.instruction, event.pass));
    ASSERT_LT(event.kind, kNumEventKinds);
    ASSERT_GE(event.instruction, program.queue_begin[sm]) << "is another SM's";
    ASSERT_LT(event.instruction, program.queue_begin[sm + 1]) << "is another SM's";
    ASSERT_LT(event.pass, passes);
    uint32_t& of_kind = seen[event.instruction][event.kind];
    ASSERT_EQ(of_kind & 1U << event.pass, 0U) << info_of(static_cast<EventKind>(event.kind)).name << " again";
    of_kind |= 1U << event.pass;
  }
}

// Events that every record has. All other events occur in every pass or in none, except that the time when
// activations were in place is not always known (vm/device/recording.cc).
bool always_happens(EventKind kind) {
  constexpr EventKind kAlways[] = {EventKind::kFetchBegin, EventKind::kFetched, EventKind::kWaitBegin,
                                   EventKind::kInputsReady, EventKind::kSignalled};
  return std::ranges::find(kAlways, kind) != std::end(kAlways);
}

// Each event of each instruction occurs once in a pass, on the SM that runs it.
void expect_all_events(const EventRings& rings, const Program& program, uint32_t passes) {
  ASSERT_EQ(rings.sms, program.machine.sms);
  ASSERT_EQ(rings.writers, 1U);
  Seen seen(program.instructions.size());
  for (uint32_t sm = 0; sm < rings.sms; ++sm)
    ASSERT_NO_FATAL_FAILURE(take_events_of(rings, sm, program, passes, seen));
  const uint32_t all = (1U << passes) - 1;
  for (size_t i = 0; i < seen.size(); ++i) {
    for (uint32_t k = 0; k < kNumEventKinds; ++k) {
      const auto kind = static_cast<EventKind>(k);
      if (kind == EventKind::kPrepared || seen[i][k] == all) continue;
      ASSERT_TRUE(seen[i][k] == 0 && !always_happens(kind))
          << "instruction " << i << ": " << info_of(kind).name;
    }
    const auto has = [&](EventKind kind) { return seen[i][static_cast<size_t>(kind)] != 0; };
    ASSERT_EQ(has(EventKind::kComputeBegin), has(EventKind::kComputeEnd)) << "instruction " << i;
    ASSERT_EQ(has(EventKind::kLoadBegin), has(EventKind::kLoadIssued)) << "instruction " << i;
    ASSERT_EQ(has(EventKind::kFirstLanded), has(EventKind::kLastLanded)) << "instruction " << i;
  }
}

// The order of a record's events in the roles of its SM, for example waiting before computing.
void expect_in_order(const Execution& x) {
  constexpr std::pair<EventKind, EventKind> kOrder[] = {
      {EventKind::kFetched, EventKind::kLoadBegin},        {EventKind::kFetched, EventKind::kWaitBegin},
      {EventKind::kInputsReady, EventKind::kComputeBegin}, {EventKind::kInputsReady, EventKind::kSignalled},
      {EventKind::kLastLanded, EventKind::kSignalled},     {EventKind::kComputeEnd, EventKind::kSignalled}};
  for (const auto& [first, second] : kOrder) {
    if (!x.has(first) || !x.has(second)) continue;
    ASSERT_LE(x.time(first), x.time(second) + kSameMoment_ns)
        << "instruction " << x.instruction << ", pass " << x.pass << ": " << info_of(first).name << " after "
        << info_of(second).name;
  }
}

// The last signal of each counter in a pass, of all SMs and of each.
struct LastSignals {
  int64_t of_all = std::numeric_limits<int64_t>::min();
  std::map<uint32_t, int64_t> of_sm;
};
using Counted = std::map<std::pair<uint32_t, uint32_t>, LastSignals>;  // by pass and counter

Counted last_signals(const Trace& trace) {
  Counted counted;
  for (const Execution& x : trace.executions) {
    const TraceInstruction& i = trace.program.instructions[x.instruction];
    for (uint32_t s = i.signal_begin; s < i.signal_begin + i.signal_count; ++s) {
      LastSignals& last = counted[{x.pass, trace.program.signals[s].counter}];
      const int64_t at = x.time(EventKind::kSignalled);
      last.of_all = std::max(last.of_all, at);
      int64_t& of_sm = last.of_sm.try_emplace(x.sm, at).first->second;
      of_sm = std::max(of_sm, at);
    }
  }
  return counted;
}

// Exact on one SM's clock; on two SMs' clocks, to the precision of their alignment.
void expect_after(const Execution& x, const LastSignals& signals) {
  const int64_t ready = x.time(EventKind::kInputsReady);
  ASSERT_GE(ready + kOneClock_ns, signals.of_all) << "instruction " << x.instruction << ", pass " << x.pass;
  const auto own = signals.of_sm.find(x.sm);
  if (own != signals.of_sm.end()) {
    ASSERT_GE(ready, own->second) << "instruction " << x.instruction << ", pass " << x.pass;
  }
}

// Inputs are not ready before they are signalled, and the counter that was waited for is among the
// instruction's waits.
void expect_waits_before_inputs(const Trace& recorded) {
  const TraceProgram& program = recorded.program;
  const Counted signals = last_signals(recorded);
  size_t waits = 0;
  for (const Execution& x : recorded.executions) {
    const TraceInstruction& i = program.instructions[x.instruction];
    bool is_own = x.last_counter == kNoCounter || x.last_counter == program.gate_counter;
    for (uint32_t w = i.wait_begin; w < i.wait_begin + i.wait_count; ++w) {
      const Wait& wait = program.waits[w];
      is_own = is_own || wait.counter == x.last_counter;
      // A lower threshold does not tell which signals it waits for.
      if (wait.threshold != program.increments_per_pass[wait.counter]) continue;
      ASSERT_NO_FATAL_FAILURE(expect_after(x, signals.at({x.pass, wait.counter})));
      ++waits;
    }
    ASSERT_TRUE(is_own) << "instruction " << x.instruction << " waited for counter " << x.last_counter;
    if (x.pass > 0) {
      ASSERT_NO_FATAL_FAILURE(expect_after(x, signals.at({x.pass - 1, program.gate_counter})));
    }
  }
  EXPECT_GT(waits, program.instructions.size() / 2) << "or little is compared";
}

// The rest of the kernel's time is the launch's begin and end.
void expect_windows_to_fill(const Trace& trace, double kernel_ns) {
  double windows_ns = 0;
  for (const PassWindow& window : trace.windows) windows_ns += static_cast<double>(window.length_ns());
  EXPECT_LE(windows_ns, kernel_ns + kOneClock_ns);
  EXPECT_GE(windows_ns, kernel_ns / 4);
}

TEST_P(RecordingOnGpu, EventsAreAllThereAndFitTogether) {
  launch(passes());
  record(passes());
  launch(passes());
  ASSERT_NO_FATAL_FAILURE(expect_all_events(*backend().events(), program(), passes()));
  const Trace recorded = trace(passes());
  ASSERT_NO_FATAL_FAILURE(expect_sound(recorded, passes()));
  expect_windows_to_fill(recorded, backend().kernel_us().value() * 1e3);
  for (const Execution& x : recorded.executions) {
    ASSERT_EQ(x.sm, recorded.program.instructions[x.instruction].queue);
    ASSERT_NO_FATAL_FAILURE(expect_in_order(x));
  }
  ASSERT_NO_FATAL_FAILURE(expect_waits_before_inputs(recorded));
  if (!GetParam().tiles) expect_each_weight_to_be_read_once(recorded, program());
}

class RecordingOfLongLaunches : public RecordingOnGpu {};
INSTANTIATE_TEST_SUITE_P(Kernels, RecordingOfLongLaunches,
                         ::testing::Values(case_of("OneRowHeads64"), case_of("SixteenRows"),
                                           case_of("Decode64Heads64"), case_of("Decode256Heads128")),
                         name_of_case);

TEST_P(RecordingOfLongLaunches, KeepTheLastPassesAndBeginWithEmptyRings) {
  constexpr uint32_t kLong = 40, kKept = 3;
  launch(1);
  record(kKept);
  launch(kLong);
  const Trace recorded = trace(kKept);
  ASSERT_NO_FATAL_FAILURE(expect_sound(recorded, kKept));
  EXPECT_EQ(recorded.windows.back().pass, kLong - 1);
  launch(2);
  ASSERT_NO_FATAL_FAILURE(expect_sound(trace(kKept), 2));
}

}  // namespace
}  // namespace serval::testing

// Tests named after the error in their program, and tests of programs that must be accepted.
#include "scheduler/validate.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <initializer_list>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/compile/gpu_programs.h"
#include "models/llama/graph.h"
#include "models/ranks.h"
#include "tests/llama/configs.h"
#include "tests/prove/campaign.h"
#include "tests/prove/draft.h"
#include "tests/prove/programs.h"
#include "tests/scheduler/graphs.h"
#include "vm/base/error.h"
#include "vm/layout/kv_cache.h"
#include "vm/state/adjustments.h"
#include "vm/state/attention.h"
#include "vm/state/names.h"
#include "vm/state/output.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kHidden = 32, kIntermediate = 32, kVocab = 24;
constexpr uint32_t kUnits = kHidden / kUnitRows;
constexpr uint32_t kHalf = kUnits / 2;

enum TensorIndex : uint32_t {
  kTable,
  kNorm,
  kGateWeights,
  kUpWeights,
  kDown,
  kRows,
  kResidual,
  kWeighted,
  kSquares,
  kMlp,
  kLogits,
  kUnitSoftmax
};

template <auto... Members>
constexpr uint32_t guards() {
  return ((1U << operand_index<Members>()) | ... | 0U);
}

// A hand-written program over an MLP's tensors, queue by queue.
class Hand {
 public:
  explicit Hand(uint32_t sms, QueueKind kind = QueueKind::kPerSm)
      : queues_(kind == QueueKind::kGlobal ? 1 : sms) {
    constexpr uint32_t kPages = 4;
    program_.machine = {.name = "hand", .sms = sms, .pages_per_sm = kPages};
    program_.queue_kind = kind;
    program_.limits.vocab = kVocab;
    const auto add = [&](const char* name, uint64_t rows, uint64_t cols, DType dtype,
                         TensorKind tensor_kind) {
      program_.tensors.push_back({.name = name,
                                  .rows = rows,
                                  .cols = cols,
                                  .dtype = dtype,
                                  .kind = tensor_kind,
                                  .image = image_of(tensor_kind, rows)});
    };
    const auto add_product_input = [&](const char* name, uint64_t cols) {
      add(name, kDefaultRows, cols, DType::kBF16, TensorKind::kActivation);
      program_.tensors.back().image = Image::kActivation;
    };
    add("table", kVocab, kHidden, DType::kBF16, TensorKind::kWeight);
    add("norm", 1, kHidden, DType::kBF16, TensorKind::kWeight);
    add("gate", kIntermediate, kHidden, DType::kBF16, TensorKind::kWeight);
    add("up", kIntermediate, kHidden, DType::kBF16, TensorKind::kWeight);
    add("down", kHidden, kIntermediate, DType::kBF16, TensorKind::kWeight);
    add(state_tensor::kRows, kDefaultRows, sizeof(PassRow), DType::kBytes, TensorKind::kState);
    add("residual", kDefaultRows, kHidden, DType::kF32, TensorKind::kActivation);
    add_product_input("weighted", kHidden);
    add("squares", kDefaultRows, kUnits, DType::kF32, TensorKind::kActivation);
    add_product_input("mlp", kIntermediate);
    add("logits", kDefaultRows, kVocab, DType::kF32, TensorKind::kActivation);
    add("unit_softmax", kDefaultRows, vocabulary_units(kVocab) * kUnitSoftmaxCols, DType::kF32,
        TensorKind::kActivation);
  }

  // residual[:, 8 first:8 (first + units)] = …, and the same of weighted and squares
  void embed(uint32_t sm, uint32_t first, uint32_t units, std::vector<Wait> waits,
             std::vector<Signal> signals) {
    add(sm,
        Embed{{kTable},
              {kRows},
              {kNorm},
              {kResidual},
              {kWeighted},
              {kSquares},
              first,
              units,
              kHidden,
              kVocab,
              0,
              kDefaultRows},
        waits, signals);
  }
  // mlp[:, 8 first:8 (first + units)] = … all of weighted and squares
  void gate_up(uint32_t sm, uint32_t first, uint32_t units, std::vector<Wait> waits,
               std::vector<Signal> signals) {
    add(sm,
        GateUpSilu{{kWeighted},
                   {kSquares},
                   {kGateWeights},
                   {kUpWeights},
                   {kRows},
                   {kMlp},
                   first,
                   units,
                   kHidden,
                   kIntermediate,
                   1e-5F,
                   0,
                   0,
                   kDefaultRows},
        waits, signals);
  }
  // residual += … all of mlp; weighted and squares with it
  void down(uint32_t sm, std::vector<Wait> waits, std::vector<Signal> signals) {
    add(sm,
        MatvecResidual{{kDown},
                       {kMlp},
                       {kRows},
                       {kNorm},
                       {kResidual},
                       {kWeighted},
                       {kSquares},
                       0,
                       kUnits,
                       kIntermediate,
                       kHidden,
                       0,
                       0,
                       kDefaultRows},
        waits, signals);
  }
  // logits = … all of weighted and squares
  void lm_head(uint32_t sm, std::vector<Wait> waits, std::vector<Signal> signals) {
    add(sm,
        LmHead{{kWeighted},
               {kSquares},
               {kTable},
               {kRows},
               {kLogits},
               {kUnitSoftmax},
               0,
               kVocab / kUnitRows,
               kHidden,
               kVocab,
               1e-5F,
               0,
               kDefaultRows},
        waits, signals);
  }

  Program build(uint32_t gate) const {
    Program out = program_;
    out.gate_counter = gate;
    out.queue_begin.push_back(0);
    for (const std::vector<Item>& queue : queues_) {
      for (const Item& item : queue) append(item, out);
      out.queue_begin.push_back(static_cast<uint32_t>(out.instructions.size()));
    }
    return out;
  }

 private:
  struct Item {
    Instruction record;
    std::vector<Wait> waits;
    std::vector<Signal> signals;
  };

  template <class Op>
  void add(uint32_t sm, const Op& op, std::vector<Wait>& waits, std::vector<Signal>& signals) {
    queues_.at(sm).push_back({make_instruction(op), std::move(waits), std::move(signals)});
  }

  static void append(const Item& item, Program& out) {
    Instruction i = item.record;
    i.wait_begin = static_cast<uint32_t>(out.waits.size());
    i.wait_count = static_cast<uint16_t>(item.waits.size());
    i.signal_begin = static_cast<uint32_t>(out.signals.size());
    i.signal_count = static_cast<uint16_t>(item.signals.size());
    out.waits.insert(out.waits.end(), item.waits.begin(), item.waits.end());
    out.signals.insert(out.signals.end(), item.signals.begin(), item.signals.end());
    for (const Wait& w : item.waits) grow(w.counter, out);
    for (const Signal& s : item.signals) {
      grow(s.counter, out);
      out.counters[s.counter].increments_per_pass += s.increment;
    }
    out.instructions.push_back(i);
  }
  static void grow(uint32_t counter, Program& out) {
    if (out.counters.size() <= counter) out.counters.resize(counter + 1);
  }

  Program program_;
  std::vector<std::vector<Item>> queues_;
};

constexpr uint32_t kReadsResidual = guards<&GateUpSilu::weighted, &GateUpSilu::squares>();
constexpr uint32_t kHeadReadsResidual = guards<&LmHead::weighted, &LmHead::squares>();
constexpr uint32_t kReadsMlp = guards<&MatvecResidual::input>();

// Two halves of an embedding, an MLP over both: SM 0 and SM 1, counters 0 (halves), 1 (mlp) and 2 (the gate).
struct Mlp {
  std::vector<Wait> gate_up_waits = {{0, 2, kReadsResidual}};
  std::vector<Signal> second_half_signals = {{0, 1}};
  uint32_t second_half_begins = kHalf;
  std::vector<Wait> down_waits = {{1, 1, kReadsMlp}};

  Program build() const {
    Hand hand(2);
    hand.embed(0, 0, kHalf, {}, {{0, 1}});
    hand.embed(1, second_half_begins, kUnits - second_half_begins, {}, second_half_signals);
    hand.gate_up(0, 0, kUnits, gate_up_waits, {{1, 1}});
    hand.down(1, down_waits, {{2, 1}});
    return hand.build(2);
  }
};

// Returns whether some interleaving shows that the program is wrong.
bool some_run_fails(const Program& program) {
  constexpr uint64_t kInterleavings = 20;
  for (uint64_t seed = 0; seed < kInterleavings; ++seed) {
    if (run_checked(program, checked_isa(), {.seed = seed, .passes = 2, .states = {}})) return true;
  }
  return false;
}

void expect_accepted(const Program& program) {
  const std::optional<Violation> violation = validate(program);
  EXPECT_FALSE(violation) << violation->message;
  EXPECT_FALSE(some_run_fails(program));
}

// The message must be one line that contains `words`.
void expect_refused(const Program& program, Rule rule, std::initializer_list<const char*> words) {
  const std::optional<Violation> violation = validate(program);
  ASSERT_TRUE(violation) << "expected a violation of " << name_of(rule);
  EXPECT_EQ(violation->rule, rule) << violation->message;
  for (const char* word : words) EXPECT_THAT(violation->message, HasSubstr(word));
  EXPECT_EQ(violation->message.find('\n'), std::string::npos);
  EXPECT_THROW(require_valid(program), Error);
}

void expect_refused_and_seen(const Program& program, Rule rule, std::initializer_list<const char*> words) {
  expect_refused(program, rule, words);
  EXPECT_TRUE(some_run_fails(program));
}

// The scheduler's program of two layers for one SM.
Draft two_layers() {
  return Draft(small_programs().front());
}

std::vector<Step*> steps_of(Draft& draft, Opcode opcode, uint16_t layer = kNoTag) {
  std::vector<Step*> out = draft.steps();
  std::erase_if(out, [&](const Step* s) {
    return s->record.opcode != static_cast<uint16_t>(opcode) || s->record.tag != layer;
  });
  return out;
}

template <class Op, class Fn>
void change(Step& step, Fn&& fn) {
  Op op = step.record.as<Op>();
  fn(op);
  step.record.set(op);
}

// Returns whether a run with the exact footprints of some states shows that the program is wrong.
bool some_exact_run_fails(const Program& program) {
  constexpr uint64_t kStates = 20;
  for (uint64_t seed = 0; seed < kStates; ++seed) {
    RandomOrder random(seed);
    const RandomPasses passes(program, 2, random);
    if (run_checked(program, checked_isa(), {.seed = seed, .passes = 2, .states = passes.views()}))
      return true;
  }
  return false;
}

TEST(Accepts, AnMlp) {
  expect_accepted(Mlp().build());
}

// ---- races

TEST(Race, WaitLoweredByOne) {
  Mlp mlp;
  mlp.gate_up_waits = {{0, 1, kReadsResidual}};
  expect_refused_and_seen(mlp.build(), Rule::kRace,
                          {"embed", "gate_up_silu", "weighted", "SM 0 pc 1", "nothing orders"});
}

TEST(Race, WaitDropped) {
  Mlp mlp;
  mlp.down_waits = {};
  expect_refused_and_seen(mlp.build(), Rule::kRace, {"matvec_residual"});
}

TEST(Race, SignalDropped) {
  Mlp mlp;
  mlp.second_half_signals = {};
  mlp.gate_up_waits = {{0, 1, kReadsResidual}};
  expect_refused_and_seen(mlp.build(), Rule::kRace, {"SM 1 pc 0 (embed)", "SM 0 pc 1 (gate_up_silu)"});
}

TEST(Race, SignalToAnotherCounter) {
  Mlp mlp;
  mlp.second_half_signals = {{2, 1}};
  mlp.gate_up_waits = {{0, 1, kReadsResidual}};
  expect_refused_and_seen(mlp.build(), Rule::kRace, {"SM 1 pc 0 (embed)"});
}

TEST(Race, GuardsTheWrongOperand) {
  Mlp mlp;
  mlp.gate_up_waits = {{0, 2, guards<&GateUpSilu::gate, &GateUpSilu::rows>()}};
  expect_refused_and_seen(mlp.build(), Rule::kRace, {"weighted"});
}

TEST(Race, GuardsOneOfTwoOperands) {
  Mlp mlp;
  mlp.gate_up_waits = {{0, 2, guards<&GateUpSilu::weighted>()}};
  expect_refused_and_seen(mlp.build(), Rule::kRace, {"squares"});
}

TEST(Race, WaitOfThePreviousPass) {
  Mlp mlp;
  mlp.gate_up_waits = {{0, 0, kReadsResidual}};
  expect_refused_and_seen(mlp.build(), Rule::kRace, {"weighted"});
}

TEST(Race, TwoWritersOfARegion) {
  Mlp mlp;
  mlp.second_half_begins = 0;
  expect_refused_and_seen(mlp.build(), Rule::kRace,
                          {"SM 0 pc 0 (embed)", "SM 1 pc 0 (embed)", "residual[0:16, 0:32]"});
}

TEST(Race, OverwritesATensorThatIsStillRead) {
  Hand hand(2);
  hand.embed(0, 0, kUnits, {}, {{0, 1}});
  hand.gate_up(0, 0, kUnits, {{0, 1, kReadsResidual}}, {{1, 1}});
  hand.embed(1, 0, kUnits, {{0, 1, guards<&Embed::residual>()}}, {{1, 1}});
  expect_refused_and_seen(hand.build(1), Rule::kRace, {"gate_up_silu", "SM 1 pc 0 (embed)"});
}

// The wait of the writer that waits for all readers does not order the writer that waits for all but the
// last.
TEST(Race, WaitsForFewerReadersThanAnotherWriter) {
  constexpr uint32_t kReaders = 10;
  for (const uint32_t fewer : {1U, 2U}) {
    Hand hand(3);
    hand.embed(0, 0, kUnits, {}, {{0, 1}});
    for (uint32_t r = 0; r < kReaders; ++r)
      hand.gate_up(0, 0, kUnits, {{0, 1, kReadsResidual}, {1, r, kReadsResidual}}, {{1, 1}});
    for (const uint32_t sm : {1U, 2U}) {
      const uint32_t readers = sm == fewer ? kReaders - 1 : kReaders;
      hand.embed(sm, sm == 1 ? 0 : kHalf, kHalf, {{1, readers, guards<&Embed::residual>()}}, {{2, 1}});
    }
    const std::string writer = fmt::format("SM {} pc 0 (embed)", fewer);
    expect_refused_and_seen(hand.build(2), Rule::kRace, {"SM 0 pc 10 (gate_up_silu)", writer.c_str()});
  }
}

TEST(Race, QueuesDoNotOrderTheirInstructions) {
  Hand hand(1);
  hand.embed(0, 0, kUnits, {}, {{0, 1}});
  hand.gate_up(0, 0, kUnits, {}, {{0, 1}});
  expect_refused_and_seen(hand.build(0), Rule::kRace, {"SM 0 pc 0 (embed)", "SM 0 pc 1 (gate_up_silu)"});
}

TEST(Race, ThresholdThatOtherSignalsReach) {
  Hand hand(3);
  hand.embed(0, 0, kUnits, {}, {{0, 1}});
  hand.lm_head(1, {{0, 1, kHeadReadsResidual}}, {{1, 1}});
  hand.gate_up(2, 0, kUnits, {{0, 1, kReadsResidual}}, {{1, 1}});
  // It needs the MLP's output, but either of the two readers can end its wait.
  hand.down(0, {{1, 1, kReadsMlp}}, {{2, 1}});
  expect_refused_and_seen(hand.build(2), Rule::kRace, {"matvec_residual"});
}

TEST(Race, IncrementOfTwoStandsInForAnother) {
  Hand hand(2);
  hand.embed(0, 0, kHalf, {}, {{0, 2}});
  hand.embed(1, kHalf, kHalf, {}, {{0, 1}});
  hand.gate_up(0, 0, kUnits, {{0, 2, kReadsResidual}}, {{0, 1}});
  expect_refused_and_seen(hand.build(0), Rule::kRace, {"SM 1 pc 0 (embed)", "weighted[0:16, 16:32]"});
}

TEST(Race, SecondStageOfASharedCounterDoesNotWaitForTheFirst) {
  Hand hand(2);
  hand.embed(0, 0, kUnits, {}, {{0, 1}});
  hand.embed(1, 0, kUnits, {{1, 0, guards<&Embed::residual>()}}, {{0, 1}});
  hand.gate_up(0, 0, kUnits, {{0, 1, kReadsResidual}}, {{1, 1}});
  expect_refused_and_seen(hand.build(1), Rule::kRace, {"embed"});
}

// ---- the gate

TEST(Gate, InstructionThatNoOtherWaitsFor) {
  Hand hand(2);
  hand.embed(0, 0, kUnits, {}, {{0, 1}});
  hand.gate_up(0, 0, kUnits, {{0, 1, kReadsResidual}}, {{1, 1}});
  hand.lm_head(1, {{0, 1, kHeadReadsResidual}}, {{2, 1}});
  expect_refused_and_seen(hand.build(1), Rule::kGate, {"SM 1 pc 0 (lm_head)", "counter 1"});
}

TEST(Gate, InstructionThatSignalsNothing) {
  Hand hand(2);
  hand.embed(0, 0, kUnits, {}, {{0, 1}});
  hand.gate_up(0, 0, kUnits, {{0, 1, kReadsResidual}}, {{1, 1}});
  hand.lm_head(1, {{0, 1, kHeadReadsResidual}}, {});
  expect_refused_and_seen(hand.build(1), Rule::kGate, {"SM 1 pc 0 (lm_head)"});
}

TEST(Gate, OpensInTheMiddleOfThePass) {
  Program program = Mlp().build();
  program.gate_counter = 0;
  expect_refused_and_seen(program, Rule::kGate, {"gate_up_silu", "counter 0"});
}

TEST(Gate, NoInstructionEndsALaunch) {
  Draft draft = two_layers();
  std::vector<Step>& queue = draft.queues.front();
  ASSERT_EQ(queue.back().record.opcode, static_cast<uint16_t>(Opcode::kAdvance));
  queue.back().record = make_instruction(steps_of(draft, Opcode::kEmbed).front()->record.as<Embed>());
  expect_refused(draft.assemble(), Rule::kGate, {"state.control", "no launch would end"});
}

// They run one after the other, so there is no race, but each pass would count as two.
TEST(Gate, TwoInstructionsEndALaunch) {
  Draft draft = two_layers();
  Step again = draft.queues.front().back();
  ASSERT_EQ(again.record.opcode, static_cast<uint16_t>(Opcode::kAdvance));
  again.waits = {{draft.rest.gate_counter, 1, 0xffff}};
  again.signals = {{static_cast<uint32_t>(draft.rest.counters.size()), 1}};
  draft.rest.gate_counter = again.signals.front().counter;
  draft.rest.counters.push_back({});
  draft.queues.front().push_back(again);
  draft.count_increments();
  expect_refused(draft.assemble(), Rule::kGate, {"advance", "both decide"});
}

// ---- progress

TEST(Progress, TwoSMsWaitForEachOther) {
  Hand hand(2);
  hand.embed(0, 0, kHalf, {{1, 1, 0}}, {{0, 1}});
  hand.embed(1, kHalf, kHalf, {{0, 1, 0}}, {{1, 1}});
  expect_refused_and_seen(hand.build(1), Rule::kProgress, {"waits for counter", "stops at 0"});
}

TEST(Progress, ProducerAfterItsConsumerInTheQueue) {
  Hand hand(1);
  hand.gate_up(0, 0, kUnits, {{0, 1, kReadsResidual}}, {{1, 1}});
  hand.embed(0, 0, kUnits, {}, {{0, 1}});
  expect_refused_and_seen(hand.build(1), Rule::kProgress,
                          {"SM 0 pc 0 (gate_up_silu)", "counter 0", "reach 1"});
}

TEST(Progress, GlobalQueueNotTopological) {
  Hand hand(4, QueueKind::kGlobal);
  hand.gate_up(0, 0, kUnits, {{0, 1, kReadsResidual}}, {{1, 1}});
  hand.embed(0, 0, kUnits, {}, {{0, 1}});
  expect_refused_and_seen(hand.build(1), Rule::kProgress, {"queue pc 0 (gate_up_silu)"});
}

TEST(Progress, WaitForMoreThanAllIncrements) {
  Mlp mlp;
  mlp.gate_up_waits = {{0, 3, kReadsResidual}};
  expect_refused_and_seen(mlp.build(), Rule::kProgress, {"reach 3", "stops at 2"});
}

TEST(Progress, WaitForItself) {
  Hand hand(1);
  hand.embed(0, 0, kUnits, {{0, 1, 0}}, {{0, 1}});
  expect_refused_and_seen(hand.build(0), Rule::kProgress, {"SM 0 pc 0 (embed)"});
}

TEST(Progress, WaitForACounterThatNoInstructionSignals) {
  Mlp mlp;
  mlp.down_waits.push_back({3, 1, 0});
  expect_refused_and_seen(mlp.build(), Rule::kProgress, {"counter 3", "stops at 0"});
}

// ---- pages

TEST(Pages, FewerThanOneInstructionStreams) {
  Program program = Mlp().build();
  program.machine.pages_per_sm = 1;
  expect_refused_and_seen(program, Rule::kPages, {"gate_up_silu", "2 streaming", "has 1"});
}

TEST(Pages, NoneAtAll) {
  Program program = Mlp().build();
  program.machine.pages_per_sm = 0;
  expect_refused_and_seen(program, Rule::kPages, {"has 0"});
}

TEST(Pages, OfOneSmForAGlobalQueue) {
  Hand hand(4, QueueKind::kGlobal);
  hand.embed(0, 0, kUnits, {}, {{0, 1}});
  hand.gate_up(0, 0, kUnits, {{0, 1, kReadsResidual}}, {{1, 1}});
  Program program = hand.build(1);
  program.machine.pages_per_sm = 1;  // four SMs have four, but one instruction cannot use another SM's
  expect_refused(program, Rule::kPages, {"gate_up_silu"});
}

// ---- scopes of counters

TEST(Scope, BlockCounterOfTwoSMs) {
  Program program = Mlp().build();
  program.counters[1].scope = CounterScope::kBlock;
  expect_refused(program, Rule::kScope, {"SM 1 pc 1", "counter 1", "block scope", "SM 0"});
}

TEST(Scope, BlockCounterInAGlobalQueue) {
  Hand hand(2, QueueKind::kGlobal);
  hand.embed(0, 0, kUnits, {}, {{0, 1}});
  Program program = hand.build(0);
  program.counters[0].scope = CounterScope::kBlock;
  expect_refused(program, Rule::kScope, {"counter 0", "any SM"});
}

TEST(Scope, GateOfOneBlock) {
  Hand hand(2);
  hand.embed(0, 0, kUnits, {}, {{0, 1}});
  Program program = hand.build(0);
  program.counters[0].scope = CounterScope::kBlock;
  expect_refused(program, Rule::kScope, {"counter 0", "gate"});
}

// ---- stale reads

TEST(Stale, ReadOfATensorThatNoInstructionWrites) {
  Hand hand(1);
  hand.gate_up(0, 0, kUnits, {}, {{0, 1}});
  expect_refused_and_seen(hand.build(0), Rule::kStale, {"gate_up_silu", "weighted[0:16, 0:32]"});
}

TEST(Stale, ReadOfAPartThatNoInstructionWrites) {
  Mlp mlp;
  mlp.second_half_begins = kHalf + 1;
  expect_refused_and_seen(mlp.build(), Rule::kStale, {"gate_up_silu", "weighted[0:16, 16:24]"});
}

TEST(Stale, ReadOfATensorThatIsWrittenLaterInThePass) {
  Hand hand(2);
  hand.embed(0, 0, kUnits, {}, {{0, 1}});
  hand.down(0, {{0, 1, guards<&MatvecResidual::residual>()}}, {{1, 1}});
  hand.gate_up(1, 0, kUnits, {{1, 1, kReadsResidual | guards<&GateUpSilu::output>()}}, {{2, 1}});
  expect_refused_and_seen(hand.build(2), Rule::kStale, {"matvec_residual", "mlp"});
}

TEST(Stale, WriterLeavesOutRowsThatItsReaderReads) {
  Draft draft = two_layers();
  for (Step* step : steps_of(draft, Opcode::kGateUpSilu, 0))
    change<GateUpSilu>(*step, [](GateUpSilu& op) { op.logits_only = 1; });
  const Program program = draft.assemble();
  expect_refused(program, Rule::kStale,
                 {"matvec_residual of layer 0", "mlp", "has written only rows that want logits"});
  EXPECT_TRUE(some_exact_run_fails(program));
}

TEST(Accepts, WriterOfAllRowsForAReaderOfThoseThatWantLogits) {
  Draft draft = two_layers();
  for (Step* step : steps_of(draft, Opcode::kGateUpSilu, 1))
    change<GateUpSilu>(*step, [](GateUpSilu& op) {
      ASSERT_EQ(op.logits_only, 1U);
      op.logits_only = 0;
    });
  // The projection before must then write all rows, too, because they are its input.
  for (Step* step : steps_of(draft, Opcode::kMatvecResidual, 1))
    change<MatvecResidual>(*step, [&](MatvecResidual& op) {
      if (draft.rest.tensors[op.input.index].name != "mlp") op.logits_only = 0;
    });
  const Program program = draft.assemble();
  expect_accepted(program);
  EXPECT_FALSE(some_exact_run_fails(program));
}

TEST(Stale, DroppedSample) {
  Draft draft = two_layers();
  std::vector<Step>& queue = draft.queues.front();
  const auto sample = std::find_if(queue.begin(), queue.end(), [](const Step& s) {
    return s.record.opcode == static_cast<uint16_t>(Opcode::kSample);
  });
  ASSERT_NE(sample, queue.end());
  const uint32_t row = sample->record.as<Sample>().first_row;
  queue.erase(sample);
  draft.count_increments_and_follow();
  expect_refused_and_seen(draft.assemble(), Rule::kStale,
                          {"advance", fmt::format("state.sampled[{}:{}, 0:8]", row, row + 1).c_str()});
}

TEST(Stale, CacheThatNoRecordWrites) {
  Draft draft = two_layers();
  // The last unit belongs to the last head's V.
  change<QkvRope>(*steps_of(draft, Opcode::kQkvRope, 1).back(), [](QkvRope& op) { --op.num_units; });
  const Program program = draft.assemble();
  expect_refused_and_seen(program, Rule::kStale, {"attention of layer 1", "cache.1.v", "this pass's tokens"});
  EXPECT_TRUE(some_exact_run_fails(program));
}

// ---- operands

class Operands : public ::testing::Test {
 protected:
  template <class Op, class Fn>
  Program changed(uint32_t index, Fn&& change) {
    Program program = Mlp().build();
    Op op = program.instructions[index].as<Op>();
    change(op);
    program.instructions[index].set(op);
    return program;
  }
  // In the order of build(): SM 0's embed and gate_up, then SM 1's embed and down.
  static constexpr uint32_t kEmbedIndex = 0, kGateUpIndex = 1, kDownIndex = 3;
};

TEST_F(Operands, UnitsBeyondTheTensor) {
  expect_refused_and_seen(
      changed<GateUpSilu>(kGateUpIndex, [](GateUpSilu& op) { op.num_units = kUnits + 1; }), Rule::kOperands,
      {"SM 0 pc 1", "first_unit", "[0, 5)", "limit: 4"});
}

TEST_F(Operands, RangeThatWrapsAround) {
  expect_refused_and_seen(changed<Embed>(kEmbedIndex, [](Embed& op) { op.first_unit = 0xffffffff; }),
                          Rule::kOperands, {"first_unit"});
}

TEST_F(Operands, NothingToDo) {
  expect_refused_and_seen(changed<MatvecResidual>(kDownIndex, [](MatvecResidual& op) { op.num_units = 0; }),
                          Rule::kOperands, {"SM 1 pc 1", "first_unit"});
}

TEST_F(Operands, TensorOfAnotherShape) {
  expect_refused_and_seen(
      changed<MatvecResidual>(kDownIndex, [](MatvecResidual& op) { op.input = {kLogits}; }), Rule::kOperands,
      {"input", "logits"});
}

TEST_F(Operands, TensorThatDoesNotExist) {
  expect_refused_and_seen(changed<Embed>(kEmbedIndex, [](Embed& op) { op.table.index = 99; }),
                          Rule::kOperands, {"table", "99"});
}

TEST_F(Operands, LimitsOfTheStateThatAreNotTheRecords) {
  for (const uint32_t by : {1U, ~0U}) {
    Program program = small_programs().front();
    program.limits.vocab += by;
    expect_refused(program, Rule::kOperands, {"the program's limit is"});
    program = small_programs().front();
    program.limits.kv_blocks += by;
    expect_refused(program, Rule::kOperands, {"k_cache"});
  }
}

// The program has one number of KV heads, so one number of splits fits the tensor of partial results.
TEST_F(Operands, SplitsThatAreNotTheTensors) {
  LlamaConfig config = tiny_config();
  config.num_layers = 1;
  const Graph graph = build_llama_graph(config, {.sms = 1, .context = 2 * kLeafTokens});
  Draft draft(compile_as(graph, {Policy::kList, QueueKind::kPerSm, 1}));
  for (Step* step : steps_of(draft, Opcode::kAttentionMerge, 0)) {
    change<AttentionMerge>(*step, [](AttentionMerge& op) {
      ASSERT_EQ(op.splits, 1U);
      op.splits *= 2;
    });
  }
  const Program program = draft.assemble();
  expect_refused(program, Rule::kOperands, {"attention_merge", "partial"});
  EXPECT_TRUE(some_exact_run_fails(program));
}

TEST_F(Operands, HeadsThatAreNotTheTensors) {
  const HeadShape heads = small_programs().front().heads;
  for (const HeadShape& other : {HeadShape{192 - heads.head_dim, heads.q_heads, heads.kv_heads},
                                 HeadShape{heads.head_dim, 2 * heads.q_heads, heads.kv_heads},
                                 HeadShape{heads.head_dim, 2 * heads.q_heads, 2 * heads.kv_heads}}) {
    Program program = small_programs().front();
    program.heads = other;
    expect_refused(program, Rule::kOperands, {"expected"});
  }
}

TEST_F(Operands, OrderThatIsNotTheTensors) {
  Program program = small_programs().front();
  ASSERT_EQ(program.order, Order::kVector);
  program.order = Order::kTile;
  expect_refused(program, Rule::kOperands, {"expected"});
}

TEST_F(Operands, UnknownOpcode) {
  Program program = Mlp().build();
  program.instructions[0].opcode = kNumOpcodes;
  expect_refused_and_seen(program, Rule::kOperands, {"opcode"});
}

// Footprints divide by the number of KV heads.
TEST_F(Operands, NoHeads) {
  Program program = Mlp().build();
  program.instructions[0].opcode = static_cast<uint16_t>(Opcode::kAttention);
  Attention op{};
  op.rows = {kRows};
  program.instructions[0].set(op);
  expect_refused_and_seen(program, Rule::kOperands, {"heads: the program has none"});
}

// ---- structure

TEST(Structure, NoKvHeads) {
  Program program = small_programs().front();
  program.heads.kv_heads = 0;
  expect_refused(program, Rule::kStructure, {"heads.kv_heads: 0"});
}

TEST(Structure, WaitForACounterThatIsNotInTheTable) {
  Program program = Mlp().build();
  program.waits[0].counter = 3;
  expect_refused(program, Rule::kStructure, {"wait 0", "counter 3"});
}

TEST(Structure, WaitsBeyondTheTable) {
  Program program = Mlp().build();
  program.instructions[1].wait_begin = 0xffffffff;
  expect_refused(program, Rule::kStructure, {"waits"});
}

TEST(Structure, EpochOfAnotherLength) {
  Program program = Mlp().build();
  ++program.counters[0].increments_per_pass;
  expect_refused(program, Rule::kStructure, {"counter 0", "3", "2"});
}

TEST(Structure, MoreIncrementsThanAWaitCanTellApart) {
  Program program = Mlp().build();
  program.signals[0].increment = 0x7fffffff;
  program.counters[0].increments_per_pass = 0x80000000;
  expect_refused(program, Rule::kStructure, {"counter 0"});
}

TEST(Structure, QueuesThatLeaveInstructionsOut) {
  Program program = Mlp().build();
  --program.queue_begin.back();
  expect_refused(program, Rule::kStructure, {"queues"});
}

TEST(Structure, GateThatNoInstructionSignals) {
  Program program = Mlp().build();
  program.counters.push_back({});
  program.gate_counter = 3;
  expect_refused(program, Rule::kStructure, {"gate"});
}

TEST(Structure, CompiledForAnotherInstructionSet) {
  Program program = Mlp().build();
  program.metadata["isa"] = isa_fingerprint();
  expect_accepted(program);
  program.metadata["isa"] = "other";
  expect_refused(program, Rule::kStructure, {"instruction set other", isa_fingerprint().c_str()});
}

TEST(Structure, PartThatTheStateDoesNotHave) {
  Program program = Mlp().build();
  program.tensors[kRows].name = "state.row";
  expect_refused(program, Rule::kStructure, {"'state.row'", "no such part"});
}

TEST(Structure, TwoTensorsOfOneName) {
  Program program = Mlp().build();
  program.tensors[kMlp].name = "logits";
  expect_refused(program, Rule::kStructure, {"'logits'", "earlier tensor has this name"});
}

TEST(Structure, SeveralDevices) {
  Program program = Mlp().build();
  program.num_devices = 2;
  expect_refused(program, Rule::kStructure, {"queues: 2, expected 4"});
}

TEST(Structure, CounterOfSystemScopeOnOneDevice) {
  Program program = Mlp().build();
  program.counters[1].scope = CounterScope::kSystem;
  expect_refused(program, Rule::kStructure, {"counter 1", "system scope"});
}

TEST(Structure, ContextThatTheStateDoesNotHold) {
  const Program program = small_programs().front();
  for (const uint32_t context : {64U, program.limits.max_context + 4}) {
    Program other = program;
    other.limits.max_context = context;
    expect_refused(other, Rule::kStructure, {"state.adjustments"});
  }
}

TEST(Structure, EmptyProgram) {
  expect_refused(Program{}, Rule::kStructure, {});
}

// ---- several devices

// The scheduler's program of two layers for two ranks of two SMs.
Draft two_ranks() {
  return Draft(shared_programs().front());
}

uint32_t device_of_step(const Draft& draft, const Step& step) {
  return device_of(draft.rest.tensors, step.record);
}

// The first record of the opcode on the device.
Step& step_on(Draft& draft, Opcode opcode, uint32_t device) {
  for (Step* s : draft.steps()) {
    if (s->record.opcode == static_cast<uint16_t>(opcode) && device_of_step(draft, *s) == device) return *s;
  }
  ADD_FAILURE() << "no such record";
  return *draft.steps().front();
}

TEST(Accepts, TwoRanks) {
  expect_accepted(two_ranks().assemble());
}

TEST(Device, InstructionOnAnotherThanItsOperands) {
  Draft draft = two_ranks();
  std::swap(draft.queues[0], draft.queues[2]);
  expect_refused_and_seen(draft.assemble(), Rule::kDevice, {"operands are on device"});
}

TEST(Device, OperandOfAnotherThanTheOthers) {
  Draft draft = two_ranks();
  change<GateUpSilu>(step_on(draft, Opcode::kGateUpSilu, 0), [](GateUpSilu& op) { ++op.weighted.index; });
  expect_refused_and_seen(draft.assemble(), Rule::kOperands, {"gate_up_silu", "on device"});
}

TEST(Device, SliceOfAnotherRank) {
  Draft draft = two_ranks();
  change<ReduceResidual>(step_on(draft, Opcode::kReduceResidual, 1),
                         [](ReduceResidual& op) { op.first_unit -= op.out_cols / 2 / kUnitRows; });
  expect_refused_and_seen(draft.assemble(), Rule::kOperands, {"first_unit", "slice"});
}

TEST(Device, ShareOfAnotherRank) {
  Draft draft = two_ranks();
  change<MatvecPush>(step_on(draft, Opcode::kMatvecPush, 1), [](MatvecPush& op) { op.rank = 0; });
  expect_refused_and_seen(draft.assemble(), Rule::kOperands, {"weights", "on device 1, expected 0"});
}

// If no rank looks up a token, all ranks push zeros for it; if two ranks do, it is added twice.
TEST(Device, TokensOfAnotherRank) {
  Draft draft = two_ranks();
  change<EmbedPush>(step_on(draft, Opcode::kEmbedPush, 1), [](EmbedPush& op) { op.first_token = 0; });
  expect_refused_and_seen(draft.assemble(), Rule::kOperands, {"first_token: 0", "the rank's share"});
}

// No run shows this error: the accesses are allowed, but they read the weights of other tokens.
TEST(Device, WeightsOfOtherTokens) {
  Draft draft = two_ranks();
  change<LmHead>(step_on(draft, Opcode::kLmHead, 1), [](LmHead& op) {
    --op.weights_unit;
    op.num_units -= 2;  // so that they end within the tensor's rows
  });
  expect_refused(draft.assemble(), Rule::kOperands, {"weights_unit", "the rank's share"});
}

// Without the other rank's half of the embedding, the owner adds the previous pass's sums.
TEST(Device, PartialSumsThatNoRankPushes) {
  Draft draft = two_ranks();
  const Step* pushing = &step_on(draft, Opcode::kEmbedPush, 1);
  for (std::vector<Step>& queue : draft.queues) {
    std::erase_if(queue, [&](const Step& s) { return &s == pushing; });
  }
  draft.count_increments_and_follow();
  const Program program = draft.assemble();
  expect_refused_and_seen(program, Rule::kStale, {"reduce_residual", "exchange@"});
}

TEST(Scope, SignalToAPeerOfGpuScope) {
  Draft draft = two_ranks();
  for (Counter& c : draft.rest.counters) c.scope = CounterScope::kGpu;
  expect_refused_and_seen(draft.assemble(), Rule::kScope, {"not of system scope"});
}

TEST(Scope, ReleaseOfAPushAtGpuScope) {
  Program program = two_ranks().assemble();
  // Finds a counter of system scope that only its own device signals: one of the signalling instructions
  // pushes to the other device.
  std::vector<uint32_t> foreign(program.counters.size(), 0);
  Draft draft(program);
  for (const Step* s : draft.steps()) {
    for (const Signal& signal : s->signals)
      foreign[signal.counter] += device_of_step(draft, *s) != program.counters[signal.counter].device ? 1 : 0;
  }
  for (uint32_t c = 0; c < program.counters.size(); ++c) {
    if (program.counters[c].scope != CounterScope::kSystem || foreign[c] > 0) continue;
    program.counters[c].scope = CounterScope::kGpu;
    return expect_refused(program, Rule::kScope, {"releases what is pushed"});
  }
  FAIL() << "other devices signal every counter";
}

TEST(Scope, CounterOnAnotherDeviceThanItsWait) {
  Draft draft = two_ranks();
  Step& step = step_on(draft, Opcode::kGateUpSilu, 1);
  draft.rest.counters[step.waits.front().counter].device = 0;
  expect_refused(draft.assemble(), Rule::kScope, {"waits for counter", "on device 0"});
}

TEST(Race, SignalToAPeerDropped) {
  Draft draft = two_ranks();
  Step& step = step_on(draft, Opcode::kReduceResidual, 0);
  const auto to_peer = std::ranges::find_if(
      step.signals, [&](const Signal& s) { return draft.rest.counters[s.counter].device == 1; });
  ASSERT_NE(to_peer, step.signals.end());
  step.signals.erase(to_peer);
  draft.count_increments_and_follow();
  expect_refused_and_seen(draft.assemble(), Rule::kRace, {"nothing orders them"});
}

// The first record of the opcode on the device that signals the other device, and this signal.
std::pair<Step*, Signal*> peer_signal(Draft& draft, Opcode opcode, uint32_t device) {
  for (Step* step : draft.steps()) {
    if (step->record.opcode != static_cast<uint16_t>(opcode) || device_of_step(draft, *step) != device)
      continue;
    for (Signal& signal : step->signals) {
      if (draft.rest.counters[signal.counter].device != device) return {step, &signal};
    }
  }
  ADD_FAILURE() << "no such record";
  return {draft.steps().front(), nullptr};
}

// Each rank waits for the other's partial sums before it pushes its own. If only one rank does this, the
// program is valid.
TEST(Progress, TwoRanksWaitForEachOther) {
  Draft draft = two_ranks();
  std::string wait;
  for (const uint32_t rank : {1U, 0U}) {
    expect_accepted(draft.assemble());
    const Signal* others = peer_signal(draft, Opcode::kMatvecPush, 1 - rank).second;
    const auto [keeping, own] = peer_signal(draft, Opcode::kMatvecPush, rank);
    ASSERT_TRUE(others != nullptr && own != nullptr);
    const uint32_t all = draft.rest.counters[others->counter].increments_per_pass;
    keeping->waits.push_back({others->counter, all, 0xffff});
    wait = fmt::format("waits for counter {} to reach {}, but it stops at {}", others->counter, all, all - 1);
  }
  expect_refused_and_seen(draft.assemble(), Rule::kProgress,
                          {"rank 0 SM 0", "(matvec_push of layer 0)", wait.c_str()});
}

// The other device could use the decision of the previous pass.
TEST(Gate, OpensEarlyOnAnotherDevice) {
  Draft draft = two_ranks();
  const auto [push, opens] = peer_signal(draft, Opcode::kPushState, 0);
  ASSERT_NE(opens, nullptr);
  ASSERT_EQ(opens->counter, draft.rest.gate_of(1));
  step_on(draft, Opcode::kAdvance, 0).signals.push_back(*opens);
  push->signals.erase(push->signals.begin() + (opens - push->signals.data()));
  const std::string gate = fmt::format("counter {} opens the gate", draft.rest.gate_of(1));
  expect_refused_and_seen(draft.assemble(), Rule::kGate, {"rank 0 SM 0", "(push_state)", gate.c_str()});
}

TEST(Gate, DeviceThatDoesNotReceiveTheDecision) {
  Draft draft = two_ranks();
  for (std::vector<Step>& queue : draft.queues) {
    std::erase_if(queue,
                  [](const Step& s) { return s.record.opcode == static_cast<uint16_t>(Opcode::kPushState); });
  }
  const auto gate = draft.rest.gate_counter;
  for (Step* s : steps_of(draft, Opcode::kAdvance))
    s->signals.insert(s->signals.end(), {{gate, 1}, {gate + 1, 1}});
  draft.count_increments_and_follow();
  expect_refused(draft.assemble(), Rule::kGate, {"writes state.control of device 1"});
}

// push_state would push the decision of the previous pass.
TEST(Gate, TheDecisionIsPushedBeforeItIsMade) {
  Draft draft = two_ranks();
  const uint32_t gate = draft.rest.gate_counter, pushed = static_cast<uint32_t>(draft.rest.counters.size());
  draft.rest.counters.push_back({.scope = CounterScope::kSystem});
  Step push = step_on(draft, Opcode::kPushState, 0);
  for (std::vector<Step>& queue : draft.queues) {
    std::erase_if(queue, [&](const Step& s) { return s.record.opcode == push.record.opcode; });
  }
  Step& advance = step_on(draft, Opcode::kAdvance, 0);
  push.waits = advance.waits;
  for (Wait& w : push.waits) w.operand_mask = 0xffff;
  push.signals = {{pushed, 1}};
  advance.waits.push_back({pushed, 1, 0xffff});
  advance.signals = {{gate, 1}, {gate + 1, 1}};
  draft.rest.counters[gate].scope = CounterScope::kSystem;
  for (std::vector<Step>& queue : draft.queues) {
    const auto at =
        std::ranges::find(queue, advance.record.opcode, [](const Step& s) { return s.record.opcode; });
    if (at == queue.end()) continue;
    queue.insert(at, push);
    break;
  }
  draft.count_increments_and_follow();
  expect_refused(draft.assemble(), Rule::kGate, {"does not copy to device 1 what", "advance"});
}

// ---- all rows come from one computation

TensorId tensor_named(const Draft& draft, std::string_view name, uint32_t device = 0) {
  const auto found = std::ranges::find_if(
      draft.rest.tensors, [&](const Tensor& t) { return t.name == name && t.device == device; });
  EXPECT_NE(found, draft.rest.tensors.end()) << name;
  return {static_cast<uint32_t>(found - draft.rest.tensors.begin())};
}

// A program of two layers for row tiles, with planned attention and K splits.
Draft two_layers_of_tiles(uint32_t context) {
  const Graph graph =
      build_llama_graph(tiny_parts_config(), {.sms = 7, .context = context, .rows = 17, .tile_rows = 32});
  return Draft(compile_as(graph, {Policy::kList, QueueKind::kPerSm, 7}));
}

// Rows that the later layer's record leaves out still have the values of the layer before.
TEST(Value, RowsLeftOutOfALaterLayer) {
  Draft draft = two_layers();
  for (Step* step : steps_of(draft, Opcode::kGateUpSilu, 1))
    change<GateUpSilu>(*step, [](GateUpSilu& op) { op.num_rows = 1; });
  expect_refused(draft.assemble(), Rule::kValue,
                 {"matvec_residual of layer 1", "mlp", "gate_up_silu of layer 0", "gate_up_silu of layer 1",
                  "another gate"});
}

// The error is found even if no record reads rows of both layers before the tokens are sampled.
TEST(Value, RowsLeftOutOfALaterLayerAndOfItsReaders) {
  Draft draft = two_layers();
  for (Step* step : steps_of(draft, Opcode::kGateUpSilu, 1))
    change<GateUpSilu>(*step, [](GateUpSilu& op) { op.num_rows = 1; });
  for (std::vector<Step>& queue : draft.queues) {
    for (size_t i = 0; i < queue.size(); ++i) {
      Step rest = queue[i];
      const auto cut = [&]<class Op>(Op op) {
        const uint32_t rows = op.num_rows;
        op.num_rows = 1;
        queue[i].record.set(op);
        op.first_row = 1;
        op.num_rows = rows - 1;
        rest.record.set(op);
        queue.insert(queue.begin() + static_cast<std::ptrdiff_t>(++i), rest);
      };
      if (rest.record.opcode == static_cast<uint16_t>(Opcode::kLmHead)) cut(rest.record.as<LmHead>());
      if (rest.record.opcode == static_cast<uint16_t>(Opcode::kMatvecResidual) && rest.record.tag == 1)
        cut(rest.record.as<MatvecResidual>());
    }
  }
  draft.count_increments_and_follow();
  expect_refused(draft.assemble(), Rule::kValue, {"(advance)", "state.sampled", "sample"});
}

TEST(Value, DroppedAdditionToSomeColumnsOfTheResidual) {
  Draft draft(small_programs()[10]);
  ASSERT_GT(draft.rest.machine.sms, 1U);
  const Step* dropped = steps_of(draft, Opcode::kMatvecResidual, 0).back();
  for (std::vector<Step>& queue : draft.queues)
    std::erase_if(queue, [&](const Step& s) { return &s == dropped; });
  draft.count_increments_and_follow();
  expect_refused(draft.assemble(), Rule::kValue, {"weighted", "matvec_residual"});
}

TEST(Stale, DroppedShareOfPlannedAttentionOfALaterLayer) {
  for (const Opcode opcode : {Opcode::kPlannedAttention, Opcode::kPlannedMerge}) {
    Draft draft = two_layers_of_tiles(kPlannedLeafTokens + 100);
    const Step* dropped = steps_of(draft, opcode, 1).front();
    for (std::vector<Step>& queue : draft.queues)
      std::erase_if(queue, [&](const Step& s) { return &s == dropped; });
    draft.count_increments_and_follow();
    const char* missing = opcode == Opcode::kPlannedAttention ? "partial" : "attention";
    expect_refused(draft.assemble(), Rule::kStale, {missing, "has not written all of it"});
  }
}

TEST(Value, ColumnsOfALaterLayerThatNoRankSums) {
  Draft draft = two_ranks();
  for (Step* step : steps_of(draft, Opcode::kReduceResidual, 1))
    change<ReduceResidual>(*step, [](ReduceResidual& op) {
      if (op.num_units > 1) --op.num_units;
    });
  expect_refused(draft.assemble(), Rule::kValue, {"weighted@", "reduce_residual"});
}

// A later pass would read tokens of the layer that wrote last, in both layers.
TEST(Value, TwoLayersShareACache) {
  Draft draft = two_layers();
  const TensorId k = tensor_named(draft, "cache.1.k"), v = tensor_named(draft, "cache.1.v");
  for (Step* step : steps_of(draft, Opcode::kQkvRope, 0))
    change<QkvRope>(*step, [&](QkvRope& op) { op.k_cache = k, op.v_cache = v; });
  for (Step* step : steps_of(draft, Opcode::kAttention, 0))
    change<Attention>(*step, [&](Attention& op) { op.k_cache = k, op.v_cache = v; });
  // Within a pass, layer 0 reads the cache before layer 1 writes it, so only the second write is wrong.
  expect_refused(draft.assemble(), Rule::kValue,
                 {"qkv_rope of layer 0", "qkv_rope of layer 1", "both write this pass's tokens to cache.1."});
}

// Changes one record of a stage whose records write different parts of one tensor.
template <class Op, class Fn>
Program with_one_changed(Draft draft, Opcode opcode, uint16_t layer, Fn&& fn) {
  const std::vector<Step*> steps = steps_of(draft, opcode, layer);
  EXPECT_GT(steps.size(), 1U);
  change<Op>(*steps.front(), [&](Op& op) { fn(op, draft); });
  return draft.assemble();
}

// Several SMs share each stage.
Draft two_layers_on_seven() {
  for (const Program& program : small_programs()) {
    if (program.machine.sms == 7 && program.metadata.at("model") == "tiny") return Draft(program);
  }
  ADD_FAILURE();
  return two_layers();
}

TEST(Value, SiblingsWithDifferentNorms) {
  const Program program = with_one_changed<MatvecResidual>(
      two_layers_on_seven(), Opcode::kMatvecResidual, 0, [](MatvecResidual& op, const Draft& draft) {
        op.norm = tensor_named(draft, "model.layers.1.input_layernorm.weight");
      });
  expect_refused(program, Rule::kValue, {"weighted", "another norm"});
}

TEST(Value, SiblingsWithDifferentEpsilons) {
  const Program program = with_one_changed<GateUpSilu>(two_layers_on_seven(), Opcode::kGateUpSilu, 0,
                                                       [](GateUpSilu& op, const Draft&) { op.epsilon *= 2; });
  expect_refused(program, Rule::kValue, {"mlp", "another epsilon"});
}

TEST(Value, SiblingsWithDifferentScales) {
  const Program program = with_one_changed<Attention>(two_layers_on_seven(), Opcode::kAttention, 1,
                                                      [](Attention& op, const Draft&) { op.scale *= 2; });
  expect_refused(program, Rule::kValue, {"partial", "another scale"});
}

TEST(Value, SharesWithDifferentScales) {
  Draft draft = two_layers_of_tiles(200);
  change<PlannedAttention>(*steps_of(draft, Opcode::kPlannedAttention, 1).front(),
                           [](PlannedAttention& op) { op.scale *= 2; });
  expect_refused(draft.assemble(), Rule::kStale, {"attention"});
}

TEST(Value, SiblingsWithDifferentWeights) {
  const Program program = with_one_changed<QkvRope>(
      two_layers_on_seven(), Opcode::kQkvRope, 0, [](QkvRope& op, const Draft& draft) {
        op.wk = tensor_named(draft, "model.layers.1.self_attn.k_proj.weight");
      });
  expect_refused(program, Rule::kValue, {"another wk"});
}

TEST(Value, SplitsThatReadDifferentCaches) {
  const Program program = with_one_changed<Attention>(
      two_layers_on_seven(), Opcode::kAttention, 1,
      [](Attention& op, const Draft& draft) { op.k_cache = tensor_named(draft, "cache.0.k"); });
  expect_refused(program, Rule::kValue, {"partial", "another k_cache"});
}

TEST(Value, PartsOfOtherColumns) {
  Draft draft = two_layers_of_tiles(200);
  const std::vector<Step*> parts = steps_of(draft, Opcode::kMatvecPart, 0);
  const auto last = parts.back()->record.as<MatvecPart>();
  for (Step* step : parts) {
    if (step->record.as<MatvecPart>().sums != last.sums || step == parts.back()) continue;
    change<MatvecPart>(*step, [&](MatvecPart& op) {
      op.first_col = last.first_col == 0 ? 1024 : 0;
      op.num_cols = last.first_col == 0 ? op.in_cols - 1024 : 1024;
    });
    break;
  }
  expect_refused(draft.assemble(), Rule::kValue, {"weighted", "add_parts", "computed differently"});
}

// ---- operands that name one tensor

TEST_F(Operands, KeysAndValuesInOneCache) {
  Draft draft = two_layers();
  for (Step* step : steps_of(draft, Opcode::kQkvRope, 0))
    change<QkvRope>(*step, [](QkvRope& op) { op.v_cache = op.k_cache; });
  expect_refused_and_seen(draft.assemble(), Rule::kOperands, {"k_cache and v_cache both name cache.0.k"});
}

TEST_F(Operands, ResidualProductThatReadsItsOutput) {
  expect_refused_and_seen(
      changed<MatvecResidual>(kDownIndex, [](MatvecResidual& op) { op.input = {kWeighted}; }),
      Rule::kOperands, {"input and weighted both name weighted"});
}

TEST_F(Operands, PartThatIsTheResidual) {
  Draft draft = two_layers_of_tiles(200);
  for (Step* step : steps_of(draft, Opcode::kAddParts, 0))
    change<AddParts>(*step, [](AddParts& op) {
      const TensorId before = op.part0;
      op.part0 = op.residual;
      for (TensorId* part : {&op.part1, &op.part2, &op.part3}) {
        if (*part == before) *part = op.residual;
      }
    });
  expect_refused_and_seen(draft.assemble(), Rule::kOperands, {"residual and part0 both name residual"});
}

TEST_F(Operands, ResidualThatIsThePartialSums) {
  Draft draft = two_ranks();
  for (Step* step : steps_of(draft, Opcode::kReduceResidual, 0))
    change<ReduceResidual>(*step, [](ReduceResidual& op) { op.residual = op.partial; });
  expect_refused_and_seen(draft.assemble(), Rule::kOperands, {"partial and residual both name exchange@"});
}

// The vocabulary is chosen so that both tensors have the same shape.
TEST_F(Operands, LogitsThatAreSavedOverThemselves) {
  LlamaConfig config = tiny_config();
  config.num_layers = 1;
  config.vocab_size = 2 * (200 + kMaxLogitBiases + kMaxStopTokens);
  const Graph graph = build_llama_graph(config, {.sms = 1, .context = 200});
  Draft draft(compile_as(graph, {Policy::kList, QueueKind::kPerSm, 1}));
  for (Step* step : steps_of(draft, Opcode::kSample))
    change<Sample>(*step, [](Sample& op) { op.saved = op.logits; });
  expect_refused_and_seen(draft.assemble(), Rule::kOperands, {"logits and saved both name logits"});
}

// ---- parts of the state with equal shapes

// Expects that `other`, a part of the state with the operand's shape, is refused for the operand.
template <class Op>
void expect_own_part(const LlamaConfig& config, const GraphOptions& options, Opcode opcode, uint16_t layer,
                     TensorId Op::*operand, const char* other) {
  Draft draft(
      compile_as(build_llama_graph(config, options), {Policy::kList, QueueKind::kPerSm, options.sms}));
  const TensorId tensor = tensor_named(draft, other);
  const std::vector<Step*> steps = steps_of(draft, opcode, layer);
  ASSERT_FALSE(steps.empty());
  const std::string own = draft.rest.tensors[(steps.front()->record.as<Op>().*operand).index].name;
  change<Op>(*steps.front(), [&](Op& op) { op.*operand = tensor; });
  expect_refused_and_seen(draft.assemble(), Rule::kOperands,
                          {fmt::format("tensor '{}', expected '{}'", other, own).c_str()});
}

constexpr uint32_t kBlocksOfMasks = 32;  // a block table as long as a mask of the smallest vocabulary

TEST_F(Operands, BlockTableThatIsTheMasks) {
  LlamaConfig config = tiny_config();
  config.max_position = kBlocksOfMasks * kKvBlockTokens;
  const GraphOptions options{.sms = 1, .context = kBlocksOfMasks * kKvBlockTokens};
  expect_own_part(config, options, Opcode::kQkvRope, 0, &QkvRope::block_table, state_tensor::kMasks);
  expect_own_part(config, options, Opcode::kAttention, 0, &Attention::block_table, state_tensor::kMasks);
  expect_own_part(config, options, Opcode::kSample, kNoTag, &Sample::masks, state_tensor::kBlockTable);
}

TEST_F(Operands, OutputThatIsTheAdjustments) {
  constexpr uint32_t kRowsOfPass = 512;
  const GraphOptions options{
      .sms = 1,
      .context = 1024,  // 512 entries of output have the size of a sequence's adjustments
      .rows = kRowsOfPass,
      .sequences = launch_passes(kRowsOfPass)};
  ASSERT_EQ(adjustment_bytes(options.context), kRowsOfPass * sizeof(OutputToken));
  expect_own_part(tiny_config(), options, Opcode::kAdvance, kNoTag, &Advance::output,
                  state_tensor::kAdjustments);
  expect_own_part(tiny_config(), options, Opcode::kSample, kNoTag, &Sample::adjustments,
                  state_tensor::kOutput);
}

TEST_F(Operands, ItemsThatAreTheAdjustments) {
  constexpr uint32_t kRowsOfPass = 17;
  LlamaConfig config = tiny_parts_config();
  const auto context =
      static_cast<uint32_t>((attention_list_bytes(kRowsOfPass) - kHistoryOffset) / sizeof(int32_t));
  config.max_position = static_cast<int>(context);
  const GraphOptions options{
      .sms = 2, .context = context, .rows = kRowsOfPass, .sequences = 1, .tile_rows = 32};
  expect_own_part(config, options, Opcode::kPlannedAttention, 0, &PlannedAttention::items,
                  state_tensor::kAdjustments);
}

// Covers every operand of every instruction that names a part of the state, so that a new one is checked,
// too.
TEST_F(Operands, PartsOfTheStateHaveTheNamesOfTheirOperands) {
  std::vector<Program> programs = small_programs();
  programs.insert(programs.end(), shared_programs().begin(), shared_programs().end());
  Footprint footprint;
  for (const Program& program : programs) {
    for (const Instruction& i : program.instructions) {
      std::vector<std::string_view> parts;
      for (const FieldInfo& field : op_info(i.opcode).fields) parts.push_back(field.part);
      footprint.clear();
      op_info(i.opcode).footprint(i, program, nullptr, footprint);
      for (const Region& r : footprint) {
        const Tensor& tensor = program.tensors[r.tensor.index];
        if (tensor.kind != TensorKind::kState) continue;
        EXPECT_EQ(tensor.name, parts[r.operand]) << op_name(i.opcode);
      }
    }
  }
}

// ---- what must be accepted

TEST(Accepts, ThresholdsOfTwoStagesOnOneCounter) {
  Hand hand(2);
  hand.embed(0, 0, kHalf, {}, {{0, 1}});
  hand.embed(1, kHalf, kHalf, {}, {{0, 1}});
  hand.gate_up(0, 0, kUnits, {{0, 2, kReadsResidual}}, {{0, 1}});
  hand.down(1, {{0, 3, kReadsMlp}}, {{0, 1}});
  expect_accepted(hand.build(0));
}

TEST(Accepts, PartialThresholdThatRequiresTheProducer) {
  Hand hand(2);
  hand.embed(0, 0, kUnits, {}, {{0, 2}});
  hand.lm_head(1, {{0, 2, kHeadReadsResidual}}, {{0, 1}});
  hand.gate_up(0, 0, kUnits, {{0, 2, kReadsResidual}}, {{0, 1}});
  // The readers wait for the embedding, so the counter cannot reach 4 without the embedding's two increments.
  hand.embed(1, 0, kUnits, {{0, 4, guards<&Embed::residual>()}}, {{1, 1}});
  expect_accepted(hand.build(1));
}

TEST(Accepts, AWrittenOperandThatNoWaitNames) {
  Hand hand(2);
  hand.embed(0, 0, kUnits, {}, {{0, 1}});
  hand.embed(1, 0, kUnits, {{0, 1, 0}}, {{1, 1}});  // a write comes after all waits of its instruction
  expect_accepted(hand.build(1));
}

TEST(Accepts, BlockCounterWithinOneSm) {
  Hand hand(2);
  hand.embed(0, 0, kUnits, {}, {{0, 1}});
  hand.gate_up(0, 0, kUnits, {{0, 1, kReadsResidual}}, {{1, 1}});
  Program program = hand.build(1);
  program.counters[0].scope = CounterScope::kBlock;
  expect_accepted(program);
}

TEST(Accepts, WaitForThePreviousPassBesideOneForThisPass) {
  Mlp mlp;
  mlp.gate_up_waits.push_back({2, 0, kReadsResidual});
  expect_accepted(mlp.build());
}

bool can_be_shared(const ModelShape& model, uint32_t ranks) {
  try {
    check_ranks(model, ranks);
  } catch (const Error&) {
    return false;
  }
  return true;
}

// SmolLM2's two smaller models have 9 and 15 query heads.
bool has_odd_heads(const std::string& preset) {
  return preset == "smollm2-135m" || preset == "smollm2-360m";
}

// Every policy, kind of queue and SM count.
class AcceptsPreset : public ::testing::TestWithParam<std::string> {};

TEST_P(AcceptsPreset, ProgramsOfEveryPolicyAndMachine) {
  for (const uint32_t sms : kSmCounts) {
    const Graph graph = build_llama_graph(preset_config(GetParam()), {.sms = sms});
    for (const Compilation& how : compilations_for(sms)) {
      const std::optional<Violation> violation = validate(compile_as(graph, how));
      EXPECT_FALSE(violation) << name_of(how.policy) << ", " << sms << " SMs: " << violation->message;
    }
  }
}

// A graph of row tiles for passes of `rows` rows. All layers except the last are alike, so two suffice.
Graph graph_of_tiles(const std::string& preset, uint32_t rows, uint32_t ranks = 1) {
  constexpr uint32_t kTileRows = 256;
  return build_llama_graph(
      shortened_preset(preset.c_str(), 2),
      {.sms = 132, .context = 2048, .rows = rows, .tile_rows = kTileRows, .ranks = ranks});
}

TEST_P(AcceptsPreset, ProgramsOfRowTiles) {
  for (const uint32_t rows : {17U, 64U, 256U, 2048U}) {
    const Graph graph = graph_of_tiles(GetParam(), rows);
    // Placement hardly depends on the rows: all policies and the global queue run for one number of rows
    // only.
    std::vector<Compilation> ways = {{Policy::kList, QueueKind::kPerSm, 132}};
    if (rows == 64) ways = compilations_for(132);
    for (const Compilation& how : ways) {
      const std::optional<Violation> violation = validate(compile_as(graph, how));
      EXPECT_FALSE(violation) << rows << " rows, " << name_of(how.policy) << ": " << violation->message;
    }
  }
}

std::string name_of_preset(const ::testing::TestParamInfo<std::string>& param) {
  std::string name = param.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Presets, AcceptsPreset, ::testing::ValuesIn(preset_names()), name_of_preset);

// The layers of a model are alike, so three represent all; one model is compiled whole.
TEST_P(AcceptsPreset, SharedByRanks) {
  constexpr int kLayers = 3;
  uint32_t shared = 0;
  for (const uint32_t ranks : {2U, 4U, 8U}) {
    const LlamaConfig config = GetParam() == "llama-3.2-3b" ? preset_config(GetParam())
                                                            : shortened_preset(GetParam().c_str(), kLayers);
    if (!can_be_shared(config, ranks)) continue;
    ++shared;
    for (const uint32_t sms : {7U, 132U}) {
      const Graph graph = build_llama_graph(config, {.sms = sms, .ranks = ranks});
      for (const Policy policy : kPolicies) {
        const std::optional<Violation> violation =
            validate(compile_as(graph, {policy, QueueKind::kPerSm, sms}));
        EXPECT_FALSE(violation) << ranks << " ranks, " << name_of(policy) << ": " << violation->message;
      }
    }
  }
  EXPECT_EQ(shared > 0, !has_odd_heads(GetParam()));
}

// The programs of row tiles that an engine compiles for several GPUs.
TEST_P(AcceptsPreset, TilesSharedByRanks) {
  uint32_t shared = 0;
  for (const uint32_t ranks : {2U, 4U, 8U}) {
    const auto model = find_preset(GetParam());
    if (!can_multiply_tiles(*model, ranks) || !can_be_shared(*model, ranks)) continue;
    ++shared;
    for (const uint32_t rows : {64U, 256U, 2048U}) {
      const std::optional<Violation> violation =
          validate(compile(graph_of_tiles(GetParam(), rows, ranks), machine_of(132), {}));
      EXPECT_FALSE(violation) << ranks << " ranks, " << rows << " rows: " << violation->message;
    }
  }
  EXPECT_EQ(shared > 0, !has_odd_heads(GetParam()));
}

TEST(AcceptsTiles, OfRanksPlacedByAnyPolicy) {
  for (const uint32_t rows : {64U, 2048U}) {
    const Graph graph = graph_of_tiles("llama-3.1-8b", rows, 4);
    for (const Policy policy : kPolicies) {
      const std::optional<Violation> violation =
          validate(compile_as(graph, {policy, QueueKind::kPerSm, 132}));
      EXPECT_FALSE(violation) << rows << " rows, " << name_of(policy) << ": " << violation->message;
    }
  }
}

// The programs that an engine compiles for one GPU or several, for passes of all sizes. compile_gpu_program()
// throws if one is invalid.
class AcceptsEngine : public ::testing::TestWithParam<std::string> {};

// Environment variable: prove this many layers, at most all, of every preset. If it is unset, two layers of
// some presets.
constexpr const char* kLayersVariable = "SERVAL_PROVE_LAYERS";

std::vector<std::string> presets_to_prove() {
  if (std::getenv(kLayersVariable) != nullptr) return preset_names();
  return {"llama-3.1-8b", "llama-3.1-70b"};
}

// Vector programs and tile programs. With --batch-invariant, also tile programs for few rows, and vectors in
// tile order for a single row.
std::vector<ProgramLimits> sizes_of_passes() {
  std::vector<ProgramLimits> sizes = {{.rows = 1, .batch_invariant = true},
                                      {.rows = kDefaultRows, .batch_invariant = true},
                                      {.rows = kDefaultRows + 1},
                                      {.rows = kMostGpuTokens}};
  for (const uint32_t rows : gpu_row_classes(sizes.back())) sizes.push_back({.rows = rows});
  return sizes;
}

TEST_P(AcceptsEngine, ProgramsOfAllSizes) {
  struct Sharing {
    uint32_t ranks, sms;  // SMs of a rank: with 66, two ranks share a GPU
  };
  constexpr Sharing kSharings[] = {{1, 132}, {2, 132}, {2, 66}, {4, 132}, {8, 132}};
  LlamaConfig model = preset_config(GetParam());
  model.num_layers = std::min(model.num_layers, static_cast<int>(campaign_size(kLayersVariable, 2)));
  uint32_t compiled = 0;
  for (const auto [ranks, sms] : kSharings) {
    if (!can_multiply_tiles(model, ranks) || !can_be_shared(model, ranks)) continue;
    for (ProgramLimits limits : sizes_of_passes()) {
      limits.ranks = ranks;
      ++compiled;
      EXPECT_NO_THROW(compile_gpu_program(model, machine_of(sms), limits, {}, limits.rows, false))
          << ranks << " ranks of " << sms << " SMs, " << limits.rows << " rows";
    }
  }
  EXPECT_GT(compiled, 0U);
}

INSTANTIATE_TEST_SUITE_P(Presets, AcceptsEngine, ::testing::ValuesIn(presets_to_prove()), name_of_preset);

// ---- explanations

std::string explanation_of(const Program& program) {
  const std::optional<Violation> violation = validate(program);
  return violation ? violation->explanation : "";
}

TEST(Explanation, ShowsBothInstructionsAndTheWaitThatIsTooShort) {
  Mlp mlp;
  mlp.gate_up_waits = {{0, 1, kReadsResidual}};
  EXPECT_THAT(
      explanation_of(mlp.build()),
      AllOf(HasSubstr("SM 0 pc 0 (embed): embed"), HasSubstr("SM 0 pc 1 (gate_up_silu): gate_up_silu"),
            HasSubstr("missing: SM 0 pc 0 (embed) -> counter 0 -> SM 0 pc 1 (gate_up_silu)\n"),
            HasSubstr("SM 0 pc 1 (gate_up_silu) waits for counter 0 to reach 1 of 2")));
}

TEST(Explanation, ShowsTheOperandThatNoWaitGuards) {
  Mlp mlp;
  mlp.gate_up_waits = {{0, 2, guards<&GateUpSilu::gate>()}};
  EXPECT_THAT(explanation_of(mlp.build()), HasSubstr("do not guard operand 0 of SM 0 pc 1 (gate_up_silu)"));
}

TEST(Explanation, SaysThatNoWaitConnectsThem) {
  Mlp mlp;
  mlp.down_waits = {};
  EXPECT_THAT(explanation_of(mlp.build()),
              AllOf(HasSubstr("-> SM 1 pc 1 (matvec_residual)"), HasSubstr("no wait leads")));
}

TEST(Explanation, SaysThatTheFirstSignalsNothing) {
  Mlp mlp;
  mlp.second_half_signals = {};
  mlp.gate_up_waits = {{0, 1, kReadsResidual}};
  EXPECT_THAT(explanation_of(mlp.build()), HasSubstr("SM 1 pc 0 (embed) signals no counter"));
}

// The reader waits for one embedding, which waits for too few of the others.
TEST(Explanation, FollowsTheChainToTheWaitThatIsTooShort) {
  Hand hand(2);
  hand.embed(0, 0, kHalf, {}, {{0, 2}});
  hand.embed(1, kHalf, kHalf, {}, {{0, 1}});
  hand.embed(0, 0, kHalf, {{0, 2, guards<&Embed::residual>()}}, {{1, 1}});
  hand.lm_head(1, {{1, 1, kHeadReadsResidual}}, {{2, 1}});
  EXPECT_THAT(
      explanation_of(hand.build(2)),
      AllOf(HasSubstr("missing: SM 1 pc 0 (embed) -> counter 0 -> SM 0 pc 1 (embed) -> SM 1 pc 1 (lm_head)"),
            HasSubstr("SM 0 pc 1 (embed) waits for counter 0 to reach 2 of 3")));
}

}  // namespace
}  // namespace serval::testing

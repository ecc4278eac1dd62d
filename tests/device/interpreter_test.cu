// The device interpreter without a model: order, queues, passes, the host's stop word, and error reports for
// wrong programs.
#include <chrono>
#include <numeric>
#include <ostream>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/device/toy_isa.cuh"
#include "tests/device/toy_program.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kSms = 132;
constexpr uint64_t kVectorBytes = kToyWords * sizeof(uint32_t);
constexpr auto kAnyOperand = 0xffffu;

constexpr uint16_t code(ToyOpcode opcode) {
  return static_cast<uint16_t>(opcode);
}
Wait after(uint32_t counter, uint32_t threshold = 1) {
  return {counter, threshold, kAnyOperand};
}

// A kernel for the toy instructions.
struct Kernel {
  const char* name;
  const DeviceIsa* isa;
  uint32_t activation_buffers;  // panels of activations that fit
  uint32_t rows;                // limit for a pass
};
void PrintTo(const Kernel& kernel, std::ostream* out) {
  *out << kernel.name;
}
template <class Config>
Kernel kernel_for(const char* name) {
  return {name, &toy_isa<Config>(), Config::kPanelBuffers, Config::kRows};
}
const Kernel& many_rows() {
  static const Kernel kernel = kernel_for<testing::ManyRows>("ManyRows");
  return kernel;
}
const Kernel& one_row() {
  static const Kernel kernel = kernel_for<testing::OneRow>("OneRow");
  return kernel;
}

class Bound {
 public:
  explicit Bound(Program program, const Kernel& kernel = many_rows())
      : program_(std::move(program)), memory_(program_) {
    DeviceOptions options;
    options.stall_timeout_s = 1;
    interpreter_ = std::make_unique<DeviceInterpreter>(program_, *kernel.isa, memory_.bound(), options);
  }
  uint32_t run(uint32_t passes, const std::function<void(uint32_t)>& on_pass = {}) {
    return run_until(passes, passes, on_pass);
  }
  // Runs a launch of up to `most` passes whose program ends it after `passes`.
  uint32_t run_until(uint32_t passes, uint32_t most, const std::function<void(uint32_t)>& on_pass = {}) {
    memory_.write(*program_.find_tensor(state_tensor::kControl),
                  std::vector<PassControl>{{0, passes, kKeepRunning, 0}});
    return interpreter_->run({1, most, 1}, on_pass);
  }
  const ToyMemory& memory() const { return memory_; }

 private:
  Program program_;
  ToyMemory memory_;
  std::unique_ptr<DeviceInterpreter> interpreter_;
};

void add_tick(ToyProgram& toy, uint32_t sm, const std::vector<Wait>& waits, uint32_t gate) {
  toy.add(sm, code(ToyOpcode::kTick), Tick{toy.control, toy.host_stop}, {waits, {{gate}}});
}

// The warps that store a vector: consumers that read it by loads or by a bulk copy, or the storers.
enum class By { kLoads, kBulkCopy, kStorers };

// A vector is passed from SM to SM and returns to its origin: `length` instructions one after the other, of
// `kinds` in turn.
struct RelayRing {
  std::vector<TensorId> vectors;
  Program program;
};
RelayRing relay_ring(uint32_t length, const std::vector<By>& kinds, QueueKind queues = QueueKind::kPerSm,
                     uint32_t sms = kSms) {
  ToyProgram toy(sms, queues);
  RelayRing ring;
  std::vector<uint32_t> done;
  for (uint32_t i = 0; i < length; ++i) {
    ring.vectors.push_back(toy.add_vector(kVectorBytes));
    done.push_back(toy.add_counter());
  }
  const uint32_t gate = toy.add_counter();
  for (uint32_t i = 0; i < length; ++i) {
    const TensorId in = ring.vectors[i], out = ring.vectors[(i + 1) % length];
    const std::vector<Wait> waits = i == 0 ? std::vector<Wait>{} : std::vector<Wait>{after(done[i - 1])};
    const By by = kinds[i % kinds.size()];
    if (by == By::kStorers) {
      const StorerRelay op{in, out, i, i % device::kStorerWarps + 1};
      toy.add(i % sms, code(ToyOpcode::kStorerRelay), op, {waits, {{done[i]}}});
    } else {
      const Relay op{in, out, by == By::kBulkCopy ? 1U : 0U};
      toy.add(i % sms, code(ToyOpcode::kRelay), op, {waits, {{done[i]}}});
    }
  }
  add_tick(toy, 0, {after(done.back())}, gate);
  ring.program = toy.finish(gate);
  return ring;
}

void expect_relayed(const RelayRing& ring, uint32_t passes, const Kernel& kernel = many_rows()) {
  Bound bound(ring.program, kernel);
  ASSERT_EQ(bound.run(passes), passes);
  const auto length = static_cast<uint32_t>(ring.vectors.size());
  EXPECT_THAT(bound.memory().read<uint32_t>(ring.vectors[0], kToyWords), Each(passes * length));
  ASSERT_EQ(bound.run(passes), passes) << "counters go on from launch to launch";
  EXPECT_THAT(bound.memory().read<uint32_t>(ring.vectors[0], kToyWords), Each(2 * passes * length));
}

// The litmus tests of docs/memory_model.md, in each kind of kernel.
class Litmus : public ::testing::TestWithParam<Kernel> {
 protected:
  const Kernel& kernel() const { return GetParam(); }
};
std::string name_of(const ::testing::TestParamInfo<Kernel>& test) {
  return test.param.name;
}
INSTANTIATE_TEST_SUITE_P(Kernels, Litmus, ::testing::Values(many_rows(), one_row()), name_of);

// Generic stores, release, acquire, generic loads. More than 10^6 transfers.
TEST_P(Litmus, PlainLoadsAfterACounterSeeWhatWasStoredBeforeIt) {
  expect_relayed(relay_ring(2 * kSms, {By::kLoads}), kMostLaunchPasses / 2, kernel());
}

// Like the test above with bulk copies, which need a proxy fence after the acquire.
TEST_P(Litmus, BulkCopiesAfterACounterSeeWhatWasStoredBeforeIt) {
  expect_relayed(relay_ring(2 * kSms, {By::kBulkCopy}), kMostLaunchPasses / 2, kernel());
}

// One to four storers store, and the last or only one signals; storers, loads and bulk copies read. More than
// 10^6 signals.
TEST_P(Litmus, TheLastStorersSignalIsForAll) {
  constexpr uint32_t kHops = 5;
  expect_relayed(
      relay_ring(kHops * kSms, {By::kStorers, By::kStorers, By::kLoads, By::kStorers, By::kBulkCopy}),
      kMostLaunchPasses / 2, kernel());
}

TEST(DeviceInterpreter, RunsAGlobalQueueInOrder) {
  expect_relayed(relay_ring(3 * kSms + 7, {By::kLoads}, QueueKind::kGlobal), 100);
}

// Most SMs take their first record from a later pass, or from none.
TEST(DeviceInterpreter, RunsAGlobalQueueWithFewerRecordsThanSms) {
  expect_relayed(relay_ring(10, {By::kLoads}, QueueKind::kGlobal), 7);
  expect_relayed(relay_ring(10, {By::kBulkCopy}, QueueKind::kGlobal), 1);
}

TEST(DeviceInterpreter, RunsOnFewSms) {
  expect_relayed(relay_ring(20, {By::kBulkCopy}, QueueKind::kPerSm, 3), 50);
  expect_relayed(relay_ring(20, {By::kLoads}, QueueKind::kPerSm, 1), 50);
}

// A number for each word of a tensor, and the running sums at the end of each of its parts.
struct Words {
  Words(uint32_t parts, size_t words_of_part) : words(parts * words_of_part), sums(parts + 1) {
    for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint32_t>(i * 2654435761U);
    for (uint32_t p = 0; p < parts; ++p) {
      const auto begin = words.begin() + static_cast<ptrdiff_t>(p * words_of_part);
      sums[p + 1] = std::accumulate(begin, begin + static_cast<ptrdiff_t>(words_of_part), sums[p]);
    }
  }
  std::vector<uint32_t> words, sums;
};

// Every tile of a unit contains the unit's sum.
uint32_t sum_of_tiles(const Bound& bound, TensorId out) {
  const std::vector<uint32_t> tiles = bound.memory().read<uint32_t>(out, kToyTilesInAll);
  for (uint32_t n = 0; n < kToyTilesInAll; n += kToyTiles) EXPECT_EQ(tiles[n], tiles[n + 1]) << "tile " << n;
  return std::accumulate(tiles.begin(), tiles.end(), 0U);
}

// Every SM streams pages to its own sums, one instruction for each of `sums` (this function sets their
// tensors). The totals show that each page was read whole and each result was stored once.
void expect_sums_of_pages(const std::vector<SumPages>& sums, uint32_t most_pages, uint32_t passes,
                          const Kernel& kernel = many_rows()) {
  ToyProgram toy(kSms);
  const TensorId in = toy.add_vector(uint64_t{most_pages} * kPageBytes);
  std::vector<TensorId> out;
  const uint32_t done = toy.add_counter(), gate = toy.add_counter();
  for (uint32_t sm = 0; sm < kSms; ++sm) {
    for (SumPages op : sums) {
      op.in = in;
      op.out = toy.add_vector(kVectorBytes);
      out.push_back(op.out);
      toy.add(sm, code(ToyOpcode::kSumPages), op, {{}, {{done}}});
    }
  }
  add_tick(toy, 5, {after(done, static_cast<uint32_t>(out.size()))}, gate);
  Bound bound(toy.finish(gate), kernel);
  const Words pages(most_pages, kPageBytes / sizeof(uint32_t));
  bound.memory().write(in, pages.words);
  ASSERT_EQ(bound.run(passes), passes);
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(sum_of_tiles(bound, out[i]), kToyTiles * passes * pages.sums[sums[i % sums.size()].pages])
        << "instruction " << i;
  }
}

// More pages than the ring has, in many passes. More than 10^6 pages and tiles of results.
TEST_P(Litmus, PagesOfTheRingAreReadWholeAndInOrder) {
  expect_sums_of_pages({{{}, {}, 13, 0, 0}, {{}, {}, 12, 0, 0}, {{}, {}, 11, 0, 0}}, 13, 220, kernel());
}

// Other storers run instructions ahead of a late one and must not take its units' buffers.
TEST(DeviceInterpreter, WaitsForStorersThatAreLate) {
  std::vector<SumPages> sums;
  for (uint32_t n = 0; n < 4 * device::kStorerWarps; ++n) {
    sums.push_back({{}, {}, 13 - n % 3, 0, n % 4 == 0 ? 1U << n / 4 : 0});
  }
  expect_sums_of_pages(sums, 13, 100);
}

// Bulk copies to consumers, and the release of their slots: all panels together and one by one, alternately
// through the same slots, to which group instructions write in between. More than 10^6 panels of either kind.
TEST_P(Litmus, ActivationsAreWholeWhenConsumersReadThem) {
  constexpr uint32_t kStreamed = 45, kTogether = 1'000'000;
  const uint32_t slots = kernel().activation_buffers, resident = slots > 3 ? slots - 3 : slots;
  const uint32_t passes = kTogether / (resident * kSms) + 1;
  const std::vector<SumPanels> kinds = {{{}, {}, resident, 0}, {{}, {}, kStreamed, 1}};
  ToyProgram toy(kSms);
  const TensorId in = toy.add_vector(uint64_t{kStreamed} * kToyPanelWords * sizeof(uint32_t));
  std::vector<TensorId> out;
  const uint32_t done = toy.add_counter(), gate = toy.add_counter();
  for (SumPanels op : kinds) {
    for (uint32_t sm = 0; sm < kSms; ++sm) {
      op.in = in;
      op.out = toy.add_vector(kVectorBytes);
      out.push_back(op.out);
      toy.add(sm, code(ToyOpcode::kSumPanels), op, {{}, {{done}}});
      toy.add(sm, code(ToyOpcode::kScribble), Scribble{kToyMark}, {{}, {{done}}});
    }
  }
  add_tick(toy, 5, {after(done, 2 * static_cast<uint32_t>(out.size()))}, gate);
  Bound bound(toy.finish(gate), kernel());
  const Words panels(kStreamed, kToyPanelWords);
  bound.memory().write(in, panels.words);
  ASSERT_EQ(bound.run(passes), passes);
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(sum_of_tiles(bound, out[i]), kToyTiles * passes * panels.sums[kinds[i / kSms].panels])
        << "instruction " << i;
  }
}

// At the gate every SM learns that a pass was the last, in launches that might have continued. An SM that
// missed this would wait for a pass that never comes. More than 10^6 reads.
TEST_P(Litmus, EverySmLeavesAfterTheLastPass) {
  ToyProgram toy(kSms);
  const TensorId in = toy.add_vector(kVectorBytes);
  const uint32_t done = toy.add_counter(), gate = toy.add_counter();
  for (uint32_t sm = 0; sm < kSms; ++sm) {
    toy.add(sm, code(ToyOpcode::kRelay), Relay{in, toy.add_vector(kVectorBytes), 0}, {{}, {{done}}});
  }
  add_tick(toy, 7, {after(done, kSms)}, gate);
  Bound bound(toy.finish(gate), kernel());
  for (uint32_t launch = 0; launch < 8000; ++launch) {
    ASSERT_EQ(bound.run_until(1 + launch % 2, 4), 1 + launch % 2) << "launch " << launch;
  }
}

// An instruction that starts early reads, before any of its waits, what other SMs stored in the previous
// pass. L1 may serve these loads; the lines were read two passes ago and have changed since. More than 10^6
// reads.
TEST_P(Litmus, WhoStartsEarlySeesWhatThePassBeforeLeft) {
  constexpr uint32_t kPerSm = 3;
  ToyProgram toy(kSms);
  const TensorId in = toy.add_vector(kVectorBytes), kept = toy.add_vector(2 * kVectorBytes);
  std::vector<TensorId> out;
  const uint32_t is_kept = toy.add_counter(), done = toy.add_counter(), gate = toy.add_counter();
  toy.add(3, code(ToyOpcode::kKeep), Keep{toy.control, kept}, {{}, {{is_kept}}});
  for (uint32_t sm = 0; sm < kSms; ++sm) {
    // The first instruction of a pass on an SM waits for the gate, itself or before it runs. One that has
    // nothing to read does not notify its consumers, and the instruction after it must not start early.
    if (sm % 2 == 0) {
      toy.add(sm, code(ToyOpcode::kRelay), Relay{in, toy.add_vector(kVectorBytes), 0}, {{}, {{done}}});
    } else {
      toy.add(sm, code(ToyOpcode::kSumPages), SumPages{in, toy.add_vector(kVectorBytes), 0, 0, 0},
              {{}, {{done}}});
    }
    for (uint32_t n = 0; n < kPerSm; ++n) {
      out.push_back(toy.add_vector(kVectorBytes));
      toy.add(sm, code(ToyOpcode::kRecall), Recall{toy.control, kept, out.back()},
              {{after(is_kept)}, {{done}}});
    }
  }
  add_tick(toy, 5, {after(done, (1 + kPerSm) * kSms)}, gate);
  Bound bound(toy.finish(gate), kernel());
  ASSERT_EQ(bound.run(kMostLaunchPasses), kMostLaunchPasses);
  for (const TensorId id : out) {
    std::vector<uint32_t> words = bound.memory().read<uint32_t>(id, device::kGroupThreads + 1);
    EXPECT_EQ(words.back(), kMostLaunchPasses);
    words.pop_back();
    EXPECT_THAT(words, Each(0U));
  }
}

// The output table is in host memory. The host reads an entry as soon as it is notified of the pass, and
// clears it. More than 10^6 entries.
TEST_P(Litmus, HostSeesThePassesOutputWhenItHearsOfThePass) {
  ToyProgram toy(2, QueueKind::kPerSm, kernel().rows);
  const uint32_t words = kernel().rows * kToyOutputWordsOfRow;
  const TensorId output =
      toy.add_tensor(state_tensor::kOutput, kMostLaunchPasses, words * sizeof(uint32_t), TensorKind::kState);
  const uint32_t done = toy.add_counter(), gate = toy.add_counter();
  toy.add(1, code(ToyOpcode::kPublish), Publish{toy.control, output, words}, {{}, {{done}}});
  add_tick(toy, 0, {after(done)}, gate);
  Bound bound(toy.finish(gate), kernel());
  uint64_t wrong = 0;
  for (uint32_t launch = 0; launch < 250; ++launch) {
    ASSERT_EQ(bound.run(kMostLaunchPasses,
                        [&](uint32_t pass) {
                          uint32_t* entry = bound.memory().output() + pass * words;
                          for (uint32_t w = 0; w < words; ++w) {
                            wrong += entry[w] != pass + 1 ? 1 : 0;
                            entry[w] = 0;
                          }
                        }),
              kMostLaunchPasses);
  }
  EXPECT_EQ(wrong, 0U) << "words";
}

TEST(DeviceInterpreter, SaysWhichPassesAreDoneWhileItRuns) {
  const RelayRing ring = relay_ring(8, {By::kLoads});
  Bound bound(ring.program);
  std::vector<uint32_t> seen;
  EXPECT_EQ(bound.run(64, [&](uint32_t pass) { seen.push_back(pass); }), 64u);
  std::vector<uint32_t> all(64);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen, all);
}

// A storer signals a pass's gate and notifies the host late: another storer has already notified it of the
// next and last pass, while the host was not polling.
TEST(DeviceInterpreter, HandsOutEveryPassWhenAStorerIsAPassLate) {
  constexpr uint32_t kPasses = 3, kLateStorer = 3;  // in the second pass: its record is the launch's fourth
  ToyProgram toy(1);
  const TensorId in = toy.add_vector(kVectorBytes), out = toy.add_vector(kVectorBytes);
  const uint32_t ticked = toy.add_counter(), gate = toy.add_counter();
  add_tick(toy, 0, {}, ticked);
  toy.add(0, code(ToyOpcode::kStorerRelay), StorerRelay{in, out, 0, 1, 1U << kLateStorer},
          {{after(ticked)}, {{gate}}});
  Bound bound(toy.finish(gate));
  for (uint32_t launch = 0; launch < 20; ++launch) {
    std::vector<uint32_t> seen;
    ASSERT_EQ(bound.run(kPasses,
                        [&](uint32_t pass) {
                          seen.push_back(pass);
                          std::this_thread::sleep_for(std::chrono::milliseconds(2));
                        }),
              kPasses);
    EXPECT_THAT(seen, ElementsAre(0, 1, 2));
  }
}

TEST(DeviceInterpreter, EndsSoonAfterTheHostAsksForIt) {
  const RelayRing ring = relay_ring(2 * kSms, {By::kLoads});  // about a millisecond a pass
  Bound bound(ring.program);
  const uint32_t passes = bound.run(kMostLaunchPasses, [&](uint32_t pass) {
    if (pass == 3) *static_cast<volatile uint32_t*>(bound.memory().host_stop()) = 1;
  });
  EXPECT_GE(passes, 4u);
  EXPECT_LE(passes, 8u);
  *bound.memory().host_stop() = 0;
  EXPECT_EQ(bound.run(5), 5u) << "the next launch is not stopped";
}

// --- reports about wrong programs: a launch ends with an error and does not hang

std::string fault_of(const Program& program) {
  const auto begin = std::chrono::steady_clock::now();
  std::string report = "no fault";
  try {
    Bound(program).run(3);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDeviceFault);
    report = error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  // The GPU must still be usable by the process.
  expect_relayed(relay_ring(10, {By::kLoads}), 3);
  return report;
}

TEST(DeviceFault, ThresholdThatIsNeverReached) {
  RelayRing ring = relay_ring(10, {By::kLoads});
  ring.program.waits[5].threshold += 1;  // the relay on SM 5: the tick on SM 0 has the first wait
  EXPECT_THAT(fault_of(ring.program),
              AllOf(HasSubstr("SM 5"), HasSubstr("relay"), HasSubstr("counter 4"), HasSubstr("1 of 2")));
}

TEST(DeviceFault, IncrementThatIsMissing) {
  RelayRing ring = relay_ring(10, {By::kLoads});
  ring.program.instructions[6].signal_count = 0;  // the relay on SM 5
  ring.program.counters[5].increments_per_pass = 0;
  EXPECT_THAT(fault_of(ring.program),
              AllOf(HasSubstr("SM 6"), HasSubstr("relay"), HasSubstr("counter 5"), HasSubstr("0 of 1")));
}

TEST(DeviceFault, OpcodeThatIsNotThere) {
  RelayRing ring = relay_ring(10, {By::kLoads});
  ring.program.instructions[3].opcode = 77;
  EXPECT_THAT(fault_of(ring.program), AllOf(HasSubstr("instruction 3"), HasSubstr("opcode is unknown")));
}

TEST(DeviceFault, TensorThatIsNotThere) {
  RelayRing ring = relay_ring(10, {By::kLoads});
  ring.program.instructions[3].set(Relay{{12345}, {0}, 0});
  EXPECT_THAT(fault_of(ring.program), AllOf(HasSubstr("instruction 3"), HasSubstr("outside the program")));
}

Program with_sum(const SumPages& sum, const std::function<TensorId(ToyProgram&)>& input) {
  ToyProgram toy(2);
  const TensorId in = input(toy), out = toy.add_vector(kVectorBytes);
  const uint32_t done = toy.add_counter(), gate = toy.add_counter();
  toy.add(1, code(ToyOpcode::kSumPages), SumPages{in, out, sum.pages, sum.keeps, 0}, {{}, {{done}}});
  add_tick(toy, 0, {after(done)}, gate);
  return toy.finish(gate);
}
TensorId sixteen_pages(ToyProgram& toy) {
  return toy.add_vector(uint64_t{kMostPages} * kPageBytes);
}

TEST(DeviceFault, OperandOutOfRange) {
  EXPECT_THAT(fault_of(with_sum({{}, {}, 1000, 0, 0}, sixteen_pages)),
              AllOf(HasSubstr("SM 1"), HasSubstr("sum_pages"), HasSubstr("operands out of range")));
}

TEST(DeviceFault, PageThatIsNeverReturned) {
  EXPECT_THAT(fault_of(with_sum({{}, {}, kMostPages, 1, 0}, sixteen_pages)),
              AllOf(HasSubstr("SM 1"), HasSubstr("sum_pages"), HasSubstr("do not finish")));
}

// A launch fails on every SM while bulk copies to its pages and panels are in flight. No copy may write to a
// block that has ended, and waiting for the copies must end.
TEST(DeviceFault, WhileCopiesAreUnderWay) {
  constexpr uint16_t kNoOpcode = 77;
  for (const Kernel* kernel : {&many_rows(), &one_row()}) {
    ToyProgram toy(kSms);
    const TensorId in = toy.add_vector(uint64_t{kMostPages} * kPageBytes), out = toy.add_vector(kVectorBytes);
    const uint32_t done = toy.add_counter(), gate = toy.add_counter();
    for (uint32_t sm = 0; sm < kSms; ++sm) {
      toy.add(sm, code(ToyOpcode::kSumPages), SumPages{in, out, sm % kMostPages, 0, 0}, {{}, {{done}}});
      toy.add(sm, code(ToyOpcode::kSumPanels), SumPanels{in, out, kernel->activation_buffers, sm % 2},
              {{}, {{done}}});
      for (uint32_t n = 0; n < sm % device::kRecordBuffers; ++n) {
        toy.add(sm, code(ToyOpcode::kScribble), Scribble{kToyMark}, {{}, {{done}}});
      }
      toy.add(sm, kNoOpcode, Hang{in}, {{}, {{done}}});
    }
    add_tick(toy, 0, {after(done, UINT32_MAX)}, gate);
    Bound bound(toy.finish(gate), *kernel);
    for (uint32_t launch = 0; launch < 100; ++launch) {
      EXPECT_THROW(bound.run(1), Error);
    }
    expect_relayed(relay_ring(10, {By::kLoads}), 3, *kernel);
  }
}

TEST(DeviceFault, InstructionThatNeverEnds) {
  ToyProgram toy(kSms);
  const TensorId flag = toy.add_vector(kVectorBytes);
  const uint32_t done = toy.add_counter(), gate = toy.add_counter();
  toy.add(9, code(ToyOpcode::kHang), Hang{flag}, {{}, {{done}}});
  add_tick(toy, 0, {after(done)}, gate);
  EXPECT_THAT(fault_of(toy.finish(gate)),
              AllOf(HasSubstr("SM 9"), HasSubstr("hang"), HasSubstr("do not finish")));
}

}  // namespace
}  // namespace serval::testing

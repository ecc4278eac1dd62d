// Programs of several devices without a model: data that one device pushes to another is visible when its
// signal is, and an error on one device ends all. On two and four ranks, one GPU for each if there are
// enough, else two GPUs alternately, or one; in a kernel for many rows and in one for a single row.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/device/gpu.h"
#include "instructions/kernels.h"
#include "instructions/push_state/device.cuh"
#include "tests/device/gpus_of_ranks.h"
#include "tests/device/toy_isa.cuh"
#include "vm/base/error.h"
#include "vm/device/device_array.h"
#include "vm/device/interpreter.h"
#include "vm/layout/row_tiles.h"
#include "vm/state/names.h"

namespace serval::testing {

// Writes the rows of the next pass, after Tick: all their words are the pass's number.
struct Renew {
  TensorId control;
  TensorId rows;
  uint32_t max_rows;
  template <class V>
  static constexpr void fields(V&& v) {
    v(&Renew::control, "control", "in: the number of the next pass");
    v(&Renew::rows, "rows", "out: the pass's rows");
    v(&Renew::max_rows, "max_rows", "rows of a pass");
  }
};

// Checks the state after the gate, which Tick and Renew have written. out[0 … 255] += words of another pass;
// out[256] += 1, which gives the number of the pass in launches of `passes` each.
struct Witness {
  TensorId control;
  TensorId rows;
  TensorId out;
  uint32_t max_rows;
  uint32_t passes;
  template <class V>
  static constexpr void fields(V&& v) {
    v(&Witness::control, "control", "in: this rank's copy of the decision");
    v(&Witness::rows, "rows", "in: this rank's copy of the pass's rows");
    v(&Witness::out, "out", "in and out [1, 1024] i32");
    v(&Witness::max_rows, "max_rows", "rows of a pass");
    v(&Witness::passes, "passes", "of a launch");
  }
};

}  // namespace serval::testing

namespace serval::device {

inline constexpr uint32_t kRowWords = sizeof(PassRow) / sizeof(uint32_t);

template <>
struct DeviceOp<testing::Renew> : GroupOp {
  static __device__ void run(const testing::Renew& op, const Group& group) {
    const auto* control = group.tensor<&testing::Renew::control, const PassControl>();
    auto* rows = group.tensor<&testing::Renew::rows, uint32_t>();
    const uint32_t next = ptx::load_relaxed(&control->passes_done);
    for (uint32_t i = group.thread; i < op.max_rows * kRowWords; i += kGroupThreads)
      ptx::store_relaxed(rows + i, next);
  }
};

template <>
struct DeviceOp<testing::Witness> : GroupOp {
  static __device__ void run(const testing::Witness& op, const Group& group) {
    const auto* in_memory = group.tensor<&testing::Witness::rows, const uint32_t>();
    const auto* at_hand = reinterpret_cast<const uint32_t*>(group.rows);
    auto* out = group.tensor<&testing::Witness::out, uint32_t>();
    const uint32_t passes = ptx::load_relaxed(out + kGroupThreads), pass = passes % op.passes;
    group.sync();
    uint32_t wrong = 0;
    for (uint32_t i = group.thread; i < op.max_rows * kRowWords; i += kGroupThreads)
      wrong += (at_hand[i] != pass ? 1 : 0) + (ptx::load_relaxed(in_memory + i) != pass ? 1 : 0);
    if (group.thread == 0) {
      const auto* control = group.tensor<&testing::Witness::control, const PassControl>();
      wrong += ptx::load_relaxed(&control->passes_done) != pass ? 1 : 0;
      wrong += ptx::load_relaxed(&control->passes_wanted) != op.passes ? 1 : 0;
      wrong += ptx::load_relaxed(&control->last_pass) != kKeepRunning ? 1 : 0;
      wrong += ptx::load_relaxed(&control->stopped_by_host) != 0 ? 1 : 0;
      ptx::store_relaxed(out + kGroupThreads, passes + 1);
    }
    ptx::store_relaxed(out + group.thread, ptx::load_relaxed(out + group.thread) + wrong);
  }
};

}  // namespace serval::device

namespace serval::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr uint64_t kVectorBytes = kToyWords * sizeof(uint32_t);
constexpr auto kAnyOperand = 0xffffu;

using PeersIsa =
    device::IsaList<device::StreamList<ToyStream>, Relay, StorerRelay, Hang, Tick, PushState, Renew, Witness>;
enum class Code : uint16_t { kRelay, kStorerRelay, kHang, kTick, kPushState, kRenew, kWitness };

// Like instructions/sm90/device_kernel.cuh for ranks.
template <class Config>
struct WithPeers : Config {
  static constexpr bool kHasPeers = true;
  static constexpr uint32_t kPagesInFlightBeforeInputs = kPagesBeforeInputsOfRanks;
};
template <class Config>
const DeviceIsa& peers_isa() {
  return unchecked_isa<PeersIsa, WithPeers<Config>>([](uint16_t opcode) {
    constexpr const char* kNames[] = {"relay",      "storer_relay", "hang",   "tick",
                                      "push_state", "renew",        "witness"};
    return opcode < std::size(kNames) ? kNames[opcode] : "unknown";
  });
}

// A kernel and the number of ranks that run it.
struct Case {
  const char* kernel;
  const DeviceIsa& (*isa)();
  uint32_t rows;  // in a pass
  uint32_t ranks;
  std::vector<int> gpus() const { return gpus_of_ranks(ranks); }
};
std::string name_of(const Case& on) {
  return std::string(on.kernel) + "On" + std::to_string(on.ranks) + "Ranks";
}
void PrintTo(const Case& on, std::ostream* out) {
  *out << name_of(on);
}
template <class Config>
Case case_of(const char* kernel, uint32_t ranks) {
  return {kernel, peers_isa<Config>, Config::kRows, ranks};
}

class OnRanks : public ::testing::TestWithParam<Case> {
 protected:
  const Case& on() const { return GetParam(); }
  uint32_t ranks() const { return GetParam().ranks; }
};
class LitmusOfPeers : public OnRanks {};
class Peers : public OnRanks {};
class PeersFault : public OnRanks {};

const auto kCases =
    ::testing::Values(case_of<testing::ManyRows>("ManyRows", 2), case_of<testing::OneRow>("OneRow", 2),
                      case_of<testing::ManyRows>("ManyRows", 4), case_of<testing::OneRow>("OneRow", 4));
std::string name_of_test(const ::testing::TestParamInfo<Case>& info) {
  return name_of(info.param);
}
INSTANTIATE_TEST_SUITE_P(Kernels, LitmusOfPeers, kCases, name_of_test);
INSTANTIATE_TEST_SUITE_P(Kernels, Peers, kCases, name_of_test);
INSTANTIATE_TEST_SUITE_P(Kernels, PeersFault, kCases, name_of_test);

Wait after(uint32_t counter, uint32_t threshold = 1) {
  return {counter, threshold, kAnyOperand};
}

// A program built by hand. Its first rank counts the passes.
class RanksProgram {
 public:
  // Uses `sms_in` SMs of each rank; 0: all of them.
  explicit RanksProgram(const Case& on, uint32_t sms_in = 0)
      : ranks(on.ranks), sms(sms_in != 0 ? sms_in : find_gpus(on.gpus()).front().sms), queues_(ranks * sms) {
    program.machine = {.name = "toy", .sms = sms, .pages_per_sm = 1};
    program.num_devices = ranks;
    program.limits = {.vocab = 1, .max_context = 1, .kv_blocks = 1, .rows = on.rows};
    for (uint8_t rank = 0; rank < ranks; ++rank) {
      rows.push_back(add_tensor(state_tensor::kRows, on.rows, sizeof(PassRow), TensorKind::kState, rank));
      control.push_back(add_tensor(state_tensor::kControl, 1, sizeof(PassControl), TensorKind::kState, rank));
    }
    host_stop_ = add_tensor(state_tensor::kHostStop, 1, sizeof(uint32_t), TensorKind::kState, 0);
  }

  TensorId add_tensor(const std::string& name, uint64_t tensor_rows, uint64_t bytes, TensorKind kind,
                      uint32_t rank) {
    program.tensors.push_back({.name = name,
                               .rows = tensor_rows,
                               .cols = bytes,
                               .dtype = DType::kBytes,
                               .kind = kind,
                               .device = static_cast<uint8_t>(rank)});
    return {static_cast<uint32_t>(program.tensors.size() - 1)};
  }
  TensorId add_vector(uint32_t rank) {
    return add_tensor("vector." + std::to_string(program.tensors.size()), 1, kVectorBytes,
                      TensorKind::kActivation, rank);
  }
  uint32_t add_counter(uint32_t rank) {
    program.counters.push_back({.scope = CounterScope::kSystem, .device = static_cast<uint8_t>(rank)});
    return static_cast<uint32_t>(program.counters.size() - 1);
  }
  template <class Op>
  void add(uint32_t sm, Code code, const Op& op, const std::vector<Wait>& waits,
           const std::vector<uint32_t>& signals) {
    Item item{.waits = waits, .signals = signals};
    item.record.opcode = static_cast<uint16_t>(code);
    item.record.set(op);
    queues_.at(sm).push_back(item);
  }
  // Counts the pass after these waits. Returns the counter that it signals.
  uint32_t tick(const std::vector<Wait>& ends) {
    const uint32_t ticked = add_counter(0);
    add(0, Code::kTick, Tick{control[0], host_stop_}, ends, {ticked});
    return ticked;
  }
  // Pushes the state to all ranks after `decided`, which opens their gates.
  Program finish(const Wait& decided) {
    std::vector<uint32_t> gates;
    for (uint32_t rank = 0; rank < ranks; ++rank) gates.push_back(add_counter(rank));
    for (uint32_t rank = 1; rank < ranks; ++rank) {
      const PushState push{rows[0], control[0], rows[rank], control[rank]};
      add((rank - 1) % sms, Code::kPushState, push, {decided}, gates);
    }
    program.gate_counter = gates.front();
    program.queue_begin = {0};
    for (const std::vector<Item>& queue : queues_) {
      for (const Item& item : queue) append(item);
      program.queue_begin.push_back(static_cast<uint32_t>(program.instructions.size()));
    }
    return program;
  }

  Program program;
  const uint32_t ranks;
  const uint32_t sms;                   // of each rank
  std::vector<TensorId> rows, control;  // one for each rank

 private:
  struct Item {
    Instruction record{};
    std::vector<Wait> waits;
    std::vector<uint32_t> signals;
  };
  void append(const Item& item) {
    Instruction record = item.record;
    record.wait_begin = static_cast<uint32_t>(program.waits.size());
    record.wait_count = static_cast<uint16_t>(item.waits.size());
    record.signal_begin = static_cast<uint32_t>(program.signals.size());
    record.signal_count = static_cast<uint16_t>(item.signals.size());
    program.waits.insert(program.waits.end(), item.waits.begin(), item.waits.end());
    for (const uint32_t counter : item.signals) {
      program.signals.push_back({counter, 1});
      ++program.counters[counter].increments_per_pass;
    }
    program.instructions.push_back(record);
  }

  std::vector<std::vector<Item>> queues_;
  TensorId host_stop_;
};

class Bound {
 public:
  Bound(Program program, const Case& on, double stall_timeout_s = 1)
      : program_(std::move(program)), gpus_(on.gpus()), memory_(program_.tensors.size()) {
    find_gpus(gpus_);  // enables peer access
    DeviceOptions options{.stall_timeout_s = stall_timeout_s, .ranks = {}};
    for (const int gpu : gpus_) {
      use_gpu(gpu);
      options.ranks.push_back({gpu, streams_.emplace_back(std::make_unique<CudaStream>())->get()});
    }
    for (uint32_t t = 0; t < program_.tensors.size(); ++t) bind({t});
    interpreter_ = std::make_unique<DeviceInterpreter>(program_, on.isa(), memory_, options);
  }
  // `before` is called on each rank's thread.
  uint32_t run(uint32_t passes, const std::function<void(uint32_t)>& before = {}) {
    return run_until(passes, passes, before);
  }
  // Runs a launch of up to `most` passes whose program ends it after `passes`.
  uint32_t run_until(uint32_t passes, uint32_t most, const std::function<void(uint32_t)>& before = {}) {
    const PassControl control{0, passes, kKeepRunning, 0};
    return interpreter_->run({program_.limits.rows, most, 1}, {}, {}, [&](uint32_t rank) {
      if (before) before(rank);
      const cudaStream_t stream = streams_[rank]->get();
      SERVAL_CUDA_CHECK(cudaMemcpyAsync(base(state_tensor::kControl, rank), &control, sizeof control,
                                        cudaMemcpyHostToDevice, stream));
      SERVAL_CUDA_CHECK(cudaMemsetAsync(base(state_tensor::kRows, rank), 0,
                                        program_.limits.rows * sizeof(PassRow), stream));
    });
  }
  std::vector<uint32_t> read(TensorId vector) const {
    std::vector<uint32_t> words(kToyWords);
    SERVAL_CUDA_CHECK(cudaMemcpy(words.data(), memory_.base(vector), kVectorBytes, cudaMemcpyDeviceToHost));
    return words;
  }

 private:
  void* base(const char* name, uint32_t rank) const {
    return memory_.base(program_.find_tensor(name, rank).value());
  }
  void bind(TensorId id) {
    const Tensor& tensor = program_.tensors[id.index];
    if (tensor.name == state_tensor::kHostStop) return memory_.bind(id, stop_.device_data());
    use_gpu(gpus_[tensor.device]);
    // The interpreter copies whole tiles of rows.
    buffers_.emplace_back(std::max<size_t>(tensor.bytes(), whole_row_tiles(1) * sizeof(PassRow)));
    memory_.bind(id, buffers_.back().data());
  }

  Program program_;
  const std::vector<int> gpus_;
  DeviceMemory memory_;
  PinnedArray<uint32_t> stop_{1};
  std::vector<DeviceArray<std::byte>> buffers_;
  std::vector<std::unique_ptr<CudaStream>> streams_;
  std::unique_ptr<DeviceInterpreter> interpreter_;
};

enum class By { kLoads, kBulkCopy, kStorers };

// A path that takes each step from one rank to another once and returns to its start.
std::vector<uint32_t> way_through(uint32_t ranks) {
  std::vector<uint32_t> way;
  for (uint32_t a = 0; a < ranks; ++a) {
    for (uint32_t b = a + 1; b < ranks; ++b) way.insert(way.end(), {a, b});
  }
  return way;
}

// A vector goes around the path `laps` times, pushed by each rank to the next.
struct Ring {
  std::vector<TensorId> vectors;
  uint32_t done;  // the counter that the last one signals
};
Ring add_ring(RanksProgram& program, const std::vector<By>& kinds, uint32_t laps) {
  const std::vector<uint32_t> way = way_through(program.ranks);
  const auto steps = static_cast<uint32_t>(way.size()), length = laps * steps;
  std::vector<uint32_t> done;
  Ring ring;
  for (uint32_t i = 0; i < length; ++i) {
    ring.vectors.push_back(program.add_vector(way[i % steps]));
    done.push_back(program.add_counter(way[(i + 1) % steps]));
  }
  for (uint32_t i = 0; i < length; ++i) {
    const TensorId in = ring.vectors[i], out = ring.vectors[(i + 1) % length];
    const std::vector<Wait> waits = i == 0 ? std::vector<Wait>{} : std::vector<Wait>{after(done[i - 1])};
    const uint32_t sm = way[i % steps] * program.sms + i / steps % program.sms;
    const By by = kinds[i % kinds.size()];
    if (by == By::kStorers) {
      program.add(sm, Code::kStorerRelay, StorerRelay{in, out, i, i % device::kStorerWarps + 1}, waits,
                  {done[i]});
    } else {
      program.add(sm, Code::kRelay, Relay{in, out, by == By::kBulkCopy ? 1U : 0U}, waits, {done[i]});
    }
  }
  ring.done = done.back();
  return ring;
}

constexpr uint32_t kFewLaps = 3;

struct RingProgram : Ring {
  Program program;
};
// The last counter is on the first rank, to which the vector returns.
RingProgram ring_of(const Case& on, const std::vector<By>& kinds, uint32_t laps) {
  RanksProgram ranks(on);
  const Ring ring = add_ring(ranks, kinds, laps != 0 ? laps : 2 * ranks.sms);
  return {ring, ranks.finish(after(ranks.tick({after(ring.done)})))};
}

void expect_relayed(const Case& on, const std::vector<By>& kinds, uint32_t laps = 0,
                    uint32_t hand_overs = 500'000) {
  const RingProgram ring = ring_of(on, kinds, laps);
  Bound bound(ring.program, on);
  const auto length = static_cast<uint32_t>(ring.vectors.size());
  const uint32_t passes = std::min(kMostLaunchPasses, hand_overs / length + 1);
  for (uint32_t launch = 1; launch <= 2; ++launch) {
    ASSERT_EQ(bound.run(passes), passes);
    EXPECT_THAT(bound.read(ring.vectors[0]), Each(launch * passes * length));
  }
}

// 10^6 transfers each from rank to rank: stores to the other's memory, release and acquire at system scope,
// and then loads,
TEST_P(LitmusOfPeers, PlainLoadsAfterACounterSeeWhatWasPushedBeforeIt) {
  expect_relayed(on(), {By::kLoads});
}
// … bulk copies, with a proxy fence after the acquire,
TEST_P(LitmusOfPeers, BulkCopiesAfterACounterSeeWhatWasPushedBeforeIt) {
  expect_relayed(on(), {By::kBulkCopy});
}
// … and with stores of several warps, of which the last one signals.
TEST_P(LitmusOfPeers, TheLastStorersSignalIsForAll) {
  expect_relayed(on(), {By::kStorers, By::kStorers, By::kLoads, By::kStorers, By::kBulkCopy});
}

// After each gate, SMs of all ranks check rows and decision, in memory and as copied to shared memory: all
// words must be this pass's. 10^6 pushes to all other ranks together.
TEST_P(LitmusOfPeers, StateThatIsPushedIsWholeBehindTheGate) {
  constexpr uint32_t kWitnesses = 4, kPasses = kMostLaunchPasses;  // SMs of a rank; passes of a launch
  RanksProgram ranks(on(), kWitnesses);
  std::vector<TensorId> out;
  const uint32_t seen = ranks.add_counter(0), renewed = ranks.add_counter(0);
  for (uint32_t sm = 0; sm < ranks.ranks * kWitnesses; ++sm) {
    const uint32_t rank = sm / kWitnesses;
    out.push_back(ranks.add_vector(rank));
    ranks.add(sm, Code::kWitness,
              Witness{ranks.control[rank], ranks.rows[rank], out.back(), on().rows, kPasses}, {}, {seen});
  }
  const uint32_t ticked = ranks.tick({after(seen, ranks.ranks * kWitnesses)});
  ranks.add(1, Code::kRenew, Renew{ranks.control[0], ranks.rows[0], on().rows}, {after(ticked)}, {renewed});
  Bound bound(ranks.finish(after(renewed)), on());
  const uint32_t launches = 1'000'000 / (kPasses * (ranks.ranks - 1)) + 1;
  for (uint32_t launch = 0; launch < launches; ++launch) ASSERT_EQ(bound.run(kPasses), kPasses);
  for (const TensorId id : out) {
    std::vector<uint32_t> words = bound.read(id);
    EXPECT_EQ(words[device::kGroupThreads], launches * kPasses);
    words.resize(device::kGroupThreads);
    EXPECT_THAT(words, Each(0U));
  }
}

// At their gates all SMs of all ranks learn that a pass was the last, in launches that might have continued.
// An SM that missed this would wait for a pass that never comes. More than 10^6 reads.
TEST_P(LitmusOfPeers, EverySmLeavesAfterTheLastPass) {
  RanksProgram ranks(on());
  const uint32_t done = ranks.add_counter(0), all = ranks.ranks * ranks.sms;
  for (uint32_t sm = 0; sm < all; ++sm) {
    const uint32_t rank = sm / ranks.sms;
    ranks.add(sm, Code::kRelay, Relay{ranks.add_vector(rank), ranks.add_vector(rank), 0}, {}, {done});
  }
  Bound bound(ranks.finish(after(ranks.tick({after(done, all)}))), on());
  for (uint32_t launch = 0; launch < 1'000'000 / all + 1; ++launch)
    ASSERT_EQ(bound.run_until(1 + launch % 2, 4), 1 + launch % 2) << "launch " << launch;
}

TEST_P(Peers, RunManyLaunchesOfOnePass) {
  const RingProgram ring = ring_of(on(), {By::kLoads}, kFewLaps);
  Bound bound(ring.program, on());
  constexpr uint32_t kLaunches = 500;
  for (uint32_t launch = 0; launch < kLaunches; ++launch) ASSERT_EQ(bound.run(1), 1U);
  EXPECT_THAT(bound.read(ring.vectors[0]), Each(kLaunches * ring.vectors.size()));
}

std::string error_of(Bound& bound, double& seconds, ErrorKind kind,
                     const std::function<void(uint32_t)>& before = {}) {
  const auto begin = std::chrono::steady_clock::now();
  std::string what;
  try {
    bound.run(3, before);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    what = error.what();
  }
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return what;
}
std::string fault_of(Bound& bound, double& seconds) {
  return error_of(bound, seconds, ErrorKind::kDeviceFault);
}

TEST_P(Peers, AreCalledForOnAThreadEachWhoseGpuIsTheirs) {
  Bound bound(ring_of(on(), {By::kLoads}, kFewLaps).program, on());
  std::vector<std::thread::id> threads(ranks());
  std::vector<int> found(ranks(), -1);
  EXPECT_EQ(bound.run(1,
                      [&](uint32_t rank) {
                        threads[rank] = std::this_thread::get_id();
                        SERVAL_CUDA_CHECK(cudaGetDevice(&found[rank]));
                      }),
            1U);
  EXPECT_EQ(threads[0], std::this_thread::get_id());
  EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), ranks());
  EXPECT_THAT(found, ElementsAreArray(on().gpus()));
}

// The kernels of the other ranks are running and would wait for this one's until the time-out.
TEST_P(Peers, AnErrorOfOneRanksThreadEndsAllAtOnce) {
  Bound bound(ring_of(on(), {By::kLoads}, kFewLaps).program, on());
  for (uint32_t bad = 0; bad < ranks(); ++bad) {
    double seconds = 0;
    const std::string what = error_of(bound, seconds, ErrorKind::kRuntime, [&](uint32_t rank) {
      if (rank != bad) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      throw Error(ErrorKind::kRuntime, "no state for rank " + std::to_string(rank));
    });
    EXPECT_EQ(what, "no state for rank " + std::to_string(bad));
    EXPECT_LT(seconds, 0.8) << "the time-out is 1 s";
    EXPECT_EQ(bound.run(2), 2U) << "the next launch starts afresh";
  }
}

std::string sm_of(uint32_t rank, uint32_t sm) {
  return "rank " + std::to_string(rank) + " SM " + std::to_string(sm) + ", pass 0, instruction";
}

// An unknown opcode on one rank ends all launches at once.
TEST_P(PeersFault, OfOneRankEndsAll) {
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    RingProgram ring = ring_of(on(), {By::kLoads}, kFewLaps);
    const uint32_t pc = ring.program.queue_begin[rank * ring.program.machine.sms];
    ring.program.instructions[pc].opcode = 77;
    Bound bound(ring.program, on());
    double seconds = 0;
    EXPECT_THAT(fault_of(bound, seconds), HasSubstr("GPU: " + sm_of(rank, 0)));
    EXPECT_LT(seconds, 1);
  }
}

constexpr double kSoon_s = 0.3;  // for tests that wait for the time-out

// The last rank waits for a counter that is never incremented: all ranks end within the time-out, and the
// report names rank, SM and counter. The next launch is not affected.
TEST_P(PeersFault, NamesTheRankThatWaitsInVain) {
  RingProgram ring = ring_of(on(), {By::kLoads}, kFewLaps);
  Program& program = ring.program;
  const uint32_t last = ranks() - 1;
  Wait& wait =
      program.waits[program.instructions[program.queue_begin[last * program.machine.sms]].wait_begin];
  wait.threshold = 2;
  Bound bound(program, on(), kSoon_s);
  for (uint32_t launch = 0; launch < 2; ++launch) {
    double seconds = 0;
    const std::string what = fault_of(bound, seconds);
    EXPECT_THAT(what, HasSubstr(sm_of(last, 0)));
    EXPECT_THAT(what, HasSubstr("waits for counter " + std::to_string(wait.counter) + ": 1 of 2"));
    EXPECT_LT(seconds, 5);
  }
}

// An instruction of one rank never ends: all ranks end within the time-out, and the report names it, not the
// instructions that wait for it.
TEST_P(PeersFault, NamesTheInstructionThatNeverEnds) {
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    RanksProgram program(on());
    const Ring ring = add_ring(program, {By::kLoads}, kFewLaps);
    const uint32_t never = program.add_counter(0);
    program.add(rank * program.sms + 1, Code::kHang, Hang{program.add_vector(rank)}, {}, {never});
    Bound bound(program.finish(after(program.tick({after(ring.done), after(never)}))), on(), kSoon_s);
    double seconds = 0;
    EXPECT_THAT(fault_of(bound, seconds),
                AllOf(HasSubstr(sm_of(rank, 1)), HasSubstr("(hang)"), HasSubstr("do not finish")));
    EXPECT_LT(seconds, 5);
  }
  expect_relayed(on(), {By::kLoads}, kFewLaps, 100);
}

}  // namespace
}  // namespace serval::testing

// Programs of two devices, without Llama: what one hands to the other is there when it hears of it, and what
// is wrong on one ends both. On two GPUs where there are two, else as two ranks of one.
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "instructions/push_state/device.cuh"
#include "tests/device/gpus_of_ranks.h"
#include "tests/device/toy_isa.cuh"
#include "vm/base/error.h"
#include "vm/device/device_array.h"
#include "vm/device/interpreter.h"
#include "vm/layout/row_tiles.h"
#include "vm/state/names.h"

namespace serval::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr uint32_t kRanks = 2;
constexpr uint64_t kVectorBytes = kToyWords * sizeof(uint32_t);
constexpr auto kAnyOperand = 0xffffu;

using PeersIsa = device::IsaList<device::StreamList<ToyStream>, Relay, StorerRelay, Hang, Tick, PushState>;
enum class Code : uint16_t { kRelay, kStorerRelay, kHang, kTick, kPushState };

struct WithPeers : ManyRows {
  static constexpr bool kHasPeers = true;
};
const DeviceIsa& peers_isa() {
  static const DeviceKernelChoice kernel{device::device_kernel<PeersIsa, WithPeers, device::NoRecorder>(),
                                         {},
                                         WithPeers::kRows,
                                         WithPeers::kRingPages,
                                         nullptr};
  static const DeviceIsa isa{
      {&kernel, 1},
      [](const Program&, const Instruction&) { return std::string(); },
      [](uint16_t opcode) {
        constexpr const char* kNames[] = {"relay", "storer_relay", "hang", "tick", "push_state"};
        return opcode < std::size(kNames) ? kNames[opcode] : "unknown";
      }};
  return isa;
}

std::vector<int> gpus() {
  return gpus_of_ranks(kRanks);
}
uint32_t sms_of_rank() {
  int sms = 0;
  SERVAL_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  return static_cast<uint32_t>(gpus()[0] == gpus()[1] ? sms / 2 : sms);
}
void reach_each_other() {
  const int first = gpus().front(), second = gpus().back();
  if (first == second) return;
  for (const auto& [from, to] : {std::pair(first, second), std::pair(second, first)}) {
    use_gpu(from);
    (void)cudaDeviceEnablePeerAccess(to, 0);
    (void)cudaGetLastError();
  }
}

// A program put together by hand. Its first rank counts the passes; `end` is waited for before.
class TwoRanks {
 public:
  TwoRanks() : sms(sms_of_rank()), queues_(kRanks * sms) {
    program.machine = {.name = "toy", .sms = sms, .pages_per_sm = 1};
    program.num_devices = kRanks;
    program.limits = {.vocab = 1, .max_context = 1, .kv_blocks = 1, .rows = 1};
    for (uint8_t rank = 0; rank < kRanks; ++rank) {
      rows_[rank] = add_tensor(state_tensor::kRows, sizeof(PassRow), TensorKind::kState, rank);
      control_[rank] = add_tensor(state_tensor::kControl, sizeof(PassControl), TensorKind::kState, rank);
    }
    host_stop_ = add_tensor(state_tensor::kHostStop, sizeof(uint32_t), TensorKind::kState, 0);
  }

  TensorId add_tensor(const std::string& name, uint64_t bytes, TensorKind kind, uint8_t rank) {
    program.tensors.push_back(
        {.name = name, .rows = 1, .cols = bytes, .dtype = DType::kBytes, .kind = kind, .device = rank});
    return {static_cast<uint32_t>(program.tensors.size() - 1)};
  }
  TensorId add_vector(uint8_t rank) {
    return add_tensor("vector." + std::to_string(program.tensors.size()), kVectorBytes,
                      TensorKind::kActivation, rank);
  }
  uint32_t add_counter(uint8_t rank) {
    program.counters.push_back({.scope = CounterScope::kSystem, .device = rank});
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
  Program finish(uint32_t end) {
    const uint32_t ticked = add_counter(0), gate = add_counter(0);
    add_counter(1);
    add(0, Code::kTick, Tick{control_[0], host_stop_}, {{end, 1, kAnyOperand}}, {ticked});
    add(0, Code::kPushState, PushState{rows_[0], control_[0], rows_[1], control_[1], 1},
        {{ticked, 1, kAnyOperand}}, {gate, gate + 1});
    program.gate_counter = gate;
    program.queue_begin = {0};
    for (const std::vector<Item>& queue : queues_) {
      for (const Item& item : queue) append(item);
      program.queue_begin.push_back(static_cast<uint32_t>(program.instructions.size()));
    }
    return program;
  }

  Program program;
  const uint32_t sms;

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
  std::array<TensorId, kRanks> rows_, control_;
  TensorId host_stop_;
};

class Bound {
 public:
  explicit Bound(Program program) : program_(std::move(program)), memory_(program_.tensors.size()) {
    reach_each_other();
    DeviceOptions options{.stall_timeout_s = 1, .ranks = {}};
    for (const int gpu : gpus()) {
      use_gpu(gpu);
      options.ranks.push_back({gpu, streams_.emplace_back(std::make_unique<CudaStream>())->get()});
    }
    for (uint32_t t = 0; t < program_.tensors.size(); ++t) bind({t});
    interpreter_ = std::make_unique<DeviceInterpreter>(program_, peers_isa(), memory_, options);
  }
  // `before` is called on each rank's thread.
  uint32_t run(uint32_t passes, const std::function<void(uint32_t)>& before = {}) {
    const PassControl control{0, passes, kKeepRunning, 0};
    return interpreter_->run({1, passes, 1}, {}, {}, [&](uint32_t rank) {
      if (before) before(rank);
      void* to = memory_.base(*program_.find_tensor(state_tensor::kControl, static_cast<uint8_t>(rank)));
      SERVAL_CUDA_CHECK(
          cudaMemcpyAsync(to, &control, sizeof control, cudaMemcpyHostToDevice, streams_[rank]->get()));
    });
  }
  std::vector<uint32_t> read(TensorId vector) const {
    std::vector<uint32_t> words(kToyWords);
    SERVAL_CUDA_CHECK(cudaMemcpy(words.data(), memory_.base(vector), kVectorBytes, cudaMemcpyDeviceToHost));
    return words;
  }

 private:
  void bind(TensorId id) {
    const Tensor& tensor = program_.tensors[id.index];
    if (tensor.name == state_tensor::kHostStop) return memory_.bind(id, stop_.device_data());
    use_gpu(gpus()[tensor.device]);
    // The interpreter copies whole tiles of rows.
    buffers_.emplace_back(std::max<size_t>(tensor.bytes(), whole_row_tiles(1) * sizeof(PassRow)));
    memory_.bind(id, buffers_.back().data());
  }

  Program program_;
  DeviceMemory memory_;
  PinnedArray<uint32_t> stop_{1};
  std::vector<DeviceArray<std::byte>> buffers_;
  std::vector<std::unique_ptr<CudaStream>> streams_;
  std::unique_ptr<DeviceInterpreter> interpreter_;
};

enum class By { kLoads, kBulkCopy, kStorers };

// A vector goes to and fro between the ranks, pushed by each to the next, and comes back to where it began.
struct Ring {
  std::vector<TensorId> vectors;
  Program program;
};
Ring ring_of(const std::vector<By>& kinds, uint32_t length = 0) {
  TwoRanks ranks;
  Ring ring;
  if (length == 0) length = 2 * kRanks * ranks.sms;
  std::vector<uint32_t> done;
  for (uint32_t i = 0; i < length; ++i) {
    ring.vectors.push_back(ranks.add_vector(i % kRanks));
    done.push_back(ranks.add_counter((i + 1) % kRanks));
  }
  for (uint32_t i = 0; i < length; ++i) {
    const TensorId in = ring.vectors[i], out = ring.vectors[(i + 1) % length];
    const std::vector<Wait> waits =
        i == 0 ? std::vector<Wait>{} : std::vector<Wait>{{done[i - 1], 1, kAnyOperand}};
    const uint32_t sm = i % kRanks * ranks.sms + i / kRanks % ranks.sms;
    const By by = kinds[i % kinds.size()];
    if (by == By::kStorers) {
      ranks.add(sm, Code::kStorerRelay, StorerRelay{in, out, i, i % device::kStorerWarps + 1}, waits,
                {done[i]});
    } else {
      ranks.add(sm, Code::kRelay, Relay{in, out, by == By::kBulkCopy ? 1U : 0U}, waits, {done[i]});
    }
  }
  ring.program = ranks.finish(done.back());
  return ring;
}

void expect_relayed(const std::vector<By>& kinds) {
  const Ring ring = ring_of(kinds);
  Bound bound(ring.program);
  const auto length = static_cast<uint32_t>(ring.vectors.size());
  const uint32_t passes = std::min(kMostLaunchPasses, 1'000'000 / length + 1);
  for (uint32_t launch = 1; launch <= 2; ++launch) {
    ASSERT_EQ(bound.run(passes), passes);
    EXPECT_THAT(bound.read(ring.vectors[0]), Each(launch * passes * length));
  }
}

// Each two times 10^6 hand-overs from rank to rank: stores to the other's memory, release and acquire for the
// system, and then loads,
TEST(LitmusOfPeers, PlainLoadsAfterACounterSeeWhatWasPushedBeforeIt) {
  expect_relayed({By::kLoads});
}
// … bulk copies, with a proxy fence after the acquire,
TEST(LitmusOfPeers, BulkCopiesAfterACounterSeeWhatWasPushedBeforeIt) {
  expect_relayed({By::kBulkCopy});
}
// … and where several warps have stored, and the last of them signals.
TEST(LitmusOfPeers, TheLastStorersSignalIsForAll) {
  expect_relayed({By::kStorers, By::kStorers, By::kLoads, By::kStorers, By::kBulkCopy});
}

TEST(Peers, RunManyLaunchesOfOnePass) {
  const Ring ring = ring_of({By::kLoads}, 6);
  Bound bound(ring.program);
  for (uint32_t launch = 0; launch < 500; ++launch) ASSERT_EQ(bound.run(1), 1U);
  EXPECT_THAT(bound.read(ring.vectors[0]), Each(500 * 6));
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

TEST(Peers, AreCalledForOnAThreadEachWhoseGpuIsTheirs) {
  const Ring ring = ring_of({By::kLoads}, 6);
  Bound bound(ring.program);
  std::array<std::thread::id, kRanks> threads;
  std::array<int, kRanks> found{-1, -1};
  EXPECT_EQ(bound.run(1,
                      [&](uint32_t rank) {
                        threads[rank] = std::this_thread::get_id();
                        SERVAL_CUDA_CHECK(cudaGetDevice(&found[rank]));
                      }),
            1U);
  EXPECT_EQ(threads[0], std::this_thread::get_id());
  EXPECT_NE(threads[1], threads[0]);
  EXPECT_THAT(found, ElementsAreArray(gpus()));
}

// The kernel of the other rank is in flight, and would wait for this one's until the time-out.
TEST(Peers, AnErrorOfOneRanksThreadEndsAllAtOnce) {
  const Ring ring = ring_of({By::kLoads}, 6);
  Bound bound(ring.program);
  for (uint32_t bad = 0; bad < kRanks; ++bad) {
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

// An unknown opcode on one rank ends both at once.
TEST(PeersFault, OfOneRankEndsAll) {
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    Ring ring = ring_of({By::kLoads}, 6);
    const uint32_t pc = ring.program.queue_begin[rank * ring.program.machine.sms];
    ring.program.instructions[pc].opcode = 77;
    Bound bound(ring.program);
    double seconds = 0;
    EXPECT_THAT(fault_of(bound, seconds), HasSubstr("GPU: rank " + std::to_string(rank) + " SM 0, pass 0"));
    EXPECT_LT(seconds, 1);
  }
}

// The second rank waits for a counter that nothing adds to: both end within the time-out, and the report
// names rank, SM and counter. The next launch starts afresh.
TEST(PeersFault, NamesTheRankThatWaitsInVain) {
  Ring ring = ring_of({By::kLoads}, 6);
  Wait& wait =
      ring.program
          .waits[ring.program.instructions[ring.program.queue_begin[ring.program.machine.sms]].wait_begin];
  wait.threshold = 2;
  Bound bound(ring.program);
  for (uint32_t launch = 0; launch < 2; ++launch) {
    double seconds = 0;
    const std::string what = fault_of(bound, seconds);
    EXPECT_THAT(what, HasSubstr("rank 1 SM 0, pass 0, instruction"));
    EXPECT_THAT(what, HasSubstr("waits for counter " + std::to_string(wait.counter) + ": 1 of 2"));
    EXPECT_LT(seconds, 5);
  }
}

}  // namespace
}  // namespace serval::testing

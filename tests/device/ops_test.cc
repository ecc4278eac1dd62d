// Every instruction of the ISA, run by the device interpreter as a program of its own, against the host's
// handler on the same inputs: random tensors, random rows, instances of random sizes on random SMs. An
// instruction that joins the ISA is compared as soon as tests/instructions/scene.h has its stage, and fails
// here until then.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

#include "instructions/common/unit_softmax.h"
#include "instructions/device_isa.h"
#include "instructions/kernels.h"
#include "instructions/planned_attention/plan_launch.h"
#include "tests/device/gpu_tensors.h"
#include "tests/instructions/scene.h"
#include "vm/base/bf16.h"
#include "vm/device/interpreter.h"
#include "vm/layout/page_image.h"
#include "vm/layout/units.h"
#include "vm/state/masks.h"

namespace serval::testing {
namespace {

constexpr double kMostNmse = 2e-5;
// Of an fp32 result, as a share of the largest magnitude in its tensor: sums in another order.
constexpr double kMostSumError = 0x1p-20;
// The same of a GEMM's outputs, for each 1,024 columns: one chain of additions, which the tensor cores cut
// off instead of rounding.
constexpr double kMostChainError = 0x1p-18;
// Where bf16 roundings went before, such as those of attention's probabilities: now and then one goes the
// other way.
constexpr double kMostRoundedError = 0x1p-12;
// Of a bf16 result besides, as a share of itself.
constexpr double kBf16Ulp = 0x1p-7;
constexpr float kMostLogProbabilityError = 1e-4F;

using Memory = std::vector<std::vector<std::byte>>;  // one buffer a tensor

// A scene's tensors in GPU memory, and one instruction's instances as a program of one pass.
class DeviceScene {
 public:
  explicit DeviceScene(Scene& scene) : scene_(scene), tensors_(scene.bench), control_(one_pass()), stop_(1) {
    tensors_.pair_rows(scene.t.wq, scene.shape.head_dim);
    tensors_.pair_rows(scene.t.wk, scene.shape.head_dim);
    tensors_.upload();
    tensors_.pack_weights();
  }

  // Leaves what the instances wrote in the scene's memory.
  void run(const std::vector<Instruction>& instances, uint32_t sms) {
    const Program program = program_of(instances, sms);
    DeviceMemory memory(program.tensors.size());
    const size_t scene_tensors = scene_.bench.memory.size();
    for (uint32_t t = 0; t < scene_tensors; ++t) memory.bind({t}, tensors_.base({t}));
    memory.bind({static_cast<uint32_t>(scene_tensors)}, control_.data());
    memory.bind({static_cast<uint32_t>(scene_tensors + 1)}, stop_.device_data());
    DeviceInterpreter interpreter(program, device_isa(), memory, {.stall_timeout_s = 2, .ranks = {{}}});
    ASSERT_EQ(interpreter.run({row_bound(), 1, logit_bound(), single_rows(instances)}, {}), 1U);
    for (uint32_t t = 0; t < scene_tensors; ++t) {
      if (!is_immutable(scene_.bench.tensor({t}).kind)) tensors_.download({t});
    }
  }

 private:
  // The launch ends after its first pass, whatever the instances decide.
  static DeviceArray<PassControl> one_pass() {
    const PassControl control{.passes_done = 0, .passes_wanted = 1, .last_pass = 0, .stopped_by_host = 0};
    return DeviceArray<PassControl>(std::span(&control, 1));
  }

  // Instances are independent: all signal the gate. The interpreter reads a control and a stop word of its
  // own, so that instances may do to the scene's what they like.
  Program program_of(const std::vector<Instruction>& instances, uint32_t sms) const {
    Program p = scene_.bench.program;
    p.machine = h200_machine();
    p.machine.sms = sms;
    if (scene_.shape.tile_rows > 0) p.machine.pages_per_sm = gemm_ring_pages();
    p.limits = {scene_.shape.vocab, scene_.shape.max_context, scene_.kv_blocks, scene_.shape.rows,
                scene_.shape.sequences};
    p.tensors[scene_.t.control.index].name = "the scene's control";
    p.tensors[scene_.t.host_stop.index].name = "the scene's stop word";
    const auto add_state = [&](const char* name, uint64_t bytes) {
      p.tensors.push_back(
          {.name = name, .rows = 1, .cols = bytes, .dtype = DType::kBytes, .kind = TensorKind::kState});
    };
    add_state(state_tensor::kControl, sizeof(PassControl));
    add_state(state_tensor::kHostStop, sizeof(uint32_t));
    p.counters.push_back({.increments_per_pass = static_cast<uint32_t>(instances.size())});
    p.queue_begin = {0};
    for (uint32_t sm = 0; sm < sms; ++sm) {
      for (size_t i = sm; i < instances.size(); i += sms) {
        p.instructions.push_back(instances[i]);
        p.instructions.back().signal_begin = static_cast<uint32_t>(p.signals.size());
        p.instructions.back().signal_count = 1;
        p.signals.push_back({});
      }
      p.queue_begin.push_back(static_cast<uint32_t>(p.instructions.size()));
    }
    return p;
  }
  // Attention's list says whether its kernels for single rows may run; for what does not read it, they may.
  bool single_rows(const std::vector<Instruction>& instances) const {
    if (scene_.shape.tile_rows == 0) return false;
    if (instances.front().opcode != static_cast<uint16_t>(Opcode::kPlannedAttention))
      return instances.size() % 2 == 0;
    return has_single_rows(*scene_.bench.data<const AttentionList>(scene_.t.items));
  }
  uint32_t row_bound() const { return scene_.active_rows().back() + 1; }
  uint32_t logit_bound() const {
    uint32_t bound = 0;
    for (uint32_t r = 0; r < scene_.shape.rows; ++r) {
      if (row_wants_logits(scene_.rows()[r])) bound = r + 1;
    }
    return bound;
  }

  Scene& scene_;
  GpuTensors tensors_;
  DeviceArray<PassControl> control_;
  PinnedArray<uint32_t> stop_;
};

// What instances may write, given the pass.
Cover written_by(const Scene& scene, const std::vector<Instruction>& instances) {
  Cover cover = empty_cover(scene.bench);
  const StateView view = scene.view();
  for (const Instruction& i : instances) add_to_cover(scene.bench, footprint_of(i, &view), writes, cover);
  return cover;
}

double value_of(DType dtype, const std::byte* from) {
  if (dtype == DType::kBF16) {
    uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof bits);
    return bf16_to_float(bits);
  }
  float value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// How far results are from the host's, over all cases of an instruction.
class Tally {
 public:
  explicit Tally(Opcode opcode, bool tiled = false)
      : most_f32_error_(opcode == Opcode::kAttention ? kMostRoundedError
                        : tiled                      ? kMostChainError
                                                     : kMostSumError) {}
  // Of this shape are the results that follow.
  void take(const Shape& shape) {
    if (shape.tile_rows > 0)
      chain_panels_ =
          page_image::panels(std::max({shape.hidden, shape.intermediate, shape.q_heads * shape.head_dim}));
  }
  void add(DType dtype, const std::vector<double>& device, const std::vector<double>& host) {
    double largest = 0;
    for (const double h : host) largest = std::max(largest, std::abs(h));
    if (largest == 0) return;
    for (size_t i = 0; i < host.size(); ++i) {
      const double off = std::abs(device[i] - host[i]);
      const double allowed = dtype == DType::kBF16
                                 ? kMostRoundedError * largest + kBf16Ulp * std::abs(host[i])
                                 : most_f32_error_ * chain_panels_ * largest;
      if (!(off <= allowed)) ++too_far_;
      largest_share_ = std::max(largest_share_, off / allowed);
      square_ += off * off / (largest * largest);
      power_ += host[i] * host[i] / (largest * largest);
    }
    values_ += host.size();
  }
  void finish(const char* name) const {
    if (values_ == 0) return;
    fmt::print("[ figures  ] {}: {} values, NMSE {:.2g}, largest error {:.2g} of what is allowed\n", name,
               values_, square_ / power_, largest_share_);
    EXPECT_EQ(too_far_, 0U) << name;
    EXPECT_LE(square_, kMostNmse * power_) << name;
  }

 private:
  const double most_f32_error_;
  uint32_t chain_panels_ = 1;
  size_t values_ = 0, too_far_ = 0;
  double square_ = 0, power_ = 0, largest_share_ = 0;
};

void expect_same_samples(const std::vector<std::byte>& device, const std::vector<std::byte>& host) {
  for (size_t at = 0; at < host.size(); at += sizeof(SampledToken)) {
    SampledToken d, h;
    std::memcpy(&d, device.data() + at, sizeof d);
    std::memcpy(&h, host.data() + at, sizeof h);
    EXPECT_EQ(d.token, h.token) << "row " << at / sizeof(SampledToken);
    if (std::memcmp(&d, &h, sizeof d) == 0) continue;
    EXPECT_NEAR(d.log_probability, h.log_probability, kMostLogProbabilityError);
  }
}

// What the LM head leaves of a unit is the unit's, of the logits that it left.
void expect_units_of_logits(const Scene& scene, const Memory& device) {
  constexpr double kUlp = 0x1p-22;  // of an exponent's rounding, and of a few operations after it
  const uint32_t vocab = scene.shape.vocab;
  const auto* logits = reinterpret_cast<const float*>(device[scene.t.logits.index].data());
  const auto* units = reinterpret_cast<const UnitSoftmax*>(device[scene.t.unit_softmax.index].data());
  for (const uint32_t r : scene.active_rows()) {
    if (!row_wants_logits(scene.rows()[r])) continue;
    for (uint32_t u = 0; u < vocabulary_units(vocab); ++u) {
      const float* first = logits + size_t{r} * vocab + size_t{u} * kUnitRows;
      const UnitSoftmax want = unit_softmax({first, std::min(kUnitRows, vocab - u * kUnitRows)});
      const UnitSoftmax& got = units[r * vocabulary_units(vocab) + u];
      EXPECT_EQ(got.largest, want.largest) << "row " << r << ", unit " << u;
      EXPECT_EQ((std::bit_cast<uint32_t>(got.sum) ^ std::bit_cast<uint32_t>(want.sum)) & kFirstOfUnitMask,
                0U);
      EXPECT_NEAR(got.sum, want.sum, (4 + std::abs(want.largest)) * kUlp * want.sum)
          << "row " << r << ", unit " << u;
    }
  }
}

// Numbers are near the host's, anything else is the same; what the instances may not write is as it was.
void compare(const Scene& scene, const Cover& written, const Memory& device, const Memory& host,
             const Memory& before, Tally& tally) {
  for (uint32_t t = 0; t < host.size(); ++t) {
    const Tensor& tensor = scene.bench.tensor({t});
    if (is_immutable(tensor.kind)) continue;
    if (tensor.name == state_tensor::kSampled || tensor.name == state_tensor::kTop) {
      expect_same_samples(device[t], host[t]);
      continue;
    }
    if (t == scene.t.saved.index) continue;  // scratch memory, which the host does without
    const size_t bytes = size_of(tensor.dtype);
    const bool is_number = tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF32;
    std::vector<double> found, wanted;
    size_t changed = 0;
    for (size_t i = 0; i < written[t].size(); ++i) {
      const std::byte* d = device[t].data() + i * bytes;
      if (written[t][i] != 0 && t == scene.t.unit_softmax.index) continue;  // expect_units_of_logits()
      if (written[t][i] != 0 && is_number) {
        found.push_back(value_of(tensor.dtype, d));
        wanted.push_back(value_of(tensor.dtype, host[t].data() + i * bytes));
      } else {
        const Memory& same = written[t][i] != 0 ? host : before;
        if (std::memcmp(d, same[t].data() + i * bytes, bytes) != 0) ++changed;
      }
    }
    EXPECT_EQ(changed, 0U) << tensor.name << ": elements that are not the host's";
    tally.add(tensor.dtype, found, wanted);
  }
}

// Where a row has a mask, what it does not allow is -infinity afterwards, or what it was if it had been
// adjusted for a time; the host leaves logits alone.
void expect_masked(Scene& scene, const Memory& before, Memory& device) {
  const auto* was = reinterpret_cast<const float*>(before[scene.t.logits.index].data());
  auto* logits = reinterpret_cast<float*>(device[scene.t.logits.index].data());
  for (const uint32_t r : scene.active_rows()) {
    const PassRow& row = scene.rows()[r];
    const uint32_t extras = scene.slots()[row.slot].extras;
    if (!row_wants_logits(row) || (extras & kMasksTokens) == 0) continue;
    const bool adjusts = (extras & kAdjustsLogits) != 0;
    for (uint32_t token = 0; token < scene.shape.vocab; ++token) {
      if (mask_allows(scene.mask(row.slot), token)) continue;
      const size_t at = size_t{r} * scene.shape.vocab + token;
      const bool is_back = adjusts && logits[at] == was[at];
      if (is_back) continue;
      EXPECT_EQ(logits[at], -std::numeric_limits<float>::infinity()) << "row " << r << ", token " << token;
      logits[at] = was[at];
    }
  }
}

// Half of the time the active rows come first, as the engine places them; some want no logits.
void arrange_rows(Scene& scene, Random& random) {
  if (random.chance(0.5)) {
    std::stable_partition(scene.rows(), scene.rows() + scene.shape.rows, row_is_active);
    for (uint32_t r = scene.shape.logit_rows(); r < scene.shape.rows; ++r) scene.rows()[r].wants_logits = 0;
  }
  for (const uint32_t r : scene.active_rows()) {
    if (random.chance(0.2)) scene.rows()[r].wants_logits = 0;
  }
}

void compare_pass(Scene& scene, Opcode opcode, Random& random, Tally& tally) {
  const Stage stage = scene.stage(opcode);
  scene.poison_outputs(stage);
  const std::vector<Instruction> instances = split(stage, random);
  const Cover written = written_by(scene, instances);
  const Memory before = scene.bench.memory;
  DeviceScene device(scene);
  ASSERT_NO_FATAL_FAILURE(device.run(instances, random.pick<uint32_t>({1, 3, 132})));
  Memory found = scene.bench.memory;
  scene.bench.memory = before;
  scene.bench.run(instances);
  if (opcode == Opcode::kSample) expect_masked(scene, before, found);
  compare(scene, written, found, scene.bench.memory, before, tally);
  if (opcode == Opcode::kLmHead) expect_units_of_logits(scene, found);
}

// Residual rows that are no multiple of a panel, one that exceeds the shared memory of 16 rows, inputs of
// attention's projection that do so with fewer, both head dimensions, a vocabulary that is no multiple of 8.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {.hidden = 272,
       .intermediate = 48,
       .head_dim = 64,
       .q_heads = 8,
       .kv_heads = 2,
       .vocab = 203,
       .max_context = 300,
       .splits = 2,
       .epsilon = 1e-5F},
      {.hidden = 1040,
       .intermediate = 1040,
       .head_dim = 128,
       .q_heads = 3,
       .kv_heads = 3,
       .vocab = 61,
       .max_context = 130,
       .splits = 16,
       .epsilon = 1e-6F},
      {.hidden = 3072,
       .intermediate = 272,
       .head_dim = 64,
       .q_heads = 4,
       .kv_heads = 1,
       .vocab = 1001,
       .max_context = 70,
       .splits = 1,
       .epsilon = 1e-5F},
      {.hidden = 144,
       .intermediate = 16,
       .head_dim = 128,
       .q_heads = 64,
       .kv_heads = 8,
       .vocab = 9,
       .max_context = 66,
       .splits = 7,
       .epsilon = 1e-5F},
      {.hidden = 272,
       .intermediate = 144,
       .head_dim = 128,
       .q_heads = 112,
       .kv_heads = 16,
       .vocab = 300,
       .max_context = 64,
       .splits = 1,
       .epsilon = 1e-3F},
  };
  return all;
}

class Ops : public ::testing::TestWithParam<uint16_t> {};

TEST_P(Ops, HaveTheHostsResults) {
  const auto opcode = static_cast<Opcode>(GetParam());
  Random random(4711 + GetParam());
  Tally tally(opcode);
  for (const Shape& shape : shapes()) {
    Scene scene(shape, random);
    ASSERT_GT(scene.stages().size(), GetParam()) << "tests/instructions/scene.cc has no such stage";
    ASSERT_EQ(scene.stage(opcode).opcode, opcode) << "tests/instructions/scene.cc: stages out of order";
    for (const uint32_t rows : {1U, 2U, 3U, 5U, 8U, 16U}) {
      SCOPED_TRACE(fmt::format("{}; {} rows", shape.text(), rows));
      std::vector<uint32_t> positions(rows);
      for (uint32_t& p : positions) p = random.below(shape.max_context);
      scene.new_pass(random, positions);
      arrange_rows(scene, random);
      ASSERT_NO_FATAL_FAILURE(compare_pass(scene, opcode, random, tally));
    }
    SCOPED_TRACE(shape.text() + "; chunks of prompts");
    scene.new_pass(random);
    ASSERT_NO_FATAL_FAILURE(compare_pass(scene, opcode, random, tally));
  }
  tally.finish(op_name(GetParam()));
}

// Programs that multiply tiles of rows. Widths that are no multiple of a tile, vocabularies neither; heads of
// 64 of which a tile has a key's and a value's.
const std::vector<Shape>& tiled_shapes() {
  static const std::vector<Shape> all = {
      {.hidden = 320,
       .intermediate = 192,
       .head_dim = 64,
       .q_heads = 8,
       .kv_heads = 2,
       .vocab = 203,
       .max_context = 300,
       .splits = 2,
       .epsilon = 1e-5F,
       .rows = 256,
       .sequences = 100,
       .tile_rows = 256},
      {.hidden = 1088,
       .intermediate = 1088,
       .head_dim = 128,
       .q_heads = 3,
       .kv_heads = 3,
       .vocab = 500,
       .max_context = 130,
       .splits = 16,
       .epsilon = 1e-6F,
       .rows = 600,
       .sequences = 300,
       .tile_rows = 256},
      {.hidden = 576,
       .intermediate = 1536,
       .head_dim = 64,
       .q_heads = 9,
       .kv_heads = 3,
       .vocab = 128,
       .max_context = 64,
       .splits = 1,
       .epsilon = 1e-5F,
       .rows = 48,
       .sequences = 16,
       .tile_rows = 256},
      // An odd number of half tiles of gate and up, and panels of columns that are no multiple either.
      {.hidden = 1600,
       .intermediate = 1472,
       .head_dim = 128,
       .q_heads = 6,
       .kv_heads = 2,
       .vocab = 300,
       .max_context = 200,
       .splits = 3,
       .epsilon = 1e-5F,
       .rows = 64,
       .sequences = 40,
       .tile_rows = 256},
      // Inputs of attention's projection that are cut into up to four parts of their columns, the last one
      // shorter, and into two.
      {.hidden = 192,
       .intermediate = 128,
       .head_dim = 128,
       .q_heads = 31,
       .kv_heads = 1,
       .vocab = 97,
       .max_context = 90,
       .splits = 2,
       .epsilon = 1e-5F,
       .rows = 300,
       .sequences = 64,
       .tile_rows = 256},
      {.hidden = 1536,
       .intermediate = 64,
       .head_dim = 64,
       .q_heads = 18,
       .kv_heads = 2,
       .vocab = 90,
       .max_context = 70,
       .splits = 1,
       .epsilon = 1e-5F,
       .rows = 64,
       .sequences = 64,
       .tile_rows = 256},
      // Eight tiles of rows.
      {.hidden = 128,
       .intermediate = 192,
       .head_dim = 64,
       .q_heads = 2,
       .kv_heads = 1,
       .vocab = 61,
       .max_context = 400,
       .splits = 1,
       .epsilon = 1e-5F,
       .rows = 2048,
       .sequences = 512,
       .tile_rows = 256},
  };
  return all;
}

constexpr Opcode kTiled[] = {Opcode::kEmbed,      Opcode::kQkvRope,    Opcode::kQkvProject,
                             Opcode::kQkNormRope, Opcode::kMatvecPart, Opcode::kAddParts,
                             Opcode::kGateUpSilu, Opcode::kLmHead,     Opcode::kMatvecResidual,
                             Opcode::kSample,     Opcode::kAdvance};

class TiledOps : public ::testing::TestWithParam<Opcode> {};

TEST_P(TiledOps, HaveTheHostsResults) {
  const Opcode opcode = GetParam();
  Random random(815 + static_cast<uint32_t>(opcode));
  Tally tally(opcode, true);
  for (const Shape& shape : tiled_shapes()) {
    Shape whole = shape;
    whole.rows_of_sample = 7;
    Scene scene(whole, random);
    tally.take(whole);
    SCOPED_TRACE(whole.text());
    constexpr int kRandomPasses = 3;
    for (int pass = 0; pass < kRandomPasses; ++pass) {
      scene.new_pass(random);
      arrange_rows(scene, random);
      ASSERT_NO_FATAL_FAILURE(compare_pass(scene, opcode, random, tally));
    }
    SCOPED_TRACE("one row");
    scene.new_pass(random, {random.below(whole.max_context)});
    arrange_rows(scene, random);
    ASSERT_NO_FATAL_FAILURE(compare_pass(scene, opcode, random, tally));
  }
  tally.finish(op_name(static_cast<uint16_t>(opcode)));
}

INSTANTIATE_TEST_SUITE_P(Isa, TiledOps, ::testing::ValuesIn(kTiled), [](const auto& instance) {
  return std::string(op_name(static_cast<uint16_t>(instance.param)));
});

// But for those that only programs of tiles have (planned attention: planned_attention_test.cu), and what
// ranks exchange (ranks_test.cc).
std::vector<uint16_t> ops_of_few_rows() {
  constexpr Opcode kOthers[] = {Opcode::kPlannedAttention, Opcode::kPlannedMerge, Opcode::kMatvecPart,
                                Opcode::kAddParts,         Opcode::kMatvecPush,   Opcode::kReduceResidual,
                                Opcode::kPushState,        Opcode::kEmbedPush,    Opcode::kProjectPart,
                                Opcode::kRopeParts};
  std::vector<uint16_t> ops;
  for (uint16_t op = 0; op < kNumOpcodes; ++op) {
    if (std::ranges::find(kOthers, static_cast<Opcode>(op)) == std::end(kOthers)) ops.push_back(op);
  }
  return ops;
}
INSTANTIATE_TEST_SUITE_P(Isa, Ops, ::testing::ValuesIn(ops_of_few_rows()),
                         [](const auto& instance) { return std::string(op_name(instance.param)); });

}  // namespace
}  // namespace serval::testing

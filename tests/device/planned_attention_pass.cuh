// Planned attention and its merge in the interpreter without a model: a pass over random keys, on the GPU and
// on the host.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "instructions/isa.h"
#include "instructions/planned_attention/plan.h"
#include "instructions/planned_attention/sm90/device.cuh"
#include "instructions/planned_merge/device.cuh"
#include "instructions/product/formats/bf16/operands.cuh"
#include "instructions/product/formats/e4m3/operands.cuh"
#include "instructions/product/orders/sm90/tile_stream.cuh"
#include "tests/device/toy_isa.cuh"
#include "tests/device/toy_program.h"
#include "vm/base/bf16.h"
#include "vm/device/sm90/boxes.h"
#include "vm/host/memory.h"
#include "vm/layout/kv_cache.h"
#include "vm/layout/slab_image.h"

namespace serval::testing {

using AttentionIsa = device::IsaList<device::StreamList<device::tile_stream::Stream<device::formats::Bf16>>,
                                     PlannedAttention, PlannedMerge, Tick>;
enum class AttentionOpcode : uint16_t { kAttention, kMerge, kTick };

// Kernels with 128 KiB of scratch memory, and with 64.
template <uint32_t kHeadDimOf>
struct LargeScratch : device::TileConfig<2048, 256, 4, 128> {
  static constexpr bool kHasNarrowTiles = true;
  static constexpr uint32_t kHeadDim = kHeadDimOf;
};
template <uint32_t kHeadDimOf>
struct SmallScratch : device::TileConfig<2048, 128, 4, 64> {
  static constexpr bool kHasNarrowTiles = true;
  static constexpr uint32_t kHeadDim = kHeadDimOf;
};
// Like kernels for passes that only generate.
template <uint32_t kHeadDimOf>
struct SingleRows : LargeScratch<kHeadDimOf> {
  static constexpr bool kHasFullTiles = false;
};
template <uint32_t kHeadDimOf>
struct SmallSingleRows : device::TileConfig<2048, 128, 4, 96> {
  static constexpr bool kHasNarrowTiles = true;
  static constexpr uint32_t kHeadDim = kHeadDimOf;
  static constexpr bool kHasFullTiles = false;
};

template <class Config>
DeviceKernelChoice attention_kernel() {
  return {device::device_kernel<AttentionIsa, Config, device::NoRecorder>(),
          {},
          Config::kRows,
          1,
          [](const Program& program) { return program.heads.head_dim == Config::kHeadDim; }};
}

template <template <uint32_t> class Config>
const DeviceIsa& attention_isa() {
  static const std::array kernels = {attention_kernel<Config<64>>(), attention_kernel<Config<128>>()};
  static const DeviceIsa isa{
      kernels, [](const Program&, const Instruction&) { return std::string(); },
      [](uint16_t opcode) {
        constexpr const char* kNames[] = {"planned_attention", "planned_merge", "tick"};
        return opcode < std::size(kNames) ? kNames[opcode] : "unknown";
      },
      [](const Program& program) {
        std::vector<Boxes> boxes;
        for (const Tensor& t : program.tensors)
          boxes.push_back({t.kind == TensorKind::kKvCache ? BoxKind::kKvBlocks : BoxKind::kNone, {}});
        for (const Instruction& i : program.instructions) {
          if (i.opcode != static_cast<uint16_t>(AttentionOpcode::kAttention)) continue;
          const auto op = i.as<PlannedAttention>();
          boxes[op.q.index] = {BoxKind::kQueries};
        }
        return boxes;
      }};
  return isa;
}

struct Heads {
  uint32_t head_dim, kv_heads, group_heads;
  uint32_t q_cols() const { return kv_heads * group_heads * head_dim; }
};

// A sequence of `tokens` tokens; the last `rows` of them are consecutive rows of the pass.
struct Sequence {
  uint32_t tokens;
  uint32_t rows = 1;
};

// Rows of some sequences, the queries of the rows, and keys and values of all tokens. Blocks of the cache are
// in random order; parts that belong to no sequence are NaN.
struct AttentionPass {
  Heads heads;
  uint32_t max_context = 0, kv_blocks = 0, sequences = 0;
  std::vector<PassRow> rows;
  std::vector<int32_t> block_table;
  std::vector<uint16_t> q, k, v;

  AttentionPass(const Heads& of_heads, const std::vector<Sequence>& of, uint32_t seed, float q_scale = 1,
                bool poison = true)
      : heads(of_heads), sequences(static_cast<uint32_t>(of.size())) {
    std::mt19937 engine(seed);
    for (const Sequence& s : of) {
      max_context = std::max(max_context, s.tokens);
      kv_blocks += blocks_for_tokens(s.tokens);
    }
    block_table.assign(size_t{sequences} * blocks_for_tokens(max_context), -1);
    std::vector<int32_t> free(kv_blocks);
    for (uint32_t b = 0; b < kv_blocks; ++b) free[b] = static_cast<int32_t>(b);
    std::shuffle(free.begin(), free.end(), engine);
    constexpr uint16_t kNan = 0xffff;
    const size_t values = size_t{kv_blocks} * heads.kv_heads * kKvBlockTokens * heads.head_dim;
    k.assign(values, poison ? kNan : 0);
    v.assign(values, poison ? kNan : 0);
    for (uint32_t slot = 0; slot < sequences; ++slot) {
      for (uint32_t t = 0; t < of[slot].tokens; ++t) {
        int32_t& block = block_table[slot * blocks_for_tokens(max_context) + t / kKvBlockTokens];
        if (t % kKvBlockTokens == 0) {
          block = free.back();
          free.pop_back();
        }
        for (uint32_t h = 0; h < heads.kv_heads; ++h) {
          const uint64_t at =
              kv_offset(static_cast<uint64_t>(block), h, t % kKvBlockTokens, heads.kv_heads, heads.head_dim);
          for (uint32_t d = 0; d < heads.head_dim; ++d) {
            k[at + d] = random_bf16(engine, 1);
            v[at + d] = random_bf16(engine, 1);
          }
        }
      }
      for (uint32_t i = 0; i < of[slot].rows; ++i) {
        rows.push_back({.active = 1,
                        .wants_logits = 1,
                        .slot = slot,
                        .token = 0,
                        .position = of[slot].tokens - of[slot].rows + i});
      }
    }
    q.resize(rows.size() * heads.q_cols());
    for (uint16_t& x : q) x = random_bf16(engine, q_scale);
  }

  // Uses few bits of a fast generator, because there are many values.
  static uint16_t random_bf16(std::mt19937& engine, float scale) {
    const auto bits = static_cast<int32_t>(engine() >> 24) - 128;
    return float_to_bf16(static_cast<float>(bits) * (scale / 128));
  }
  ProgramShape shape() const {
    return {.limits = {.vocab = 1,
                       .max_context = max_context,
                       .kv_blocks = kv_blocks,
                       .rows = static_cast<uint32_t>(rows.size()),
                       .sequences = sequences},
            .order = Order::kTile,
            .heads = {heads.head_dim, heads.kv_heads * heads.group_heads, heads.kv_heads}};
  }
  AttentionPlanShape plan_shape(uint32_t records, uint32_t places) const {
    return {heads.group_heads, heads.kv_heads, records, places, static_cast<uint32_t>(rows.size())};
  }
  std::vector<std::byte> plan(uint32_t records, uint32_t places) const {
    std::vector<std::byte> memory(attention_list_bytes(static_cast<uint32_t>(rows.size())));
    plan_attention(
        plan_shape(records, places), rows, [](const PassRow& row) { return row.position; },
        *reinterpret_cast<AttentionList*>(memory.data()));
    return memory;
  }
  PlannedAttention attention(uint32_t record, uint32_t records, uint32_t places) const {
    PlannedAttention op{};
    op.record = record;
    op.records = records;
    op.places = places;
    op.scale = 1 / std::sqrt(static_cast<float>(heads.head_dim));
    return op;
  }
  static PlannedMerge merge_of(const PlannedAttention& a) {
    return {.partial = a.partial,
            .rows = a.rows,
            .items = a.items,
            .output = a.output,
            .record = a.record,
            .records = a.records,
            .places = a.places};
  }
};

// [rows, q_cols] bf16.
using Output = std::vector<uint16_t>;
inline constexpr uint16_t kUnwritten = 0x7fc1;  // a NaN that no instruction writes

inline Output host_attention(AttentionPass& pass, uint32_t records = 16) {
  constexpr uint32_t kPlaces = kAttentionPlaces;
  Output output(pass.rows.size() * pass.heads.q_cols(), kUnwritten);
  std::vector<std::byte> items = pass.plan(records, kPlaces);
  std::vector<float> partial(kPlaces * PlaceLayout{pass.heads.group_heads, pass.heads.head_dim}.cols());
  PlannedAttention op = pass.attention(0, records, kPlaces);
  Program program;
  static_cast<ProgramShape&>(program) = pass.shape();
  program.tensors.resize(8);
  HostMemory memory(program);
  uint32_t next = 0;
  const auto bind = [&](TensorId& id, void* base) {
    id = {next++};
    memory.bind(id, base);
  };
  bind(op.q, pass.q.data());
  bind(op.k_cache, pass.k.data());
  bind(op.v_cache, pass.v.data());
  bind(op.rows, pass.rows.data());
  bind(op.block_table, pass.block_table.data());
  bind(op.items, items.data());
  bind(op.partial, partial.data());
  bind(op.output, output.data());
  const auto run = [&](const Instruction& i) {
    const HostHandler& handler = *host_isa().handlers[i.opcode];
    const auto local = handler.make_local();
    handler.load(i, memory, *local);
    handler.compute(i, memory, *local);
    handler.store(i, memory, *local);
  };
  std::vector<std::thread> threads;
  for (op.record = 0; op.record < records; ++op.record)
    threads.emplace_back([&, op] { run(make_instruction(op)); });
  for (std::thread& t : threads) t.join();
  for (op.record = 0; op.record < records; ++op.record) run(make_instruction(AttentionPass::merge_of(op)));
  return output;
}

// The pass in GPU memory, and `layers` repetitions of attention and merge.
template <template <uint32_t> class Config>
class GpuAttention {
 public:
  // With `faults`, an SM finds a record with an unknown opcode when the last layer's attention begins, which
  // waits for inputs that never come.
  GpuAttention(const AttentionPass& pass, uint32_t records, uint32_t places, uint32_t layers = 1,
               bool faults = false)
      : pass_(pass),
        toy_(records + (faults ? 1 : 0), QueueKind::kPerSm, static_cast<uint32_t>(pass.rows.size())),
        program_(build(records, places, layers, faults)),
        memory_(program_) {
    memory_.write(op_.k_cache, pass.k);
    memory_.write(op_.v_cache, pass.v);
    memory_.write(op_.rows, pass.rows);
    memory_.write(op_.q, pass.q);
    memory_.write(op_.block_table, pass.block_table);
    memory_.write(op_.items, pass.plan(records, places));
    memory_.write(op_.output, std::vector<uint16_t>(image_bytes() / sizeof(uint16_t), kUnwritten));
    DeviceOptions options;
    options.stall_timeout_s = 2;
    interpreter_ =
        std::make_unique<DeviceInterpreter>(program_, attention_isa<Config>(), memory_.bound(), options);
  }

  // Replaces the planned items.
  void write_items(const std::vector<std::byte>& items) { memory_.write(op_.items, items); }
  void write_rows(const std::vector<PassRow>& rows) { memory_.write(op_.rows, rows); }
  double run() {
    write_control();
    EXPECT_EQ(interpreter_->run({rows(), 1, 1}, {}), 1U);
    return interpreter_->kernel_us();
  }
  void run_into_fault() {
    write_control();
    try {
      interpreter_->run({rows(), 1, 1}, {});
      FAIL() << "no fault";
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), ::testing::HasSubstr("opcode is unknown"));
    }
  }
  Output output() const {
    const auto image = memory_.read<uint16_t>(op_.output, image_bytes() / sizeof(uint16_t));
    const uint32_t cols = pass_.heads.q_cols();
    Output out(size_t{rows()} * cols);
    for (uint32_t r = 0; r < rows(); ++r) {
      for (uint32_t c = 0; c < cols; ++c)
        out[size_t{r} * cols + c] = image[slab_image::offset(rows(), cols, r, c) / sizeof(uint16_t)];
    }
    return out;
  }

 private:
  uint32_t rows() const { return static_cast<uint32_t>(pass_.rows.size()); }
  size_t image_bytes() const { return slab_image::bytes(rows(), pass_.heads.q_cols()); }

  void write_control() {
    memory_.write(*program_.find_tensor(state_tensor::kControl),
                  std::vector<PassControl>{{0, 1, kKeepRunning, 0}});
  }

  Program build(uint32_t records, uint32_t places, uint32_t layers, bool faults) {
    op_ = pass_.attention(0, records, places);
    op_.rows = {0};
    op_.q = toy_.add_vector(pass_.q.size() * sizeof(uint16_t));
    op_.k_cache = toy_.add_vector(pass_.k.size() * sizeof(uint16_t));
    op_.v_cache = toy_.add_vector(pass_.v.size() * sizeof(uint16_t));
    op_.block_table = toy_.add_vector(pass_.block_table.size() * sizeof(int32_t));
    op_.items = toy_.add_vector(attention_list_bytes(rows()));
    op_.partial = toy_.add_vector(places * place_layout(pass_.shape().heads).cols() * sizeof(float));
    op_.output = toy_.add_vector(image_bytes());
    std::vector<Wait> waits;
    for (uint32_t layer = 0; layer < layers; ++layer) {
      if (faults && layer + 1 == layers) {
        constexpr uint16_t kNoOpcode = 77;
        toy_.add(records, kNoOpcode, Tick{toy_.control, toy_.host_stop}, {waits, {}});
        waits.push_back({toy_.add_counter(), 1, 0xffff});
      }
      const uint32_t attended = toy_.add_counter(), merged = toy_.add_counter();
      for (op_.record = 0; op_.record < records; ++op_.record)
        toy_.add(op_.record, static_cast<uint16_t>(AttentionOpcode::kAttention), op_, {waits, {{attended}}});
      for (op_.record = 0; op_.record < records; ++op_.record)
        toy_.add(op_.record, static_cast<uint16_t>(AttentionOpcode::kMerge), AttentionPass::merge_of(op_),
                 {{{attended, records, 0xffff}}, {{merged}}});
      waits = {{merged, records, 0xffff}};
    }
    const uint32_t gate = toy_.add_counter();
    toy_.add(0, static_cast<uint16_t>(AttentionOpcode::kTick), Tick{toy_.control, toy_.host_stop},
             {waits, {{gate}}});
    Program program = toy_.finish(gate);
    static_cast<ProgramShape&>(program) = pass_.shape();
    Tensor& q = program.tensors[op_.q.index];
    q.rows = rows();
    q.cols = pass_.heads.q_cols();
    q.dtype = DType::kBF16;
    for (const TensorId cache : {op_.k_cache, op_.v_cache}) {
      Tensor& tensor = program.tensors[cache.index];
      tensor.rows = uint64_t{pass_.heads.kv_heads} * pass_.heads.head_dim;
      tensor.cols = uint64_t{pass_.kv_blocks} * kKvBlockTokens;
      tensor.dtype = DType::kBF16;
      tensor.kind = TensorKind::kKvCache;
      tensor.head_dim = pass_.heads.head_dim;
    }
    return program;
  }

  const AttentionPass& pass_;
  ToyProgram toy_;
  PlannedAttention op_{};
  Program program_;
  ToyMemory memory_;
  std::unique_ptr<DeviceInterpreter> interpreter_;
};

// Runs two layers: in the second, records are not the first of the pass on their SM, and begin before their
// inputs are complete.
template <template <uint32_t> class Config>
Output gpu_attention(const AttentionPass& pass, uint32_t records, uint32_t places = kAttentionPlaces) {
  GpuAttention<Config> gpu(pass, records, places, 2);
  gpu.run();
  return gpu.output();
}

inline uint32_t gpu_sms() {
  int sms = 0;
  SERVAL_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  return static_cast<uint32_t>(sms);
}

}  // namespace serval::testing

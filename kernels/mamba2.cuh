// The kernel of kernels/mamba2.h. Each of two warpgroups goes through the chunks of one head; both read the
// same c and b. With a_i, the sum of the logarithms of the chunk's decays up to token i:
//
//   y_i = Σ_{j ≤ i} exp(a_i - a_j) (c_i · b_j) x_j + exp(a_i) c_i · state
//   state = exp(a_63) state + Σ_j exp(a_63 - a_j) b_j x_jᵀ
#pragma once

#include "kernels/mamba2.h"
#include "vm/tiles/sm90/pipeline.cuh"

namespace serval::kernels {

using namespace tiles;

template <int kStateOf>
struct Mamba2 {
  static constexpr uint32_t kConsumers = 2, kStages = kStateOf == 64 ? 4 : 3, kBlocks = 1;
  static constexpr uint32_t kChunk = 64, kDim = 64, kState = kStateOf, kPanels = kState / 64;

  using Panel = SharedTile<Bf16, kChunk, 64>;
  using Vectors = warpgroup::SharedTile<Bf16, kChunk, kState>;  // c or b
  using Outputs = warpgroup::Accumulator<kChunk, kDim>;
  using Weights = warpgroup::RegisterTile<Bf16, kChunk, kChunk>;
  using StateSums = warpgroup::Accumulator<kState, kDim>;
  using Keys = warpgroup::RegisterTile<Bf16, kState, kChunk>;  // b, transposed
  using Decays = warpgroup::ColumnVector<Keys>;                // of each token

  struct Globals {
    TensorMap<Panel> c, b, x, y;
    const float* log_decay;
    Mamba2Shape shape;
  };
  struct Task {
    uint32_t row;        // first token, as a row of the matrices
    uint32_t head;       // first of two heads
    uint32_t vector;     // column of their c and b
    const float* decay;  // of the first head
  };
  struct Stage {
    Vectors c, b;
    Panel x[kConsumers];  // the outputs replace it
    float log_decay[kConsumers][kChunk];
  };
  struct Scratch {
    struct {
      SharedTile<Bf16, kState, kDim> state;
      float sums[kChunk];  // a, to the base 2
    } of[kConsumers];
  };
  struct State {
    StateSums sums;
  };

  static __host__ __device__ uint32_t tasks(const Globals& g) { return g.shape.batch * g.shape.heads / 2; }
  static __device__ Task task(const Globals& g, uint32_t index, uint32_t) {
    const auto& shape = g.shape;
    const uint32_t pairs = shape.heads / 2, batch = index / pairs, head = index % pairs * 2;
    return {batch * shape.tokens, head, head / (shape.heads / shape.groups) * kState,
            g.log_decay + (size_t{batch} * shape.heads + head) * shape.tokens};
  }
  static __device__ uint32_t steps(const Globals& g, const Task&) { return g.shape.tokens / kChunk; }
  static __device__ uint32_t bytes(const Globals&, const Task&, uint32_t) {
    return sizeof(Stage::c) + sizeof(Stage::b) + sizeof(Stage::x) + sizeof(Stage::log_decay);
  }
  static __device__ void load(const Globals& g, const Task& task, uint32_t step, Stage& stage,
                              const pipeline::Landing& landing) {
    const uint32_t token = step * kChunk, row = task.row + token;
    for (uint32_t i = 0; i < kPanels; ++i) {
      landing.load(stage.c.panel[i], g.c, row, task.vector + i * 64);
      landing.load(stage.b.panel[i], g.b, row, task.vector + i * 64);
    }
    for (uint32_t i = 0; i < kConsumers; ++i) {
      landing.load(stage.x[i], g.x, row, (task.head + i) * kDim);
      landing.load(stage.log_decay[i], task.decay + size_t{i} * g.shape.tokens + token,
                   sizeof(stage.log_decay[i]));
    }
  }
  static __device__ void store(const Globals& g, const Task& task, uint32_t step, Stage& stage) {
    const uint32_t row = task.row + step * kChunk;
    for (uint32_t i = 0; i < kConsumers; ++i) store_async(g.y, row, (task.head + i) * kDim, stage.x[i]);
  }
  static __device__ State begin(const Globals&, const warpgroup::Place&) {
    return {warpgroup::zeros<StateSums>()};
  }

  // Each warp sums up all 64 and stores 16.
  static __device__ __forceinline__ void sum_decays(float (&sums)[kChunk], const float (&log_decay)[kChunk],
                                                    const warpgroup::Place& place) {
    constexpr float kLog2E = 1.4426950408889634F;
    const float2 v = *reinterpret_cast<const float2*>(&log_decay[2 * place.lane]);
    const float2 sum = cumulative_sums(float2{v.x * kLog2E, v.y * kLog2E}, place.lane);
    if (place.lane / 8 == place.warp) *reinterpret_cast<float2*>(&sums[2 * place.lane]) = sum;
  }
  // exp(a_i - a_j) (c_i · b_j) where token j is not after token i. Others may be infinite on the way.
  static __device__ __forceinline__ Weights weights_of(Outputs& scores, const float (&sums)[kChunk],
                                                       const Decays& columns, const warpgroup::Place& place) {
    warpgroup::RowVector<Outputs> rows;
    warpgroup::load(rows, sums, place);
    warpgroup::map_rows_and_columns(scores, scores, rows, columns,
                                    [](float s, float i, float j) { return s * ptx::exp2(i - j); });
    warpgroup::map_rows(
        scores, scores, warpgroup::row_numbers<Outputs>(place),
        [](float s, uint32_t row, uint32_t col) { return col <= row ? s : 0; }, place.lane);
    Weights out;
    warpgroup::convert(out, scores);
    return out;
  }
  // exp(a_63 - a_j) b_j in column j
  static __device__ __forceinline__ Keys decayed_keys(const Vectors& b, const Decays& sums, float last,
                                                      const warpgroup::Place& place) {
    Keys out;
    warpgroup::load_transposed(out, b, place);
#pragma unroll
    for (int c = 0; c < Decays::kQuadrants; ++c) {
      const float2 a = sums.quadrant[c];
      const uint32_t decay = ptx::pack_bf16(ptx::exp2(last - a.x), ptx::exp2(last - a.y));
#pragma unroll
      for (auto& part : out.part) {
        for (auto& row : part.quadrant) row[c] = ptx::multiply_bf16(row[c], decay);
      }
    }
    return out;
  }

  static __device__ __forceinline__ void publish(SharedTile<Bf16, kState, kDim>& to, const State& state,
                                                 const warpgroup::Place& place) {
    warpgroup::RegisterTile<Bf16, kState, kDim> rounded;
    warpgroup::convert(rounded, state.sums);
    warpgroup::store(to, rounded, place);
  }
  static __device__ __forceinline__ void compute(const Globals&, const Task&, uint32_t step, Stage& stage,
                                                 State& state, Scratch& scratch,
                                                 const warpgroup::Place& place) {
    const warpgroup::Place at = place.opaque();
    auto& mine = scratch.of[place.index];
    Panel& x = stage.x[place.index];
    if (step == 0) {
      warpgroup::fill(state.sums, 0);
      publish(mine.state, state, at);
      ptx::fence_proxy_async_shared();
    }
    auto scoring = mma_abt_async(warpgroup::zeros<Outputs>(), stage.c, stage.b);
    sum_decays(mine.sums, stage.log_decay[place.index], at);
    place.sync();  // the sums, and the state that the chunk before has published

    Outputs scores = std::move(scoring).wait();
    const float last = mine.sums[kChunk - 1];
    warpgroup::map(state.sums, state.sums, [decay = ptx::exp2(last)](float v) { return v * decay; });
    auto before = mma_ab_async(warpgroup::zeros<Outputs>(), stage.c, mine.state);
    Decays sums;
    tiles::load(sums, mine.sums, at.lane);
    Keys keys = decayed_keys(stage.b, sums, last, at);
    auto update = mma_ab_async(std::move(state.sums), std::move(keys), x);
    Weights weights = weights_of(scores, mine.sums, sums, at);
    Outputs y = std::move(before).template wait<1>();
    warpgroup::RowVector<Outputs> rows;
    warpgroup::load(rows, mine.sums, at);
    warpgroup::map_rows(
        y, y, rows, [](float v, float a, uint32_t) { return v * ptx::exp2(a); }, at.lane);
    auto within = mma_ab_async(std::move(y), std::move(weights), x);

    state.sums = std::move(update).template wait<1>();
    Weights rounded;
    warpgroup::convert(rounded, std::move(within).wait());
    place.sync();  // all warps' products have read x and the state, and the warps have read the sums
    warpgroup::store(x, rounded, at);
    publish(mine.state, state, at);  // for the next chunk; the pipeline's fence and the barrier above follow
  }
};

}  // namespace serval::kernels

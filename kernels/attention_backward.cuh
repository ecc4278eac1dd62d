// The kernels of attention_backward(). With p = softmax(scale × q kᵀ), dp = d_out vᵀ and ds = p ∘ (dp −
// deltas):
//
//   dv = pᵀ d_out    dk = scale × dsᵀ q    dq = scale × ds k    deltas[i] = Σ d_out[i, .] ∘ out[i, .]
//
// p follows from the scores and the forward's log_sums. Three kernels in turn: prepare_backward() computes
// the deltas; a pass over tiles of keys, which goes through the queries, computes dk and dv; a pass over
// tiles of queries, which goes through the keys, computes dq. Each result is added up in the registers of one
// warpgroup, in a fixed order, at the price of two of seven products that both passes have.
#pragma once

#include "kernels/attention.h"
#include "kernels/attention_tiles.cuh"
#include "vm/tiles/sm90/pipeline.cuh"

namespace serval::kernels {

using namespace tiles;

inline constexpr uint32_t kBackwardRows = 128;  // of a tile; what the scratch memory's rows are padded to

// The forward's and the deltas' numbers of each query, in base 2 and negated: [heads][padded length].
struct QueryNumbers {
  float *log_sums, *deltas;
};

struct BackwardPreparation {
  const uint4 *out, *d_out;
  const float* log_sums;
  QueryNumbers to;
  uint32_t heads, length, padded;
};
// kHeadDim / 8 lanes have a row. Rows after a head's end get a weight of 0.
template <uint32_t kHeadDim>
__global__ void __launch_bounds__(256) prepare_backward(const __grid_constant__ BackwardPreparation g) {
  ptx::wait_for_kernels_before();
  ptx::let_next_kernel_start();
  constexpr uint32_t kLanes = kHeadDim / Segment::kElements;
  const uint32_t at = blockIdx.x * (blockDim.x / kLanes) + threadIdx.x / kLanes;
  const uint32_t segment = threadIdx.x % kLanes, head = at / g.padded, row = at % g.padded;
  float delta = 0, log_sum = INFINITY;
  if (head < g.heads && row < g.length) {
    const size_t from = size_t{head} * g.length + row;
    const auto product = [](float a, float b) { return a * b; };
    delta = add_up(map_segments(product, unpack<Bf16>(ptx::load_constant(g.out + from * kLanes + segment)),
                                unpack<Bf16>(ptx::load_constant(g.d_out + from * kLanes + segment))));
    log_sum = g.log_sums[from] * kLog2E;
  }
#pragma unroll
  for (uint32_t distance = 1; distance < kLanes; distance *= 2)
    delta += __shfl_xor_sync(kAllLanes, delta, distance);
  if (segment != 0 || head >= g.heads) return;
  g.to.log_sums[at] = log_sum;
  g.to.deltas[at] = -delta;
}

// A pass over tiles of 128 rows, 64 for each of two warpgroups. Rows have two matrices x and y, and so have
// the columns that the pass goes through: x is multiplied to scores, y to dp. kOfKeys: rows are keys (x = k,
// y = v) and columns are queries (x = q, y = d_out); otherwise the other way round.
template <uint32_t kHeadDim, bool kCausal, bool kOfKeys>
struct AttentionBackward {
  static constexpr uint32_t kConsumers = 2, kBlocks = 1;
  static constexpr bool kNeedsNoResults = !kOfKeys;  // both passes need those of prepare_backward() only
  static constexpr uint32_t kRows = kBackwardRows, kRowsOfConsumer = kRows / kConsumers;
  static constexpr uint32_t kCols = kOfKeys && kHeadDim == 128 ? 64 : 128;  // as registers allow
  static constexpr uint32_t kStages = 2 * 128 / kHeadDim * (128 / kCols);
  static constexpr uint32_t kBox = 64;  // rows of a copy

  using Panel = SharedTile<Bf16, kBox, warpgroup::kPanelCols<Bf16>>;
  using Map = TensorMap<Panel>;
  using Rows = warpgroup::SharedTile<Bf16, kRowsOfConsumer, kHeadDim>;
  using Columns = warpgroup::SharedTile<Bf16, kCols, kHeadDim>;
  using Scores = warpgroup::Accumulator<kRowsOfConsumer, kCols>;
  using Left = warpgroup::RegisterTile<Bf16, kRowsOfConsumer, kCols>;
  using Out = warpgroup::Accumulator<kRowsOfConsumer, kHeadDim>;
  template <uint32_t kQueries>
  struct Numbers {
    float log_sums[kQueries], deltas[kQueries];
  };
  struct Nothing {};

  struct Globals {
    Map row_x, row_y, col_x, col_y;
    QueryNumbers numbers;
    Bf16 *dx, *dy;  // of the rows; dy: of keys only
    AttentionShape shape;
    float scale;
  };
  struct Task {
    uint32_t row, length_begins;          // first row in the head; the head's first row of all rows
    uint32_t col_head, first_col, steps;  // the first head of the columns; first column; steps for each head
  };
  struct Stage {
    Columns x, y;
    std::conditional_t<kOfKeys, Numbers<kCols>, Nothing> numbers;
  };
  struct Scratch {
    Rows x[kConsumers], y[kConsumers];
    std::conditional_t<kOfKeys, Nothing, Numbers<kRowsOfConsumer>> numbers[kConsumers];
  };
  struct State {
    Out dx, dy;
    uint32_t step;  // of the head of the columns
  };

  static __host__ __device__ uint32_t row_heads(const Globals& g) {
    return g.shape.batch * (kOfKeys ? g.shape.kv_heads : g.shape.heads);
  }
  // Heads of queries that share a head of keys.
  static __host__ __device__ uint32_t group(const Globals& g) { return g.shape.heads / g.shape.kv_heads; }
  static __device__ uint32_t padded(const Globals& g) { return blocks_of(g.shape.length, kRows) * kRows; }
  static __host__ __device__ uint32_t tasks(const Globals& g) {
    return blocks_of(g.shape.length, kRows) * row_heads(g);
  }
  static __device__ Task task(const Globals& g, uint32_t index, uint32_t) {
    const uint32_t tiles = blocks_of(g.shape.length, kRows), blocks = blocks_of(g.shape.length, kCols);
    const auto [head, place] = head_tile<kCausal>(index, row_heads(g), tiles, gridDim.x);
    const uint32_t row = (kOfKeys ? place : tiles - 1 - place) * kRows;
    Task task{row, head * g.shape.length, kOfKeys ? head * group(g) : head / group(g), 0, blocks};
    if constexpr (kCausal && kOfKeys) {
      task.first_col = row;  // queries before it see none of these keys
      task.steps -= row / kCols;
    } else if constexpr (kCausal) {
      task.steps = min(blocks, (row + kRows) / kCols);
    }
    return task;
  }
  static __device__ uint32_t steps(const Globals& g, const Task& task) {
    return kOfKeys ? task.steps * group(g) : task.steps;
  }

  static constexpr uint32_t kScratches = 128 / kHeadDim;
  static constexpr uint32_t kTaskBytes =
      2 * kConsumers * sizeof(Rows) + (kOfKeys ? 0 : sizeof(Numbers<kRows>));
  static __device__ uint32_t bytes(const Globals&, const Task&, uint32_t) {
    return 2 * sizeof(Columns) + (kOfKeys ? sizeof(Numbers<kCols>) : 0);
  }
  static __device__ void load(const Globals& g, const Task& task, uint32_t step, Stage& stage,
                              const pipeline::Landing& landing) {
    const uint32_t head = task.col_head + step / task.steps;
    const uint32_t col = task.first_col + step % task.steps * kCols;
    load_rows(stage.x, g.col_x, head * g.shape.length + col, landing);
    load_rows(stage.y, g.col_y, head * g.shape.length + col, landing);
    if constexpr (kOfKeys) load_numbers(stage.numbers, g, size_t{head} * padded(g) + col, landing);
  }
  static __device__ void load_task(const Globals& g, const Task& task, Scratch& scratch,
                                   const pipeline::Landing& landing) {
    for (uint32_t i = 0; i < kConsumers; ++i) {
      const uint32_t row = task.row + i * kRowsOfConsumer;
      load_rows(scratch.x[i], g.row_x, task.length_begins + row, landing);
      load_rows(scratch.y[i], g.row_y, task.length_begins + row, landing);
      if constexpr (!kOfKeys) {
        const size_t head = task.length_begins / g.shape.length;
        load_numbers(scratch.numbers[i], g, head * padded(g) + row, landing);
      }
    }
  }
  template <class Tile>
  static __device__ void load_rows(Tile& to, const Map& from, uint32_t row,
                                   const pipeline::Landing& landing) {
    for (int p = 0; p < Tile::kPanels; ++p) {
      for (uint32_t box = 0; box < Tile::kRows; box += kBox)
        landing.load(warpgroup::rows_of<kBox>(to.panel[p], box), from, row + box, p * Panel::kCols);
    }
  }
  template <uint32_t kQueries>
  static __device__ void load_numbers(Numbers<kQueries>& to, const Globals& g, size_t from,
                                      const pipeline::Landing& landing) {
    landing.load(to.log_sums, g.numbers.log_sums + from, sizeof(to.log_sums));
    landing.load(to.deltas, g.numbers.deltas + from, sizeof(to.deltas));
  }

  static __device__ State begin(const Globals&, const warpgroup::Place&) {
    return {warpgroup::zeros<Out>(), warpgroup::zeros<Out>(), 0};
  }
  // dst = f(src, the query's number)
  template <class F>
  static __device__ __forceinline__ void map_queries(
      Scores& dst, const Scores& src, const float (&numbers)[kOfKeys ? kCols : kRowsOfConsumer],
      const warpgroup::Place& place, F&& f) {
    const auto of_element = [&](float v, float number, uint32_t) { return f(v, number); };
    if constexpr (kOfKeys) {
      warpgroup::ColumnVector<Scores> columns;
      tiles::load(columns, numbers, place.lane);
      warpgroup::map_columns(dst, src, columns, of_element, place);
    } else {
      warpgroup::RowVector<Scores> rows;
      warpgroup::load(rows, numbers, place);
      warpgroup::map_rows(dst, src, rows, of_element, place.lane);
    }
  }
  static __device__ __forceinline__ bool has_hidden(const Globals& g, const Task& task, uint32_t col) {
    if constexpr (kOfKeys) return kCausal && col < task.row + kRows;
    return (kCausal && col + kCols > task.row) || col + kCols > g.shape.length;
  }
  // Scores of keys that a query does not see become −∞.
  static __device__ __forceinline__ void hide(Scores& scores, const Globals& g, const Task& task,
                                              uint32_t col, const warpgroup::Place& place) {
    warpgroup::RowVector<Scores, int32_t> limit;  // column that is the row's own, or the last key
    const uint32_t first = task.row + place.index * kRowsOfConsumer + Scores::first_row(0, place.warp);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint32_t row = first + Scores::Part::row_of(place.lane, r, 0), last = g.shape.length - 1;
      limit.part[0].quadrant[r] =
          static_cast<int32_t>((kOfKeys || (kCausal && row < last) ? row : last) - col);
    }
    const auto seen = [](float v, int32_t most, uint32_t at) {
      return (kOfKeys ? static_cast<int32_t>(at) >= most : static_cast<int32_t>(at) <= most) ? v : -INFINITY;
    };
    warpgroup::map_rows(scores, scores, limit, seen, place.lane);
  }
  static __device__ void compute(const Globals& g, const Task& task, uint32_t step, Stage& stage,
                                 State& state, Scratch& scratch, const warpgroup::Place& place) {
    state.step = step == 0 || state.step + 1 == task.steps ? 0 : state.step + 1;  // a division takes long
    const uint32_t col = task.first_col + state.step * kCols;
    if (task.row + place.index * kRowsOfConsumer >= g.shape.length) return;  // this warpgroup has no rows
    const auto& numbers = [&]() -> const auto& {
      if constexpr (kOfKeys) {
        return stage.numbers;
      } else {
        return scratch.numbers[place.index];
      }
    }
    ();
    Scores weights, gradients = warpgroup::zeros<Scores>();
    map_queries(gradients, gradients, numbers.deltas, place, [](float, float delta) { return delta; });
    warpgroup::settle(gradients);
    auto scores = mma_abt_async(warpgroup::zeros<Scores>(), scratch.x[place.index], stage.x);
    auto differences = mma_abt_async(std::move(gradients), scratch.y[place.index], stage.y);  // dp − deltas
    weights = std::move(scores).template wait<1>();
    if (has_hidden(g, task, col)) hide(weights, g, task, col, place);
    map_queries(weights, weights, numbers.log_sums, place,
                [&](float v, float log_sum) { return ptx::exp2(fmaf(v, g.scale * kLog2E, -log_sum)); });
    Left left, right;
    if constexpr (kOfKeys) {
      warpgroup::convert(left, weights);
      auto dy = mma_ab_async(std::move(state.dy), std::move(left), stage.y);
      gradients = std::move(differences).template wait<1>();
      warpgroup::map(gradients, weights, gradients, [](float p, float d) { return p * d; });
      warpgroup::convert(right, gradients);
      auto dx = mma_ab_async(std::move(state.dx), std::move(right), stage.x);
      state.dy = std::move(dy).template wait<1>();
      state.dx = std::move(dx).wait();
    } else {
      warpgroup::settle(weights);
      gradients = std::move(differences).wait_after(weights.part[0].quadrant[0][0].x);
      warpgroup::map(gradients, weights, gradients, [](float p, float d) { return p * d; });
      warpgroup::convert(right, gradients);
      state.dx = mma_ab_async(std::move(state.dx), std::move(right), stage.x).wait();
    }
  }
  static __device__ void finish(const Globals& g, const Task& task, State& state, Scratch&,
                                const warpgroup::Place& place) {
    const uint32_t row = task.row + place.index * kRowsOfConsumer;
    const uint32_t rows = g.shape.length - min(row, g.shape.length);
    const size_t first = size_t{task.length_begins + row} * kHeadDim;
    warpgroup::map(state.dx, state.dx, [&](float v) { return v * g.scale; });
    warpgroup::store_rows(g.dx + first, kHeadDim, rows, state.dx, place);
    if constexpr (kOfKeys) warpgroup::store_rows(g.dy + first, kHeadDim, rows, state.dy, place);
    state = begin(g, place);
  }
};

}  // namespace serval::kernels

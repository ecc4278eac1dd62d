// The kernel of kernels/fft_convolution.h. With n = 64 n1 + n2, k = k1 + R k2 and W = exp(-2πi / length), the
// transform (with conjugate roots, which serves as well) is
//
//   X[k1, k2] = Σ_n2 W64^(-n2 k2) (W^(-n2 k1) Σ_n1 WR^(-n1 k1) x[n1, n2])
//
// A complex matrix F is a real one of twice its size, M = [Re F, Im F; -Im F, Re F], and F is symmetric, so
// one matrix serves for all: M [Re x; Im x] and [Re z, Im z] Mᵀ are products with the conjugate of F, [Re z,
// Im z] M is one with F, and M [Re p; -Im p] is one with F, of which the imaginary part has the other sign.
//
// A tile of 64 × 64 has 64 / R sequences; then the left F has blocks of R × R on its diagonal.
#pragma once

#include "kernels/fft_convolution.h"
#include "vm/tiles/sm90/pipeline.cuh"
#include "vm/tiles/sm90/warpgroup/fourier.cuh"

namespace serval::kernels {

using namespace tiles;

template <uint32_t kRadixOf>
struct FftConvolution {
  static constexpr uint32_t kConsumers = 2, kStages = 3, kBlocks = 1;
  static constexpr uint32_t kRadix = kRadixOf, kLength = kRadix * 64;
  static constexpr uint32_t kSequences = 2 * 64 / kRadix;  // of a warpgroup

  using Rows = SharedTile<Bf16, kRadix, 64>;    // a sequence
  using Sequences = SharedTile<Bf16, 128, 64>;  // the real parts, then the imaginary parts
  using Matrix = warpgroup::FourierMatrix<Bf16>;
  using Stacked = warpgroup::Accumulator<128, 64>;  // real above imaginary
  using Beside = warpgroup::Accumulator<64, 128>;   // real left of imaginary
  using Part = typename Stacked::Part;
  static constexpr int kQuadrants = Part::kQuadrantCols;

  struct Globals {
    TensorMap<Rows> x, y;
    const uint32_t* filter;
    FftConvolutionShape shape;
  };
  struct Task {
    uint32_t head, batch;  // first of 2 kSequences batch entries
  };
  struct Stage {
    Sequences x[kConsumers];  // the results replace it
    uint4 filter[kQuadrants][warpgroup::kThreads];
  };
  struct Scratch {
    Matrix left, right;
    warpgroup::Roots roots;
  };
  struct State {
    Part cos, sin;  // of 2π n2 k1 / length
    bool ready;     // the matrices are in the scratch memory
  };

  static __host__ __device__ uint32_t groups(const Globals& g) {
    return (g.shape.batch + kConsumers * kSequences - 1) / (kConsumers * kSequences);
  }
  static __host__ __device__ uint32_t tasks(const Globals& g) { return g.shape.heads * groups(g); }
  static __device__ Task task(const Globals& g, uint32_t index, uint32_t) {
    return {index / groups(g), index % groups(g) * (kConsumers * kSequences)};
  }
  static __device__ uint32_t steps(const Globals&, const Task&) { return 1; }
  // Calls fn(first row in the matrix, rows of the stage) for each sequence; rows after the last batch entry
  // are outside the matrix.
  template <class Fn>
  static __device__ __forceinline__ void for_sequences(const Globals& g, const Task& task, Stage& stage,
                                                       Fn&& fn) {
    uint32_t row = (task.batch * g.shape.heads + task.head) * kRadix;
    for (uint32_t i = 0; i < kConsumers * kSequences; ++i) {
      fn(row, warpgroup::rows_of<kRadix>(stage.x[i / kSequences], i % kSequences * kRadix));
      row += g.shape.heads * kRadix;
    }
  }
  static __device__ void load(const Globals& g, const Task& task, uint32_t, Stage& stage,
                              const pipeline::Landing& landing) {
    for_sequences(g, task, stage, [&](uint32_t row, Rows& to) { landing.load(to, g.x, row, 0); });
    landing.load(stage.filter, g.filter + size_t{task.head} * kPackedFilterElements, sizeof(stage.filter));
  }
  static __device__ void store(const Globals& g, const Task& task, uint32_t, Stage& stage) {
    for_sequences(g, task, stage, [&](uint32_t row, Rows& from) { store_async(g.y, row, 0, from); });
  }
  static __device__ State begin(const Globals&, const warpgroup::Place& place) {
    State state{};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint32_t k1 = (place.warp * 16 + Part::row_of(place.lane, r, 0)) % kRadix;
#pragma unroll
      for (int c = 0; c < kQuadrants; ++c) {
        float2 &cos = state.cos.quadrant[r][c], &sin = state.sin.quadrant[r][c];
        const auto angle = [&](int i) { return static_cast<float>(k1 * Part::col_of(place.lane, c, i)); };
        sincospif(angle(0) * (2.0F / kLength), &sin.x, &cos.x);
        sincospif(angle(1) * (2.0F / kLength), &sin.y, &cos.y);
      }
    }
    return state;
  }
  static __device__ void make_matrices(Scratch& scratch, const warpgroup::Place& place) {
    constexpr uint32_t kThreads = kConsumers * warpgroup::kThreads;
    const auto sync = [] { ptx::named_barrier_sync(warpgroup::kFreeBarrier, kThreads); };
    warpgroup::fill_roots(scratch.roots, place.thread());
    sync();
    warpgroup::fill_fourier<kRadix>(scratch.left, scratch.roots, place.thread(), kThreads);
    warpgroup::fill_fourier<64>(scratch.right, scratch.roots, place.thread(), kThreads);
    ptx::fence_proxy_async_shared();
    sync();
  }

  // The sequences' tile = [re; -im]
  static __device__ __forceinline__ void put(Sequences& to, const Part& re, const Part& im,
                                             const warpgroup::Place& place) {
    Stacked both{{re, im}};
    tiles::map(both.part[1], im, [](float v) { return -v; });
    warpgroup::RegisterTile<Bf16, 128, 64> rounded;
    warpgroup::convert(rounded, both);
    warpgroup::store(to, rounded, place);
  }
  static __device__ __forceinline__ void multiply_by_filter(Part& re, Part& im, const Stage& stage,
                                                            const warpgroup::Place& place) {
    Part c, s;
#pragma unroll
    for (int q = 0; q < kQuadrants; ++q) {
      const uint4 four = stage.filter[q][place.warp * kWarpThreads + place.lane];
      c.quadrant[0][q] = {ptx::bf16_low(four.x), ptx::bf16_low(four.y)};
      s.quadrant[0][q] = {ptx::bf16_high(four.x), ptx::bf16_high(four.y)};
      c.quadrant[1][q] = {ptx::bf16_low(four.z), ptx::bf16_low(four.w)};
      s.quadrant[1][q] = {ptx::bf16_high(four.z), ptx::bf16_high(four.w)};
    }
    multiply_complex(re, im, c, s);
  }
  static __device__ __forceinline__ Part half(const Beside& both, int first) {
    return warpgroup::columns<64>(both, first).part[0];
  }
  static __device__ __forceinline__ void compute(const Globals&, const Task&, uint32_t, Stage& stage,
                                                 State& state, Scratch& scratch,
                                                 const warpgroup::Place& place) {
    if (!state.ready) make_matrices(scratch, place);
    state.ready = true;
    Sequences& x = stage.x[place.index];

    Stacked z = mma_ab_async(warpgroup::fresh_zeros<Stacked>(), scratch.left, x).wait();
    multiply_complex(z.part[0], z.part[1], state.cos, state.sin);
    const Beside spectrum = mma_abt_async(warpgroup::fresh_zeros<Beside>(),
                                          warpgroup::beside<Bf16>(z.part[0], z.part[1]), scratch.right)
                                .wait();
    Part re = half(spectrum, 0), im = half(spectrum, 64);
    multiply_by_filter(re, im, stage, place);
    const Beside p =
        mma_ab_async(warpgroup::fresh_zeros<Beside>(), warpgroup::beside<Bf16>(re, im), scratch.right).wait();
    re = half(p, 0), im = half(p, 64);
    multiply_complex<true>(re, im, state.cos, state.sin);
    place.sync();  // all warps' first products have read x
    put(x, re, im, place);
    ptx::fence_proxy_async_shared();
    place.sync();
    const Stacked y = mma_ab_async(warpgroup::fresh_zeros<Stacked>(), scratch.left, x).wait();
    place.sync();
    put(x, y.part[0], y.part[1], place);
  }
};

}  // namespace serval::kernels

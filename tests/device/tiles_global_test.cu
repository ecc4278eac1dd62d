// Moves of the tile library to and from global memory: plain loads and stores, asynchronous ones, the copy
// engine.
#include "tests/device/tile_test.cuh"
#include "vm/tiles/sm90/bulk.cuh"
#include "vm/tiles/sm90/make_tensor_map.h"
#include "vm/tiles/sm90/tensor.cuh"

namespace serval::testing {
namespace {

using tiles::Coherence, tiles::GlobalTile, tiles::RegisterTile, tiles::SharedTile;

constexpr int kMargin = 8;  // columns of the matrix beyond the tile: strides are not widths

// Copies a tile of a wider matrix to another matrix, whose remaining elements must not change.
template <class T, int kRows, int kCols, class Body>
void check_move(Random& random, Body body) {
  constexpr int kStride = kCols + kMargin;
  const Matrix<T> x(kRows, kStride, random), before(kRows, kStride, random);
  const auto src = to_gpu(x), dst = to_gpu(before);
  on_warp(body, static_cast<const T*>(src.data()), dst.data(), static_cast<uint32_t>(kStride));
  expect_elements(dst, kRows, kStride,
                  [&](int r, int c) { return c < kCols ? x.at(r, c) : before.at(r, c); });
}

// --- registers

template <class Tile, Coherence kCoherence>
struct RegisterMove {
  using T = typename Tile::ElementType;
  __device__ void operator()(const T* src, T* dst, uint32_t stride) const {
    Tile x;
    tiles::load(x, GlobalTile<const T, kCoherence>{src, stride});
    tiles::store(GlobalTile<T>{dst, stride}, x);
  }
};

TEST(TilesGlobal, MovesRegisterTilesInEveryTypeAndLayout) {
  SERVAL_NEEDS_GPU();
  Random random(1);
  for_types<RegisterTile<float, 16, 16>, RegisterTile<float, 8, 64>, RegisterTile<Bf16, 16, 16>,
            RegisterTile<Bf16, 32, 64>, RegisterTile<Fp16, 16, 32>, RegisterTile<Bf16, 16, 16, Layout::kCol>,
            RegisterTile<Fp16, 64, 8, Layout::kCol>>([&]<class Tile>(std::type_identity<Tile>) {
    using T = typename Tile::ElementType;
    check_move<T, Tile::kRows, Tile::kCols>(random, RegisterMove<Tile, Coherence::kConstant>());
    check_move<T, Tile::kRows, Tile::kCols>(random, RegisterMove<Tile, Coherence::kGpu>());
  });
}

// Rows in reverse order, both of groups of eight and within them.
template <class T, Coherence kCoherence>
struct TermsMove {
  __device__ void operator()(const T* src, T* dst, uint32_t stride) const {
    RegisterTile<T, 16, 64> x;
    for (uint32_t eight = 0; eight < 2; ++eight) {
      const uint32_t row = 15 - x.row_of(tiles::lane_id(), eight, 0);
      tiles::load_terms<kCoherence>(x, eight, src + row * stride);
    }
    tiles::store(GlobalTile<T>{dst, stride}, x);
  }
};

TEST(TilesGlobal, LoadsTermsOfRowsThatLieAnywhere) {
  SERVAL_NEEDS_GPU();
  Random random(2);
  const auto check = [&]<class Move>(std::type_identity<Move>) {
    const Matrix<Bf16> x(16, 64, random);
    const auto src = to_gpu(x), dst = empty_on_gpu<Bf16>(16, 64);
    on_warp(Move(), static_cast<const Bf16*>(src.data()), dst.data(), 64U);
    expect_elements(dst, 16, 64, [&](int r, int c) { return x.at(15 - r, term_column(c)); });
  };
  for_types<TermsMove<Bf16, Coherence::kGpu>, TermsMove<Bf16, Coherence::kBlock>>(check);
}

// --- shared memory

template <class Tile, Coherence kCoherence>
struct SharedMove {
  using T = typename Tile::ElementType;
  __device__ void operator()(const T* src, T* dst, uint32_t stride) const {
    __shared__ Tile x;
    tiles::load(x, GlobalTile<const T, kCoherence>{src, stride});
    __syncwarp();
    tiles::store(GlobalTile<T>{dst, stride}, x);
  }
};
template <class Tile>
struct AsyncMove {
  using T = typename Tile::ElementType;
  // Two groups; the first is read while the second may still be in flight.
  __device__ void operator()(const T* src, T* dst, uint32_t stride) const {
    __shared__ Tile x, y;
    tiles::load_async(x, GlobalTile<const T>{src, stride});
    tiles::commit_async();
    tiles::load_async(y, GlobalTile<const T>{src, stride});
    tiles::commit_async();
    tiles::wait_async<1>();
    tiles::store(GlobalTile<T>{dst, stride}, x);
    tiles::wait_async<0>();
    tiles::store(GlobalTile<T>{dst, stride}, y);
  }
};

TEST(TilesGlobal, MovesSharedTilesAtOnceAndAsynchronously) {
  SERVAL_NEEDS_GPU();
  Random random(3);
  for_types<SharedTile<Bf16, 32, 64>, SharedTile<Bf16, 16, 128>, SharedTile<Fp16, 8, 64>,
            SharedTile<float, 16, 32>, SharedTile<float, 32, 64>, SharedTile<Bf16, 32, 16, tiles::NoSwizzle>>(
      [&]<class Tile>(std::type_identity<Tile>) {
        using T = typename Tile::ElementType;
        check_move<T, Tile::kRows, Tile::kCols>(random, SharedMove<Tile, Coherence::kConstant>());
        check_move<T, Tile::kRows, Tile::kCols>(random, SharedMove<Tile, Coherence::kGpu>());
        check_move<T, Tile::kRows, Tile::kCols>(random, AsyncMove<Tile>());
      });
}

// Loads `loaded` rows first, and rows `begin` to `end` - 1 later.
template <class Tile>
struct AsyncRowsMove {
  using T = typename Tile::ElementType;
  uint32_t loaded, begin, end;

  __device__ void operator()(const T* src, T* dst, uint32_t stride) const {
    __shared__ Tile x;
    const GlobalTile<const T> from{src, stride};
    tiles::load_async(x, from, loaded);
    tiles::commit_async();
    tiles::wait_async<0>();
    tiles::load_rows_async(x, from, begin, end);
    tiles::commit_async();
    tiles::wait_async<0>();
    tiles::store(GlobalTile<T>{dst, stride}, x);
  }
};

TEST(TilesGlobal, LoadsSomeRowsAsynchronouslyAndZeroesTheRest) {
  SERVAL_NEEDS_GPU();
  Random random(4);
  for_types<SharedTile<Bf16, 32, 64>, SharedTile<Bf16, 32, 64, tiles::TermSwizzle>,
            SharedTile<float, 16, 32>>([&]<class Tile>(std::type_identity<Tile>) {
    using T = typename Tile::ElementType;
    for (uint32_t loaded : {0U, 1U, 5U, 8U, static_cast<uint32_t>(Tile::kRows)}) {
      const uint32_t begin = std::min<uint32_t>(loaded + 2, Tile::kRows);
      const uint32_t end = std::min<uint32_t>(loaded + 9, Tile::kRows);
      const Matrix<T> x(Tile::kRows, Tile::kCols, random);
      const auto src = to_gpu(x), dst = empty_on_gpu<T>(Tile::kRows, Tile::kCols);
      on_warp(AsyncRowsMove<Tile>{loaded, begin, end}, static_cast<const T*>(src.data()), dst.data(),
              static_cast<uint32_t>(Tile::kCols));
      expect_elements(dst, Tile::kRows, Tile::kCols, [&](int r, int c) {
        const auto row = static_cast<uint32_t>(r);
        return row < loaded || (row >= begin && row < end) ? x.at(r, c) : 0.0F;
      });
    }
  });
}

// --- the copy engine

__device__ void init_barrier(uint64_t* barrier) {
  if (tiles::lane_id() == 0) {
    ptx::mbarrier_init(barrier, 1);
    ptx::fence_mbarrier_init();
  }
  __syncwarp();
}
__device__ void wait(uint64_t* barrier) {
  while (!ptx::mbarrier_try_wait(barrier, 0)) {
  }
}

// Copies between two shared tiles, so that the stored data was written by threads.
template <class Tile>
__device__ void copy_shared(Tile& dst, const Tile& src) {
  for (uint32_t n = tiles::lane_id(); n < Tile::kRows * Tile::kCols; n += kWarpThreads) {
    *dst.at(n / Tile::kCols, n % Tile::kCols) = *src.at(n / Tile::kCols, n % Tile::kCols);
  }
  ptx::fence_proxy_async_shared();
  __syncwarp();
}

template <class Tile>
struct BulkMove {
  using T = typename Tile::ElementType;
  __device__ void operator()(const T* src, T* dst, uint32_t stride) const {
    __shared__ Tile x, y;
    __shared__ uint64_t landed;
    init_barrier(&landed);
    if (tiles::lane_id() == 0) tiles::load_async(x, GlobalTile<const T>{src, stride}, &landed);
    wait(&landed);
    copy_shared(y, x);
    if (tiles::lane_id() != 0) return;
    tiles::store_async(GlobalTile<T>{dst, stride}, y);
    tiles::commit_stores();
    tiles::wait_stores<0>();
  }
};

TEST(TilesBulk, MovesRowsAndWholeTiles) {
  SERVAL_NEEDS_GPU();
  Random random(4);
  for_types<SharedTile<Bf16, 16, 64, tiles::NoSwizzle>, SharedTile<Fp16, 8, 128, tiles::NoSwizzle>,
            SharedTile<float, 32, 16, tiles::NoSwizzle>>([&]<class Tile>(std::type_identity<Tile>) {
    using T = typename Tile::ElementType;
    check_move<T, Tile::kRows, Tile::kCols>(random, BulkMove<Tile>());
    const Matrix<T> x(Tile::kRows, Tile::kCols, random);
    const auto src = to_gpu(x), dst = empty_on_gpu<T>(Tile::kRows, Tile::kCols);
    on_warp(BulkMove<Tile>(), static_cast<const T*>(src.data()), dst.data(),
            static_cast<uint32_t>(Tile::kCols));
    expect_elements(dst, Tile::kRows, Tile::kCols, [&](int r, int c) { return x.at(r, c); });
  });
}

template <class Tile>
__global__ void move_by_tensor_map(const __grid_constant__ tiles::TensorMap<Tile> src,
                                   const __grid_constant__ tiles::TensorMap<Tile> dst, uint32_t row,
                                   uint32_t col, typename Tile::ElementType* seen) {
  __shared__ Tile x, y;
  __shared__ uint64_t landed;
  init_barrier(&landed);
  if (tiles::lane_id() == 0) tiles::load_async(x, src, row, col, &landed);
  wait(&landed);
  tiles::store(GlobalTile<typename Tile::ElementType>{seen, Tile::kCols}, x);
  copy_shared(y, x);
  if (tiles::lane_id() != 0) return;
  tiles::store_async(dst, row, col, y);
  tiles::commit_stores();
  tiles::wait_stores<0>();
}

// A matrix of 3 × 2 tiles with a few rows and columns missing; moves the part of the tile at (row, col) that
// exists.
template <class Tile>
void check_tensor_map(Random& random, int row, int col) {
  using T = typename Tile::ElementType;
  const int rows = 3 * Tile::kRows - 5, cols = 2 * Tile::kCols - kMargin, stride = 2 * Tile::kCols;
  const Matrix<T> x(rows, stride, random), before(rows, stride, random);
  const auto src = to_gpu(x), dst = to_gpu(before), seen = empty_on_gpu<T>(Tile::kRows, Tile::kCols);
  const auto map = [&](const DeviceArray<T>& m) {
    return tiles::make_tensor_map<Tile>(m.data(), rows, cols, stride);
  };
  move_by_tensor_map<Tile><<<1, kWarpThreads>>>(map(src), map(dst), row, col, seen.data());
  SERVAL_CUDA_CHECK(cudaGetLastError());
  SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
  expect_elements(seen, Tile::kRows, Tile::kCols, [&](int r, int c) {
    return row + r < rows && col + c < cols ? x.at(row + r, col + c) : 0.0F;
  });
  expect_elements(dst, rows, stride, [&](int r, int c) {
    const bool moved = r >= row && r < row + Tile::kRows && c >= col && c < col + Tile::kCols && c < cols;
    return moved ? x.at(r, c) : before.at(r, c);
  });
}

TEST(TilesTensorMap, MovesTilesAndStopsAtTheMatrixEdge) {
  SERVAL_NEEDS_GPU();
  Random random(5);
  for_types<SharedTile<Bf16, 32, 64>, SharedTile<Fp16, 8, 64>, SharedTile<Bf16, 16, 32, tiles::NoSwizzle>,
            SharedTile<float, 16, 32, tiles::NoSwizzle>>([&]<class Tile>(std::type_identity<Tile>) {
    check_tensor_map<Tile>(random, 0, 0);
    check_tensor_map<Tile>(random, 3, Tile::kCols / 2);
    check_tensor_map<Tile>(random, 2 * Tile::kRows, Tile::kCols);
  });
}

TEST(TilesTensorMap, RefusesWhatTheCopyEngineCannotRead) {
  SERVAL_NEEDS_GPU();
  using Tile = SharedTile<Bf16, 32, 64>;
  const auto m = empty_on_gpu<Bf16>(64, 64);
  EXPECT_THROW(tiles::make_tensor_map<Tile>(m.data(), 64, 60, 60), Error);  // rows of 120 bytes
}

}  // namespace
}  // namespace serval::testing

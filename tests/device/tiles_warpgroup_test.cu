// Operations on tiles of a warpgroup (vm/tiles/sm90/warpgroup.cuh) against plain loops. Products are of small
// integers, so that they are exact.
#include <functional>
#include <string>

#include "tests/device/tile_test.cuh"
#include "vm/tiles/sm90/make_tensor_map.h"
#include "vm/tiles/sm90/warpgroup.cuh"
#include "vm/tiles/sm90/warpgroup/fourier.cuh"

namespace serval::testing {
namespace {

using tiles::warpgroup::kThreads;
namespace wg = tiles::warpgroup;

// Runs Body on one warpgroup with a shared memory of type Body::Shared.
template <class Body, class... Arguments>
__global__ void __launch_bounds__(kThreads, 1)
    run_warpgroup(const __grid_constant__ Body body, Arguments... arguments) {
  extern __shared__ __align__(1024) std::byte memory[];
  body(*reinterpret_cast<typename Body::Shared*>(memory), wg::place(), arguments...);
}
template <class Body, class... Arguments>
void on_warpgroup(const Body& body, Arguments... arguments) {
  constexpr int kBytes = sizeof(typename Body::Shared);
  SERVAL_CUDA_CHECK(cudaFuncSetAttribute(run_warpgroup<Body, Arguments...>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  run_warpgroup<<<1, kThreads, kBytes>>>(body, arguments...);
  SERVAL_CUDA_CHECK(cudaGetLastError());
  SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
}

// Element by element, with the layouts as types/ documents them: shared tiles and registers from and to
// row-major matrices.
template <class Tile, class T>
__device__ void fill_shared(Tile& to, const T* from) {
  using Panel = std::remove_cvref_t<decltype(wg::panel_of(to, 0))>;
  for (uint32_t i = threadIdx.x; i < Tile::kRows * Tile::kCols; i += kThreads) {
    const uint32_t row = i / Tile::kCols, col = i % Tile::kCols;
    auto& panel = const_cast<Panel&>(wg::panel_of(to, static_cast<int>(col / Panel::kCols)));
    *panel.at(row, col % Panel::kCols) = from[i];
  }
  ptx::fence_proxy_async_shared();
  __syncthreads();
}
template <class Tile, class T>
__device__ void read_shared(T* to, const Tile& from) {
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < Tile::kRows * Tile::kCols; i += kThreads) {
    const uint32_t row = i / Tile::kCols, col = i % Tile::kCols;
    const auto& panel = wg::panel_of(from, static_cast<int>(col / wg::kPanelCols<T>));
    to[i] = *panel.at(row, col % wg::kPanelCols<T>);
  }
}
// Calls fn(part, quadrant row, quadrant column, i, row, column) for each element of this thread.
template <class Tile, class Fn>
__device__ void for_elements(const wg::Place& place, Fn&& fn) {
  using Part = typename Tile::Part;
  for (int p = 0; p < Tile::kParts; ++p) {
    for (int r = 0; r < Part::kQuadrantRows; ++r) {
      for (int c = 0; c < Part::kQuadrantCols; ++c) {
        for (int i = 0; i < tiles::kLaneElements<typename Tile::ElementType>; ++i) {
          fn(p, r, c, i, Tile::first_row(p, place.warp) + Part::row_of(place.lane, r, i),
             Part::col_of(place.lane, c, i));
        }
      }
    }
  }
}
template <class Tile, class T>
__device__ void get_registers(Tile& to, const T* from, const wg::Place& place) {
  for_elements<Tile>(place, [&](int p, int r, int c, int i, uint32_t row, uint32_t col) {
    reinterpret_cast<T*>(&to.part[p].quadrant[r][c])[i] = from[row * Tile::kCols + col];
  });
}
template <class Tile, class T>
__device__ void put_registers(T* to, const Tile& from, const wg::Place& place) {
  for_elements<Tile>(place, [&](int p, int r, int c, int i, uint32_t row, uint32_t col) {
    to[row * Tile::kCols + col] = reinterpret_cast<const T*>(&from.part[p].quadrant[r][c])[i];
  });
}

// --- products

enum class From { kShared, kRegisters };

// out = 3 + a × b, twice: two products in flight one after another.
template <class T, int kRows, int kCols, int kTerms, From kFrom, bool kTransposed>
struct Product {
  struct Shared {
    wg::SharedTile<T, kRows, kTerms> a;
    std::conditional_t<kTransposed, wg::SharedTile<T, kTransposed ? kTerms : 8, kTransposed ? kCols : 128>,
                       wg::SharedTile<T, kCols, kTerms>>
        b;
  };
  template <class Sums>
  __device__ auto begin(Sums&& sums, const Shared& s, const wg::Place& place) const {
    if constexpr (kFrom == From::kRegisters) {
      wg::RegisterTile<T, kRows, kTerms> left;
      wg::load(left, s.a, place);
      if constexpr (kTransposed) {
        return wg::mma_ab_async(std::forward<Sums>(sums), std::move(left), s.b);
      } else {
        return wg::mma_abt_async(std::forward<Sums>(sums), std::move(left), s.b);
      }
    } else if constexpr (kTransposed) {
      return wg::mma_ab_async(std::forward<Sums>(sums), s.a, s.b);
    } else {
      return wg::mma_abt_async(std::forward<Sums>(sums), s.a, s.b);
    }
  }
  __device__ void operator()(Shared& s, const wg::Place& place, const T* a, const T* b, float* out) const {
    fill_shared(s.a, a);
    fill_shared(s.b, b);
    wg::Accumulator<kRows, kCols> sums;
    wg::fill(sums, 3);
    if constexpr (kFrom == From::kShared) {
      auto products = begin(std::move(sums), s, place);
      products = begin(std::move(products), s, place);
      sums = std::move(products).wait();
    } else {
      auto products = begin(std::move(sums), s, place);
      sums = begin(std::move(products), s, place).wait();  // both left operands are in registers
    }
    put_registers(out, sums, place);
  }
};

template <class T, int kRows, int kCols, int kTerms, From kFrom, bool kTransposed>
void expect_product() {
  for (const uint64_t seed : {1, 2, 3}) {
    Random random(seed);
    const Matrix<T> a(kRows, kTerms, random);
    const Matrix<T> b(kTransposed ? kTerms : kCols, kTransposed ? kCols : kTerms, random);
    const auto out = empty_on_gpu<float>(kRows, kCols);
    on_warpgroup(Product<T, kRows, kCols, kTerms, kFrom, kTransposed>(), to_gpu(a).data(), to_gpu(b).data(),
                 out.data());
    SCOPED_TRACE(std::to_string(kRows) + " x " + std::to_string(kCols) + ", " + std::to_string(kTerms) +
                 " terms" + (kFrom == From::kShared ? "" : ", a in registers"));
    expect_elements(out, kRows, kCols, [&](int row, int col) {
      float sum = 0;
      for (int t = 0; t < kTerms; ++t) sum += a.at(row, t) * (kTransposed ? b.at(t, col) : b.at(col, t));
      return 3 + 2 * sum;
    });
  }
}
template <class T, int kTerms, int... kCols>
void expect_products_abt() {
  (expect_product<T, 64, kCols, kTerms, From::kShared, false>(), ...);
  (expect_product<T, 64, kCols, kTerms, From::kRegisters, false>(), ...);
}
template <class T, int kTerms, int... kCols>
void expect_products_ab() {
  (expect_product<T, 64, kCols, kTerms, From::kShared, true>(), ...);
  (expect_product<T, 64, kCols, kTerms, From::kRegisters, true>(), ...);
}

TEST(TilesWarpgroup, MultipliesBf16) {
  SERVAL_NEEDS_GPU();
  expect_products_abt<Bf16, 64, 8, 16, 32, 64, 96, 128, 192, 256>();
  expect_products_ab<Bf16, 64, 64, 128, 192, 256>();
}
TEST(TilesWarpgroup, MultipliesFp16) {
  SERVAL_NEEDS_GPU();
  expect_products_abt<Fp16, 64, 8, 96, 256>();
  expect_products_ab<Fp16, 64, 64, 192>();
}
TEST(TilesWarpgroup, MultipliesE4m3) {
  SERVAL_NEEDS_GPU();
  expect_products_abt<E4m3, 128, 8, 16, 32, 64, 96, 128, 192, 256>();
}
TEST(TilesWarpgroup, MultipliesSeveralPanelsAndParts) {
  SERVAL_NEEDS_GPU();
  expect_product<Bf16, 64, 128, 192, From::kShared, false>();
  expect_product<Bf16, 64, 128, 128, From::kRegisters, true>();
  expect_product<Bf16, 128, 64, 128, From::kShared, false>();
  expect_product<Bf16, 128, 64, 64, From::kRegisters, true>();
  expect_product<E4m3, 128, 64, 256, From::kShared, false>();
  expect_product<E4m3, 64, 64, 256, From::kRegisters, false>();
}

// out = a × bᵀ for some columns of panels of b, twice: one product on other sums is in flight when the first
// is awaited.
template <int kCols, int kTerms>
struct ProductOfColumns {
  struct Shared {
    tiles::SharedTile<Bf16, 64, 64> a;
    tiles::SharedTile<Bf16, kCols, 64> b;
  };
  uint32_t first;
  __device__ void operator()(Shared& s, const wg::Place& place, const Bf16* a, const Bf16* b,
                             float* out) const {
    fill_shared(s.a, a);
    fill_shared(s.b, b);
    using Sums = wg::Accumulator<64, kCols>;
    wg::RegisterTile<Bf16, 64, 64> whole;
    wg::load(whole, s.a, place);
    auto left = wg::columns<kTerms>(whole, 0), same = left;
    auto one = wg::mma_abt_async(wg::zeros<Sums>(), std::move(left), wg::columns_of<kTerms>(s.b, first));
    auto two =
        wg::mma_abt_async(wg::fresh_zeros<Sums>(), std::move(same), wg::columns_of<kTerms>(s.b, first));
    put_registers(out, std::move(one).template wait<1>(), place);
    put_registers(out + 64 * kCols, std::move(two).wait(), place);
  }
};
template <int kCols, int kTerms>
void expect_product_of_columns() {
  for (uint32_t first = 0; first + kTerms <= 64; first += 16) {
    SCOPED_TRACE("columns from " + std::to_string(first));
    Random random(first);
    const Matrix<Bf16> a(64, 64, random), b(kCols, 64, random);
    const auto out = empty_on_gpu<float>(128, kCols);
    on_warpgroup(ProductOfColumns<kCols, kTerms>{first}, to_gpu(a).data(), to_gpu(b).data(), out.data());
    expect_elements(out, 128, kCols, [&](int row, int col) {
      float sum = 0;
      for (int t = 0; t < kTerms; ++t) sum += a.at(row % 64, t) * b.at(col, static_cast<int>(first) + t);
      return sum;
    });
  }
}
TEST(TilesWarpgroup, MultipliesColumnsOfPanels) {
  SERVAL_NEEDS_GPU();
  expect_product_of_columns<64, 16>();
  expect_product_of_columns<128, 32>();
  expect_product_of_columns<8, 48>();
}

// --- registers, conversions, shared memory

// out = aᵀ, through registers
template <class T, int kRows, int kCols>
struct Transposition {
  struct Shared {
    wg::SharedTile<T, kRows, kCols> a;
  };
  __device__ void operator()(Shared& s, const wg::Place& place, const T* a, T* out) const {
    fill_shared(s.a, a);
    wg::RegisterTile<T, kCols, kRows> tile;
    wg::load_transposed(tile, s.a, place);
    put_registers(out, tile, place);
  }
};
template <class T, int kRows, int kCols>
void expect_transposition() {
  SCOPED_TRACE(std::to_string(kRows) + " x " + std::to_string(kCols));
  Random random(kRows + kCols);
  Matrix<T> a(kRows, kCols);
  for (T& v : a.data) v = from_float<T>(static_cast<float>(random.real(-3, 3)));
  const auto out = empty_on_gpu<T>(kCols, kRows);
  on_warpgroup(Transposition<T, kRows, kCols>(), to_gpu(a).data(), out.data());
  expect_elements(out, kCols, kRows, [&](int row, int col) { return a.at(col, row); });
}
TEST(TilesWarpgroup, LoadsTransposes) {
  SERVAL_NEEDS_GPU();
  for_types<Bf16, Fp16>([]<class T>(std::type_identity<T>) {
    expect_transposition<T, 16, 64>();
    expect_transposition<T, 64, 64>();
    expect_transposition<T, 128, 192>();
  });
}

template <int kRows, int kCols>
struct Arithmetic {
  struct Shared {};
  // out: [5, kRows, kCols]; rows: [3, kRows]
  __device__ void operator()(Shared&, const wg::Place& place, const float* a, const float* b, float* out,
                             float* rows) const {
    using Tile = wg::Accumulator<kRows, kCols>;
    constexpr int kSize = kRows * kCols;
    Tile x, y, result;
    get_registers(x, a, place);
    get_registers(y, b, place);
    wg::map(result, x, [](float v) { return 2 * v; });
    put_registers(out, result, place);
    wg::map(result, x, y, [](float v, float w) { return v - w; });
    put_registers(out + kSize, result, place);
    wg::RowVector<Tile> sums, most, both;
    wg::reduce_rows<tiles::Sum>(sums, x);
    wg::reduce_rows<tiles::Max>(most, x);
    wg::map(both, sums, most, [](float v, float w) { return v + w; });
    wg::map_rows(result, x, most,
                 [](float v, float row, uint32_t col) { return v - row + static_cast<float>(col); });
    put_registers(out + 2 * kSize, result, place);
    put_registers(out + 3 * kSize, wg::zeros<Tile>(), place);
    for (int p = 0; p < Tile::kParts; ++p) {
      for (int r = 0; r < 2; ++r) {
        const uint32_t row = Tile::first_row(p, place.warp) + r * 8 + place.lane / 4;
        rows[row] = sums.part[p].quadrant[r];
        rows[kRows + row] = most.part[p].quadrant[r];
        rows[2 * kRows + row] = both.part[p].quadrant[r];
      }
    }
  }
};

template <int kRows, int kCols>
void expect_arithmetic() {
  SCOPED_TRACE(std::to_string(kRows) + " x " + std::to_string(kCols));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const Matrix<float> a(kRows, kCols, random), b(kRows, kCols, random);  // integers: sums are exact
    const auto out = empty_on_gpu<float>(4 * kRows, kCols), rows = empty_on_gpu<float>(3, kRows);
    on_warpgroup(Arithmetic<kRows, kCols>(), to_gpu(a).data(), to_gpu(b).data(), out.data(), rows.data());
    const auto sum = [&](int row) {
      float v = 0;
      for (int c = 0; c < kCols; ++c) v += a.at(row, c);
      return v;
    };
    const auto most = [&](int row) {
      float v = -INFINITY;
      for (int c = 0; c < kCols; ++c) v = std::max(v, a.at(row, c));
      return v;
    };
    expect_elements(rows, 3, kRows, [&](int which, int row) {
      return which == 0 ? sum(row) : which == 1 ? most(row) : sum(row) + most(row);
    });
    expect_elements(out, 4 * kRows, kCols, [&](int i, int col) {
      const int row = i % kRows;
      if (i / kRows == 0) return 2 * a.at(row, col);
      if (i / kRows == 1) return a.at(row, col) - b.at(row, col);
      if (i / kRows == 2) return a.at(row, col) - most(row) + static_cast<float>(col);
      return 0.0F;
    });
  }
}
TEST(TilesWarpgroup, MapsAndReducesRows) {
  SERVAL_NEEDS_GPU();
  expect_arithmetic<64, 8>();
  expect_arithmetic<64, 64>();
  expect_arithmetic<64, 256>();
  expect_arithmetic<128, 32>();
  expect_arithmetic<192, 24>();
}

// out[0] = a + its row's element of `rows`, out[1] = a × its column's element of `cols` + its row's number.
template <int kRows, int kCols>
struct Broadcasts {
  struct Shared {
    float rows[kRows], cols[kCols];
  };
  __device__ void operator()(Shared& s, const wg::Place& place, const float* a, const float* rows,
                             const float* cols, float* out) const {
    using Tile = wg::Accumulator<kRows, kCols>;
    for (uint32_t i = threadIdx.x; i < kRows; i += kThreads) s.rows[i] = rows[i];
    for (uint32_t i = threadIdx.x; i < kCols; i += kThreads) s.cols[i] = cols[i];
    __syncthreads();
    Tile x, result;
    get_registers(x, a, place);
    wg::RowVector<Tile> of_rows;
    wg::load(of_rows, s.rows, place);
    wg::map_rows(result, x, of_rows, [](float v, float row, uint32_t) { return v + row; });
    put_registers(out, result, place);
    wg::ColumnVector<Tile> of_cols;
    tiles::load(of_cols, s.cols, place.lane);
    const auto scaled = [](float v, float col, uint32_t row) { return v * col + static_cast<float>(row); };
    wg::map_columns(result, x, of_cols, scaled, place);
    put_registers(out + kRows * kCols, result, place);
  }
};
template <int kRows, int kCols>
void expect_broadcasts() {
  SCOPED_TRACE(std::to_string(kRows) + " x " + std::to_string(kCols));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const Matrix<float> a(kRows, kCols, random), rows(1, kRows, random), cols(1, kCols, random);
    const auto out = empty_on_gpu<float>(2 * kRows, kCols);
    on_warpgroup(Broadcasts<kRows, kCols>(), to_gpu(a).data(), to_gpu(rows).data(), to_gpu(cols).data(),
                 out.data());
    expect_elements(out, 2 * kRows, kCols, [&](int i, int col) {
      if (i < kRows) return a.at(i, col) + rows.at(0, i);
      return a.at(i - kRows, col) * cols.at(0, col) + static_cast<float>(i - kRows);
    });
  }
}
TEST(TilesWarpgroup, LoadsAndBroadcastsVectors) {
  SERVAL_NEEDS_GPU();
  expect_broadcasts<64, 8>();
  expect_broadcasts<64, 128>();
  expect_broadcasts<128, 64>();
}

// The first rows of a tile go to a part of a matrix in global memory.
template <class T, int kRows, int kCols>
struct StoreRows {
  struct Shared {};
  uint32_t stride, rows;

  __device__ void operator()(Shared&, const wg::Place& place, const float* a, T* to) const {
    wg::Accumulator<kRows, kCols> sums;
    get_registers(sums, a, place);
    wg::store_rows(to, stride, rows, sums, place);
  }
};
template <class T, int kRows, int kCols>
void expect_store_rows(uint32_t rows) {
  constexpr int kStride = kCols + 6, kHeight = kRows + 2, kRow = 1, kCol = 2;  // of the tile in the matrix
  Random random(rows);
  const Matrix<float> a = random_matrix(kRows, kCols, random);
  const auto out = empty_on_gpu<T>(kHeight, kStride);
  SERVAL_CUDA_CHECK(cudaMemset(out.data(), 0, out.size() * sizeof(T)));
  on_warpgroup(StoreRows<T, kRows, kCols>{kStride, rows}, to_gpu(a).data(),
               out.data() + kRow * kStride + kCol);
  expect_elements(out, kHeight, kStride, [&](int r, int c) {
    const int row = r - kRow, col = c - kCol;
    const bool stored = row >= 0 && row < std::min(static_cast<int>(rows), kRows) && col >= 0 && col < kCols;
    return stored ? to_float(from_float<T>(a.at(row, col))) : 0.0F;
  });
}
TEST(TilesWarpgroup, StoresTheFirstRows) {
  SERVAL_NEEDS_GPU();
  for (const uint32_t rows : {0U, 1U, 17U, 63U, 64U, 100U, 128U, 4000U}) {
    expect_store_rows<Bf16, 64, 128>(rows);
    expect_store_rows<Fp16, 128, 64>(rows);
  }
}
// out = a + 100 × row's element + column's element; numbers: of the rows
template <int kRows, int kCols>
struct RowsAndColumns {
  struct Shared {
    float rows[kRows], columns[kCols];
  };
  __device__ void operator()(Shared& s, const wg::Place& place, const float* a, const float* rows,
                             const float* columns, float* out, float* numbers) const {
    using Tile = wg::Accumulator<kRows, kCols>;
    for (uint32_t i = threadIdx.x; i < kRows; i += kThreads) s.rows[i] = rows[i];
    for (uint32_t i = threadIdx.x; i < kCols; i += kThreads) s.columns[i] = columns[i];
    __syncthreads();
    Tile tile;
    get_registers(tile, a, place);
    wg::RowVector<Tile> of_rows;
    wg::ColumnVector<Tile> of_columns;
    wg::load(of_rows, s.rows, place);
    tiles::load(of_columns, s.columns, place.lane);
    wg::map_rows_and_columns(tile, tile, of_rows, of_columns,
                             [](float v, float row, float column) { return v + 100 * row + column; });
    put_registers(out, tile, place);
    wg::map_rows(tile, tile, wg::row_numbers<Tile>(place),
                 [](float, uint32_t row, uint32_t col) { return static_cast<float>(row * kCols + col); });
    put_registers(numbers, tile, place);
  }
};
template <int kRows, int kCols>
void expect_rows_and_columns() {
  SCOPED_TRACE(std::to_string(kRows) + " x " + std::to_string(kCols));
  Random random(kRows + kCols);
  const Matrix<float> a(kRows, kCols, random), rows(1, kRows, random), columns(1, kCols, random);
  const auto out = empty_on_gpu<float>(kRows, kCols), numbers = empty_on_gpu<float>(kRows, kCols);
  on_warpgroup(RowsAndColumns<kRows, kCols>(), to_gpu(a).data(), to_gpu(rows).data(), to_gpu(columns).data(),
               out.data(), numbers.data());
  expect_elements(out, kRows, kCols, [&](int row, int col) {
    return a.at(row, col) + 100 * rows.at(0, row) + columns.at(0, col);
  });
  expect_elements(numbers, kRows, kCols,
                  [&](int row, int col) { return static_cast<float>(row * kCols + col); });
}
TEST(TilesWarpgroup, MapsWithVectorsOfRowsAndColumns) {
  SERVAL_NEEDS_GPU();
  expect_rows_and_columns<64, 64>();
  expect_rows_and_columns<128, 32>();
}

// The matrix of a Fourier transform, and [a, a] as an operand.
template <uint32_t kSize>
struct Fourier {
  struct Shared {
    wg::FourierMatrix<Bf16> matrix;
    wg::Roots roots;
  };
  __device__ void operator()(Shared& s, const wg::Place& place, const float* a, Bf16* matrix,
                             Bf16* both) const {
    wg::fill_roots(s.roots, threadIdx.x);
    __syncthreads();
    wg::fill_fourier<kSize, Bf16>(s.matrix, s.roots, threadIdx.x, kThreads);
    read_shared(matrix, s.matrix);
    wg::Accumulator<64, 64> tile;
    get_registers(tile, a, place);
    put_registers(both, wg::beside<Bf16>(tile.part[0], tile.part[0]), place);
  }
};
template <uint32_t kSize>
void expect_fourier() {
  SCOPED_TRACE("of " + std::to_string(kSize));
  Random random(kSize);
  const Matrix<float> a(64, 64, random);
  const auto matrix = empty_on_gpu<Bf16>(128, 128), both = empty_on_gpu<Bf16>(64, 128);
  on_warpgroup(Fourier<kSize>(), to_gpu(a).data(), matrix.data(), both.data());
  expect_elements(both, 64, 128, [&](int row, int col) { return a.at(row, col % 64); });
  const Matrix<Bf16> got(128, 128, matrix.download());
  for (int row = 0; row < 128; ++row) {
    for (int col = 0; col < 128; ++col) {
      const int j = row % 64, k = col % 64, n = static_cast<int>(kSize);
      const double angle = 2 * M_PI * j * k / n, sign = row < 64 ? -1 : 1;
      const bool zero = j / n != k / n;
      const double want = zero ? 0 : row / 64 == col / 64 ? std::cos(angle) : sign * std::sin(angle);
      ASSERT_NEAR(got.at(row, col), want, 1.0 / 256) << row << ", " << col;
    }
  }
}
TEST(TilesWarpgroup, MakesMatricesOfFourierTransforms) {
  SERVAL_NEEDS_GPU();
  expect_fourier<64>();
  expect_fourier<16>();
}

// out = a, converted; registers → shared memory → registers on the way.
template <class T, int kRows, int kCols>
struct Conversion {
  struct Shared {
    wg::SharedTile<T, kRows, kCols> tile;
  };
  __device__ void operator()(Shared& s, const wg::Place& place, const float* a, T* stored, T* loaded) const {
    wg::Accumulator<kRows, kCols> from;
    get_registers(from, a, place);
    wg::RegisterTile<T, kRows, kCols> to, back;
    wg::convert(to, from);
    wg::store(s.tile, to, place);
    read_shared(stored, s.tile);
    wg::load(back, s.tile, place);
    put_registers(loaded, back, place);
  }
};
template <class T, int kRows, int kCols>
void expect_conversion() {
  SCOPED_TRACE(std::to_string(kRows) + " x " + std::to_string(kCols));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const Matrix<float> a = random_matrix(kRows, kCols, random);
    const auto stored = empty_on_gpu<T>(kRows, kCols), loaded = empty_on_gpu<T>(kRows, kCols);
    on_warpgroup(Conversion<T, kRows, kCols>(), to_gpu(a).data(), stored.data(), loaded.data());
    const auto want = [&](int row, int col) { return to_float(from_float<T>(a.at(row, col))); };
    expect_elements(stored, kRows, kCols, want);
    expect_elements(loaded, kRows, kCols, want);
  }
}
TEST(TilesWarpgroup, ConvertsStoresAndLoads) {
  SERVAL_NEEDS_GPU();
  for_types<Bf16, Fp16>([]<class T>(std::type_identity<T>) {
    expect_conversion<T, 64, 64>();
    expect_conversion<T, 64, 256>();
    expect_conversion<T, 128, 128>();
  });
  expect_conversion<E4m3, 64, 128>();
  expect_conversion<E4m3, 128, 256>();
}

// Sums go to a matrix in global memory through shared memory and the copy engine.
template <int kRows, int kCols>
struct StoreThrough {
  using Buffer = tiles::SharedTile<Bf16, kRows, 64>;
  struct Shared {
    Buffer buffers[2];
  };
  tiles::TensorMap<Buffer> map;
  uint32_t row, col;

  __device__ void operator()(Shared& s, const wg::Place& place, const float* a) const {
    wg::Accumulator<kRows, kCols> sums;
    get_registers(sums, a, place);
    wg::store_through(s.buffers, map, row, col, sums, place);
    if (place.leads()) tiles::wait_stores<0>();
  }
};
template <int kRows, int kCols>
void expect_store_through(int rows, int cols, uint32_t row, uint32_t col) {
  Random random(7);
  const Matrix<float> a = random_matrix(kRows, kCols, random);
  const auto out = empty_on_gpu<Bf16>(rows, cols);
  SERVAL_CUDA_CHECK(cudaMemset(out.data(), 0, out.size() * sizeof(Bf16)));
  using Body = StoreThrough<kRows, kCols>;
  on_warpgroup(Body{tiles::make_tensor_map<typename Body::Buffer>(out.data(), rows, cols, cols), row, col},
               to_gpu(a).data());
  expect_elements(out, rows, cols, [&](int r, int c) {
    const int at = r - static_cast<int>(row), of = c - static_cast<int>(col);
    return at >= 0 && at < kRows && of >= 0 && of < kCols ? to_float(from_float<Bf16>(a.at(at, of))) : 0.0F;
  });
}
TEST(TilesWarpgroup, StoresThroughSharedMemoryWithinTheMatrix) {
  SERVAL_NEEDS_GPU();
  expect_store_through<64, 256>(64, 256, 0, 0);
  expect_store_through<64, 256>(200, 304, 100, 40);
  expect_store_through<64, 128>(70, 72, 33, 24);
  expect_store_through<128, 64>(128, 64, 0, 0);
}

}  // namespace
}  // namespace serval::testing

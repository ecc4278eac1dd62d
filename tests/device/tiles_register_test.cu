// Compares the tile library's operations on registers with host code, for various shapes, types and layouts.
#include "tests/device/tile_test.cuh"

namespace serval::testing {
namespace {

using tiles::Accumulator, tiles::RegisterTile, tiles::RowVector, tiles::ColumnVector;

template <class Fn>
void for_accumulators(Fn&& fn) {
  for_types<Accumulator<8, 8>, Accumulator<16, 16>, Accumulator<32, 8>, Accumulator<16, 64>,
            Accumulator<64, 32>>(fn);
}

// --- maps

template <class Tile>
struct Maps {
  __device__ void operator()(const float* a, const float* b, float* filled, float* unary, float* binary,
                             float* sum) const {
    Tile x, y, out;
    get(x, a);
    get(y, b);
    tiles::fill(out, 2.5F);
    put(filled, out);
    tiles::map(out, x, [](float v) { return 2 * v + 1; });
    put(unary, out);
    tiles::map(out, x, y, [](float v, float w) { return v * w - w; });
    put(binary, out);
    tiles::add(out, x, y);
    put(sum, out);
  }
};

TEST(TilesMap, ActsOnEachElement) {
  SERVAL_NEEDS_GPU();
  Random random(1);
  for_accumulators([&]<class Tile>(std::type_identity<Tile>) {
    constexpr int kRows = Tile::kRows, kCols = Tile::kCols;
    const Matrix<float> a(kRows, kCols, random), b(kRows, kCols, random);
    const auto filled = empty_on_gpu<float>(kRows, kCols), unary = empty_on_gpu<float>(kRows, kCols),
               binary = empty_on_gpu<float>(kRows, kCols), sum = empty_on_gpu<float>(kRows, kCols);
    const auto on_gpu_a = to_gpu(a), on_gpu_b = to_gpu(b);
    on_warp(Maps<Tile>(), on_gpu_a.data(), on_gpu_b.data(), filled.data(), unary.data(), binary.data(),
            sum.data());
    expect_elements(filled, kRows, kCols, [](int, int) { return 2.5F; });
    expect_elements(unary, kRows, kCols, [&](int r, int c) { return 2 * a.at(r, c) + 1; });
    expect_elements(binary, kRows, kCols, [&](int r, int c) { return a.at(r, c) * b.at(r, c) - b.at(r, c); });
    expect_elements(sum, kRows, kCols, [&](int r, int c) { return a.at(r, c) + b.at(r, c); });
  });
}

struct ColumnSums {
  __device__ void operator()(const float* wide, const float* narrow, float* sum) const {
    Accumulator<16, 64> x;
    Accumulator<16, 16> y;
    get(x, wide);
    get(y, narrow);
    tiles::add_columns(x, y, 16);
    tiles::add_columns(x, y, 40);
    put(sum, x);
  }
};

TEST(TilesMap, AddsToSomeColumns) {
  SERVAL_NEEDS_GPU();
  Random random(7);
  const Matrix<float> wide(16, 64, random), narrow(16, 16, random);
  const auto gpu_wide = to_gpu(wide), gpu_narrow = to_gpu(narrow), sum = empty_on_gpu<float>(16, 64);
  on_warp(ColumnSums(), gpu_wide.data(), gpu_narrow.data(), sum.data());
  expect_elements(sum, 16, 64, [&](int r, int c) {
    const int first = c < 40 ? 16 : 40;
    return wide.at(r, c) + (c >= first && c < first + 16 ? narrow.at(r, c - first) : 0);
  });
}

template <class Tile>
struct MapsWithVectors {
  __device__ void operator()(const float* tile, const float* row_values, const float* col_values,
                             float* by_rows, float* by_columns) const {
    Tile x, out;
    RowVector<Tile> of_rows;
    ColumnVector<Tile> of_columns;
    get(x, tile);
    get(of_rows, row_values);
    get(of_columns, col_values);
    tiles::map_rows(out, x, of_rows, [](float v, float w, uint32_t col) { return v * w + col; });
    put(by_rows, out);
    tiles::map_columns(out, x, of_columns, [](float v, float w, uint32_t row) { return v * w + row; });
    put(by_columns, out);
  }
};

TEST(TilesMap, CombinesRowsAndColumnsWithVectors) {
  SERVAL_NEEDS_GPU();
  Random random(2);
  for_accumulators([&]<class Tile>(std::type_identity<Tile>) {
    constexpr int kRows = Tile::kRows, kCols = Tile::kCols;
    const Matrix<float> x(kRows, kCols, random), of_rows(1, kRows, random), of_columns(1, kCols, random);
    const auto by_rows = empty_on_gpu<float>(kRows, kCols), by_columns = empty_on_gpu<float>(kRows, kCols);
    const auto gpu_x = to_gpu(x), gpu_rows = to_gpu(of_rows), gpu_columns = to_gpu(of_columns);
    on_warp(MapsWithVectors<Tile>(), gpu_x.data(), gpu_rows.data(), gpu_columns.data(), by_rows.data(),
            by_columns.data());
    expect_elements(by_rows, kRows, kCols, [&](int r, int c) { return x.at(r, c) * of_rows.at(0, r) + c; });
    expect_elements(by_columns, kRows, kCols,
                    [&](int r, int c) { return x.at(r, c) * of_columns.at(0, c) + r; });
  });
}

template <class Vector>
struct VectorMaps {
  __device__ void operator()(const float* a, const float* b, float* filled, float* product) const {
    Vector x, y, out;
    get(x, a);
    get(y, b);
    tiles::fill(out, -1.5F);
    put(filled, out);
    tiles::map(out, x, y, [](float v, float w) { return v * w; });
    put(product, out);
  }
};

TEST(TilesMap, ActsOnVectors) {
  SERVAL_NEEDS_GPU();
  Random random(3);
  using tiles::Along, tiles::RegisterVector;
  for_types<RegisterVector<float, 8, Along::kPairs>, RegisterVector<float, 64, Along::kPairs>,
            RegisterVector<float, 8, Along::kSingles>, RegisterVector<float, 32, Along::kSingles>>(
      [&]<class Vector>(std::type_identity<Vector>) {
        constexpr int kLength = Vector::kLength;
        const Matrix<float> a(1, kLength, random), b(1, kLength, random);
        const auto filled = empty_on_gpu<float>(kWarpThreads, kLength),
                   product = empty_on_gpu<float>(kWarpThreads, kLength);
        const auto gpu_a = to_gpu(a), gpu_b = to_gpu(b);
        on_warp(VectorMaps<Vector>(), gpu_a.data(), gpu_b.data(), filled.data(), product.data());
        expect_vector<Vector::kAlong>(filled, kLength, [](int) { return -1.5F; });
        expect_vector<Vector::kAlong>(product, kLength, [&](int i) { return a.at(0, i) * b.at(0, i); });
      });
}

// --- reductions

template <class Reduction, class Tile>
struct Reductions {
  __device__ void operator()(const float* tile, float* by_rows, float* by_columns) const {
    Tile x;
    get(x, tile);
    RowVector<Tile> rows;
    tiles::reduce_rows<Reduction>(rows, x);
    put(by_rows, rows);
    ColumnVector<Tile> columns;
    tiles::reduce_columns<Reduction>(columns, x);
    put(by_columns, columns);
  }
};

// Integers: the order of the additions does not matter.
TEST(TilesReduce, SumsAndMaximaOverRowsAndColumns) {
  SERVAL_NEEDS_GPU();
  Random random(4);
  for_types<tiles::Sum, tiles::Max>([&]<class Reduction>(std::type_identity<Reduction>) {
    const auto fold = [](float a, float b) {
      return std::is_same_v<Reduction, tiles::Sum> ? a + b : std::fmax(a, b);
    };
    for_accumulators([&]<class Tile>(std::type_identity<Tile>) {
      constexpr int kRows = Tile::kRows, kCols = Tile::kCols;
      const Matrix<float> x(kRows, kCols, random);
      const auto gpu_x = to_gpu(x);
      const auto rows = empty_on_gpu<float>(kWarpThreads, kRows),
                 columns = empty_on_gpu<float>(kWarpThreads, kCols);
      on_warp(Reductions<Reduction, Tile>(), gpu_x.data(), rows.data(), columns.data());
      expect_vector<RowVector<Tile>::kAlong>(rows, kRows, [&](int r) {
        float v = x.at(r, 0);
        for (int c = 1; c < kCols; ++c) v = fold(v, x.at(r, c));
        return v;
      });
      expect_vector<ColumnVector<Tile>::kAlong>(columns, kCols, [&](int c) {
        float v = x.at(0, c);
        for (int r = 1; r < kRows; ++r) v = fold(v, x.at(r, c));
        return v;
      });
    });
  });
}

// --- conversions

template <class T, int kRows, int kCols>
struct Conversions {
  using Float = Accumulator<kRows, kCols>;
  using Row = RegisterTile<T, kRows, kCols, Layout::kRow>;

  __device__ void operator()(const float* src, T* rounded, float* widened) const {
    Float x, wide;
    get(x, src);
    Row row;
    tiles::convert(row, x);
    put(rounded, row);
    tiles::convert(wide, row);
    put(widened, wide);
  }
};

template <class T, int kRows, int kCols>
void check_conversions(Random& random) {
  const Matrix<float> x = random_matrix(kRows, kCols, random);
  const auto src = to_gpu(x);
  const auto rounded = empty_on_gpu<T>(kRows, kCols);
  const auto widened = empty_on_gpu<float>(kRows, kCols);
  on_warp(Conversions<T, kRows, kCols>(), src.data(), rounded.data(), widened.data());
  const auto want = [&](int r, int c) { return to_float(from_float<T>(x.at(r, c))); };
  expect_elements(rounded, kRows, kCols, want);
  expect_elements(widened, kRows, kCols, want);
}

TEST(TilesConvert, RoundsToNearestAndKeepsElementsInTheirPlaces) {
  SERVAL_NEEDS_GPU();
  Random random(5);
  for_types<Bf16, Fp16>([&]<class T>(std::type_identity<T>) {
    check_conversions<T, 8, 8>(random);
    check_conversions<T, 16, 16>(random);
    check_conversions<T, 32, 8>(random);
    check_conversions<T, 16, 64>(random);
    check_conversions<T, 64, 32>(random);
  });
}

// --- products

template <class T, int kM, int kN, int kK>
struct Products {
  template <int kRows, int kCols, Layout kLayout>
  using Operand = RegisterTile<T, kRows, kCols, kLayout>;

  __device__ void operator()(const T* a, const T* at, const T* b, const T* bt, const float* start, float* ab,
                             float* abt, float* atb, float* atbt) const {
    Operand<kM, kK, Layout::kRow> left;
    Operand<kK, kM, Layout::kCol> left_transposed;
    Operand<kK, kN, Layout::kCol> right;
    Operand<kN, kK, Layout::kRow> right_transposed;
    get(left, a);
    get(left_transposed, at);
    get(right, b);
    get(right_transposed, bt);
    Accumulator<kM, kN> d;
    get(d, start);
    tiles::mma_ab(d, left, right);
    put(ab, d);
    get(d, start);
    tiles::mma_abt(d, left, right_transposed);
    put(abt, d);
    get(d, start);
    tiles::mma_atb(d, left_transposed, right);
    put(atb, d);
    get(d, start);
    tiles::mma_atbt(d, left_transposed, right_transposed);
    put(atbt, d);
  }
};

template <class T>
Matrix<T> transposed(const Matrix<T>& m) {
  Matrix<T> out(m.cols, m.rows);
  for (int r = 0; r < m.rows; ++r) {
    for (int c = 0; c < m.cols; ++c) out.data[c * m.rows + r] = m.data[r * m.cols + c];
  }
  return out;
}

template <class T, int kM, int kN, int kK>
void check_products(Random& random) {
  const Matrix<T> a(kM, kK, random), b(kK, kN, random);
  const Matrix<float> start(kM, kN, random);
  const auto gpu_a = to_gpu(a), gpu_at = to_gpu(transposed(a)), gpu_b = to_gpu(b),
             gpu_bt = to_gpu(transposed(b));
  const auto gpu_start = to_gpu(start);
  const auto ab = empty_on_gpu<float>(kM, kN), abt = empty_on_gpu<float>(kM, kN),
             atb = empty_on_gpu<float>(kM, kN), atbt = empty_on_gpu<float>(kM, kN);
  on_warp(Products<T, kM, kN, kK>(), gpu_a.data(), gpu_at.data(), gpu_b.data(), gpu_bt.data(),
          gpu_start.data(), ab.data(), abt.data(), atb.data(), atbt.data());
  const auto want = [&](int r, int c) {
    float sum = start.at(r, c);
    for (int k = 0; k < kK; ++k) sum += a.at(r, k) * b.at(k, c);
    return sum;
  };
  for (const auto* got : {&ab, &abt, &atb, &atbt}) expect_elements(*got, kM, kN, want);
}

TEST(TilesMma, MultipliesInAllFourTranspositions) {
  SERVAL_NEEDS_GPU();
  Random random(6);
  for_types<Bf16, Fp16>([&]<class T>(std::type_identity<T>) {
    check_products<T, 16, 8, 16>(random);
    check_products<T, 16, 16, 16>(random);
    check_products<T, 32, 8, 64>(random);
    check_products<T, 64, 8, 32>(random);
    check_products<T, 32, 64, 16>(random);
    check_products<T, 16, 32, 128>(random);
  });
}

struct CumulativeSums {
  __device__ void operator()(const float* a, float* out) const {
    const uint32_t lane = tiles::lane_id();
    const float2 sums = tiles::cumulative_sums(float2{a[2 * lane], a[2 * lane + 1]}, lane);
    out[2 * lane] = sums.x;
    out[2 * lane + 1] = sums.y;
  }
};
TEST(TilesReduce, SumsUpToEachElement) {
  SERVAL_NEEDS_GPU();
  Random random(9);
  const Matrix<float> a(1, 64, random);  // integers: sums are exact
  const auto out = empty_on_gpu<float>(1, 64);
  on_warp(CumulativeSums(), to_gpu(a).data(), out.data());
  float sum = 0;
  expect_elements(out, 1, 64, [&](int, int col) { return sum += a.at(0, col); });
}

template <class Tile>
struct ComplexProducts {
  // out: [4, rows, cols]: the product, and that with the conjugate
  __device__ void operator()(const float* a, const float* b, const float* c, const float* d,
                             float* out) const {
    constexpr int kSize = Tile::kRows * Tile::kCols;
    Tile re, im, u, v;
    get(re, a);
    get(im, b);
    get(u, c);
    get(v, d);
    tiles::multiply_complex(re, im, u, v);
    put(out, re);
    put(out + kSize, im);
    get(re, a);
    get(im, b);
    tiles::multiply_complex<true>(re, im, u, v);
    put(out + 2 * kSize, re);
    put(out + 3 * kSize, im);
  }
};
TEST(TilesMap, MultipliesComplexNumbers) {
  SERVAL_NEEDS_GPU();
  Random random(11);
  for_accumulators([&]<class Tile>(std::type_identity<Tile>) {
    constexpr int kRows = Tile::kRows, kCols = Tile::kCols;
    const Matrix<float> a(kRows, kCols, random), b(kRows, kCols, random), c(kRows, kCols, random),
        d(kRows, kCols, random);
    const auto out = empty_on_gpu<float>(4 * kRows, kCols);
    const auto on_gpu_a = to_gpu(a), on_gpu_b = to_gpu(b), on_gpu_c = to_gpu(c), on_gpu_d = to_gpu(d);
    on_warp(ComplexProducts<Tile>(), on_gpu_a.data(), on_gpu_b.data(), on_gpu_c.data(), on_gpu_d.data(),
            out.data());
    expect_elements(out, 4 * kRows, kCols, [&](int i, int col) {
      const int row = i % kRows, which = i / kRows;
      const float x = a.at(row, col), y = b.at(row, col), u = c.at(row, col);
      const float v = which < 2 ? d.at(row, col) : -d.at(row, col);
      return which % 2 == 0 ? x * u - y * v : x * v + y * u;
    });
  });
}

}  // namespace
}  // namespace serval::testing

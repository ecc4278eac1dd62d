// The tile library between shared memory and registers, and the addresses that swizzles give.
#include <set>

#include "tests/device/tile_test.cuh"

namespace serval::testing {
namespace {

using tiles::Accumulator, tiles::RegisterTile, tiles::SharedTile;

// --- swizzles, on the host

template <class Tile>
void expect_every_place_once() {
  std::set<uint32_t> places;
  for (uint32_t r = 0; r < Tile::kRows; ++r) {
    for (uint32_t c = 0; c < Tile::kCols; ++c) {
      places.insert(Tile::offset(r, c));
      EXPECT_EQ(Tile::offset(r, c) / Tile::kCols, r) << "an element leaves its row";
      EXPECT_EQ(Tile::offset(r, c) % Tile::kSegmentElements, c % Tile::kSegmentElements)
          << "a segment is torn";
    }
  }
  EXPECT_EQ(places.size(), static_cast<size_t>(Tile::kRows) * Tile::kCols);
}

TEST(TilesSwizzle, IsAPermutationOfUnitsWithinRows) {
  expect_every_place_once<SharedTile<Bf16, 32, 64>>();
  expect_every_place_once<SharedTile<Bf16, 16, 128>>();
  expect_every_place_once<SharedTile<Bf16, 32, 64, tiles::TermSwizzle>>();
  expect_every_place_once<SharedTile<float, 16, 64>>();
  expect_every_place_once<SharedTile<Fp16, 8, 16, tiles::NoSwizzle>>();
}

constexpr uint32_t kBankBytes = 128;  // all 32 banks

// The bank group of a 16-byte unit of shared memory; lanes access such units at the same time.
template <class Tile>
uint32_t bank_segment(uint32_t row, uint32_t col) {
  return Tile::offset(row, col) * sizeof(typename Tile::ElementType) % kBankBytes / Tile::kSegmentBytes;
}

template <class Tile>
void expect_eight_rows_in_different_banks() {
  for (uint32_t row = 0; row < Tile::kRows; row += 8) {
    for (uint32_t col = 0; col < Tile::kCols; col += Tile::kSegmentElements) {
      std::set<uint32_t> banks;
      for (uint32_t r = 0; r < 8; ++r) banks.insert(bank_segment<Tile>(row + r, col));
      EXPECT_EQ(banks.size(), 8U);
    }
  }
}

TEST(TilesSwizzle, EightRowsOfAnOperandAreInDifferentBanks) {
  expect_eight_rows_in_different_banks<SharedTile<Bf16, 32, 64>>();
  expect_eight_rows_in_different_banks<SharedTile<Bf16, 32, 64, tiles::TermSwizzle>>();
}

TEST(TilesSwizzle, TwoRowsOfTermsAreInDifferentBanks) {
  using Tile = SharedTile<Bf16, 32, 64, tiles::TermSwizzle>;
  for (uint32_t row = 0; row < Tile::kRows; row += 2) {
    for (uint32_t col = 0; col < Tile::kCols; col += tiles::kTermColumns) {
      std::set<uint32_t> banks;
      for (uint32_t lane = 0; lane < 8; ++lane)
        banks.insert(bank_segment<Tile>(row + lane / 4, col + lane % 4 * Tile::kSegmentElements));
      EXPECT_EQ(banks.size(), 8U);
    }
  }
}

TEST(TilesSwizzle, HalfAWarpStoresPairsOfAnAccumulatorInDifferentBanks) {
  using Tile = SharedTile<float, 16, 64>;
  for (uint32_t row = 0; row < Tile::kRows; row += 4) {
    for (uint32_t col = 0; col < Tile::kCols; col += 8) {
      std::set<uint32_t> banks;
      for (uint32_t lane = 0; lane < 16; ++lane)
        banks.insert(bank_segment<Tile>(row + lane / 4, col + 2 * (lane % 4)));
      EXPECT_EQ(banks.size(), 8U);
    }
  }
}

// --- loads and stores

// Fills a shared tile element by element.
template <class Tile>
__device__ void fill_shared(Tile& dst, const typename Tile::ElementType* src) {
  for (uint32_t n = tiles::lane_id(); n < Tile::kRows * Tile::kCols; n += kWarpThreads) {
    *dst.at(n / Tile::kCols, n % Tile::kCols) = src[n];
  }
  __syncwarp();
}
template <class Tile>
__device__ void read_shared(typename Tile::ElementType* dst, const Tile& src) {
  __syncwarp();
  for (uint32_t n = tiles::lane_id(); n < Tile::kRows * Tile::kCols; n += kWarpThreads) {
    dst[n] = *src.at(n / Tile::kCols, n % Tile::kCols);
  }
}

template <class Shared, Layout kLayout>
struct OperandMoves {
  using T = typename Shared::ElementType;
  using Tile = RegisterTile<T, Shared::kRows, Shared::kCols, kLayout>;

  __device__ void operator()(const T* src, T* left, T* right, T* stored) const {
    __shared__ Shared in, out;
    fill_shared(in, src);
    Tile x;
    tiles::load_left(x, in);
    put(left, x);
    tiles::store(out, x);
    read_shared(stored, out);
    tiles::load_right(x, in);
    put(right, x);
  }
};

template <class Shared, Layout kLayout>
void check_operand_moves(Random& random) {
  using T = typename Shared::ElementType;
  constexpr int kRows = Shared::kRows, kCols = Shared::kCols;
  const Matrix<T> x(kRows, kCols, random);
  const auto src = to_gpu(x);
  const auto left = empty_on_gpu<T>(kRows, kCols), right = empty_on_gpu<T>(kRows, kCols),
             stored = empty_on_gpu<T>(kRows, kCols);
  on_warp(OperandMoves<Shared, kLayout>(), src.data(), left.data(), right.data(), stored.data());
  for (const auto* got : {&left, &right, &stored}) {
    expect_elements(*got, kRows, kCols, [&](int r, int c) { return x.at(r, c); });
  }
}

TEST(TilesShared, MovesOperandsInBothLayouts) {
  SERVAL_NEEDS_GPU();
  Random random(1);
  for_types<SharedTile<Bf16, 16, 64>, SharedTile<Bf16, 32, 64>, SharedTile<Bf16, 8, 64>,
            SharedTile<Bf16, 64, 128>, SharedTile<Fp16, 16, 64>, SharedTile<Fp16, 32, 128>,
            SharedTile<Bf16, 32, 64, tiles::TermSwizzle>, SharedTile<Bf16, 16, 16, tiles::NoSwizzle>,
            SharedTile<Fp16, 32, 32, tiles::NoSwizzle>>([&]<class Shared>(std::type_identity<Shared>) {
    check_operand_moves<Shared, Layout::kRow>(random);
    check_operand_moves<Shared, Layout::kCol>(random);
  });
}

// Loads some columns, and all of them as terms.
template <class Shared, int kCols, Layout kLayout>
struct PartMoves {
  using T = typename Shared::ElementType;
  __device__ void operator()(const T* src, T* columns, T* terms, uint32_t first) const {
    __shared__ Shared in;
    fill_shared(in, src);
    RegisterTile<T, Shared::kRows, kCols, kLayout> x;
    tiles::load_right_columns(x, in, first);
    put(columns, x);
    RegisterTile<T, Shared::kRows, Shared::kCols> y;
    tiles::load_terms(y, in);
    put(terms, y);
  }
};

TEST(TilesShared, LoadsSomeColumnsAndTerms) {
  SERVAL_NEEDS_GPU();
  Random random(4);
  const auto check = [&]<class Shared, int kCols, Layout kLayout>(std::type_identity<Shared>,
                                                                  std::integral_constant<int, kCols>,
                                                                  std::integral_constant<Layout, kLayout>) {
    using T = typename Shared::ElementType;
    const Matrix<T> x(Shared::kRows, Shared::kCols, random);
    const auto src = to_gpu(x);
    for (int first = 0; first < Shared::kCols; first += 16) {
      if (first + kCols > Shared::kCols) break;
      const auto columns = empty_on_gpu<T>(Shared::kRows, kCols),
                 terms = empty_on_gpu<T>(Shared::kRows, Shared::kCols);
      on_warp(PartMoves<Shared, kCols, kLayout>(), src.data(), columns.data(), terms.data(),
              static_cast<uint32_t>(first));
      expect_elements(columns, Shared::kRows, kCols, [&](int r, int c) { return x.at(r, first + c); });
      expect_elements(terms, Shared::kRows, Shared::kCols,
                      [&](int r, int c) { return x.at(r, term_column(c)); });
    }
  };
  using Shared = SharedTile<Bf16, 32, 64, tiles::TermSwizzle>;
  using Wide = SharedTile<Fp16, 16, 128, tiles::TermSwizzle>;
  constexpr std::integral_constant<Layout, Layout::kRow> kRow;
  constexpr std::integral_constant<Layout, Layout::kCol> kCol;
  check(std::type_identity<Shared>(), std::integral_constant<int, 16>(), kCol);
  check(std::type_identity<Shared>(), std::integral_constant<int, 32>(), kRow);
  check(std::type_identity<Wide>(), std::integral_constant<int, 16>(), kRow);
  check(std::type_identity<Wide>(), std::integral_constant<int, 16>(), kCol);
}

template <class Shared>
struct AccumulatorMoves {
  __device__ void operator()(const float* src, float* loaded, float* stored) const {
    __shared__ Shared in, out;
    fill_shared(in, src);
    Accumulator<Shared::kRows, Shared::kCols> x;
    tiles::load(x, in);
    put(loaded, x);
    tiles::store(out, x);
    read_shared(stored, out);
  }
};

TEST(TilesShared, MovesAccumulators) {
  SERVAL_NEEDS_GPU();
  Random random(2);
  for_types<SharedTile<float, 16, 32>, SharedTile<float, 8, 64>, SharedTile<float, 32, 64>,
            SharedTile<float, 64, 8, tiles::NoSwizzle>>([&]<class Shared>(std::type_identity<Shared>) {
    constexpr int kRows = Shared::kRows, kCols = Shared::kCols;
    const Matrix<float> x = random_matrix(kRows, kCols, random);
    const auto src = to_gpu(x);
    const auto loaded = empty_on_gpu<float>(kRows, kCols), stored = empty_on_gpu<float>(kRows, kCols);
    on_warp(AccumulatorMoves<Shared>(), src.data(), loaded.data(), stored.data());
    for (const auto* got : {&loaded, &stored}) {
      expect_elements(*got, kRows, kCols, [&](int r, int c) { return x.at(r, c); });
    }
  });
}

template <class Vector>
struct VectorMoves {
  __device__ void operator()(const float* src, float* loaded, float* stored) const {
    alignas(16) __shared__ float in[Vector::kLength], out[Vector::kLength];
    for (uint32_t i = tiles::lane_id(); i < Vector::kLength; i += kWarpThreads) in[i] = src[i];
    __syncwarp();
    Vector x;
    tiles::load(x, in);
    put(loaded, x);
    tiles::store(out, x);
    __syncwarp();
    for (uint32_t i = tiles::lane_id(); i < Vector::kLength; i += kWarpThreads) stored[i] = out[i];
  }
};

TEST(TilesShared, MovesVectors) {
  SERVAL_NEEDS_GPU();
  Random random(3);
  using tiles::Along, tiles::RegisterVector;
  for_types<RegisterVector<float, 8, Along::kPairs>, RegisterVector<float, 32, Along::kPairs>,
            RegisterVector<float, 8, Along::kSingles>, RegisterVector<float, 64, Along::kSingles>>(
      [&]<class Vector>(std::type_identity<Vector>) {
        constexpr int kLength = Vector::kLength;
        const Matrix<float> x = random_matrix(1, kLength, random);
        const auto src = to_gpu(x), stored = empty_on_gpu<float>(1, kLength);
        const auto loaded = empty_on_gpu<float>(kWarpThreads, kLength);
        on_warp(VectorMoves<Vector>(), src.data(), loaded.data(), stored.data());
        expect_vector<Vector::kAlong>(loaded, kLength, [&](int i) { return x.at(0, i); });
        expect_elements(stored, 1, kLength, [&](int, int i) { return x.at(0, i); });
      });
}

}  // namespace
}  // namespace serval::testing

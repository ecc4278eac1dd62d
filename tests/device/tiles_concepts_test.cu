// Code that must not compile: tiles of the wrong shape, type or layout. The compiler checks the assertions;
// the tests only name them.
#include "tests/device/tile_test.cuh"
#include "vm/tiles/sm90/tensor.cuh"

namespace serval::testing {
namespace {

using tiles::Accumulator, tiles::RegisterTile, tiles::SharedTile;

template <class T, int kRows, int kCols>
using Row = RegisterTile<T, kRows, kCols, Layout::kRow>;
template <class T, int kRows, int kCols>
using Col = RegisterTile<T, kRows, kCols, Layout::kCol>;

template <class D, class A, class B>
concept MultipliesAB = requires(D& d, const A& a, const B& b) {
  tiles::mma_ab(d, a, b);
};
template <class D, class A, class B>
concept MultipliesABt = requires(D& d, const A& a, const B& b) {
  tiles::mma_abt(d, a, b);
};
template <class D, class A, class B>
concept MultipliesAtB = requires(D& d, const A& a, const B& b) {
  tiles::mma_atb(d, a, b);
};
template <class D, class A, class B>
concept MultipliesAtBt = requires(D& d, const A& a, const B& b) {
  tiles::mma_atbt(d, a, b);
};

TEST(TilesConcepts, ProductsTakeOperandsThatFit) {
  using D = Accumulator<16, 8>;
  static_assert(MultipliesAB<D, Row<Bf16, 16, 32>, Col<Bf16, 32, 8>>);
  static_assert(MultipliesABt<D, Row<Fp16, 16, 32>, Row<Fp16, 8, 32>>);
  static_assert(MultipliesAtB<D, Col<Bf16, 32, 16>, Col<Bf16, 32, 8>>);
  static_assert(MultipliesAtBt<D, Col<Fp16, 32, 16>, Row<Fp16, 8, 32>>);
}
TEST(TilesConcepts, ProductsRefuseLayoutsThatTheTensorCoresDoNotTake) {
  using D = Accumulator<16, 8>;
  static_assert(!MultipliesAB<D, Col<Bf16, 16, 32>, Col<Bf16, 32, 8>>);
  static_assert(!MultipliesAB<D, Row<Bf16, 16, 32>, Row<Bf16, 32, 8>>);
  static_assert(!MultipliesABt<D, Row<Bf16, 16, 32>, Col<Bf16, 8, 32>>);
  static_assert(!MultipliesAtB<D, Row<Bf16, 32, 16>, Col<Bf16, 32, 8>>);
}
TEST(TilesConcepts, ProductsRefuseShapesThatDoNotMatch) {
  using D = Accumulator<16, 8>;
  static_assert(!MultipliesAB<D, Row<Bf16, 16, 32>, Col<Bf16, 16, 8>>, "the number of terms differs");
  static_assert(!MultipliesAB<D, Row<Bf16, 32, 32>, Col<Bf16, 32, 8>>, "a has other rows than d");
  static_assert(!MultipliesAB<D, Row<Bf16, 16, 32>, Col<Bf16, 32, 16>>, "b has other columns than d");
  static_assert(!MultipliesAB<Accumulator<8, 8>, Row<Bf16, 8, 32>, Col<Bf16, 32, 8>>,
                "half a base tile of rows");
  static_assert(!MultipliesAB<D, Row<Bf16, 16, 8>, Col<Bf16, 8, 8>>, "half a base tile of terms");
}
TEST(TilesConcepts, ProductsRefuseTypesThatDoNotMatch) {
  using D = Accumulator<16, 8>;
  static_assert(!MultipliesAB<D, Row<Bf16, 16, 16>, Col<Fp16, 16, 8>>);
  static_assert(!MultipliesAB<Row<Bf16, 16, 8>, Row<Bf16, 16, 16>, Col<Bf16, 16, 8>>, "d is not fp32");
  static_assert(!MultipliesAB<D, Accumulator<16, 16>, Col<Bf16, 16, 8>>, "a is fp32");
}

template <class Dst, class Src>
concept Converts = requires(Dst& dst, const Src& src) {
  tiles::convert(dst, src);
};

TEST(TilesConcepts, ConversionsChangeOneThing) {
  static_assert(Converts<Row<Bf16, 16, 16>, Accumulator<16, 16>> &&
                Converts<Accumulator<16, 16>, Row<Fp16, 16, 16>>);
  static_assert(!Converts<Row<Bf16, 16, 16>, Row<Fp16, 16, 16>>,
                "by way of fp32, and twice rounded: to be written out");
  static_assert(!Converts<Col<Bf16, 16, 16>, Accumulator<16, 16>>, "the layout would change, too");
  static_assert(!Converts<Row<Bf16, 16, 8>, Accumulator<16, 16>>);
}

template <class Tile>
concept Fills = requires(Tile& tile) {
  tiles::fill(tile, 0.0F);
};
template <class Tile>
concept AddsUp = requires(Tile& tile) {
  tiles::add(tile, tile, tile);
};
template <class Vector, class Tile>
concept ReducesRows = requires(Vector& v, const Tile& tile) {
  tiles::reduce_rows<tiles::Sum>(v, tile);
};
template <class Vector, class Tile>
concept ReducesColumns = requires(Vector& v, const Tile& tile) {
  tiles::reduce_columns<tiles::Sum>(v, tile);
};

TEST(TilesConcepts, ArithmeticIsForFp32) {
  static_assert(Fills<Accumulator<16, 16>> && !Fills<Row<Bf16, 16, 16>>);
  static_assert(AddsUp<Accumulator<16, 16>> && !AddsUp<Row<Fp16, 16, 16>>);
}
TEST(TilesConcepts, ReductionsGiveTheVectorOfTheTile) {
  using Tile = Accumulator<16, 8>;
  static_assert(ReducesRows<tiles::RowVector<Tile>, Tile> && ReducesColumns<tiles::ColumnVector<Tile>, Tile>);
  static_assert(!ReducesRows<tiles::ColumnVector<Tile>, Tile> &&
                !ReducesColumns<tiles::RowVector<Tile>, Tile>);
}

template <class Dst, class Src>
concept LoadsLeft = requires(Dst& dst, const Src& src) {
  tiles::load_left(dst, src);
};
template <class Dst, class Src>
concept Stores = requires(Dst& dst, const Src& src) {
  tiles::store(dst, src);
};

TEST(TilesConcepts, SharedTilesHoldWhatIsLoadedAndStored) {
  static_assert(LoadsLeft<Row<Bf16, 16, 64>, SharedTile<Bf16, 16, 64>>);
  static_assert(!LoadsLeft<Row<Bf16, 16, 32>, SharedTile<Bf16, 16, 64>>);
  static_assert(!LoadsLeft<Row<Fp16, 16, 64>, SharedTile<Bf16, 16, 64>>);
  static_assert(!LoadsLeft<Accumulator<16, 64>, SharedTile<float, 16, 64>>, "ldmatrix moves 16-bit elements");
  static_assert(Stores<SharedTile<float, 16, 64>, Accumulator<16, 64>>);
  static_assert(!Stores<SharedTile<Bf16, 16, 64>, Accumulator<16, 64>>, "without a conversion");
}

template <class Dst, class Src>
concept LoadsColumns = requires(Dst& dst, const Src& src) {
  tiles::load_right_columns(dst, src, 0);
};
template <class Dst, class Src>
concept LoadsTerms = requires(Dst& dst, const Src& src) {
  tiles::load_terms(dst, src);
};

TEST(TilesConcepts, PartsAndTermsComeFromTilesThatHaveThem) {
  using Shared = SharedTile<Bf16, 32, 64, tiles::TermSwizzle>;
  static_assert(LoadsColumns<Col<Bf16, 32, 16>, Shared> && !LoadsColumns<Col<Bf16, 16, 16>, Shared>);
  static_assert(!LoadsColumns<Col<Bf16, 32, 8>, Shared>, "half a base tile of columns");
  static_assert(LoadsTerms<Row<Bf16, 32, 64>, Shared> && !LoadsTerms<Col<Bf16, 32, 64>, Shared>);
  static_assert(!LoadsTerms<Row<Bf16, 32, 64>, SharedTile<Bf16, 32, 64>>, "its banks would collide");
}

template <class Tile>
concept LoadsInBulk = requires(Tile& dst, tiles::GlobalTile<const typename Tile::ElementType> src,
                               uint64_t* landed) {
  tiles::load_async(dst, src, landed);
};

TEST(TilesConcepts, TheCopyEngineSwizzlesByTensorMapOnly) {
  static_assert(LoadsInBulk<SharedTile<Bf16, 16, 64, tiles::NoSwizzle>> &&
                !LoadsInBulk<SharedTile<Bf16, 16, 64>>);
  static_assert(tiles::TensorTile<SharedTile<Bf16, 16, 64>>);
  static_assert(!tiles::TensorTile<SharedTile<Bf16, 16, 128>>, "rows are wider than the swizzle");
  static_assert(!tiles::TensorTile<SharedTile<float, 16, 64>>,
                "a swizzle that the copy engine does not know");
}

}  // namespace
}  // namespace serval::testing

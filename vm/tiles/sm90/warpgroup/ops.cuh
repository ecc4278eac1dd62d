// Operations of a warpgroup on its register tiles: those of one warp (vm/tiles/ops/) on each warp's parts.
#pragma once

#include "vm/tiles/sm90/tensor.cuh"
#include "vm/tiles/sm90/warpgroup/mma.cuh"
#include "vm/tiles/tiles.cuh"

namespace serval::tiles::warpgroup {

namespace detail {

template <class T>
constexpr void check_tile() {
  static_assert(!kIsInFlight<T>, "products still add to this tile: wait() first");
  static_assert(kIsInFlight<T> || AnyRegisterTile<T>, "the operand must be a warpgroup::RegisterTile");
}
template <class T>
constexpr void check_sums() {
  check_tile<T>();
  if constexpr (AnyRegisterTile<T>)
    static_assert(AccumulatorTile<T>, "the operation is for fp32: convert() the tile first");
}
template <class Register, class Shared>
constexpr void check_shared() {
  check_tile<Register>();
  static_assert(Operand<Shared>, "the shared tile must have 128-byte rows with OperandSwizzle");
  static_assert(std::same_as<typename Register::ElementType, typename Shared::ElementType>,
                "both tiles must have the same element type");
  static_assert(Register::kRows == Shared::kRows && Register::kCols == Shared::kCols,
                "both tiles must have the same shape");
}

}  // namespace detail

template <class Tile>
__device__ __forceinline__ void fill(Tile& dst, float value) {
  detail::check_sums<Tile>();
#pragma unroll
  for (auto& part : dst.part) tiles::fill(part, value);
}
// A tile of zeros, to begin sums with.
template <class Tile>
__device__ __forceinline__ Tile zeros() {
  Tile out;
  fill(out, 0);
  return out;
}
// Likewise, for sums of several parts, or while products add to other sums. The compiler may make one zero a
// copy of another, and ptxas waits for the products before it copies a register that they add to, so these
// zeros are values of their own.
template <class Tile>
__device__ __forceinline__ Tile fresh_zeros() {
  Tile out = zeros<Tile>();
#pragma unroll
  for (auto& part : out.part) {
#pragma unroll
    for (auto& row : part.quadrant) {
#pragma unroll
      for (float2& v : row) asm volatile("mov.b32 %0, 0;\n\tmov.b32 %1, 0;" : "=f"(v.x), "=f"(v.y));
    }
  }
  return out;
}
// dst = f(src)
template <class Tile, class F>
__device__ __forceinline__ void map(Tile& dst, const Tile& src, F&& f) {
  detail::check_sums<Tile>();
#pragma unroll
  for (int i = 0; i < Tile::kParts; ++i) tiles::map(dst.part[i], src.part[i], f);
}
// dst = f(a, b)
template <class Tile, class F>
__device__ __forceinline__ void map(Tile& dst, const Tile& a, const Tile& b, F&& f) {
  detail::check_sums<Tile>();
#pragma unroll
  for (int i = 0; i < Tile::kParts; ++i) tiles::map(dst.part[i], a.part[i], b.part[i], f);
}
// dst = f(src, the vector's value for the element's row, the element's column)
template <class Tile, class T, class F>
__device__ __forceinline__ void map_rows(Tile& dst, const Tile& src, const RowVector<Tile, T>& rows, F&& f,
                                         uint32_t lane = lane_id()) {
  detail::check_sums<Tile>();
#pragma unroll
  for (int i = 0; i < Tile::kParts; ++i) tiles::map_rows(dst.part[i], src.part[i], rows.part[i], f, lane);
}
// dst = f(src, the vector's value for the element's column, the element's row)
template <class Tile, class T, class F>
__device__ __forceinline__ void map_columns(Tile& dst, const Tile& src, const ColumnVector<Tile, T>& columns,
                                            F&& f, const Place& place) {
  detail::check_sums<Tile>();
#pragma unroll
  for (int i = 0; i < Tile::kParts; ++i) {
    const uint32_t first = Tile::first_row(i, place.warp);
    const auto of_part = [&](float v, const T& of_column, uint32_t row) {
      return f(v, of_column, first + row);
    };
    tiles::map_columns(dst.part[i], src.part[i], columns, of_part, place.lane);
  }
}
// dst = f(src, the value for the element's row, the value for its column)
template <class Tile, class T, class U, class F>
__device__ __forceinline__ void map_rows_and_columns(Tile& dst, const Tile& src,
                                                     const RowVector<Tile, T>& rows,
                                                     const ColumnVector<Tile, U>& columns, F&& f) {
  detail::check_sums<Tile>();
#pragma unroll
  for (int i = 0; i < Tile::kParts; ++i)
    tiles::map_rows_and_columns(dst.part[i], src.part[i], rows.part[i], columns, f);
}
// The rows' own numbers, for masks.
template <class Tile>
__device__ __forceinline__ RowVector<Tile, uint32_t> row_numbers(const Place& place) {
  RowVector<Tile, uint32_t> out;
#pragma unroll
  for (int i = 0; i < Tile::kParts; ++i) {
#pragma unroll
    for (int q = 0; q < 2; ++q)
      out.part[i].quadrant[q] =
          Tile::first_row(i, place.warp) + static_cast<uint32_t>(q * kQuadrant) + place.lane / kPairLanes;
  }
  return out;
}
// dst[r] = the reduction of src[r, .]; a warp has whole rows, so its lanes suffice.
template <class Reduction, class Tile>
__device__ __forceinline__ void reduce_rows(RowVector<Tile>& dst, const Tile& src) {
  detail::check_sums<Tile>();
#pragma unroll
  for (int i = 0; i < Tile::kParts; ++i) tiles::reduce_rows<Reduction>(dst.part[i], src.part[i]);
}
// dst[r] = the reduction of dst[r] and those elements of src[r, .] that this lane holds.
template <class Reduction, class Tile>
__device__ __forceinline__ void accumulate_rows(RowVector<Tile>& dst, const Tile& src) {
  detail::check_sums<Tile>();
#pragma unroll
  for (int i = 0; i < Tile::kParts; ++i) tiles::accumulate_rows<Reduction>(dst.part[i], src.part[i]);
}
// Completes such a vector over the lanes.
template <class Reduction, class Tile>
__device__ __forceinline__ void reduce_lanes(RowVector<Tile>& v) {
#pragma unroll
  for (int i = 0; i < Tile::kParts; ++i) tiles::reduce_lanes<Reduction>(v.part[i]);
}
// dst = f(a, b), row by row
template <class Tile, class F>
__device__ __forceinline__ void map(RowVector<Tile>& dst, const RowVector<Tile>& a, const RowVector<Tile>& b,
                                    F&& f) {
#pragma unroll
  for (int i = 0; i < Tile::kParts; ++i) tiles::map(dst.part[i], a.part[i], b.part[i], f);
}
// dst = src in another type; rounds to nearest, ties to even.
template <class Dst, class Src>
__device__ __forceinline__ void convert(Dst& dst, const Src& src) {
  detail::check_tile<Src>();
  detail::check_tile<Dst>();
  static_assert(Dst::kRows == Src::kRows && Dst::kCols == Src::kCols,
                "convert: both tiles must have one shape");
  static_assert(AccumulatorTile<Dst> != AccumulatorTile<Src>, "convert: one of the tiles must be fp32");
#pragma unroll
  for (int i = 0; i < Src::kParts; ++i) tiles::convert(dst.part[i], src.part[i]);
}
// Columns `first` to `first` + kCount - 1 of a tile, both constants: the registers are those of `src`.
template <int kCount, class Src>
__device__ __forceinline__ auto columns(const Src& src, int first) {
  detail::check_tile<Src>();
  RegisterTile<typename Src::ElementType, Src::kRows, kCount> out;
  using Part = typename decltype(out)::Part;
#pragma unroll
  for (int i = 0; i < Src::kParts; ++i) {
#pragma unroll
    for (int c = 0; c < Part::kQuadrantCols; ++c) {
      out.part[i].quadrant[0][c] = src.part[i].quadrant[0][first / Part::kQuadrantWidth + c];
      out.part[i].quadrant[1][c] = src.part[i].quadrant[1][first / Part::kQuadrantWidth + c];
    }
  }
  return out;
}

namespace detail {

// A pair of 8-bit elements as one of 16 bits: what moves through ldmatrix and stmatrix.
template <class Part>
using PairsOf = std::conditional_t<Element8<typename Part::ElementType>,
                                   tiles::RegisterTile<Bf16, Part::kRows, Part::kCols / 2>, Part>;
// Calls fn(part of the register tile, its 16 rows in a panel) for each part and panel; both of 16-bit
// elements.
template <class Register, class Shared, class Fn>
__device__ __forceinline__ void for_panels(const Shared& shared, uint32_t warp, Fn&& fn) {
  using T = typename Register::ElementType;
  constexpr int kCols = kPanelCols<Bf16>;  // of the panel, as pairs of bytes
  using Rows =
      tiles::SharedTile<std::conditional_t<Element8<T>, Bf16, T>, kRowsOfWarp, kCols, OperandSwizzle>;
#pragma unroll
  for (int i = 0; i < Register::kParts; ++i) {
#pragma unroll
    for (int p = 0; p < Register::kCols / kPanelCols<T>; ++p) {
      const auto& rows = rows_of<kRowsOfWarp>(panel_of(shared, p), Register::first_row(i, warp));
      fn(i, p, const_cast<Rows&>(reinterpret_cast<const Rows&>(rows)));
    }
  }
}

}  // namespace detail

// Registers = a shared tile of their shape, of 8-bit or 16-bit elements. As a left operand of products.
template <class Dst, class Src>
__device__ __forceinline__ void load(Dst& dst, const Src& src, const Place& place) {
  detail::check_shared<Dst, Src>();
  using T = typename Dst::ElementType;
  static_assert(Element16<T> || Element8<T>, "load: shared tiles of products have 8-bit or 16-bit elements");
  detail::for_panels<Dst>(src, place.warp, [&](int i, int p, const auto& rows) {
    using Panel = std::remove_cvref_t<decltype(rows)>;
    tiles::RegisterTile<typename Panel::ElementType, kRowsOfWarp, Panel::kCols> panel;
    tiles::load_left(panel, rows, place.lane);
#pragma unroll
    for (int c = 0; c < Panel::kCols / kQuadrant; ++c) {
      dst.part[i].quadrant[0][p * (Panel::kCols / kQuadrant) + c] = panel.quadrant[0][c];
      dst.part[i].quadrant[1][p * (Panel::kCols / kQuadrant) + c] = panel.quadrant[1][c];
    }
  });
}
// Vectors are plain arrays in shared memory. (tiles::load() loads column vectors.)
template <class Tile, class T, size_t kLength>
__device__ __forceinline__ void load(RowVector<Tile, T>& dst, const T (&src)[kLength], const Place& place) {
  static_assert(kLength == Tile::kRows, "load: the array must have an element for each row");
#pragma unroll
  for (int i = 0; i < Tile::kParts; ++i) {
#pragma unroll
    for (int r = 0; r < kRowsOfWarp / kQuadrant; ++r)
      dst.part[i].quadrant[r] = src[Tile::first_row(i, place.warp) + Tile::Part::row_of(place.lane, r, 0)];
  }
}
// Registers = the transpose of a shared tile: rows of the registers are its columns. 16-bit elements.
template <class Dst, class Src>
__device__ __forceinline__ void load_transposed(Dst& dst, const Src& src, const Place& place) {
  detail::check_tile<Dst>();
  static_assert(Operand<Src>, "the shared tile must have 128-byte rows with OperandSwizzle");
  static_assert(std::same_as<typename Dst::ElementType, typename Src::ElementType> &&
                    Element16<typename Dst::ElementType>,
                "load_transposed: both tiles must have the same element type of 16 bits");
  static_assert(Dst::kRows == Src::kCols && Dst::kCols == Src::kRows && Dst::kCols % kBaseTile == 0,
                "load_transposed: the registers must have the shape of the transpose");
  constexpr int kStep = kBaseTile;  // rows of the shared tile that one ldmatrix takes
#pragma unroll
  for (int i = 0; i < Dst::kParts; ++i) {  // a panel has the 64 rows of a part
    const auto& panel = panel_of(src, i);
    using Panel = std::remove_cvref_t<decltype(panel)>;
    // Matrix m of the four: rows 8 (m / 2) of the panel, columns 8 (m mod 2) of the warp's 16.
    const uint32_t m = place.lane / kQuadrant;
    const uint32_t first = ptx::shared_address(
        panel.at(m / 2 * kQuadrant + place.lane % kQuadrant, place.warp * kRowsOfWarp + m % 2 * kQuadrant));
#pragma unroll
    for (int step = 0; step < Src::kRows / kStep; ++step) {
      uint32_t four[4];
      ptx::load_matrices<true>(four, Panel::template moved<sizeof(typename Src::ElementType)>(
                                         first, static_cast<uint32_t>(step * kStep), 0));
      auto& to = dst.part[i].quadrant;
      to[0][2 * step] = four[0], to[1][2 * step] = four[1];
      to[0][2 * step + 1] = four[2], to[1][2 * step + 1] = four[3];
    }
  }
}
// A shared tile = registers of its shape, of 8-bit or 16-bit elements. Copies by the copy engine and products
// may read it after fence_proxy_async_shared() in each thread and then a barrier: store_and_fence().
template <class Dst, class Src>
__device__ __forceinline__ void store(Dst& dst, const Src& src, const Place& place) {
  detail::check_shared<Src, Dst>();
  using T = typename Src::ElementType;
  static_assert(Element16<T> || Element8<T>, "store: convert() sums to a type of 8 or 16 bits first");
  detail::for_panels<Src>(dst, place.warp, [&](int i, int p, auto& rows) {
    using Panel = std::remove_cvref_t<decltype(rows)>;
    tiles::RegisterTile<typename Panel::ElementType, kRowsOfWarp, Panel::kCols> panel;
#pragma unroll
    for (int c = 0; c < Panel::kCols / kQuadrant; ++c) {
      panel.quadrant[0][c] = src.part[i].quadrant[0][p * (Panel::kCols / kQuadrant) + c];
      panel.quadrant[1][c] = src.part[i].quadrant[1][p * (Panel::kCols / kQuadrant) + c];
    }
    tiles::store(rows, panel, place.lane);
  });
}
// store(), after which the whole warpgroup has stored: one thread may begin a copy by the copy engine, or all
// a product.
template <class Dst, class Src>
__device__ __forceinline__ void store_and_fence(Dst& dst, const Src& src, const Place& place) {
  store(dst, src, place);
  ptx::fence_proxy_async_shared();
  place.sync();
}
// Stores the first `rows` rows of sums to a matrix in global memory with rows `stride` elements apart, an
// even number, converted. Lanes store 4 bytes each: for what is stored once in a long while.
template <Element16 T, AccumulatorTile Src>
__device__ __forceinline__ void store_rows(T* to, uint32_t stride, uint32_t rows, const Src& src,
                                           const Place& place) {
  using Part = typename Src::Part;
#pragma unroll
  for (int i = 0; i < Src::kParts; ++i) {
#pragma unroll
    for (int r = 0; r < Part::kQuadrantRows; ++r) {
      const uint32_t row = Src::first_row(i, place.warp) + Part::row_of(place.lane, r, 0);
      if (row >= rows) continue;
#pragma unroll
      for (int c = 0; c < Part::kQuadrantCols; ++c) {
        T* const pair = to + size_t{row} * stride + Part::col_of(place.lane, c, 0);
        *reinterpret_cast<uint32_t*>(pair) = tiles::detail::pack<T>(src.part[i].quadrant[r][c]);
      }
    }
  }
}
// Stores sums to global memory through shared memory, kCols columns at a time, in type T: matrix rows from
// `row`, columns from `col` on. `buffers` are two tiles of this warpgroup alone; they are free again when
// stores_read() returns.
template <class Tile, AccumulatorTile Src>
__device__ __forceinline__ void store_through(Tile (&buffers)[2], const TensorMap<Tile>& map, uint32_t row,
                                              uint32_t col, const Src& src, const Place& place) {
  static_assert(Tile::kRows == Src::kRows && Src::kCols % Tile::kCols == 0,
                "store_through: a buffer must have the rows of the sums and a part of their columns");
#pragma unroll
  for (int c = 0; c < Src::kCols / Tile::kCols; ++c) {
    RegisterTile<typename Tile::ElementType, Src::kRows, Tile::kCols> out;
    convert(out, columns<Tile::kCols>(src, c * Tile::kCols));
    if (place.leads()) ptx::wait_stores_read<1>();  // the buffer's copy of before has read it
    place.sync();
    store_and_fence(buffers[c % 2], out, place);
    if (place.leads()) {
      tiles::store_async(map, row, col + c * Tile::kCols, buffers[c % 2]);
      commit_stores();
    }
  }
}

}  // namespace serval::tiles::warpgroup

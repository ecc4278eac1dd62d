// Element-wise operations. fp32 only: 16-bit tiles are operands of products.
#pragma once

#include "vm/tiles/types/concepts.cuh"

namespace serval::tiles {

template <FloatTile Tile>
__device__ __forceinline__ void fill(Tile& dst, float value) {
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Tile::kQuadrantCols; ++c) dst.quadrant[r][c] = {value, value};
  }
}
template <FloatVector Vector>
__device__ __forceinline__ void fill(Vector& dst, float value) {
#pragma unroll
  for (int q = 0; q < Vector::kQuadrants; ++q) {
    if constexpr (Vector::kAlong == Along::kPairs) {
      dst.quadrant[q] = {value, value};
    } else {
      dst.quadrant[q] = value;
    }
  }
}

// dst = f(src)
template <FloatTile Tile, class F>
__device__ __forceinline__ void map(Tile& dst, const Tile& src, F&& f) {
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Tile::kQuadrantCols; ++c) {
      const float2 v = src.quadrant[r][c];
      dst.quadrant[r][c] = {f(v.x), f(v.y)};
    }
  }
}
// dst = f(a, b)
template <FloatTile Tile, class F>
__device__ __forceinline__ void map(Tile& dst, const Tile& a, const Tile& b, F&& f) {
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Tile::kQuadrantCols; ++c) {
      const float2 v = a.quadrant[r][c], w = b.quadrant[r][c];
      dst.quadrant[r][c] = {f(v.x, w.x), f(v.y, w.y)};
    }
  }
}
template <FloatVector Vector, class F>
__device__ __forceinline__ void map(Vector& dst, const Vector& a, const Vector& b, F&& f) {
#pragma unroll
  for (int q = 0; q < Vector::kQuadrants; ++q) {
    if constexpr (Vector::kAlong == Along::kPairs) {
      dst.quadrant[q] = {f(a.quadrant[q].x, b.quadrant[q].x), f(a.quadrant[q].y, b.quadrant[q].y)};
    } else {
      dst.quadrant[q] = f(a.quadrant[q], b.quadrant[q]);
    }
  }
}
template <FloatTile Tile>
__device__ __forceinline__ void add(Tile& dst, const Tile& a, const Tile& b) {
  map(dst, a, b, [](float v, float w) { return v + w; });
}
// re + i im = (re + i im) (c + i s), element by element; kConjugate: by c - i s.
template <bool kConjugate = false, FloatTile Tile>
__device__ __forceinline__ void multiply_complex(Tile& re, Tile& im, const Tile& c, const Tile& s) {
  const auto product = [](float& x, float& y, float u, float v) {
    const float w = kConjugate ? -v : v, real = x * u - y * w;
    y = x * w + y * u;
    x = real;
  };
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
#pragma unroll
    for (int q = 0; q < Tile::kQuadrantCols; ++q) {
      float2 &x = re.quadrant[r][q], &y = im.quadrant[r][q];
      product(x.x, y.x, c.quadrant[r][q].x, s.quadrant[r][q].x);
      product(x.y, y.y, c.quadrant[r][q].y, s.quadrant[r][q].y);
    }
  }
}

// Adds src to the columns of dst that begin at `first`, a multiple of 8.
template <FloatTile Dst, FloatTile Src>
requires(Dst::kLayout == Src::kLayout && Dst::kRows == Src::kRows &&
         Dst::kCols % Src::kCols == 0) __device__ __forceinline__
    void add_columns(Dst& dst, const Src& src, int first) {
#pragma unroll
  for (int r = 0; r < Src::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < Src::kQuadrantCols; ++c) {
      float2& v = dst.quadrant[r][first / kQuadrant + c];
      v = {v.x + src.quadrant[r][c].x, v.y + src.quadrant[r][c].y};
    }
  }
}

// dst = f(src, the vector's value for the element's row, the element's column)
template <AccumulatorTile Tile, class T, class F>
__device__ __forceinline__ void map_rows(Tile& dst, const Tile& src, const RowVector<Tile, T>& rows, F&& f,
                                         uint32_t lane = lane_id()) {
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
    const T of_row = rows.quadrant[r];
#pragma unroll
    for (int c = 0; c < Tile::kQuadrantCols; ++c) {
      const float2 v = src.quadrant[r][c];
      dst.quadrant[r][c] = {f(v.x, of_row, Tile::col_of(lane, c, 0)),
                            f(v.y, of_row, Tile::col_of(lane, c, 1))};
    }
  }
}
// dst = f(src, the value for the element's row, the value for its column)
template <AccumulatorTile Tile, class T, class U, class F>
__device__ __forceinline__ void map_rows_and_columns(Tile& dst, const Tile& src,
                                                     const RowVector<Tile, T>& rows,
                                                     const ColumnVector<Tile, U>& columns, F&& f) {
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
    const T of_row = rows.quadrant[r];
#pragma unroll
    for (int c = 0; c < Tile::kQuadrantCols; ++c) {
      const float2 v = src.quadrant[r][c];
      const Pair<U> of_column = columns.quadrant[c];
      dst.quadrant[r][c] = {f(v.x, of_row, of_column.x), f(v.y, of_row, of_column.y)};
    }
  }
}
// dst = f(src, the vector's value for the element's column, the element's row)
template <AccumulatorTile Tile, class T, class F>
__device__ __forceinline__ void map_columns(Tile& dst, const Tile& src, const ColumnVector<Tile, T>& columns,
                                            F&& f, uint32_t lane = lane_id()) {
#pragma unroll
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
    const uint32_t row = Tile::row_of(lane, r, 0);
#pragma unroll
    for (int c = 0; c < Tile::kQuadrantCols; ++c) {
      const float2 v = src.quadrant[r][c];
      const Pair<T> of_column = columns.quadrant[c];
      dst.quadrant[r][c] = {f(v.x, of_column.x, row), f(v.y, of_column.y, row)};
    }
  }
}

}  // namespace serval::tiles

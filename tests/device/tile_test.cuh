// Shared by the tests of the tile library: matrices on both sides, and register tiles that are filled and
// read by the layout of types/layout.cuh without the library's loads and stores.
#pragma once

#include <cmath>
#include <cuda_fp16.h>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"

#include "tests/device/needs_gpu.h"
#include "tests/instructions/random.h"
#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"
#include "vm/device/device_array.h"
#include "vm/tiles/tiles.cuh"

namespace serval::testing {

using tiles::Bf16, tiles::E4m3, tiles::Fp16, tiles::Layout;

// Elements as numbers; rounds to nearest.
template <class T>
float to_float(T v) {
  if constexpr (std::is_same_v<T, Bf16>) return bf16_to_float(v.bits);
  if constexpr (std::is_same_v<T, Fp16>) return fp16_to_float(v.bits);
  if constexpr (std::is_same_v<T, E4m3>) return e4m3_to_float(v.bits);
  if constexpr (std::is_same_v<T, float>) return v;
}
template <class T>
T from_float(float v) {
  if constexpr (std::is_same_v<T, Bf16>) return {float_to_bf16(v)};
  if constexpr (std::is_same_v<T, Fp16>) return {__half_as_ushort(__float2half_rn(v))};
  if constexpr (std::is_same_v<T, E4m3>) return {float_to_e4m3(v)};
  if constexpr (std::is_same_v<T, float>) return v;
}

// Row-major.
template <class T>
struct Matrix {
  int rows, cols;
  std::vector<T> data;

  Matrix(int r, int c) : rows(r), cols(c), data(static_cast<size_t>(r) * c) {}
  Matrix(int r, int c, std::vector<T> d) : rows(r), cols(c), data(std::move(d)) {}
  // Integers from -8 to 8: sums of their products are exact in fp32.
  Matrix(int r, int c, Random& random) : Matrix(r, c) {
    for (T& v : data) v = from_float<T>(static_cast<float>(random.between(0, 16)) - 8);
  }
  float at(int r, int c) const { return to_float(data[static_cast<size_t>(r) * cols + c]); }
};
// Arbitrary numbers.
inline Matrix<float> random_matrix(int rows, int cols, Random& random) {
  Matrix<float> out(rows, cols);
  for (float& v : out.data) v = static_cast<float>(random.real(-3, 3));
  return out;
}

// The column that a tile loaded as terms has at the place of column `col`.
inline int term_column(int col) {
  return col / 32 * 32 + col % 8 / 2 * 8 + col % 32 / 8 * 2 + col % 2;
}

template <class T>
DeviceArray<T> to_gpu(const Matrix<T>& m) {
  return DeviceArray<T>(std::span<const T>(m.data));
}
template <class T>
DeviceArray<T> empty_on_gpu(int rows, int cols) {
  DeviceArray<T> out(static_cast<size_t>(rows) * cols);
  SERVAL_CUDA_CHECK(cudaMemset(out.data(), 0xFF, out.size() * sizeof(T)));
  return out;
}

// Expects each element of the matrix to equal f(row, col).
template <class T, class F>
void expect_elements(const DeviceArray<T>& got, int rows, int cols, F&& f) {
  const Matrix<T> m(rows, cols, got.download());
  int wrong = 0;
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c) {
      const float want = f(r, c);
      if (m.at(r, c) == want) continue;
      if (wrong++ == 0) ADD_FAILURE() << "(" << r << ", " << c << ") is " << m.at(r, c) << ", not " << want;
    }
  }
  EXPECT_EQ(wrong, 0) << "of " << rows << " x " << cols;
}

// Runs body(arguments…) in one warp.
template <class Body, class... Arguments>
__global__ void run_warp(Body body, Arguments... arguments) {
  body(arguments...);
}
template <class Body, class... Arguments>
void on_warp(Body body, Arguments... arguments) {
  run_warp<<<1, kWarpThreads>>>(body, arguments...);
  SERVAL_CUDA_CHECK(cudaGetLastError());
  SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
}

template <class Tile>
__device__ void get(Tile& dst, const typename Tile::ElementType* src) {
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
    for (int c = 0; c < Tile::kQuadrantCols; ++c) {
      typename Tile::ElementType pair[2];
      for (int i = 0; i < 2; ++i) {
        pair[i] =
            src[Tile::row_of(tiles::lane_id(), r, i) * Tile::kCols + Tile::col_of(tiles::lane_id(), c, i)];
      }
      memcpy(&dst.quadrant[r][c], pair, sizeof pair);
    }
  }
}
template <class Tile>
__device__ void put(typename Tile::ElementType* dst, const Tile& src) {
  for (int r = 0; r < Tile::kQuadrantRows; ++r) {
    for (int c = 0; c < Tile::kQuadrantCols; ++c) {
      typename Tile::ElementType pair[2];
      memcpy(pair, &src.quadrant[r][c], sizeof pair);
      for (int i = 0; i < 2; ++i) {
        dst[Tile::row_of(tiles::lane_id(), r, i) * Tile::kCols + Tile::col_of(tiles::lane_id(), c, i)] =
            pair[i];
      }
    }
  }
}
// Every lane writes its elements: lanes with the same element agree, or the last one to write is wrong for
// some.
template <class Vector>
__device__ void get(Vector& dst,
                    const typename Vector::ElementType* src) requires tiles::AnyRegisterVector<Vector> {
  for (int q = 0; q < Vector::kQuadrants; ++q) {
    if constexpr (Vector::kAlong == tiles::Along::kPairs) {
      const uint32_t at = q * 8 + 2 * (tiles::lane_id() % 4);
      dst.quadrant[q] = {src[at], src[at + 1]};
    } else {
      dst.quadrant[q] = src[q * 8 + tiles::lane_id() / 4];
    }
  }
}
// dst is [32 lanes, kLength]: the elements of each lane, 0 elsewhere.
template <class Vector>
__device__ void put(typename Vector::ElementType* dst,
                    const Vector& src) requires tiles::AnyRegisterVector<Vector> {
  dst += tiles::lane_id() * Vector::kLength;
  for (int i = 0; i < Vector::kLength; ++i) dst[i] = 0;
  for (int q = 0; q < Vector::kQuadrants; ++q) {
    if constexpr (Vector::kAlong == tiles::Along::kPairs) {
      const uint32_t at = q * 8 + 2 * (tiles::lane_id() % 4);
      dst[at] = src.quadrant[q].x;
      dst[at + 1] = src.quadrant[q].y;
    } else {
      dst[q * 8 + tiles::lane_id() / 4] = src.quadrant[q];
    }
  }
}
// Expects each lane to hold its elements of the vector that f(i) gives.
template <tiles::Along kAlong, class F>
void expect_vector(const DeviceArray<float>& got, int length, F&& f) {
  expect_elements(got, kWarpThreads, length, [&](int lane, int i) {
    const bool holds = kAlong == tiles::Along::kPairs ? i % 8 / 2 == lane % 4 : i % 8 == lane / 4;
    return holds ? f(i) : 0.0F;
  });
}

// Calls fn(std::type_identity<T>()) for each type.
template <class... Ts, class Fn>
void for_types(Fn&& fn) {
  (fn(std::type_identity<Ts>()), ...);
}

}  // namespace serval::testing

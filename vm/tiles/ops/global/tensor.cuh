// Between global and shared memory by the copy engine, through a tensor map: it finds the rows and swizzles
// them, and what lies outside of the matrix is 0 when loaded and left alone when stored. One thread calls;
// ops/global/bulk.cuh says what has to be ordered before.
#pragma once

#include "vm/tiles/ops/global/bulk.cuh"
#include "vm/tiles/types/tensor_map.cuh"

namespace serval::tiles {

// dst = the matrix from (row, col) on. Arrives at `landed`, whose phase is complete when the tile is there.
template <TensorTile Dst>
__device__ __forceinline__ void load_async(Dst& dst, const TensorMap<Dst>& src, uint32_t row, uint32_t col,
                                           uint64_t* landed) {
  ptx::mbarrier_arrive_expect_bytes(landed, kTileBytes<Dst>);
  ptx::tensor_load(dst.data, &src, row, col, landed);
}
// The matrix from (row, col) on = src, as part of the group that the thread commits next.
template <TensorTile Src>
__device__ __forceinline__ void store_async(const TensorMap<Src>& dst, uint32_t row, uint32_t col,
                                            const Src& src) {
  ptx::tensor_store(&dst, row, col, src.data);
}

}  // namespace serval::tiles

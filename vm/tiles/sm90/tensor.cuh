// Copies between global and shared memory by the copy engine, through a tensor map: it finds the rows and
// swizzles them. Elements outside the matrix are loaded as 0 and not stored. Called by one thread; for the
// required ordering see bulk.cuh.
#pragma once

#include "vm/tiles/sm90/bulk.cuh"
#include "vm/tiles/sm90/tensor_map.cuh"

namespace serval::tiles {

// dst = the matrix at (row, col). Arrives at `landed`; its phase is complete when the tile has landed.
template <TensorTile Dst>
__device__ __forceinline__ void load_async(Dst& dst, const TensorMap<Dst>& src, uint32_t row, uint32_t col,
                                           uint64_t* landed) {
  ptx::mbarrier_arrive_expect_bytes(landed, kTileBytes<Dst>);
  ptx::tensor_load(dst.data, &src, row, col, landed);
}
// The matrix at (row, col) = src; belongs to the group that the thread commits next.
template <TensorTile Src>
__device__ __forceinline__ void store_async(const TensorMap<Src>& dst, uint32_t row, uint32_t col,
                                            const Src& src) {
  ptx::tensor_store(&dst, row, col, src.data);
}

}  // namespace serval::tiles

// Clusters: blocks that run at the same time on neighbouring SMs and reach each other's shared memory; one
// thin function for each PTX instruction.
#pragma once

#include <cstdint>

#include "vm/ptx/address.cuh"

namespace serval::ptx {

// This block's number in its cluster.
__device__ __forceinline__ uint32_t cluster_block() {
  uint32_t v;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(v));
  return v;
}
// Barrier of all threads of the cluster, called by whole warps; orders their accesses to shared memory.
__device__ __forceinline__ void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}
// Arrives at the mbarrier that lies in block `block` of the cluster where `barrier` lies in this block.
// Releases to threads of this block only: reads by products and copies, which are complete, need no more, and
// a fence for the cluster would take as long as a step's products.
__device__ __forceinline__ void mbarrier_arrive_at(uint64_t* barrier, uint32_t block) {
  asm volatile(
      "{.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(shared_address(barrier)),
      "r"(block)
      : "memory");
}
// Loads the box of a tensor map at (row, col) to the same place in each block of the cluster whose bit is set
// in `blocks`; each copy reports to the mbarrier at `landed`'s place in its own block.
__device__ __forceinline__ void tensor_load_multicast(void* to_shared, const void* map, uint32_t row,
                                                      uint32_t col, uint64_t* landed, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to_shared)),
      "l"(map), "r"(col), "r"(row), "r"(shared_address(landed)), "h"(blocks)
      : "memory");
}

}  // namespace serval::ptx

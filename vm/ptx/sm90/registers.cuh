// Registers of a thread, which a warpgroup (four consecutive warps) changes while the kernel runs.
#pragma once

#include <cstdint>

namespace serval::ptx {

template <uint32_t kRegisters>
__device__ __forceinline__ void set_max_registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <uint32_t kRegisters>
__device__ __forceinline__ void set_max_registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace serval::ptx

// Overlap of a kernel's end with the next kernel's begin in the same stream (programmatic dependent launch);
// one thin function for each PTX instruction. Without the launch attribute both do nothing.
#pragma once

namespace serval::ptx {

// Returns when the kernels before have ended and their writes are visible. Each thread calls it before it
// accesses global memory.
__device__ __forceinline__ void wait_for_kernels_before() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
// When all blocks have called this or exited, blocks of the next kernel may start where there is room.
__device__ __forceinline__ void let_next_kernel_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace serval::ptx

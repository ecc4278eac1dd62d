// One thin function for each PTX instruction that the device interpreter uses, named after it. The memory
// ordering that each gives is the PTX ISA's ("Memory Consistency Model"); docs/memory_model.md says which
// paths are built from them.
#pragma once

#include <cstdint>

namespace serval::device::ptx {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// --- mbarriers in shared memory
__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}
// Makes initialised mbarriers visible to the copy engine; a block barrier must follow.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_bytes(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
}
// True once the phase of this parity is complete; may sleep for a while first.
__device__ __forceinline__ bool mbarrier_try_wait(uint64_t* barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

// The same, without sleep.
__device__ __forceinline__ bool mbarrier_test_wait(uint64_t* barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{.reg .pred p;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

// --- bulk copies: `bytes` and both addresses are multiples of 16
__device__ __forceinline__ void bulk_load(void* to_shared, const void* from_global, uint32_t bytes,
                                          uint64_t* landed) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(to_shared)),
      "l"(from_global), "r"(bytes), "r"(shared_address(landed))
      : "memory");
}
// The same, of what is read once and then not for long: it is the first to make room in L2.
__device__ __forceinline__ void bulk_load_once(void* to_shared, const void* from_global, uint32_t bytes,
                                               uint64_t* landed) {
  asm volatile(
      "{.reg .b64 policy;\n"
      "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], policy;}" ::"r"(shared_address(to_shared)),
      "l"(from_global), "r"(bytes), "r"(shared_address(landed))
      : "memory");
}
// Orders what this thread knows through the generic proxy before its later bulk copies from global memory.
__device__ __forceinline__ void fence_proxy_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}
// Orders reads and writes of shared memory through the generic proxy, as far as this thread knows of them,
// before later bulk copies from or to there.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// --- global memory that other SMs write: never from L1
__device__ __forceinline__ uint32_t load_acquire(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void add_release(uint32_t* p, uint32_t increment) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(increment) : "memory");
}
__device__ __forceinline__ void store_release_system(uint32_t* p, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}
__device__ __forceinline__ uint32_t load_relaxed(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ float load_relaxed(const float* p) {
  float v;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ float4 load_relaxed(const float4* p) {
  float4 v;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
__device__ __forceinline__ uint4 load_relaxed(const uint4* p) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
__device__ __forceinline__ void store_relaxed(float* p, float value) {
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(p), "f"(value) : "memory");
}
__device__ __forceinline__ void store_relaxed(float2* p, float2 value) {
  asm volatile("st.relaxed.gpu.global.v2.f32 [%0], {%1, %2};" ::"l"(p), "f"(value.x), "f"(value.y)
               : "memory");
}
__device__ __forceinline__ void store_relaxed(uint32_t* p, uint32_t value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}
__device__ __forceinline__ void store_relaxed(uint16_t* p, uint16_t value) {
  asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" ::"l"(p), "h"(value) : "memory");
}
// Weights and constants: never written while a program runs.
__device__ __forceinline__ uint4 load_constant(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
__device__ __forceinline__ uint2 load_constant(const uint2* p) {
  uint2 v;
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  return v;
}
__device__ __forceinline__ float load_constant(const float* p) {
  float v;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(p));
  return v;
}

// --- shared memory between the warps of a block
__device__ __forceinline__ uint32_t shared_load_acquire(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.acquire.cta.shared::cta.u32 %0, [%1];" : "=r"(v) : "r"(shared_address(p)) : "memory");
  return v;
}
__device__ __forceinline__ void shared_store_release(uint32_t* p, uint32_t value) {
  asm volatile("st.release.cta.shared::cta.u32 [%0], %1;" ::"r"(shared_address(p)), "r"(value) : "memory");
}
__device__ __forceinline__ void shared_add_release(uint32_t* p, uint32_t increment) {
  asm volatile("red.release.cta.shared::cta.add.u32 [%0], %1;" ::"r"(shared_address(p)), "r"(increment)
               : "memory");
}
__device__ __forceinline__ uint32_t shared_fetch_add_acquire_release(uint32_t* p, uint32_t increment) {
  uint32_t v;
  asm volatile("atom.acq_rel.cta.shared::cta.add.u32 %0, [%1], %2;"
               : "=r"(v)
               : "r"(shared_address(p)), "r"(increment)
               : "memory");
  return v;
}
__device__ __forceinline__ uint4 shared_load(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared::cta.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ float shared_load_float(uint32_t address) {
  float v;
  asm volatile("ld.shared::cta.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ void shared_store(uint32_t address, float value) {
  asm volatile("st.shared::cta.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

// --- arithmetic
// d += a × b: a is 16×16 bf16 (row), b is 16×8 bf16 (column), d is 16×8 fp32.
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const uint4& a, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
// Two floats rounded to bf16, nearest even; `low` is in the lower half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t v;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
  return v;
}
__device__ __forceinline__ float bf16_low(uint32_t pair) {
  return __uint_as_float(pair << 16);
}
__device__ __forceinline__ float bf16_high(uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}

// This thread leaves the kernel.
__device__ __forceinline__ void exit_thread() {
  asm volatile("exit;");
}
// Returns when all other threads of the block have exited: a block barrier counts those that have not. None
// of them may come to one any more.
__device__ __forceinline__ void wait_for_others_to_exit() {
  asm volatile("barrier.cta.sync 0;" ::: "memory");
}

// The thread's index in its block, read anew each time: what is computed from it in a loop stays in the loop.
// Else the compiler keeps the beginnings of all addresses of all instructions in registers, and spills.
__device__ __forceinline__ uint32_t thread_index() {
  uint32_t v;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(v));
  return v;
}
template <uint32_t kRegisters>
__device__ __forceinline__ void set_max_registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <uint32_t kRegisters>
__device__ __forceinline__ void set_max_registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
// The SM's own clock, and its low word.
__device__ __forceinline__ uint64_t clock_ticks64() {
  uint64_t v;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(v));
  return v;
}
__device__ __forceinline__ uint32_t clock_ticks() {
  uint32_t v;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(v));
  return v;
}
// The clock that all SMs share; it moves in steps.
__device__ __forceinline__ uint64_t global_nanoseconds() {
  uint64_t v;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(v));
  return v;
}

}  // namespace serval::device::ptx

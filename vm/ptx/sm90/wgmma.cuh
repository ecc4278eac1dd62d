// Tensor core instructions of a warpgroup (four consecutive warps): wgmma, whose first operand is in
// registers or shared memory and whose second operand is in shared memory. Asynchronous: registers that an
// instruction reads or accumulates into may be accessed again only after its group is complete.
#pragma once

#include <cstdint>

#include "vm/ptx/address.cuh"

namespace serval::ptx {

// Orders the threads' earlier accesses to registers, and to shared memory where a proxy fence has ordered
// those, before later wgmma instructions.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Returns when all groups but the kPending latest are complete.
template <uint32_t kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// An operand in shared memory: the low word of its matrix descriptor. The high word is the same for all
// (stride of 1,024 bytes between 8 rows; 128-byte swizzle) and is added where the operand is used. The
// instructions read both words from uniform registers, so the compiler must know that the low word is uniform
// in the warp.
using WgmmaOperand = uint32_t;
inline constexpr uint32_t kWgmmaUnit = 16;  // bytes; unit of addresses and strides in descriptors
#define SERVAL_WGMMA_OPERAND(d, i) \
  ".reg .b64 " #d "; cvt.u64.u32 " #d ", %" #i "; or.b64 " #d ", " #d ", 0x4000004000000000; "

// Operand of 128-byte rows in shared memory with TMA's 128-byte swizzle (tiles::OperandSwizzle); each group
// of 8 rows begins at a multiple of 1,024 bytes.
__device__ __forceinline__ WgmmaOperand wgmma_operand(uint32_t shared_address) {
  return (shared_address / kWgmmaUnit & 0x3fc0) | 1U << 16;
}
// Added to an operand, moves it 16 columns of 16 bits further.
inline constexpr WgmmaOperand kWgmmaNextTerms = 2;

// Operand of a transposed product (wgmma_bf16_transposed()) from such rows: each row is a term with 64
// columns; the next 64 columns lie `next_columns` bytes further.
__device__ __forceinline__ WgmmaOperand wgmma_operand_transposed(uint32_t shared_address,
                                                                 uint32_t next_columns) {
  return (shared_address / kWgmmaUnit & 0x3fff) | (next_columns / kWgmmaUnit & 0x3fff) << 16;
}
// Added to a transposed operand, moves it 16 terms further.
inline constexpr WgmmaOperand kWgmmaNextTransposedTerms = 128;

// d += a × b, or d = a × b if `adds` is false; bf16, accumulated in fp32. d is 64 × kCols: of each 8 columns
// b, a thread has rows lane / 4 and lane / 4 + 8 of its warp's 16 at columns 8b + 2 (lane mod 4) and the
// next. a is 64 × 16; each warp has 16 of its rows, as the first operand of mma. b is 16 × kCols in shared
// memory, with contiguous terms.
template <uint32_t kCols>
__device__ __forceinline__ void wgmma_bf16(float (&d)[kCols / 2], const uint32_t (&a)[4], WgmmaOperand b,
                                           bool adds);
// wgmma_bf16() with both operands in fp16.
template <uint32_t kCols>
__device__ __forceinline__ void wgmma_fp16(float (&d)[kCols / 2], const uint32_t (&a)[4], WgmmaOperand b,
                                           bool adds);

// wgmma_bf16() with the transposed b: terms are rows of 64 contiguous columns (wgmma_operand_transposed).
template <uint32_t kCols>
__device__ __forceinline__ void wgmma_bf16_transposed(float (&d)[kCols / 2], const uint32_t (&a)[4],
                                                      WgmmaOperand b, bool adds);
// wgmma_bf16<64>() with a in shared memory, too (wgmma_operand of 64 rows).
__device__ __forceinline__ void wgmma_bf16_shared(float (&d)[32], WgmmaOperand a, WgmmaOperand b, bool adds);
// A product of 64 × 8, with a and b in shared memory as above (64 and 8 rows).
__device__ __forceinline__ void wgmma_bf16_shared(float (&d)[4], WgmmaOperand a, WgmmaOperand b, bool adds);
// A product of 64 × 8 with the transposed a: terms are rows of 64 contiguous elements
// (wgmma_operand_transposed).
__device__ __forceinline__ void wgmma_bf16_shared_transposed(float (&d)[4], WgmmaOperand a, WgmmaOperand b,
                                                             bool adds);

#define SERVAL_D8(i)                                                                                    \
  "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), "+f"(d[(i) + 4]), "+f"(d[(i) + 5]), \
      "+f"(d[(i) + 6]), "+f"(d[(i) + 7])
#define SERVAL_D16(i) SERVAL_D8(i), SERVAL_D8((i) + 8)
#define SERVAL_D32(i) SERVAL_D16(i), SERVAL_D16((i) + 16)
#define SERVAL_D64(i) SERVAL_D32(i), SERVAL_D32((i) + 32)
#define SERVAL_D128(i) SERVAL_D64(i), SERVAL_D64((i) + 64)

// wgmma_bf16() and wgmma_fp16() for each number of columns.
#define SERVAL_WGMMA_OF_REGISTERS(function, type)                                                      \
  template <>                                                                                          \
  __device__ __forceinline__ void function<16>(float(&d)[8], const uint32_t(&a)[4], WgmmaOperand b,    \
                                               bool adds) {                                            \
    asm volatile( \
      "{.reg .pred adds;\n" \
      SERVAL_WGMMA_OPERAND(b, 12) \
      "setp.ne.b32 adds, %13, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32." type "." type " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7" \
      "}, {%8, %9, %10, %11}, b, adds, 1, 1, 0;}" \
      : SERVAL_D8(0) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(static_cast<uint32_t>(adds)));                                                                                    \
  }                                                                                                    \
                                                                                                       \
  template <>                                                                                          \
  __device__ __forceinline__ void function<32>(float(&d)[16], const uint32_t(&a)[4], WgmmaOperand b,   \
                                               bool adds) {                                            \
    asm volatile( \
      "{.reg .pred adds;\n" \
      SERVAL_WGMMA_OPERAND(b, 20) \
      "setp.ne.b32 adds, %21, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
      "}, {%16, %17, %18, %19}, b, adds, 1, 1, 0;}" \
      : SERVAL_D16(0) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(static_cast<uint32_t>(adds)));                                                                                    \
  }                                                                                                    \
                                                                                                       \
  template <>                                                                                          \
  __device__ __forceinline__ void function<64>(float(&d)[32], const uint32_t(&a)[4], WgmmaOperand b,   \
                                               bool adds) {                                            \
    asm volatile( \
      "{.reg .pred adds;\n" \
      SERVAL_WGMMA_OPERAND(b, 36) \
      "setp.ne.b32 adds, %37, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
      "}, {%32, %33, %34, %35}, b, adds, 1, 1, 0;}" \
      : SERVAL_D32(0) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(static_cast<uint32_t>(adds)));                                                                                    \
  }                                                                                                    \
                                                                                                       \
  template <>                                                                                          \
  __device__ __forceinline__ void function<128>(float(&d)[64], const uint32_t(&a)[4], WgmmaOperand b,  \
                                                bool adds) {                                           \
    asm volatile( \
      "{.reg .pred adds;\n" \
      SERVAL_WGMMA_OPERAND(b, 68) \
      "setp.ne.b32 adds, %69, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
      "}, {%64, %65, %66, %67}, b, adds, 1, 1, 0;}" \
      : SERVAL_D64(0) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(static_cast<uint32_t>(adds)));                                                                                    \
  }                                                                                                    \
                                                                                                       \
  template <>                                                                                          \
  __device__ __forceinline__ void function<256>(float(&d)[128], const uint32_t(&a)[4], WgmmaOperand b, \
                                                bool adds) {                                           \
    asm volatile( \
      "{.reg .pred adds;\n" \
      SERVAL_WGMMA_OPERAND(b, 132) \
      "setp.ne.b32 adds, %133, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127" \
      "}, {%128, %129, %130, %131}, b, adds, 1, 1, 0;}" \
      : SERVAL_D128(0) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(static_cast<uint32_t>(adds)));                                                                                    \
  }
SERVAL_WGMMA_OF_REGISTERS(wgmma_bf16, "bf16")
SERVAL_WGMMA_OF_REGISTERS(wgmma_fp16, "f16")
#undef SERVAL_WGMMA_OF_REGISTERS

template <>
__device__ __forceinline__ void wgmma_bf16_transposed<64>(float (&d)[32], const uint32_t (&a)[4],
                                                          WgmmaOperand b, bool adds) {
  asm volatile(
      "{.reg .pred adds;\n"
      SERVAL_WGMMA_OPERAND(b, 36)
      "setp.ne.b32 adds, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, b, adds, 1, 1, 1;}"
      : SERVAL_D32(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(static_cast<uint32_t>(adds)));
}

template <>
__device__ __forceinline__ void wgmma_bf16_transposed<128>(float (&d)[64], const uint32_t (&a)[4],
                                                           WgmmaOperand b, bool adds) {
  asm volatile(
      "{.reg .pred adds;\n"
      SERVAL_WGMMA_OPERAND(b, 68)
      "setp.ne.b32 adds, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, b, adds, 1, 1, 1;}"
      : SERVAL_D64(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(static_cast<uint32_t>(adds)));
}

__device__ __forceinline__ void wgmma_bf16_shared(float (&d)[32], WgmmaOperand a, WgmmaOperand b, bool adds) {
  asm volatile(
      "{.reg .pred adds;\n"
      SERVAL_WGMMA_OPERAND(a, 32) SERVAL_WGMMA_OPERAND(b, 33)
      "setp.ne.b32 adds, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, a, b, adds, 1, 1, 0, 0;}"
      : SERVAL_D32(0)
      : "r"(a), "r"(b), "r"(static_cast<uint32_t>(adds)));
}

__device__ __forceinline__ void wgmma_bf16_shared(float (&d)[4], WgmmaOperand a, WgmmaOperand b, bool adds) {
  asm volatile(
      "{.reg .pred adds;\n"
      SERVAL_WGMMA_OPERAND(a, 4) SERVAL_WGMMA_OPERAND(b, 5)
      "setp.ne.b32 adds, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, a, b, adds, 1, 1, 0, 0;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a), "r"(b), "r"(static_cast<uint32_t>(adds)));
}

__device__ __forceinline__ void wgmma_bf16_shared_transposed(float (&d)[4], WgmmaOperand a, WgmmaOperand b,
                                                             bool adds) {
  asm volatile(
      "{.reg .pred adds;\n"
      SERVAL_WGMMA_OPERAND(a, 4) SERVAL_WGMMA_OPERAND(b, 5)
      "setp.ne.b32 adds, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, a, b, adds, 1, 1, 1, 0;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a), "r"(b), "r"(static_cast<uint32_t>(adds)));
}

#undef SERVAL_WGMMA_OPERAND
#undef SERVAL_D8
#undef SERVAL_D16
#undef SERVAL_D32
#undef SERVAL_D64
#undef SERVAL_D128

}  // namespace serval::ptx

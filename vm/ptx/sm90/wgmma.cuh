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

// Types of the operands.
enum class WgmmaType : uint8_t { kBf16, kFp16, kE4m3 };
// Bytes of a row's terms that one product takes: 16 terms of 16 bits, 32 of 8 bits.
inline constexpr uint32_t kWgmmaTermBytes = 32;

// Products of one instruction, accumulated in fp32: d += a × b, or d = a × b if `adds` is false. d is 64 ×
// kCols: of each 8 columns b, a thread has rows lane / 4 and lane / 4 + 8 of its warp's 16 at columns 8b + 2
// (lane mod 4) and the next. a is 64 rows of terms; each warp has 16 of its rows, in registers as the first
// operand of mma, or all lie in shared memory (wgmma_operand()). b is terms × kCols in shared memory, with
// contiguous terms; if kTransposed, with rows of 64 contiguous columns (wgmma_operand_transposed(); 16-bit
// types only). Defined for 8, 16, 32, 64, 96, 128, 192 and 256 columns.
template <WgmmaType kType, uint32_t kCols, bool kTransposed = false>
struct Wgmma;

#define SERVAL_D4(i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define SERVAL_D8(i) SERVAL_D4(i), SERVAL_D4((i) + 4)
#define SERVAL_D16(i) SERVAL_D8(i), SERVAL_D8((i) + 8)
#define SERVAL_D32(i) SERVAL_D16(i), SERVAL_D16((i) + 16)
#define SERVAL_D48(i) SERVAL_D32(i), SERVAL_D16((i) + 32)
#define SERVAL_D64(i) SERVAL_D32(i), SERVAL_D32((i) + 32)
#define SERVAL_D96(i) SERVAL_D64(i), SERVAL_D32((i) + 64)
#define SERVAL_D128(i) SERVAL_D64(i), SERVAL_D64((i) + 64)

// One form. `adds` is operand number A5 or A2, after the sums (numbers below A0) and the operands of a and b.
// clang-format off
#define SERVAL_WGMMA(type, name, shape, cols, transposed, sums, list, outputs, in_registers, in_shared,       \
                     A0, A1, A2, A3, A4, A5)                                                                   \
  template <>                                                                                                  \
  struct Wgmma<WgmmaType::type, cols, transposed> {                                                            \
    static __device__ __forceinline__ void multiply(float (&d)[sums], const uint32_t (&a)[4], WgmmaOperand b,  \
                                                    bool adds) {                                               \
      asm volatile(                                                                                            \
          "{.reg .pred adds;\n"                                                                                \
          SERVAL_WGMMA_OPERAND(b, A4)                                                                          \
          "setp.ne.b32 adds, %" #A5 ", 0;\n"                                                                   \
          "wgmma.mma_async.sync.aligned.m64n" #cols shape ".f32." name "." name " {" list "}, "                \
          "{%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, b, adds, 1, 1" in_registers ";}"                          \
          : outputs(0)                                                                                         \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(static_cast<uint32_t>(adds)));             \
    }                                                                                                          \
    static __device__ __forceinline__ void multiply(float (&d)[sums], WgmmaOperand a, WgmmaOperand b,          \
                                                    bool adds) {                                               \
      asm volatile(                                                                                            \
          "{.reg .pred adds;\n"                                                                                \
          SERVAL_WGMMA_OPERAND(a, A0) SERVAL_WGMMA_OPERAND(b, A1)                                              \
          "setp.ne.b32 adds, %" #A2 ", 0;\n"                                                                   \
          "wgmma.mma_async.sync.aligned.m64n" #cols shape ".f32." name "." name " {" list "}, "                \
          "a, b, adds, 1, 1" in_shared ";}"                                                                    \
          : outputs(0)                                                                                         \
          : "r"(a), "r"(b), "r"(static_cast<uint32_t>(adds)));                                                 \
    }                                                                                                          \
  };
#define SERVAL_WGMMA_OF_COLUMNS(cols, sums, list, outputs, ...)                                                \
  SERVAL_WGMMA(kBf16, "bf16", "k16", cols, false, sums, list, outputs, ", 0", ", 0, 0", __VA_ARGS__)           \
  SERVAL_WGMMA(kBf16, "bf16", "k16", cols, true, sums, list, outputs, ", 1", ", 0, 1", __VA_ARGS__)            \
  SERVAL_WGMMA(kFp16, "f16", "k16", cols, false, sums, list, outputs, ", 0", ", 0, 0", __VA_ARGS__)            \
  SERVAL_WGMMA(kFp16, "f16", "k16", cols, true, sums, list, outputs, ", 1", ", 0, 1", __VA_ARGS__)             \
  SERVAL_WGMMA(kE4m3, "e4m3", "k32", cols, false, sums, list, outputs, "", "", __VA_ARGS__)

#define SERVAL_SUMS_4 \
  "%0, %1, %2, %3"
#define SERVAL_SUMS_8 SERVAL_SUMS_4 ", " \
  "%4, %5, %6, %7"
#define SERVAL_SUMS_16 SERVAL_SUMS_8 ", " \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define SERVAL_SUMS_32 SERVAL_SUMS_16 ", " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SERVAL_SUMS_48 SERVAL_SUMS_32 ", " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define SERVAL_SUMS_64 SERVAL_SUMS_48 ", " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SERVAL_SUMS_96 SERVAL_SUMS_64 ", " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define SERVAL_SUMS_128 SERVAL_SUMS_96 ", " \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

SERVAL_WGMMA_OF_COLUMNS(8, 4, SERVAL_SUMS_4, SERVAL_D4, 4, 5, 6, 7, 8, 9)
SERVAL_WGMMA_OF_COLUMNS(16, 8, SERVAL_SUMS_8, SERVAL_D8, 8, 9, 10, 11, 12, 13)
SERVAL_WGMMA_OF_COLUMNS(32, 16, SERVAL_SUMS_16, SERVAL_D16, 16, 17, 18, 19, 20, 21)
SERVAL_WGMMA_OF_COLUMNS(64, 32, SERVAL_SUMS_32, SERVAL_D32, 32, 33, 34, 35, 36, 37)
SERVAL_WGMMA_OF_COLUMNS(96, 48, SERVAL_SUMS_48, SERVAL_D48, 48, 49, 50, 51, 52, 53)
SERVAL_WGMMA_OF_COLUMNS(128, 64, SERVAL_SUMS_64, SERVAL_D64, 64, 65, 66, 67, 68, 69)
SERVAL_WGMMA_OF_COLUMNS(192, 96, SERVAL_SUMS_96, SERVAL_D96, 96, 97, 98, 99, 100, 101)
SERVAL_WGMMA_OF_COLUMNS(256, 128, SERVAL_SUMS_128, SERVAL_D128, 128, 129, 130, 131, 132, 133)
// clang-format on
#undef SERVAL_WGMMA
#undef SERVAL_WGMMA_OF_COLUMNS
#undef SERVAL_SUMS_4
#undef SERVAL_SUMS_8
#undef SERVAL_SUMS_16
#undef SERVAL_SUMS_32
#undef SERVAL_SUMS_48
#undef SERVAL_SUMS_64
#undef SERVAL_SUMS_96
#undef SERVAL_SUMS_128

// Short names of the forms that instructions use.
template <uint32_t kCols>
__device__ __forceinline__ void wgmma_bf16(float (&d)[kCols / 2], const uint32_t (&a)[4], WgmmaOperand b,
                                           bool adds) {
  Wgmma<WgmmaType::kBf16, kCols>::multiply(d, a, b, adds);
}
template <uint32_t kCols>
__device__ __forceinline__ void wgmma_fp16(float (&d)[kCols / 2], const uint32_t (&a)[4], WgmmaOperand b,
                                           bool adds) {
  Wgmma<WgmmaType::kFp16, kCols>::multiply(d, a, b, adds);
}
template <uint32_t kCols>
__device__ __forceinline__ void wgmma_bf16_transposed(float (&d)[kCols / 2], const uint32_t (&a)[4],
                                                      WgmmaOperand b, bool adds) {
  Wgmma<WgmmaType::kBf16, kCols, true>::multiply(d, a, b, adds);
}
template <uint32_t kSums>
__device__ __forceinline__ void wgmma_bf16_shared(float (&d)[kSums], WgmmaOperand a, WgmmaOperand b,
                                                  bool adds) {
  Wgmma<WgmmaType::kBf16, kSums * 2>::multiply(d, a, b, adds);
}
// A product of 64 × 8 with the transposed a: terms are rows of 64 contiguous elements
// (wgmma_operand_transposed).
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
#undef SERVAL_D4
#undef SERVAL_D8
#undef SERVAL_D16
#undef SERVAL_D32
#undef SERVAL_D48
#undef SERVAL_D64
#undef SERVAL_D96
#undef SERVAL_D128

}  // namespace serval::ptx

// Every form of wgmma that kernels use (vm/ptx/sm90/wgmma.cuh): 64 rows times a few columns over 64 terms of
// small integers, whose products and sums are exact; in bf16, and in fp16 where there is such a form.
#include <algorithm>
#include <string>
#include <type_traits>

#include "gtest/gtest.h"

#include "tests/device/tile_test.cuh"
#include "vm/ptx/sm90/ptx.cuh"

namespace serval::testing {
namespace {

constexpr uint32_t kRows = 64, kTerms = 64, kThreads = 128, kRowBytes = 128;
constexpr uint32_t kPartBytes = kTerms * kRowBytes;  // for 64 columns, a row for each term
constexpr float kBefore = 5;                         // initial value of the sums

// Location and layout of the operands.
enum class Form {
  kRegisters,            // a in registers; b: terms contiguous
  kRegistersTransposed,  // a in registers; b: a row for each term
  kShared,               // both: terms contiguous
  kSharedTransposed,     // a: a row for each term; b: terms contiguous
};

// Byte offset of element `col` in a swizzled row of 64.
__device__ uint32_t swizzled(uint32_t row, uint32_t col) {
  return row * kRowBytes + (col / 8 ^ row % 8) * 16 + col % 8 * sizeof(Bf16);
}
// Copies [rows, kTerms] to shared memory: a row for each row, or for each term a row of 64 of them.
template <class Element>
__device__ void place(std::byte* to, const Element* from, uint32_t rows, bool transposed) {
  for (uint32_t i = threadIdx.x; i < rows * kTerms; i += kThreads) {
    const uint32_t r = i / kTerms, t = i % kTerms;
    const uint32_t at = transposed ? r / 64 * kPartBytes + swizzled(t, r % 64) : swizzled(r, t);
    *reinterpret_cast<Element*>(to + at) = from[i];
  }
}

// The warp's 16 rows of 16 terms, as mma's first operand.
template <class Element>
__device__ void load_rows(uint32_t (&a)[4], const Element* from, uint32_t first_term) {
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t row = warp * 16 + lane / 4 + i % 2 * 8, term = first_term + lane % 4 * 2 + i / 2 * 8;
    a[i] = *reinterpret_cast<const uint32_t*>(from + row * kTerms + term);
  }
}

template <Form kForm, uint32_t kCols, class Element>
__device__ void multiply(float (&d)[kCols / 2], const Element* a, const std::byte* shared_a,
                         const std::byte* shared_b, uint32_t step, bool adds) {
  const ptx::WgmmaOperand rows =
      ptx::wgmma_operand(ptx::shared_address(shared_a)) + step * ptx::kWgmmaNextTerms;
  const ptx::WgmmaOperand cols =
      ptx::wgmma_operand(ptx::shared_address(shared_b)) + step * ptx::kWgmmaNextTerms;
  const ptx::WgmmaOperand next = step * ptx::kWgmmaNextTransposedTerms;
  if constexpr (kForm == Form::kShared) {
    ptx::wgmma_bf16_shared(d, rows, cols, adds);
  } else if constexpr (kForm == Form::kSharedTransposed) {
    const ptx::WgmmaOperand terms =
        ptx::wgmma_operand_transposed(ptx::shared_address(shared_a), kPartBytes) + next;
    ptx::wgmma_bf16_shared_transposed(d, terms, cols, adds);
  } else {
    uint32_t registers[4];
    load_rows(registers, a, step * 16);
    ptx::wgmma_fence();
    if constexpr (std::is_same_v<Element, Fp16>) {
      ptx::wgmma_fp16<kCols>(d, registers, cols, adds);
    } else if constexpr (kForm == Form::kRegisters) {
      ptx::wgmma_bf16<kCols>(d, registers, cols, adds);
    } else {
      const ptx::WgmmaOperand terms =
          ptx::wgmma_operand_transposed(ptx::shared_address(shared_b), kPartBytes) + next;
      ptx::wgmma_bf16_transposed<kCols>(d, registers, terms, adds);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
  }
}

template <Form kForm, uint32_t kCols, class Element>
__global__ void multiply_all(const Element* a, const Element* b, float* out, bool adds) {
  extern __shared__ __align__(1024) std::byte shared[];
  std::byte *shared_a = shared, *shared_b = shared + kRows * kRowBytes;
  place(shared_a, a, kRows, kForm == Form::kSharedTransposed);
  place(shared_b, b, kCols, kForm == Form::kRegistersTransposed);
  ptx::fence_proxy_async_shared();
  __syncthreads();
  float d[kCols / 2];
  for (float& sum : d) sum = kBefore;
  ptx::wgmma_fence();
#pragma unroll
  for (uint32_t step = 0; step < kTerms / 16; ++step)
    multiply<kForm, kCols, Element>(d, a, shared_a, shared_b, step, adds || step > 0);
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (uint32_t n = 0; n < kCols / 2; ++n) {
    const uint32_t row = warp * 16 + lane / 4 + n / 2 % 2 * 8, col = n / 4 * 8 + lane % 4 * 2 + n % 2;
    out[row * kCols + col] = d[n];
  }
}

template <class Element>
float product(const Matrix<Element>& a, const Matrix<Element>& b, int row, int col) {
  float sum = 0;
  for (int t = 0; t < static_cast<int>(kTerms); ++t) sum += a.at(row, t) * b.at(col, t);
  return sum;
}

template <Form kForm, uint32_t kCols, class Element = Bf16>
void expect_products() {
  Random random(kCols);
  const Matrix<Element> a(kRows, kTerms, random), b(kCols, kTerms, random);
  const auto left = to_gpu(a), right = to_gpu(b);
  const uint32_t bytes = (kRows + std::max(kCols, 64U)) * kRowBytes;
  SERVAL_CUDA_CHECK(cudaFuncSetAttribute(multiply_all<kForm, kCols, Element>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(bytes)));
  for (const bool adds : {false, true}) {
    SCOPED_TRACE(std::to_string(kCols) + (adds ? " columns, added" : " columns"));
    const auto out = empty_on_gpu<float>(kRows, kCols);
    multiply_all<kForm, kCols, Element><<<1, kThreads, bytes>>>(left.data(), right.data(), out.data(), adds);
    SERVAL_CUDA_CHECK(cudaDeviceSynchronize());
    expect_elements(out, kRows, kCols,
                    [&](int row, int col) { return product(a, b, row, col) + (adds ? kBefore : 0); });
  }
}

TEST(Wgmma, WithRowsInRegisters) {
  SERVAL_NEEDS_GPU();
  expect_products<Form::kRegisters, 16>();
  expect_products<Form::kRegisters, 32>();
  expect_products<Form::kRegisters, 64>();
  expect_products<Form::kRegisters, 128>();
  expect_products<Form::kRegisters, 256>();
}
TEST(Wgmma, WithRowsInRegistersInFp16) {
  SERVAL_NEEDS_GPU();
  expect_products<Form::kRegisters, 16, Fp16>();
  expect_products<Form::kRegisters, 32, Fp16>();
  expect_products<Form::kRegisters, 64, Fp16>();
  expect_products<Form::kRegisters, 128, Fp16>();
  expect_products<Form::kRegisters, 256, Fp16>();
}
TEST(Wgmma, WithARowForEachTerm) {
  SERVAL_NEEDS_GPU();
  expect_products<Form::kRegistersTransposed, 64>();
  expect_products<Form::kRegistersTransposed, 128>();
}
TEST(Wgmma, WithBothInSharedMemory) {
  SERVAL_NEEDS_GPU();
  expect_products<Form::kShared, 64>();
  expect_products<Form::kShared, 8>();
}
TEST(Wgmma, WithFewColumnsAndARowForEachTerm) {
  SERVAL_NEEDS_GPU();
  expect_products<Form::kSharedTransposed, 8>();
}

}  // namespace
}  // namespace serval::testing

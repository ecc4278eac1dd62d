// Products of a warpgroup on tiles. They are asynchronous: mma_…_async() takes the sums and gives back
// InFlight, which has no elements; wait() gives the sums back. So sums cannot be read or written while
// products add to them, and a left operand in registers, which is moved in, cannot be changed.
//
//   InFlight products = mma_abt_async(std::move(sums), a, b);
//   products = mma_abt_async(std::move(products), a2, b2);    // adds to the same sums
//   sums = std::move(products).wait();                       // or wait_after()
//
// These types cost no instruction. Shared memory that products read must not be written before
// wait_but<n>() or wait() returns; if threads wrote it by ordinary stores, each of them has executed
// fence_proxy_async_shared() before a barrier. All four warps call these functions together.
#pragma once

#include <utility>

#include "vm/ptx/ptx.cuh"
#include "vm/tiles/sm90/warpgroup/types.cuh"

namespace serval::tiles::warpgroup {

namespace detail {

template <class T>
inline constexpr ptx::WgmmaType kWgmmaType = std::same_as<T, Bf16>   ? ptx::WgmmaType::kBf16
                                             : std::same_as<T, Fp16> ? ptx::WgmmaType::kFp16
                                                                     : ptx::WgmmaType::kE4m3;
template <class T>
concept ProductElement = Element16<T> || Element8<T>;
// Columns of one instruction; more than 256 are several.
constexpr bool has_product_of(int cols) {
  return cols == 8 || cols == 16 || cols == 32 || cols == 64 || cols == 96 || cols == 128 || cols == 192 ||
         cols == 256;
}

// Makes the compiler see a new value in each register, without an instruction: what is read after a wait
// cannot be read before it.
template <class Part>
__device__ __forceinline__ void pin(Part& tile) {
#pragma unroll
  for (auto& row : tile.quadrant) {
#pragma unroll
    for (auto& v : row) {
      if constexpr (std::same_as<std::remove_cvref_t<decltype(v)>, float2>) {
        asm volatile("" : "+f"(v.x), "+f"(v.y)::"memory");
      } else {
        asm volatile("" : "+r"(v)::"memory");
      }
    }
  }
}

// Stands for a left operand in shared memory.
struct NoRegisters {};
// Left operands in registers of successive products on the same sums.
template <class First, class Second>
struct Lefts {
  First first;
  Second second;
};
__device__ __forceinline__ void pin_left(NoRegisters&) {}
template <AnyRegisterTile A>
__device__ __forceinline__ void pin_left(A& left) {
#pragma unroll
  for (auto& part : left.part) pin(part);
}
template <class First, class Second>
__device__ __forceinline__ void pin_left(Lefts<First, Second>& lefts) {
  pin_left(lefts.first);
  pin_left(lefts.second);
}

template <class D, class A, class B>
constexpr void check_common() {
  static_assert(AccumulatorTile<D>, "mma: the sums must be a warpgroup::Accumulator (fp32)");
  static_assert(
      Operand<A> || AnyRegisterTile<A>,
      "mma: a must be a warpgroup::RegisterTile or a shared tile of 128-byte rows with OperandSwizzle");
  static_assert(RightOperand<B>, "mma: b must be a shared tile of 128-byte rows with OperandSwizzle");
  static_assert(std::same_as<typename A::ElementType, typename B::ElementType>,
                "mma: a and b must have the same element type");
  static_assert(ProductElement<typename A::ElementType>, "mma: operands must be Bf16, Fp16 or E4m3");
  static_assert(A::kRows == D::kRows, "mma: a must have the rows of the sums");
  static_assert(has_product_of(D::kCols),
                "mma: the sums must have 8, 16, 32, 64, 96, 128, 192 or 256 columns");
}
template <class D, class A, class B>
constexpr void check_abt() {
  check_common<D, A, B>();
  static_assert(A::kCols == B::kCols, "mma_abt: a and b must have the same columns (terms)");
  static_assert(B::kRows == D::kCols, "mma_abt: b must have a row for each column of the sums");
}
template <class D, class A, class B>
constexpr void check_ab() {
  check_common<D, A, B>();
  static_assert(!kIsSharedColumns<B>, "mma_ab: b must be whole panels");
  static_assert(!Element8<typename B::ElementType>,
                "mma_ab: the tensor cores take e4m3 only with contiguous terms; use mma_abt");
  static_assert(A::kCols == B::kRows, "mma_ab: b must have a row for each column (term) of a");
  static_assert(B::kCols == D::kCols, "mma_ab: b must have the columns of the sums");
}

// Bytes of terms in a row of a panel, in steps of one instruction.
inline constexpr int kStepsOfPanel = kPanelBytes / static_cast<int>(ptx::kWgmmaTermBytes);

// Instruction operand of step `step` of b; of its terms × columns (kTransposed), or columns × terms.
template <bool kTransposed, class B>
__device__ __forceinline__ ptx::WgmmaOperand right_operand(const B& b, int step) {
  if constexpr (kTransposed) {
    const uint32_t next = sizeof(panel_of(b, 0));
    return ptx::wgmma_operand_transposed(ptx::shared_address(&panel_of(b, 0)), next) +
           step * ptx::kWgmmaNextTransposedTerms;
  } else if constexpr (kIsSharedColumns<B>) {
    const uint32_t bytes = b.first * static_cast<uint32_t>(sizeof(typename B::ElementType));
    return ptx::wgmma_operand(ptx::shared_address(&b.panel)) + bytes / ptx::kWgmmaUnit +
           step * ptx::kWgmmaNextTerms;
  } else {
    return ptx::wgmma_operand(ptx::shared_address(&panel_of(b, step / kStepsOfPanel))) +
           step % kStepsOfPanel * ptx::kWgmmaNextTerms;
  }
}
// sums[part] += step `step` of the product.
template <bool kTransposed, class D, class A, class B>
__device__ __forceinline__ void multiply_step(float (&sums)[D::kCols / 2], int part, const A& a, const B& b,
                                              int step) {
  using Form = ptx::Wgmma<kWgmmaType<typename B::ElementType>, static_cast<uint32_t>(D::kCols), kTransposed>;
  const ptx::WgmmaOperand right = right_operand<kTransposed>(b, step);
  if constexpr (AnyRegisterTile<A>) {
    const auto& of = a.part[part].quadrant;
    const uint32_t left[4] = {of[0][2 * step], of[1][2 * step], of[0][2 * step + 1], of[1][2 * step + 1]};
    Form::multiply(sums, left, right, true);
  } else {
    const ptx::WgmmaOperand left =
        ptx::wgmma_operand(ptx::shared_address(&panel_of(a, step / kStepsOfPanel)) +
                           static_cast<uint32_t>(part) * kRowsOfProduct * kPanelBytes) +
        step % kStepsOfPanel * ptx::kWgmmaNextTerms;
    Form::multiply(sums, left, right, true);
  }
}
// Issues d += a × b as one group. The instruction wants the sums in another order than a tile has them; no
// register moves, since the compiler renames them, but nothing may come between the products.
template <bool kTransposed, class D, class A, class B>
__device__ __forceinline__ void multiply(D& d, const A& a, const B& b) {
  constexpr int kSteps =
      A::kCols * static_cast<int>(sizeof(typename A::ElementType)) / static_cast<int>(ptx::kWgmmaTermBytes);
  float sums[D::kParts][D::kCols / 2];
#pragma unroll
  for (int part = 0; part < D::kParts; ++part) {
    const auto& of = d.part[part].quadrant;
#pragma unroll
    for (int c = 0; c < D::kCols / kQuadrant; ++c) {
      sums[part][4 * c] = of[0][c].x, sums[part][4 * c + 1] = of[0][c].y;
      sums[part][4 * c + 2] = of[1][c].x, sums[part][4 * c + 3] = of[1][c].y;
    }
  }
  ptx::wgmma_fence();
#pragma unroll
  for (int part = 0; part < D::kParts; ++part) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) multiply_step<kTransposed, D>(sums[part], part, a, b, step);
  }
  ptx::wgmma_commit();
#pragma unroll
  for (int part = 0; part < D::kParts; ++part) {
    auto& of = d.part[part].quadrant;
#pragma unroll
    for (int c = 0; c < D::kCols / kQuadrant; ++c) {
      of[0][c] = {sums[part][4 * c], sums[part][4 * c + 1]};
      of[1][c] = {sums[part][4 * c + 2], sums[part][4 * c + 3]};
    }
  }
}

}  // namespace detail

// Sums of type D that products still add to, and their left operand if that is in registers.
template <class D, class A = detail::NoRegisters>
class [[nodiscard]] InFlight {
 public:
  // Sums without a product yet, for loops.
  __device__ __forceinline__ explicit InFlight(D&& sums) : sums_(sums) {}
  // Used by mma_…_async(): the products have been issued.
  __device__ __forceinline__ InFlight(const D& sums, const A& left) : sums_(sums), left_(left) {}
  InFlight(InFlight&&) = default;
  InFlight& operator=(InFlight&&) = default;
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  // Returns when all groups of products but the kPending latest are complete: shared memory that those before
  // read may be written. The sums stay in flight.
  template <uint32_t kPending>
  __device__ __forceinline__ void wait_but() const {
    ptx::wgmma_wait<kPending>();
  }
  // Returns the sums when all products are complete, but for those of the kLater latest groups, which must be
  // products on other sums.
  template <uint32_t kLater = 0>
  __device__ __forceinline__ D wait() && {
    ptx::wgmma_wait<kLater>();
#pragma unroll
    for (auto& part : sums_.part) detail::pin(part);
    detail::pin_left(left_);
    return sums_;
  }
  // wait() after the arithmetic that gives `value`, which is not negative. ptxas moves a wait before
  // arithmetic that does not need the sums, which then no product overlaps; but it does not move it over a
  // branch.
  template <uint32_t kLater = 0>
  __device__ __forceinline__ D wait_after(float value) && {
    if (value < 0) ptx::sleep_nanoseconds(1);
    return std::move(*this).template wait<kLater>();
  }

 private:
  template <class Sums>
  friend __device__ __forceinline__ auto take_sums(Sums& sums);
  template <class Sums>
  friend __device__ __forceinline__ auto take_left(Sums& sums);

  D sums_;
  [[no_unique_address]] A left_;
};
template <class D, class A>
inline constexpr bool kIsInFlight<InFlight<D, A>> = true;

template <class Sums>
__device__ __forceinline__ auto take_sums(Sums& sums) {
  if constexpr (kIsInFlight<Sums>) {
    return sums.sums_;
  } else {
    return sums;
  }
}
template <class Sums>
__device__ __forceinline__ auto take_left(Sums& sums) {
  if constexpr (kIsInFlight<Sums>) {
    return sums.left_;
  } else {
    return detail::NoRegisters();
  }
}

namespace detail {

template <bool kTransposed, class Sums, class A, class B>
__device__ __forceinline__ auto begin_products(Sums&& sums, A&& a, const B& b) {
  using Left = std::remove_cvref_t<A>;
  static_assert(!std::is_lvalue_reference_v<Sums>,
                "mma: the sums must be moved in: mma_abt_async(std::move(sums), a, b)");
  static_assert(!AnyRegisterTile<Left> || !std::is_lvalue_reference_v<A>,
                "mma: a left operand in registers must be moved in: std::move(a)");
  auto d = take_sums(sums);
  auto before = take_left(sums);  // still read by products
  using D = decltype(d);
  if constexpr (kTransposed) {
    check_ab<D, Left, B>();
  } else {
    check_abt<D, Left, B>();
  }
  multiply<kTransposed>(d, a, b);
  using Before = decltype(before);
  if constexpr (!AnyRegisterTile<Left>) {
    return InFlight<D, Before>(d, before);
  } else if constexpr (std::same_as<Before, NoRegisters>) {
    return InFlight<D, Left>(d, a);
  } else {
    return InFlight<D, Lefts<Before, Left>>(d, {before, a});
  }
}

}  // namespace detail

// Call it with sums that are not zeros before products of other sums begin, if both products will be in
// flight: ptxas would otherwise fill registers in between, and wait for those products first.
template <class Sums>
__device__ __forceinline__ void settle(Sums& sums) {
  static_assert(AccumulatorTile<Sums>, "settle: the sums must be a warpgroup::Accumulator");
#pragma unroll
  for (auto& part : sums.part) detail::pin(part);
}
// d[m, n] += Σ a[m, k] b[n, k]. `sums` is d or an InFlight<D>, moved in; `a` a shared tile, or a register
// tile, moved in.
template <class Sums, class A, class B>
__device__ __forceinline__ auto mma_abt_async(Sums&& sums, A&& a, const B& b) {
  return detail::begin_products<false>(std::forward<Sums>(sums), std::forward<A>(a), b);
}
// d[m, n] += Σ a[m, k] b[k, n], for 16-bit types.
template <class Sums, class A, class B>
__device__ __forceinline__ auto mma_ab_async(Sums&& sums, A&& a, const B& b) {
  return detail::begin_products<true>(std::forward<Sums>(sums), std::forward<A>(a), b);
}

}  // namespace serval::tiles::warpgroup

// The products of a tile: a warp loads its pieces of the weights into registers, and wgmma takes the
// activations from shared memory.
#pragma once

#include <cstdint>

#include "instructions/common/gemm/shape.cuh"
#include "vm/device/roles.cuh"
#include "vm/layout/slab_image.h"

namespace serval::device::gemm {

// A warp's register operands of half a step: two products, four registers each.
using Terms = uint32_t[2][4];
inline constexpr uint32_t kHighTerms = kPieceBytes / 2;  // bytes from a slab's low half to its high one

// The warp's operands of a half of each piece: columns 16 half of the slab with terms[0], and 32 further on
// with terms[1]. `second`: from the piece of the first unit to the other's.
__device__ __forceinline__ void load_terms(Terms& terms, uint32_t address, uint32_t second) {
  const uint4 a = ptx::shared_load(address), b = ptx::shared_load(address + second);
  terms[0][0] = a.x, terms[0][1] = b.x, terms[0][2] = a.z, terms[0][3] = b.z;
  terms[1][0] = a.y, terms[1][1] = b.y, terms[1][2] = a.w, terms[1][3] = b.w;
}

// Where a lane's operands lie in a page: of one matrix, a warp has neighbouring units; of two, the same unit
// of each.
struct WarpPieces {
  uint32_t first;
  uint32_t second;  // from the first unit's piece

  template <class Role>
  __device__ __forceinline__ WarpPieces(const Role& role, bool pairs)
      : first(role.warp * (pairs ? 1 : kWarpUnits) * kPieceBytes +
              role.lane * static_cast<uint32_t>(sizeof(uint4))),
        second(pairs ? kPageBytes / 2 : kPieceBytes) {}
};

// An instruction takes 128 tokens at most: a kernel of 512 threads has too few registers for one of 256.
template <class Config>
struct Sums {
  static constexpr uint32_t kInstructions = Config::kTileTokens > 128 ? Config::kTileTokens / 128 : 1;
  static constexpr uint32_t kTokens = Config::kTileTokens / kInstructions;  // of an instruction
  static constexpr uint32_t kValues = kTokens / 2;
};

// Begins half of a slab's products, of the tokens of kInstructions instructions. The caller has executed
// wgmma_fence().
template <class Config, uint32_t kInstructions = Sums<Config>::kInstructions>
__device__ __forceinline__ void begin_half(ptx::WgmmaOperand rows, const Terms& terms,
                                           float (&d)[Config::kTileTokens / 2], bool first) {
  constexpr uint32_t kValues = Sums<Config>::kValues;
#pragma unroll
  for (uint32_t j = 0; j < 2; ++j) {
#pragma unroll
    for (uint32_t h = 0; h < kInstructions; ++h)
      ptx::wgmma_bf16<kValues * 2>(
          reinterpret_cast<float(&)[kValues]>(d[h * kValues]), terms[j],
          rows + h * (kValues * 2 * slab_image::kRowBytes / 16) + j * 2 * ptx::kWgmmaNextTerms,
          j != 0 || !first);
  }
}
template <class Role>
__device__ __forceinline__ uint32_t page_address(const Role& role, uint32_t page) {
  return ptx::shared_address(role.s.ring[page % Role::Config::kRingPages]);
}
template <class Role>
__device__ __forceinline__ ptx::WgmmaOperand panel_operand(const Role& role, uint32_t panel) {
  return ptx::wgmma_operand(Role::Config::uniform(ptx::shared_address(role.s.activations) +
                                                  activation_buffer<typename Role::Config>(panel)));
}

// Pages and panels from the role's next ones on: values of a loop's own, since the compiler keeps the role's
// in memory.
struct Position {
  uint32_t page, panel, lane;

  template <class Role>
  __device__ __forceinline__ explicit Position(const Role& role)
      : page(Role::Config::uniform(role.next_page)),
        panel(Role::Config::uniform(role.next_panel)),
        lane(ptx::thread_index() % kWarpThreads) {}
};

// Where the slabs of a tile's weights are: a page each, or two a page.
template <class Role>
class Slabs {
 public:
  __device__ __forceinline__ Slabs(Role& role, const WarpPieces& pieces, bool two_a_page)
      : role_(role), pieces_(pieces), two_a_page_(two_a_page) {}

  // Returns the address of the warp's operands in slab `slab`, when it is there.
  __device__ __forceinline__ uint32_t wait(const Position& at, uint32_t slab) const {
    const bool second = two_a_page_ && slab % 2 != 0;
    if (!second) role_.wait_next_page(at.page);
    return page_address(role_, at.page) + pieces_.first + (second ? kPageBytes / 2 : 0);
  }
  // The warp has its operands of slab `slab` of so many.
  __device__ __forceinline__ void free(Position& at, uint32_t slab, uint32_t slabs) const {
    if (two_a_page_ && slab % 2 == 0 && slab + 1 < slabs) return;
    role_.free_page(at.page++, at.lane);
  }

 private:
  Role& role_;
  const WarpPieces& pieces_;
  const bool two_a_page_;
};

// Registers that a product adds to count as read, even where it adds to nothing: without a value they would
// be kept from one record to the next.
template <uint32_t kValues>
__device__ __forceinline__ void clear_sums(float (&d)[kValues]) {
#pragma unroll
  for (float& sum : d) sum = 0;
}

// d += weights × activations, of the tokens of kInstructions instructions. A slab's products are taken by
// halves, so that the operands of one half are loaded while the other half is multiplied, in 16 registers:
// sums of many tokens leave no more.
template <uint32_t kInstructions, class Role>
__device__ __forceinline__ void multiply_halves(Role& role, const WarpPieces& pieces, bool two_a_page,
                                                uint32_t slabs, float (&d)[Role::Config::kTileTokens / 2]) {
  using Config = typename Role::Config;
  Position at(role);
  const Slabs weights(role, pieces, two_a_page);
#pragma unroll 1
  for (uint32_t slab = 0; slab < slabs; ++slab, ++at.panel) {
    Terms low, high;
    const ptx::WgmmaOperand rows = panel_operand(role, at.panel);
    const uint32_t from = weights.wait(at, slab);
    ptx::wgmma_wait<1>();  // the low half of the slab before
    load_terms(low, from, pieces.second);
    role.wait_next_panel(at.panel);
    ptx::wgmma_fence();
    begin_half<Config, kInstructions>(rows, low, d, slab == 0);
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();  // the slab before
    if (slab > 0) role.free_panel(at.panel - 1, at.lane);
    load_terms(high, from + kHighTerms, pieces.second);
    ptx::wgmma_fence();
    begin_half<Config, kInstructions>(rows + ptx::kWgmmaNextTerms, high, d, false);
    ptx::wgmma_commit();
    weights.free(at, slab, slabs);
  }
  ptx::wgmma_wait<0>();
  exit_if_requested(&role.s.exit);
  role.free_panel(at.panel - 1, at.lane);
}

// The pages and panels of a tile of few tokens, a panel of two slabs. Few instructions a slab: products of
// few tokens take less time than what is done around them, and a warp's chain of that bounds them.
template <class Role>
class PairedSlabs {
 public:
  using Config = typename Role::Config;
  static_assert(Config::kPanelSlabs == 2);

  __device__ __forceinline__ PairedSlabs(Role& role, const WarpPieces& pieces)
      : role_(role),
        second_(pieces.second),
        lane_(ptx::thread_index() % kWarpThreads),
        page_(Config::uniform(role.next_page)),
        panel_(Config::uniform(role.next_panel)),
        ring_(ptx::shared_address(role.s.ring) + pieces.first),
        panels_(ptx::shared_address(role.s.activations)) {}

  __device__ __forceinline__ void wait_page() const {
    wait_phase_or_exit(&role_.s.page_landed[page_.at], page_.parity, &role_.s.exit);
  }
  __device__ __forceinline__ void wait_page_and_panel() const {
    wait_phases_or_exit(&role_.s.page_landed[page_.at], page_.parity, &role_.s.panel_landed[panel_.at],
                        panel_.parity, &role_.s.exit);
  }
  // The warp's operands of half a slab, so many bytes behind where the page's first half begins.
  __device__ __forceinline__ void load(Terms& terms, uint32_t behind) const {
    load_terms(terms, ring_ + page_.at * kPageBytes + behind, second_);
  }
  // Of the panel's first slab; the second is kNextSlab further on. To be looked up before what is waited for
  // is there: the value goes from lane to lane, so that it is known to be the same for all.
  static constexpr ptx::WgmmaOperand kNextSlab = Config::kSlabBytes / ptx::kWgmmaUnit;
  __device__ __forceinline__ ptx::WgmmaOperand operand() const {
    return ptx::wgmma_operand(Config::uniform(panels_ + panel_.at * Config::kPanelBytes));
  }
  // The warp has its operands of the page.
  __device__ __forceinline__ void free_page() {
    role_.free_page_at(page_.at, lane_);
    page_.advance();
  }
  // Products of the panel have begun; it is given back when they are complete.
  __device__ __forceinline__ void advance_panel() {
    behind_ = panel_.at;
    panel_.advance();
  }
  __device__ __forceinline__ void free_panel_behind() const { role_.free_panel_at(behind_, lane_); }

 private:
  Role& role_;
  const uint32_t second_;  // from the warp's first piece to its other
  const uint32_t lane_;
  RingPlace<Config::kRingPages> page_;
  RingPlace<Config::kPanelBuffers> panel_;
  const uint32_t ring_, panels_;
  uint32_t behind_ = 0;
};

// The same as multiply_halves(), for few tokens: two whole slabs are under way.
template <class Role>
__device__ __forceinline__ void multiply_slabs(Role& role, const WarpPieces& pieces, bool two_a_page,
                                               uint32_t slabs, float (&d)[Role::Config::kTileTokens / 2]) {
  using Config = typename Role::Config;
  PairedSlabs<Role> at(role, pieces);
  Terms low[2], high[2];
  const auto load = [&](uint32_t k, uint32_t behind) {
    at.load(low[k], behind);
    at.load(high[k], behind + kHighTerms);
  };
  const auto begin = [&](ptx::WgmmaOperand rows, uint32_t k, bool first) {
    ptx::wgmma_fence();
    begin_half<Config>(rows, low[k], d, first);
    begin_half<Config>(rows + ptx::kWgmmaNextTerms, high[k], d, false);
    ptx::wgmma_commit();
  };
  uint32_t slab = 0;
#pragma unroll 1
  for (; slab + 2 <= slabs; slab += 2) {
    const ptx::WgmmaOperand rows = at.operand();
    at.wait_page_and_panel();
    ptx::wgmma_wait<1>();
    load(0, 0);
    begin(rows, 0, slab == 0);
    if (!two_a_page) {
      at.free_page();
      at.wait_page();
    }
    ptx::wgmma_wait<1>();  // the panel before has been multiplied
    load(1, two_a_page ? kPageBytes / 2 : 0);
    if (slab > 0) at.free_panel_behind();
    begin(rows + at.kNextSlab, 1, false);
    at.free_page();
    at.advance_panel();
  }
  ptx::wgmma_wait<0>();
  if (slab < slabs) {
    if (slab > 0) at.free_panel_behind();
    const ptx::WgmmaOperand rows = at.operand();
    at.wait_page_and_panel();
    load(0, 0);
    begin(rows, 0, slab == 0);
    at.free_page();
    at.advance_panel();
    ptx::wgmma_wait<0>();
  }
  exit_if_requested(&role.s.exit);
  at.free_panel_behind();
}

// The same as multiply_slabs(), of a wide tile: each slab is multiplied with a page for each half, in two
// steps, since twice the sums leave few registers for operands.
template <class Role>
__device__ __forceinline__ void multiply_wide(Role& role, const WarpPieces& pieces, uint32_t slabs,
                                              WideSums<typename Role::Config>& d) {
  using Config = typename Role::Config;
  PairedSlabs<Role> at(role, pieces);
  Terms low, high;
#pragma unroll 1
  for (uint32_t slab = 0; slab < slabs; ++slab) {
    const uint32_t of_panel = slab % 2;
    const ptx::WgmmaOperand rows = at.operand() + of_panel * at.kNextSlab;
    if (of_panel == 0) {
      at.wait_page_and_panel();
    } else {
      at.wait_page();
    }
#pragma unroll
    for (uint32_t half = 0; half < kWideHalves; ++half) {
      if (half > 0) at.wait_page();
      ptx::wgmma_wait<1>();
      at.load(low, 0);
      ptx::wgmma_fence();
      begin_half<Config>(rows, low, d[half], slab == 0);
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();
      if (half == 0 && of_panel == 0 && slab > 0) at.free_panel_behind();  // all before has been multiplied
      at.load(high, kHighTerms);
      ptx::wgmma_fence();
      begin_half<Config>(rows + ptx::kWgmmaNextTerms, high, d[half], false);
      ptx::wgmma_commit();
      at.free_page();
    }
    if (of_panel != 0 || slab + 1 == slabs) at.advance_panel();
  }
  ptx::wgmma_wait<0>();
  exit_if_requested(&role.s.exit);
  at.free_panel_behind();
}

// The tile's units are all the other warpgroup's; a page has two slabs.
template <class Role>
__device__ __forceinline__ void let_pass(Role& role, uint32_t slabs) {
  constexpr uint32_t kPanelSlabs = Role::Config::kPanelSlabs;
#pragma unroll 1
  for (uint32_t slab = 0; slab < slabs; ++slab) {
    if (slab % 2 == 0) {
      role.wait_next_page(role.next_page);
      role.free_page(role.next_page++);
    }
    if (slab % kPanelSlabs != 0) continue;
    role.wait_next_panel(role.next_panel);
    role.free_panel(role.next_panel++, role.lane);
  }
  exit_if_requested(&role.s.exit);
}

template <class Config>
__device__ __forceinline__ uint32_t panels_of(uint32_t slabs) {
  return (slabs + Config::kPanelSlabs - 1) / Config::kPanelSlabs;
}
// Runs products, which take so many pages and panels, with what the role counts put aside, once all warps of
// the warpgroup have come. From then on none of them leaves before its products are complete.
template <class Role, class Multiply>
__device__ __forceinline__ void with_counts_aside(Role& role, uint32_t pages, uint32_t panels,
                                                  Multiply&& multiply) {
  role.put_aside();
  role.meet_for_products();
  multiply();
  role.take_up();
  role.next_page = Role::Config::uniform(role.next_page) + pages;
  role.next_panel = Role::Config::uniform(role.next_panel) + panels;
}

// True if the first instruction has all of the tile's tokens: those that another would multiply do not exist.
template <class Config>
__device__ __forceinline__ bool is_few(const Plan& plan, uint32_t tile) {
  if constexpr (!Config::kLeavesOutTokens) return false;
  return Config::uniform(plan.template tokens<Config>(tile) <= Sums<Config>::kTokens ? 1 : 0) != 0;
}

// d = weights × activations of token tile `tile`, of so many slabs from the role's next ones on.
template <class Role>
__device__ __forceinline__ void multiply(Role& role, const Plan& plan, uint32_t tile, uint32_t slabs,
                                         float (&d)[Role::Config::kTileTokens / 2]) {
  using Config = typename Role::Config;
  const WarpPieces pieces(role,
                          Config::uniform(static_cast<uint32_t>(plan.shape.units == Units::kPairs)) != 0);
  clear_sums(d);
  if (Config::uniform(plan.shape.units == Units::kHalf && role.warp >= kWarpgroupWarps ? 1 : 0) != 0)
    return let_pass(role, slabs);
  const bool two_a_page = Config::uniform(plan.two_slabs_a_page() ? 1 : 0) != 0;
  const uint32_t pages = two_a_page ? (slabs + 1) / 2 : slabs;
  with_counts_aside(role, pages, panels_of<Config>(slabs), [&] {
    if constexpr (Config::kTileTokens <= 64) {
      multiply_slabs(role, pieces, two_a_page, slabs, d);
    } else if (is_few<Config>(plan, tile)) {
      multiply_halves<1>(role, pieces, two_a_page, slabs, d);
    } else {
      multiply_halves<Sums<Config>::kInstructions>(role, pieces, two_a_page, slabs, d);
    }
  });
}

// d = weights × activations of token tile `tile`, of the last part; add(d) is called for those before.
template <class Role, class Add>
__device__ __forceinline__ void multiply_parts(Role& role, const Plan& plan, uint32_t tile,
                                               float (&d)[Role::Config::kTileTokens / 2], Add&& add) {
  using Config = typename Role::Config;
  const uint32_t parts = Config::uniform(plan.shape.parts);
#pragma unroll 1
  for (uint32_t part = 0;; ++part) {
    multiply(role, plan, tile, Config::uniform(plan.part_begin(part + 1) - plan.part_begin(part)), d);
    if (part + 1 == parts) return;
    add();
  }
}

}  // namespace serval::device::gemm

// The products of a tile: a warp loads its pieces of the weights into registers, and wgmma takes the
// activations from shared memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "instructions/product/orders/sm90/tile_stream/pages.cuh"
#include "instructions/product/orders/tile_stream/shape.cuh"
#include "vm/device/sm90/roles.cuh"
#include "vm/layout/slab_image.h"

namespace serval::device::tile_stream {

// Offsets of a lane's operands in a page. A warp has two units: neighbours if the tile has one matrix, the
// same unit of both if it has two.
template <class Format>
struct WarpPieces {
  uint32_t first;
  uint32_t second;  // distance from the first unit's piece
  // If groups of columns have scales: pages have two steps and words of groups, which lie `words` bytes after
  // the lane's codes.
  bool has_groups = false;
  uint32_t words = 0;

  template <class Role>
  __device__ __forceinline__ WarpPieces(const Role& role, const Format& format, bool pairs)
      : first(role.warp * (pairs ? 1 : kWarpUnits) * Format::kPieceBytes +
              role.lane * static_cast<uint32_t>(sizeof(uint4))),
        second(pairs ? kHalfPageBytes<Format> : Format::kPieceBytes) {
    if constexpr (Format::kMayHaveGroups) {
      constexpr uint32_t kLanesOfRow = kWarpThreads / kUnitRows, kWord = sizeof(uint32_t);
      has_groups = Role::Config::uniform(format.has_groups() ? 1 : 0) != 0;
      words = Format::kWordsOffset +
              Format::word_bytes(role.warp * (pairs ? 1 : kWarpUnits) * Format::kPieceBytes) +
              role.lane / kLanesOfRow * kWord - first;
    }
  }
  // The lane's codes of step `step` of a page with groups; `at`: shared address of the first step's.
  __device__ __forceinline__ auto slab(uint32_t at, uint32_t step) const {
    constexpr uint32_t kCodesOfStep = sizeof(uint2), kWordsOfStep = 2 * Format::kWordBoxBytes;
    return typename Format::Slab(at + step * kCodesOfStep, at + words + step * kWordsOfStep, second);
  }
};

// Loads half kHalf of a step's operands from shared address `at`, that of the step or, with groups, of the
// page's first step.
template <uint32_t kHalf, class Format>
__device__ __forceinline__ void load_half(typename Format::Terms& terms, const WarpPieces<Format>& pieces,
                                          uint32_t at, uint32_t step) {
  if constexpr (Format::kMayHaveGroups) {
    if (pieces.has_groups) {
      pieces.slab(at, step).template widen<kHalf != 0>(terms);
      return;
    }
  }
  Format::load_terms(terms, at + kHalf * Format::kHighTerms, pieces.second);
}

// A wgmma takes at most 128 tokens: threads of a 512-thread block have too few registers for 256.
template <class Config>
struct Sums {
  static constexpr uint32_t kInstructions = Config::kTileTokens > 128 ? Config::kTileTokens / 128 : 1;
  static constexpr uint32_t kTokens = Config::kTileTokens / kInstructions;  // tokens of an instruction
  static constexpr uint32_t kValues = kTokens / 2;
};

// From the operand of a step's rows to that of product `product` of half `half`. With operands of 16 bits, a
// half is a half of each of the slab's halves; with 8 bits, it is one of the step's two slabs.
template <class Format>
constexpr ptx::WgmmaOperand offset_of_product(uint32_t half, uint32_t product) {
  constexpr bool kBytes = Format::kOperands == formats::Operands::kE4M3;
  return (kBytes ? 2 * half + product : half + 2 * product) * ptx::kWgmmaNextTerms;
}
template <class Format>
inline constexpr ptx::WgmmaType kWgmmaType =
    Format::kOperands == formats::Operands::kBf16   ? ptx::WgmmaType::kBf16
    : Format::kOperands == formats::Operands::kFp16 ? ptx::WgmmaType::kFp16
                                                    : ptx::WgmmaType::kE4m3;

// Issues half of a step's products: two, as kInstructions wgmmas each. The caller has executed wgmma_fence().
template <class Format, class Config, uint32_t kHalf, uint32_t kInstructions = Sums<Config>::kInstructions>
__device__ __forceinline__ void begin_half(ptx::WgmmaOperand rows, const typename Format::Terms& terms,
                                           float (&d)[Config::kTileTokens / 2], bool first) {
  constexpr uint32_t kValues = Sums<Config>::kValues;
#pragma unroll
  for (uint32_t j = 0; j < 2; ++j) {
#pragma unroll
    for (uint32_t h = 0; h < kInstructions; ++h) {
      auto& sums = reinterpret_cast<float(&)[kValues]>(d[h * kValues]);
      const ptx::WgmmaOperand operand =
          rows + h * (kValues * 2 * slab_image::kRowBytes / 16) + offset_of_product<Format>(kHalf, j);
      ptx::Wgmma<kWgmmaType<Format>, kValues * 2>::multiply(sums, terms[j], operand, j != 0 || !first);
    }
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

// A copy of the role's counts of pages and panels for a loop: the compiler keeps the role's own in memory.
struct Position {
  uint32_t page, panel, lane;

  template <class Role>
  __device__ __forceinline__ explicit Position(const Role& role)
      : page(Role::Config::uniform(role.next_page)),
        panel(Role::Config::uniform(role.next_panel)),
        lane(ptx::thread_index() % kWarpThreads) {}
};

// Finds the slabs of a tile's weights in the ring: one a page, or two.
template <class Format, class Role>
class Slabs {
 public:
  __device__ __forceinline__ Slabs(Role& role, const WarpPieces<Format>& pieces, bool two_a_page)
      : role_(role), pieces_(pieces), two_a_page_(two_a_page) {}

  // Waits for slab `slab` and returns the address from which load_half() loads it.
  __device__ __forceinline__ uint32_t wait(const Position& at, uint32_t slab) const {
    const bool second = two_a_page_ && slab % 2 != 0;
    if (!second) role_.wait_next_page(at.page);
    const uint32_t first = page_address(role_, at.page) + pieces_.first;
    return first + (second && !pieces_.has_groups ? kHalfPageBytes<Format> : 0);
  }
  // The warp has loaded its operands of slab `slab` out of `slabs`.
  __device__ __forceinline__ void free(Position& at, uint32_t slab, uint32_t slabs) const {
    if (two_a_page_ && slab % 2 == 0 && slab + 1 < slabs) return;
    role_.free_page(at.page++, at.lane);
  }

 private:
  Role& role_;
  const WarpPieces<Format>& pieces_;
  const bool two_a_page_;
};

// Gives the sums a value. wgmma counts its sums as read even when it overwrites them, so without this the
// compiler would keep them alive from one record to the next.
template <uint32_t kValues>
__device__ __forceinline__ void clear_sums(float (&d)[kValues]) {
#pragma unroll
  for (float& sum : d) sum = 0;
}

// d += weights × activations, for tiles of many tokens. The operands of one half of a slab are loaded while
// the other half is multiplied. This takes 16 registers, which is all that the sums leave.
template <class Format, uint32_t kInstructions, class Role>
__device__ __forceinline__ void multiply_halves(Role& role, const WarpPieces<Format>& pieces, bool two_a_page,
                                                uint32_t slabs, float (&d)[Role::Config::kTileTokens / 2]) {
  using Config = typename Role::Config;
  Position at(role);
  const Slabs<Format, Role> weights(role, pieces, two_a_page);
#pragma unroll 1
  for (uint32_t slab = 0; slab < slabs; ++slab, ++at.panel) {
    typename Format::Terms low, high;
    const ptx::WgmmaOperand rows = panel_operand(role, at.panel);
    const uint32_t from = weights.wait(at, slab);
    ptx::wgmma_wait<1>();  // waits for the low half of the previous slab
    load_half<0>(low, pieces, from, slab % 2);
    role.wait_next_panel(at.panel);
    ptx::wgmma_fence();
    begin_half<Format, Config, 0, kInstructions>(rows, low, d, slab == 0);
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();  // waits for the previous slab
    if (slab > 0) role.free_panel(at.panel - 1, at.lane);
    load_half<1>(high, pieces, from, slab % 2);
    ptx::wgmma_fence();
    begin_half<Format, Config, 1, kInstructions>(rows, high, d, false);
    ptx::wgmma_commit();
    weights.free(at, slab, slabs);
  }
  ptx::wgmma_wait<0>();
  exit_if_requested(&role.s.exit);
  role.free_panel(at.panel - 1, at.lane);
}

// Pages and panels of a tile of few tokens, where a panel has two slabs. The code around the products takes
// longer than the products themselves and bounds their speed, so it has few instructions a slab.
template <class Format, class Role>
class PairedSlabs {
 public:
  using Config = typename Role::Config;
  static_assert(Config::kPanelSlabs == 2);

  __device__ __forceinline__ PairedSlabs(Role& role, const WarpPieces<Format>& pieces)
      : role_(role),
        pieces_(pieces),
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
  // Loads the warp's operands of half a step: of the page's first one, or of that at `offset` in the page.
  template <uint32_t kHalf>
  __device__ __forceinline__ void load(typename Format::Terms& terms, uint32_t offset) const {
    load_half<kHalf>(terms, pieces_, ring_ + page_.at * kPageBytes + offset, 0);
  }
  // Loads the warp's operands of step `step` of a panel, which lies at `offset` in the page unless groups
  // have scales.
  __device__ __forceinline__ void load(typename Format::Terms& low, typename Format::Terms& high,
                                       uint32_t step, uint32_t offset) const {
    if constexpr (Format::kMayHaveGroups) {
      if (pieces_.has_groups) {
        pieces_.slab(ring_ + page_.at * kPageBytes, step).widen(low, high);
        return;
      }
    }
    load<0>(low, offset);
    load<1>(high, offset);
  }
  // Operand of the panel's first slab; the second is kNextSlab further on. Call it before waiting: it
  // shuffles the value between lanes so that the compiler knows it to be warp-uniform.
  static constexpr ptx::WgmmaOperand kNextSlab = Config::kSlabBytes / ptx::kWgmmaUnit;
  __device__ __forceinline__ ptx::WgmmaOperand operand() const {
    return ptx::wgmma_operand(Config::uniform(panels_ + panel_.at * Config::kPanelBytes));
  }
  // The warp has loaded its operands of the page.
  __device__ __forceinline__ void free_page() {
    role_.free_page_at(page_.at, lane_);
    page_.advance();
  }
  // The panel's products are issued. free_previous_panel() frees it once they are complete.
  __device__ __forceinline__ void advance_panel() {
    previous_panel_ = panel_.at;
    panel_.advance();
  }
  __device__ __forceinline__ void free_previous_panel() const { role_.free_panel_at(previous_panel_, lane_); }

 private:
  Role& role_;
  const WarpPieces<Format> pieces_;
  const uint32_t lane_;
  RingPlace<Config::kRingPages> page_;
  RingPlace<Config::kPanelBuffers> panel_;
  const uint32_t ring_, panels_;
  uint32_t previous_panel_ = 0;
};

// multiply_halves() for few tokens: keeps two whole slabs in flight.
template <class Format, class Role>
__device__ __forceinline__ void multiply_slabs(Role& role, const WarpPieces<Format>& pieces, bool two_a_page,
                                               uint32_t slabs, float (&d)[Role::Config::kTileTokens / 2]) {
  using Config = typename Role::Config;
  PairedSlabs<Format, Role> at(role, pieces);
  typename Format::Terms low[2], high[2];
  const auto load = [&](uint32_t k, uint32_t offset) { at.load(low[k], high[k], k, offset); };
  const auto begin = [&](ptx::WgmmaOperand rows, uint32_t k, bool first) {
    ptx::wgmma_fence();
    begin_half<Format, Config, 0>(rows, low[k], d, first);
    begin_half<Format, Config, 1>(rows, high[k], d, false);
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
    ptx::wgmma_wait<1>();  // the previous panel has been multiplied
    load(1, two_a_page ? kHalfPageBytes<Format> : 0);
    if (slab > 0) at.free_previous_panel();
    begin(rows + at.kNextSlab, 1, false);
    at.free_page();
    at.advance_panel();
  }
  ptx::wgmma_wait<0>();
  if (slab < slabs) {
    if (slab > 0) at.free_previous_panel();
    const ptx::WgmmaOperand rows = at.operand();
    at.wait_page_and_panel();
    load(0, 0);
    begin(rows, 0, slab == 0);
    at.free_page();
    at.advance_panel();
    ptx::wgmma_wait<0>();
  }
  exit_if_requested(&role.s.exit);
  at.free_previous_panel();
}

// multiply_slabs() for a wide tile: each slab of activations meets one page for each half of the tile, in two
// steps, since twice the sums leave few registers for operands.
template <class Format, class Role>
__device__ __forceinline__ void multiply_wide(Role& role, const WarpPieces<Format>& pieces, uint32_t slabs,
                                              WideSums<typename Role::Config>& d) {
  using Config = typename Role::Config;
  PairedSlabs<Format, Role> at(role, pieces);
  typename Format::Terms low, high;
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
      at.template load<0>(low, 0);
      ptx::wgmma_fence();
      begin_half<Format, Config, 0>(rows, low, d[half], slab == 0);
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();
      if (half == 0 && of_panel == 0 && slab > 0)
        at.free_previous_panel();  // everything before it has been multiplied
      at.template load<1>(high, 0);
      ptx::wgmma_fence();
      begin_half<Format, Config, 1>(rows, high, d[half], false);
      ptx::wgmma_commit();
      at.free_page();
    }
    if (of_panel != 0 || slab + 1 == slabs) at.advance_panel();
  }
  ptx::wgmma_wait<0>();
  exit_if_requested(&role.s.exit);
  at.free_previous_panel();
}

// For a warpgroup without units in the tile: frees pages and panels as they land.
template <class Role>
__device__ __forceinline__ void skip_steps(Role& role, uint32_t steps, bool two_a_page) {
  constexpr uint32_t kPanelSlabs = Role::Config::kPanelSlabs;
#pragma unroll 1
  for (uint32_t step = 0; step < steps; ++step) {
    if (!two_a_page || step % 2 == 0) {
      role.wait_next_page(role.next_page);
      role.free_page(role.next_page++);
    }
    if (step % kPanelSlabs != 0) continue;
    role.wait_next_panel(role.next_panel);
    role.free_panel(role.next_panel++, role.lane);
  }
  exit_if_requested(&role.s.exit);
}

template <class Config>
__device__ __forceinline__ uint32_t panels_of(uint32_t slabs) {
  return (slabs + Config::kPanelSlabs - 1) / Config::kPanelSlabs;
}
// Runs multiply(), which takes `pages` pages and `panels` panels, with the role's counts saved in shared
// memory. All warps of the warpgroup start together, and none leaves the kernel before its products are
// complete.
template <class Role, class Multiply>
__device__ __forceinline__ void with_counts_saved(Role& role, uint32_t pages, uint32_t panels,
                                                  Multiply&& multiply) {
  role.save_counts();
  role.start_products();
  multiply();
  role.restore_counts();
  role.next_page = Role::Config::uniform(role.next_page) + pages;
  role.next_panel = Role::Config::uniform(role.next_panel) + panels;
}

template <class FormatSet, class Config>
__device__ __forceinline__ uint32_t format_of(const Plan& plan) {
  return FormatSet::kCount > 1 ? Config::uniform(plan.shape.format) : 0;
}
// True if the first wgmma covers all tokens of the tile, so that a second one would multiply nothing. Always
// false for formats that few weights have: the code for two formats would leave ptxas too few registers, and
// it would serialise all products (C7512).
template <class Config, class FormatSet, class Format>
__device__ __forceinline__ bool fits_first_instruction(const Plan& plan, uint32_t tile) {
  if constexpr (!Config::kLeavesOutTokens || !std::is_same_v<Format, typename FormatSet::Last>) return false;
  return Config::uniform(plan.template tokens<Config>(tile) <= Sums<Config>::kTokens ? 1 : 0) != 0;
}

// d = weights × activations of token tile `tile`, over the role's next `slabs` slabs. A step multiplies one
// slab or, with operands of 8 bits, two.
template <class FormatSet, class Role>
__device__ __forceinline__ void multiply(Role& role, const Plan& plan, uint32_t tile, uint32_t slabs,
                                         float (&d)[Role::Config::kTileTokens / 2]) {
  using Config = typename Role::Config;
  clear_sums(d);
  const uint32_t format = format_of<FormatSet, Config>(plan);
  const uint32_t steps = slabs / FormatSet::slabs_of_step(format);
  const bool two_a_page = Config::uniform(plan.template steps_of_page<FormatSet>() - 1) != 0;
  if (Config::uniform(plan.shape.units == Units::kHalf && role.warp >= kWarpgroupWarps ? 1 : 0) != 0)
    return skip_steps(role, steps, two_a_page);
  const bool pairs = Config::uniform(static_cast<uint32_t>(plan.shape.units == Units::kPairs)) != 0;
  const uint32_t pages = two_a_page ? (steps + 1) / 2 : steps;
  const auto multiply_as = [&]<class Format>(const Format& of_weights) {
    const WarpPieces<Format> pieces(role, of_weights, pairs);
    if constexpr (Config::kTileTokens <= 64) {
      multiply_slabs<Format>(role, pieces, two_a_page, steps, d);
    } else if (fits_first_instruction<Config, FormatSet, Format>(plan, tile)) {
      multiply_halves<Format, 1>(role, pieces, two_a_page, steps, d);
    } else {
      multiply_halves<Format, Sums<Config>::kInstructions>(role, pieces, two_a_page, steps, d);
    }
  };
  with_counts_saved(role, pages, panels_of<Config>(steps), [&] { FormatSet::with(format, multiply_as); });
}

// d = weights × activations of token tile `tile` over the last K split. Calls add() after each split before
// it.
template <class FormatSet, class Role, class Add>
__device__ __forceinline__ void multiply_parts(Role& role, const Plan& plan, uint32_t tile,
                                               float (&d)[Role::Config::kTileTokens / 2], Add&& add) {
  using Config = typename Role::Config;
  const uint32_t parts = Config::uniform(plan.shape.parts);
#pragma unroll 1
  for (uint32_t part = 0;; ++part) {
    multiply<FormatSet>(role, plan, tile, Config::uniform(plan.part_begin(part + 1) - plan.part_begin(part)),
                        d);
    if (part + 1 == parts) return;
    add();
  }
}

}  // namespace serval::device::tile_stream

// How a GEMM kernel multiplies streamed weights with the rows of a pass: the stream of the instructions that
// instructions/common/matvec.cuh multiplies for few rows, from the same page images.
//
// A record works on a tile of up to 16 units (128 weight rows) and, token tile after token tile, on the rows
// that it is given. A step takes a slab: 64 columns of the page image's order (vm/layout/slab_image.h). Of
// the weights it is a page of 16 pieces of 1 KiB, one of each unit, which go to the tensor cores through
// registers: two units are a warp's 16 rows. Of a tile of 8 units, a page has two slabs. Of the activations
// it is the rows of the token tile, 128 bytes each, read from shared memory by all warps; a panel is what
// comes at once of them, one slab or, with few tokens, two (Config::kPanelSlabs). An output is one chain of
// products of 16 columns, slab after slab, of each slab the first, third, second and fourth (load_terms()),
// or such a chain for each part of the columns (common/column_parts.h), whatever the tile and its neighbours.
//
// Where tiles have few tokens, registers are left for the sums of twice as many units: a wide tile has 32,
// and of each slab two pages, which are multiplied with the same panel. Panels are read half as often, and
// fewer tiles leave fewer SMs with one tile more than the others.
//
// Consumers finish the tile themselves, from their registers (GemmOp<Op>::finish_tile); what they need of
// the tokens is looked up by the storers meanwhile. What finishes a tile runs once for many products, so
// that its instructions come slowly from the instruction cache: few of them, and nothing in local memory,
// make it fast.
#pragma once

#include <cstdint>

#include "instructions/common/residual.cuh"
#include "vm/device/isa.h"
#include "vm/device/op.cuh"
#include "vm/device/roles.cuh"
#include "vm/layout/kv_cache.h"
#include "vm/layout/slab_image.h"
#include "vm/layout/units.h"

namespace serval::device {

// How an instruction runs on the GEMM stream: a specialisation in its folder's gemm.cuh.
//
//   shape(buffer, op)               what it works on
//   pages_of(program, op, part)     where the weights of a tile's first (0) and second (1) 8 units are, and,
//                                   with Shape::adds, the residual's columns (kResidualPart)
//   in_range(op)                    as DeviceOp's, or in_range<Config>(op)
//   finish_tile(role, op, tile, d)  what becomes of the products of a tile, or of each half of a wide one
//   add_part(role, op, tile, d)     with parts: what becomes of those of a part that is not the last
template <class Op>
struct GemmOp;

}  // namespace serval::device

namespace serval::device::gemm {

using serval::kTileUnits;
inline constexpr uint32_t kWarpUnits = 2;
inline constexpr uint32_t kWarpgroupUnits = kWarpgroupWarps * kWarpUnits;
inline constexpr uint32_t kWarpgroups = kConsumerWarps / kWarpgroupWarps;
inline constexpr uint32_t kPieceBytes = kPageBytes / kTileUnits;  // of a unit in a slab
inline constexpr uint32_t kSlabWords = kPieceBytes / sizeof(uint32_t);
// Squares of the residual are added up for as many columns as a warpgroup finishes.
inline constexpr uint32_t kSquaresCols = kSquareColsOfGemm;
static_assert(kSquaresCols == kWarpgroupWarps * kWarpUnits * kUnitRows);
// Results leave through shared memory, of so many tokens at a time: each thread of a warpgroup then finishes
// a piece of a slab's row.
inline constexpr uint32_t kStagedTokens = 16;
static_assert(kStagedTokens % slab_image::kSwizzledRows == 0);
inline constexpr uint32_t kStagedValues = kStagedTokens / 2;  // of a lane
inline constexpr uint32_t kStagedRowFloats = kWarpgroupWarps * kWarpUnits * kUnitRows;
inline constexpr uint32_t kBuffers = 2;
inline constexpr uint32_t kResidualPart = 2;  // of what a tile needs, beside its two halves of units
inline constexpr uint32_t kPairUnits = kTileUnits / 2;  // of each of two matrices in a tile that is not wide
// A wide tile has two halves, each a page of a slab.
inline constexpr uint32_t kWideHalves = 2;
// A warp's sums of a wide tile, half after half.
template <class Config>
using WideSums = float[kWideHalves][Config::kTileTokens / 2];

// Which 8 weight rows each the units of a tile are.
enum class Units : uint32_t {
  kNeighbours,       // of one matrix: a box of 16 units
  kHalf,             // of one matrix, 8 or fewer: the first warpgroup's
  kNeighboursApart,  // of one matrix in each half: two boxes of 8
  kPairs,            // 8 of each of two matrices, in one box: a warp takes one unit of each
  kWidePairs,        // 16 of each of two matrices: such a box for each half of the tile
};
__device__ __forceinline__ Units neighbours(uint32_t units) {
  return units <= kWarpgroupUnits ? Units::kHalf : Units::kNeighbours;
}

// What an instruction multiplies.
struct Shape {
  const std::byte* activations;  // a slab image of image_rows rows
  const float* squares;  // [image_rows, cols / 64] of the residual, where rows are to be normalised, or null
  float epsilon;         // with squares
  uint32_t image_rows;
  uint32_t first_row;
  uint32_t end_row;
  Units units;
  uint32_t cols;
  uint32_t logits_only;         // 1: only rows whose logits are wanted are computed
  uint32_t adds;                // 1: to a residual, which the loader brings
  const uint32_t* block_table;  // where K and V of a row's token go is looked up, or null
  uint32_t blocks_of_sequence;
  uint32_t kv_heads = 0;    // with block_table
  uint32_t first_slab = 0;  // of the columns, with num_slabs
  uint32_t num_slabs = 0;   // 0: all
  uint32_t parts = 1;       // that the columns are cut into (common/column_parts.h)
};

// Where something of a tile is.
struct Pages {
  const std::byte* map;  // a tensor map: of a matrix, with a row of words for each unit, or of the residual
  uint32_t unit;         // the first unit, or the first column
  uint64_t policy = 0;   // of L2, for weights
};

// How a record is cut up: written once, read by every role.
struct Plan {
  Shape shape;
  const PassRow* rows;
  uint32_t tiles;  // of tokens
  uint32_t slabs;

  // Of the slabs, the first of part `part`; of part `parts`, the end.
  __device__ __forceinline__ uint32_t part_begin(uint32_t part) const {
    constexpr uint32_t kSlabs = slab_image::kSlabsOfPanel;
    return min((slabs + kSlabs - 1) / kSlabs * part / shape.parts * kSlabs, slabs);
  }
  // Of token tile `tile`, those that the pass may have.
  template <class Config>
  __device__ __forceinline__ uint32_t tokens(uint32_t tile) const {
    return min(shape.end_row - shape.first_row - tile * Config::kTileTokens, Config::kTileTokens);
  }
  // A tile of 8 units: a page has two slabs, the last of a part perhaps one.
  __device__ __forceinline__ bool two_slabs_a_page() const { return shape.units == Units::kHalf; }
  __device__ __forceinline__ uint32_t last_part_pages() const {
    const uint32_t count = slabs - part_begin(shape.parts - 1);
    return two_slabs_a_page() ? (count + 1) / 2 : count;
  }
};

// Instead of a token's position: its row is not active, or left out.
inline constexpr uint32_t kNoToken = ~0u;

// Lies where a kernel for few rows keeps its partial results: what a GEMM's consumers hand to storers, and
// what storers look up for them.
template <class Config>
struct Workspace {
  float staged[kWarpgroups][kBuffers][kStagedTokens * kStagedRowFloats];
  float scales[kBuffers][Config::kTileTokens];
  uint32_t positions[kBuffers][Config::kTileTokens];  // or kNoToken
  // Of K and V of KV head 0, counted in vectors of a head's channels.
  uint32_t places[kBuffers][Config::kTileTokens];
};
template <class Config>
__device__ __forceinline__ Workspace<Config>& workspace(Shared<Config>& s) {
  static_assert(sizeof(Workspace<Config>) <= sizeof(s.partials));
  return *reinterpret_cast<Workspace<Config>*>(s.partials);
}

// A consumer warp's part of a tile: two units (8 weight rows each) and all tokens. Of each 8 tokens b, a lane
// has in d[4b + i] its row of the first unit and in d[4b + 2 + i] that of the second, for token 8b + 2 (lane
// mod 4) + i.
struct WarpTile {
  uint32_t warpgroup = 0;
  uint32_t warp = 0;  // of the warpgroup
  uint32_t lane = 0;
  uint32_t first_token;  // of the tile, a row of the pass
  uint32_t end_token;
  uint32_t buffer;         // of what storers looked up
  uint32_t tile_half = 0;  // which of a wide tile's

  __device__ __forceinline__ uint32_t row_of_unit() const { return lane / 4; }
  // The same with the thread read anew: what a loop computes from it is not kept in registers around the
  // loop, of which the sums leave few.
  __device__ __forceinline__ WarpTile again() const {
    WarpTile tile = *this;
    const uint32_t thread = ptx::thread_index();
    tile.warpgroup = thread / kWarpThreads / kWarpgroupWarps - kFirstConsumerWarp / kWarpgroupWarps;
    tile.warp = thread / kWarpThreads % kWarpgroupWarps;
    tile.lane = thread % kWarpThreads;
    return tile;
  }
  // Of the units of the tile, or of its half: the first of the two.
  __device__ __forceinline__ uint32_t unit() const {
    return (warpgroup * kWarpgroupWarps + warp) * kWarpUnits;
  }
  // In the tile; with `eight` b.
  __device__ __forceinline__ uint32_t token(uint32_t eight, uint32_t i) const {
    return eight * 8 + lane % 4 * 2 + i;
  }
};

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
  exit_if_requested(&role.s.exit);
  if (slab > 0) at.free_panel_behind();
  if (slab < slabs) {
    const ptx::WgmmaOperand rows = at.operand();
    at.wait_page_and_panel();
    load(0, 0);
    begin(rows, 0, slab == 0);
    at.free_page();
    at.advance_panel();
    ptx::wgmma_wait<0>();
    exit_if_requested(&role.s.exit);
    at.free_panel_behind();
  }
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
// Runs products, which take so many pages and panels, with what the role counts put aside.
template <class Role, class Multiply>
__device__ __forceinline__ void with_counts_aside(Role& role, uint32_t pages, uint32_t panels,
                                                  Multiply&& multiply) {
  role.put_aside();
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

// --- from registers to pieces

// What a thread finishes of kStagedTokens tokens: piece `piece` of half a slab's row, which has rows 2 piece
// and the next of 4 neighbouring units, of token `token`. Neighbours in a half of a warp have tokens that are
// two apart: in a page of the residual they lie in other banks.
struct PieceOfRow {
  uint32_t token;  // 0 to kStagedTokens - 1
  uint32_t group;  // of 4 units, of the warpgroup's 8
  uint32_t piece;

  __device__ __forceinline__ explicit PieceOfRow(const WarpTile& part) {
    const uint32_t thread = part.warp * kWarpThreads + part.lane;
    token = thread / 32 * 4 + thread / 8 % 2 * 2 + thread / 16 % 2;
    group = thread / slab_image::kPiecesOfHalf % 2;
    piece = thread % slab_image::kPiecesOfHalf;
  }
};
// Of the float of unit `unit` (of the warpgroup's 8) and row `row` in a staged token's row: units of 4 are
// moved about, so that a warp's accesses use all banks.
__device__ __forceinline__ uint32_t staged_float(uint32_t token, uint32_t unit, uint32_t row) {
  return token * kStagedRowFloats + (unit ^ (token / 2 & 3)) * kUnitRows + row;
}
// For loops over a tile's tokens of which each round takes the first kCount sums: then the next ones come
// first. Registers have no index.
template <uint32_t kCount, uint32_t kValues>
__device__ __forceinline__ void shift_sums(float (&d)[kValues]) {
#pragma unroll
  for (uint32_t v = 0; v + kCount < kValues; ++v) d[v] = d[v + kCount];
}
// The first kStagedTokens tokens' sums.
template <uint32_t kValues>
__device__ __forceinline__ void put_block(float* staged, const WarpTile& part, const float (&d)[kValues]) {
  const uint32_t unit = part.warp * kWarpUnits;
  float* first = staged + staged_float(part.token(0, 0), unit, part.row_of_unit());
  float* second = staged + staged_float(part.token(0, 0), unit + 1, part.row_of_unit());
#pragma unroll
  for (uint32_t v = 0; v < kStagedValues; ++v)
    (v / 2 % 2 == 0 ? first : second)[(v / 4 * 8 + v % 2) * kStagedRowFloats] = d[v];
}
// Calls finish(block, staged, mine, exists) for every 16 tokens of a tile, when a warpgroup's sums of them
// are in shared memory; `mine` says what the thread finishes.
template <class Mine, class Role, uint32_t kValues, class Finish>
__device__ __forceinline__ void for_staged(Role& role, const WarpTile& part, float (&d)[kValues],
                                           Finish&& finish) {
  auto& work = workspace(role.s);
#pragma unroll 1
  for (uint32_t block = 0; block < kValues / kStagedValues; ++block) {
    if (part.first_token + block * kStagedTokens >= part.end_token) break;
    const WarpTile now = part.again();
    float* staged = work.staged[now.warpgroup][block % kBuffers];
    put_block(staged, now, d);
    shift_sums<kStagedValues>(d);
    role.sync_warpgroup();
    const Mine mine(now);
    finish(block, staged, mine, work.positions[part.buffer][block * kStagedTokens + mine.token] != kNoToken);
  }
  role.sync_warpgroup();  // the next tile begins with the first buffer, whichever was the last here
}
// What a thread finishes where it takes whole units: one of the warpgroup's 8, of token `token`.
struct UnitOfToken {
  uint32_t token;  // 0 to kStagedTokens - 1
  uint32_t warpgroup;
  uint32_t unit;

  __device__ __forceinline__ explicit UnitOfToken(const WarpTile& part) : warpgroup(part.warpgroup) {
    const uint32_t thread = part.warp * kWarpThreads + part.lane;
    token = thread / kWarpgroupUnits;
    unit = thread % kWarpgroupUnits;
  }
};
__device__ __forceinline__ void load_unit(float (&values)[kUnitRows], const float* staged, uint32_t token,
                                          uint32_t unit) {
  const auto* from = reinterpret_cast<const float4*>(staged + staged_float(token, unit, 0));
  const float4 low = from[0], high = from[1];
  values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
  values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
}

// --- what instructions ask

// Of a matrix, or of the residual; of a matrix that is no pair's, also that of boxes of 8 units.
__device__ __forceinline__ const std::byte* tensor_map(const BoundProgram& program, TensorId tensor,
                                                       bool halves = false) {
  constexpr uint32_t kMapBytes = 128;
  return program.tensor_maps + (size_t{tensor.index} * kMapsOfTensor + (halves ? 1 : 0)) * kMapBytes;
}
// Products of all columns, of all active rows, with activations as they are.
template <class Op>
__device__ __forceinline__ Shape plain_shape(const Op& op, const std::byte* activations, Units units,
                                             uint32_t cols) {
  return {.activations = activations,
          .squares = nullptr,
          .epsilon = 0,
          .image_rows = op.max_rows,
          .first_row = op.first_row,
          .end_row = op.first_row + op.num_rows,
          .units = units,
          .cols = cols,
          .logits_only = 0,
          .adds = 0,
          .block_table = nullptr,
          .blocks_of_sequence = 0};
}
// Of neighbouring units of op.weights.
template <class Op>
__device__ __forceinline__ Shape product_shape(const Op& op, const std::byte* activations) {
  Shape shape = plain_shape(op, activations, neighbours(op.num_units), op.in_cols);
  shape.logits_only = op.logits_only;
  return shape;
}
// Of its columns only `count` from `first` on: whole panels, but for the matrix's last.
__device__ __forceinline__ void take_columns(Shape& shape, uint32_t first, uint32_t count) {
  const uint32_t end = first + count;
  shape.first_slab = first / page_image::kPanelCols * slab_image::kSlabsOfPanel;
  const uint32_t end_slab = end == shape.cols ? slab_image::slabs(shape.cols)
                                              : end / page_image::kPanelCols * slab_image::kSlabsOfPanel;
  shape.num_slabs = end_slab - shape.first_slab;
}
template <class Op>
__device__ __forceinline__ Pages weight_pages(const BoundProgram& program, const Op& op) {
  return {tensor_map(program, op.weights, op.num_units <= kWarpgroupUnits), op.first_unit};
}
// A tile's units are within the matrix, and whole warpgroups' but for the matrix's last.
__device__ __forceinline__ bool units_in_range(uint32_t first, uint32_t count, uint32_t most, uint32_t all) {
  return count > 0 && count <= most && first < all && count <= all - first;
}
template <class Op>
__device__ __forceinline__ bool rows_in_range(const Op& op) {
  return op.first_row < op.max_rows && op.num_rows <= op.max_rows - op.first_row;
}
// The warpgroup has units to finish: a matrix's last tile may have fewer.
__device__ __forceinline__ bool has_units(const WarpTile& tile, uint32_t units) {
  return tile.warpgroup * kWarpgroupUnits < units;
}

// --- what finishes a tile

// Where a residual tile goes.
struct ResidualPlace {
  float* residual;       // [rows, cols]
  const uint16_t* norm;  // [cols] bf16: weights of the next norm
  std::byte* weighted;   // a slab image of image_rows rows: residual × norm
  float* squares;        // [rows, cols / kSquaresCols]
  uint32_t image_rows;
  uint32_t cols;
};

// The residual of a tile comes through the ring, behind the tile's weights: pages of kPageTokens tokens and
// the tile's 128 columns, in boxes of 32 columns, swizzled by the copy engine (vm/device/tensor_maps.h).
inline constexpr uint32_t kBoxCols = 32;
inline constexpr uint32_t kBoxes = kTileUnits * kUnitRows / kBoxCols;
inline constexpr uint32_t kPageTokens = kPageBytes / (kBoxes * kBoxCols * sizeof(float));
inline constexpr uint32_t kBoxBytes = kPageTokens * kBoxCols * sizeof(float);
static_assert(kPageTokens == 2 * kStagedTokens);
__device__ __forceinline__ uint32_t residual_pages(uint32_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}
// In a page, of token `token` of it and column `col` of the tile.
__device__ __forceinline__ uint32_t residual_offset(uint32_t token, uint32_t col) {
  constexpr uint32_t kPieceFloats = slab_image::kPieceBytes / sizeof(float);
  const uint32_t piece = col % kBoxCols / kPieceFloats ^ token % slab_image::kSwizzledRows;
  return col / kBoxCols * kBoxBytes + token * (kBoxCols * static_cast<uint32_t>(sizeof(float))) +
         piece * slab_image::kPieceBytes + col % kPieceFloats * static_cast<uint32_t>(sizeof(float));
}

// Where a lane's sums of kPageTokens tokens of a tile lie in a page. One number: with another token or unit,
// the swizzle changes single bits of it.
class LanePlaces {
 public:
  static constexpr uint32_t kSums = kPageTokens / 2;

  __device__ __forceinline__ explicit LanePlaces(const WarpTile& part)
      : first_(residual_offset(part.token(0, 0), part.unit() * kUnitRows + part.row_of_unit())) {}
  // Of sum v, as in d.
  __device__ __forceinline__ float* in(std::byte* page, uint32_t v) const {
    const uint32_t next_token = v % 2, next_unit = v / 2 % 2;
    static_assert(kWarpUnits == 2, "the first unit's place in its box is even");
    const uint32_t swizzled = first_ ^ (next_token + next_unit * kPiecesOfUnit) * slab_image::kPieceBytes;
    return reinterpret_cast<float*>(page + swizzled + (next_token + v / 4 * 8) * kTokenBytes);
  }

 private:
  static constexpr uint32_t kTokenBytes = kBoxCols * sizeof(float);
  static constexpr uint32_t kPiecesOfUnit = kUnitRows * sizeof(float) / slab_image::kPieceBytes;
  static_assert(slab_image::kSwizzledRows == 8, "8 tokens further on, all else is the same");
  uint32_t first_;
};
// A lane's sums of tokens [32 n, 32 n + 32) of a tile are added to a page of the residual.
template <uint32_t kValues>
__device__ __forceinline__ void add_to_page(std::byte* page, const LanePlaces& places,
                                            const float (&d)[kValues], uint32_t n) {
#pragma unroll
  for (uint32_t first = 0; first < LanePlaces::kSums; first += kStagedValues) {
    // All loads before the first store: the compiler does not know that they are of other places.
    float before[kStagedValues];
#pragma unroll
    for (uint32_t v = 0; v < kStagedValues; ++v) before[v] = *places.in(page, first + v);
#pragma unroll
    for (uint32_t v = 0; v < kStagedValues; ++v)
      *places.in(page, first + v) = before[v] + d[n * LanePlaces::kSums + first + v];
  }
}
// The same of a part of the columns, put into a page that will be added to the residual: nothing is added to
// tokens that do not exist. positions: of the page's tokens.
template <uint32_t kValues>
__device__ __forceinline__ void put_in_page(std::byte* page, const LanePlaces& places, const WarpTile& part,
                                            const float (&d)[kValues], uint32_t n,
                                            const uint32_t* positions) {
#pragma unroll
  for (uint32_t v = 0; v < LanePlaces::kSums; ++v) *places.in(page, v) = d[n * LanePlaces::kSums + v];
  static_assert(kPageTokens == kWarpThreads);
  const bool exists = positions[part.lane] != kNoToken;
  if (__all_sync(kAllLanes, exists) || exists) return;
#pragma unroll 1
  for (uint32_t c = 0; c < kWarpUnits * kUnitRows; ++c)
    *reinterpret_cast<float*>(page + residual_offset(part.lane, part.unit() * kUnitRows + c)) = -0.0F;
}

// A piece of the complete residual: two columns of each of 4 neighbouring units, which 8 neighbouring lanes
// have of 64 columns of a token.
class ResidualPiece {
 public:
  static constexpr uint32_t kUnits = 4, kLanes = 8;
  using Values = float2[kUnits];

  // `row`: of the pass; `col`: the first of the piece's columns; `piece`: of half a slab's row.
  __device__ __forceinline__ ResidualPiece(const ResidualPlace& to, uint32_t row, uint32_t col,
                                           uint32_t piece)
      : residual_(to.residual + size_t{row} * to.cols + col),
        squares_(to.squares + size_t{row} * (to.cols / kSquaresCols) + col / kSquaresCols),
        cols_(to.cols) {
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u)
      norms_[u] = ptx::load_constant(reinterpret_cast<const uint32_t*>(to.norm + col + u * kUnitRows));
    const auto at = slab_image::place(to.cols, col - piece * 2);
    weighted_ = to.weighted + slab_image::piece_offset(to.image_rows, row, at.slab, at.piece + piece);
  }

  // Goes so many rows on: a multiple of slab_image::kSwizzledRows, so that the swizzle stays.
  __device__ __forceinline__ void advance(uint32_t rows) {
    residual_ += size_t{rows} * cols_;
    squares_ += size_t{rows} * (cols_ / kSquaresCols);
    weighted_ += rows * slab_image::kRowBytes;
  }
  // What the next readers need: of the piece, and of the 64 columns. The warp's lanes stay together.
  struct Weighed {
    uint4 words;
    float squares;
  };
  __device__ __forceinline__ Weighed weigh(const Values& values) const {
    uint32_t words[kUnits];
    float sum = 0;
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u) {
      sum += __fmul_rn(values[u].x, values[u].x) + __fmul_rn(values[u].y, values[u].y);
      words[u] =
          ptx::pack_bf16(values[u].x * ptx::bf16_low(norms_[u]), values[u].y * ptx::bf16_high(norms_[u]));
    }
    sum = residual::add_neighbours<kLanes>(sum, kAllLanes);  // of a token
    return {{words[0], words[1], words[2], words[3]}, sum};
  }
  __device__ __forceinline__ void store_residual(const Values& values) const {
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u)
      ptx::store_relaxed(reinterpret_cast<float2*>(residual_ + u * kUnitRows), values[u]);
  }
  // Without the squares: in the tensor of the piece's place, or so many bytes further on, in another rank's.
  __device__ __forceinline__ void store_words(const Weighed& values, int64_t further = 0) const {
    *reinterpret_cast<uint4*>(weighted_ + further) = values.words;
  }
  __device__ __forceinline__ void store(const Values& values, bool exists, uint32_t lane) const {
    const Weighed weighed = weigh(values);
    if (!exists) return;
    store_residual(values);
    store_words(weighed);
    if (lane % kLanes == 0) ptx::store_relaxed(squares_, weighed.squares);
  }

 private:
  float* residual_;
  float* squares_;
  std::byte* weighted_;
  uint32_t cols_;
  uint32_t norms_[kUnits];
};

// Where 8 neighbouring lanes have 64 columns of a row: the first column of the lane's piece.
inline constexpr uint32_t kPieceLanes = ResidualPiece::kLanes;
__device__ __forceinline__ uint32_t piece_col(uint32_t lane) {
  return lane % kPieceLanes / slab_image::kPiecesOfHalf * ResidualPiece::kUnits * kUnitRows +
         lane % slab_image::kPiecesOfHalf * 2;
}
__device__ __forceinline__ void load_piece(const float* from, ResidualPiece::Values& values) {
#pragma unroll
  for (uint32_t u = 0; u < ResidualPiece::kUnits; ++u)
    values[u] = ptx::load_relaxed(reinterpret_cast<const float2*>(from + u * kUnitRows));
}
__device__ __forceinline__ void add_piece(const ResidualPiece::Values& values, ResidualPiece::Values& sums) {
#pragma unroll
  for (uint32_t u = 0; u < ResidualPiece::kUnits; ++u) sums[u].x += values[u].x, sums[u].y += values[u].y;
}
__device__ __forceinline__ bool row_is_computed(const PassRow& row, uint32_t logits_only) {
  const uint4 begin = ptx::load_relaxed(reinterpret_cast<const uint4*>(&row));  // active, wants_logits, …
  return begin.x != 0 && (logits_only == 0 || begin.y != 0);
}

// What finishes a tile is straight code for so many pages, which then runs again for the next ones: a round
// more moves all sums, a round less is more code to bring to the instruction cache.
inline constexpr uint32_t kRoundPages = 4;
template <class Config>
constexpr uint32_t pages_of_round() {
  const uint32_t pages = (Config::kTileTokens + kPageTokens - 1) / kPageTokens;
  return pages < kRoundPages ? pages : kRoundPages;
}

// residual += d, with what its next readers need. place(): the ResidualPlace. first_unit: of the tile, in the
// matrix; a warpgroup without units only lets the pages go.
template <class Role, class Place, uint32_t kValues>
__device__ __forceinline__ void add_to_residual(Role& role, const WarpTile& tile, const Place& place,
                                                uint32_t first_unit, uint32_t units, float (&d)[kValues]) {
  using Config = typename Role::Config;
  constexpr uint32_t kHalfBytes = kStagedTokens * kBoxCols * sizeof(float);
  constexpr uint32_t kUnitBytes = kUnitRows * sizeof(float);
  const WarpTile part = tile.again();
  const bool has = has_units(part, units);
  const PieceOfRow mine(part);
  const uint32_t col =
      (part.warpgroup * kWarpgroupUnits + mine.group * ResidualPiece::kUnits) * kUnitRows + mine.piece * 2;
  ResidualPiece piece(place(), part.first_token + mine.token, first_unit * kUnitRows + (has ? col : 0),
                      mine.piece);
  const uint32_t* positions = workspace(role.s).positions[part.buffer] + mine.token;
  const LanePlaces places(part);
  // Another unit is two other bits of a place, swizzled or not.
  const uint32_t from = residual_offset(mine.token, col);
  constexpr uint32_t kRound = pages_of_round<Config>();
#pragma unroll 1
  for (uint32_t row = part.first_token; row < part.end_token; row += kRound * kPageTokens) {
#pragma unroll
    for (uint32_t page = 0; page < kRound; ++page) {
      if (row + page * kPageTokens >= part.end_token) break;
      role.wait_page(role.next_page);
      std::byte* residual = role.s.ring[role.next_page % Config::kRingPages];
      if (has) add_to_page(residual, places, d, page);
      role.sync_warpgroup();
      if (has) {
        ResidualPiece::Values values[2];
        bool exists[2];
#pragma unroll
        for (uint32_t half = 0; half < 2; ++half) {
          exists[half] = positions[page * kPageTokens + half * kStagedTokens] != kNoToken;
#pragma unroll
          for (uint32_t u = 0; u < ResidualPiece::kUnits; ++u)
            values[half][u] =
                *reinterpret_cast<const float2*>(residual + (from ^ u * kUnitBytes) + half * kHalfBytes);
        }
#pragma unroll
        for (uint32_t half = 0; half < 2; ++half) {
          piece.store(values[half], exists[half], part.lane);
          piece.advance(kStagedTokens);
        }
      }
      role.free_page(role.next_page++);
    }
    shift_sums<kRound * LanePlaces::kSums>(d);
    positions += kRound * kPageTokens;
  }
}

// residual += the sums of a part that is not the last, by the copy engine, out of pages that the loader lends
// (Stream::lend_pages()), which takes it that the sums are added when the last page comes back. What is added
// to a place comes from one thread, part after part. map: of the residual; first_col: of the tile.
template <class Role, uint32_t kValues>
__device__ __forceinline__ void add_sums(Role& role, const WarpTile& tile, const std::byte* map,
                                         uint32_t first_col, uint32_t units, float (&d)[kValues]) {
  using Config = typename Role::Config;
  constexpr uint32_t kBoxesOfWarpgroup = kWarpgroupUnits * kUnitRows / kBoxCols;
  const WarpTile part = tile.again();
  const bool has = has_units(part, units);
  const uint32_t* positions = workspace(role.s).positions[part.buffer];
  const LanePlaces places(part);
  const bool asks = has && role.leads_warpgroup();
  if (asks) ptx::fence_proxy_async_global();  // the inputs are there
  constexpr uint32_t kRound = pages_of_round<Config>();
#pragma unroll 1
  for (uint32_t first = part.first_token; first < part.end_token; first += kRound * kPageTokens) {
#pragma unroll
    for (uint32_t page = 0; page < kRound; ++page) {
      const uint32_t row = first + page * kPageTokens;
      if (row >= part.end_token) break;
      role.wait_page(role.next_page);
      std::byte* sums = role.s.ring[role.next_page % Config::kRingPages];
      if (has) put_in_page(sums, places, part, d, page, positions + page * kPageTokens);
      ptx::fence_proxy_async_shared();  // the copy engine will read it
      role.sync_warpgroup();
      if (asks) {
#pragma unroll
        for (uint32_t n = 0; n < kBoxesOfWarpgroup; ++n) {
          const uint32_t box = part.warpgroup * kBoxesOfWarpgroup + n;
          ptx::tensor_add(map, row, first_col + box * kBoxCols, sums + box * kBoxBytes);
        }
        ptx::commit_stores();
        if (row + kPageTokens < part.end_token) {
          ptx::wait_stores_read<0>();
        } else {
          ptx::wait_stores<0>();
        }
      }
      role.free_page(role.next_page++);
    }
    shift_sums<kRound * LanePlaces::kSums>(d);
    positions += kRound * kPageTokens;
  }
}

// output = silu(gate) × up, both scaled by the tokens' scales; units of gate and up lie in turn. first_unit:
// of the tile, in each matrix. Through shared memory, so that stores fill sectors: a warp puts a unit's 8
// outputs of a token side by side there, and a thread takes a piece, two outputs of each of the warpgroup's 4
// units.
template <class Role, uint32_t kValues>
__device__ __forceinline__ void store_silu(Role& role, const WarpTile& tile, std::byte* output,
                                           uint32_t image_rows, uint32_t cols, uint32_t first_unit,
                                           float (&d)[kValues]) {
  constexpr uint32_t kTokens = 32, kEights = kTokens / 8, kUnitBytes = kUnitRows * sizeof(uint16_t);
  constexpr uint32_t kTokenBytes = (kWarpgroupWarps + 1) * kUnitBytes;  // in other banks than the next
  static_assert(kTokens * kTokenBytes <= sizeof(Workspace<typename Role::Config>::staged[0][0]));
  const WarpTile part = tile.again();
  const uint32_t thread = part.warp * kWarpThreads + part.lane;
  const uint32_t token = thread / slab_image::kPiecesOfHalf, piece = thread % slab_image::kPiecesOfHalf;
  const auto at = slab_image::place(cols, (first_unit + part.warpgroup * kWarpgroupWarps) * kUnitRows);
  std::byte* to =
      output + slab_image::piece_offset(image_rows, part.first_token + token, at.slab, at.piece + piece);
  auto& work = workspace(role.s);
  const auto* scales = reinterpret_cast<const float2*>(work.scales[part.buffer] + part.token(0, 0));
  const uint32_t* positions = work.positions[part.buffer] + token;
  const uint32_t staged = ptx::shared_address(work.staged[part.warpgroup]);
  const uint32_t put = staged + part.lane * kTokenBytes + part.warp * kUnitBytes;
  const uint32_t take = staged + token * kTokenBytes + piece * sizeof(uint32_t);
  const auto silu = [](float g, float x) { return __fdividef(g, 1.0F + ptx::exp(-g)) * x; };
  constexpr uint32_t kBlocks = kValues / (4 * kEights),
                     kRound = kBlocks < kRoundPages ? kBlocks : kRoundPages;
  static_assert(kRound % kBuffers == 0);
#pragma unroll 1
  for (uint32_t first = part.first_token; first < part.end_token; first += kRound * kTokens) {
#pragma unroll
    for (uint32_t block = 0; block < kRound; ++block) {
      if (first + block * kTokens >= part.end_token) break;
      constexpr uint32_t kBufferBytes = sizeof(work.staged[0][0]);
      uint32_t outputs[kEights];
#pragma unroll
      for (uint32_t n = 0; n < kEights; ++n) {
        const float* of_eight = d + (block * kEights + n) * 4;
        const float2 scale = scales[(block * kEights + n) * 4];
        outputs[n] = ptx::pack_bf16(silu(of_eight[0] * scale.x, of_eight[2] * scale.x),
                                    silu(of_eight[1] * scale.y, of_eight[3] * scale.y));
      }
      const bool exists = positions[block * kTokens] != kNoToken;
      ptx::store_matrices<true>(put + block % kBuffers * kBufferBytes, outputs);
      role.sync_warpgroup();
      uint32_t words[kWarpgroupWarps];
#pragma unroll
      for (uint32_t unit = 0; unit < kWarpgroupWarps; ++unit)
        words[unit] = ptx::shared_load_word(take + block % kBuffers * kBufferBytes + unit * kUnitBytes);
      if (exists)
        *reinterpret_cast<uint4*>(to + block * kTokens * slab_image::kRowBytes) = {words[0], words[1],
                                                                                   words[2], words[3]};
    }
    shift_sums<kRound * 4 * kEights>(d);
    scales += kRound * kTokens / 2;
    positions += kRound * kTokens;
    to += kRound * kTokens * slab_image::kRowBytes;
  }
  role.sync_warpgroup();  // the next tile begins with the first buffer, whichever was the last here
}

// The sums of one part of the columns, as they are. `to`: of the first of the tile's columns, in a tensor of
// so many columns.
template <class Role, uint32_t kValues>
__device__ __forceinline__ void store_sums(Role& role, const WarpTile& tile, float* to, uint32_t cols,
                                           const float (&d)[kValues]) {
  const WarpTile part = tile.again();
  to += size_t{part.first_token + part.token(0, 0)} * cols + part.unit() * kUnitRows + part.row_of_unit();
  const uint32_t* positions = workspace(role.s).positions[part.buffer] + part.token(0, 0);
#pragma unroll
  for (uint32_t eight = 0; eight < kValues / 4; ++eight, to += size_t{8} * cols) {
    if (part.first_token + eight * 8 >= part.end_token) break;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      if (positions[eight * 8 + i] == kNoToken) continue;
      ptx::store_relaxed(to + i * cols, d[eight * 4 + i]);
      ptx::store_relaxed(to + i * cols + kUnitRows, d[eight * 4 + 2 + i]);
    }
  }
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

// --- the stream

struct Stream {
  static constexpr bool kConsumersStore = true;
  using Plan = gemm::Plan;
  using Shape = gemm::Shape;
  using Pages = gemm::Pages;
  template <class T>
  using Op = GemmOp<T>;

  template <class T, class Role>
  static __device__ __forceinline__ Pages pages_of(const Role& role, const T& op, uint32_t part, uint32_t) {
    return GemmOp<T>::pages_of(role.launch.program, op, part);
  }

  template <class Config>
  static __device__ __forceinline__ Plan plan(const Launch& launch, const Shape& shape) {
    Plan made{.shape = shape,
              .rows = launch.program.rows,
              .tiles = 0,
              .slabs = shape.num_slabs != 0 ? shape.num_slabs : slab_image::slabs(shape.cols)};
    made.shape.end_row = min(shape.end_row, shape.logits_only != 0 ? launch.logit_bound : launch.row_bound);
    if (made.shape.first_row < made.shape.end_row)
      made.tiles =
          (made.shape.end_row - made.shape.first_row + Config::kTileTokens - 1) / Config::kTileTokens;
    return made;
  }
  static __device__ __forceinline__ bool has_panels(const Plan& plan) { return plan.tiles != 0; }

  // For each tile of tokens slab after slab: a piece of each unit, which lie one after the other.
  template <class Role, class PagesOf>
  static __device__ __forceinline__ void load(Role& role, const Plan& plan, PagesOf&& pages_of) {
    if (plan.tiles == 0) return;
    const bool apart = plan.shape.units == Units::kNeighboursApart;
    Pages first = pages_of(0, 0);
    const Pages second = apart ? pages_of(1, 0) : first;
    // A pass of one tile of rows reads each weight once: L2 is for what SMs share.
    const bool once = role.launch.row_bound <= Role::Config::kTileTokens;
    first.policy = once ? ptx::read_once_policy() : ptx::usual_policy();
#pragma unroll 1
    for (uint32_t tile = 0; tile < plan.tiles; ++tile) {
#pragma unroll 1
      for (uint32_t part = 0; part < plan.shape.parts; ++part) {
        const uint32_t begin = plan.part_begin(part), end = plan.part_begin(part + 1);
        load_slabs(role, plan, first, second, (plan.shape.first_slab + begin) * kSlabWords, end - begin);
        if (part + 1 < plan.shape.parts) lend_pages(role, plan, tile);
      }
      if (plan.shape.adds != 0)
        load_residual(role, plan, plan.shape.first_row + tile * Role::Config::kTileTokens,
                      pages_of(kResidualPart, 0));
    }
  }

  template <class Role>
  static __device__ __forceinline__ void prepare(Role& role, const Plan& plan) {
    using Config = typename Role::Config;
    role.wait_inputs(role.recorder);
    if (role.lane == 0) ptx::fence_proxy_async_global();
    const size_t slab_bytes = size_t{plan.shape.image_rows} * slab_image::kRowBytes;
#pragma unroll 1
    for (uint32_t tile = 0; tile < plan.tiles; ++tile) {
      const uint32_t row = plan.shape.first_row + tile * Config::kTileTokens;
      const uint32_t rows = plan.template tokens<Config>(tile);
      const std::byte* from =
          plan.shape.activations + plan.shape.first_slab * slab_bytes + size_t{row} * slab_image::kRowBytes;
      role.stream_panels(from, slab_bytes, plan.slabs, rows * slab_image::kRowBytes);
    }
  }

  template <class Role, class WithOp, class Signal>
  static __device__ __forceinline__ void consume(Role& role, const Plan& plan, WithOp&& with_op,
                                                 Signal&& signal) {
    using Config = typename Role::Config;
    role.wait_partial_buffer(role.next_unit);
    const uint32_t tiles = Config::uniform(plan.tiles);
    role.next_page = Config::uniform(role.next_page);
    role.next_panel = Config::uniform(role.next_panel);
#pragma unroll 1
    for (uint32_t tile = 0; tile < tiles; ++tile) {
      if (tile == 0) stamp(role, EventKind::kComputeBegin);
      if (is_wide<Config>(plan)) {
        work_on_wide(role, plan, tile, tile + 1 == tiles, with_op);
      } else {
        work_on(role, plan, tile, tile + 1 == tiles, with_op);
      }
      role.used_tiles(++role.next_tile);
    }
    signal();
  }

  // Storers: which of the tokens exist, where K and V of theirs go and what their scales are, a tile ahead of
  // the consumers.
  template <class Role>
  static __device__ __forceinline__ void look_up(Role& role, const Plan& plan) {
    using Config = typename Role::Config;
    if (plan.tiles != 0) role.wait_inputs();
#pragma unroll 1
    for (uint32_t tile = 0; tile < plan.tiles; ++tile, ++role.next_tile) {
      const uint32_t buffer = role.next_tile % kBuffers;
      wait_counts(role.s.tiles_used, role.lane, role.next_tile + 1 - kBuffers, &role.s.exit);
#pragma unroll 1
      for (uint32_t n = role.warp * kWarpThreads + role.lane; n < Config::kTileTokens;
           n += kStorerWarps * kWarpThreads)
        look_up_token(role, plan, plan.shape.first_row + tile * Config::kTileTokens + n, buffer, n);
      __syncwarp();
      if (role.lane == 0) ptx::mbarrier_arrive(&role.s.tokens_ready[buffer]);
    }
  }

 private:
  template <class Role>
  static __device__ __forceinline__ WarpTile part_of(const Role& role, const Plan& plan, uint32_t tile) {
    constexpr uint32_t kTokens = Role::Config::kTileTokens;
    const uint32_t first = plan.shape.first_row + tile * kTokens;
    return WarpTile{.first_token = first,
                    .end_token = min(plan.shape.end_row, first + kTokens),
                    .buffer = role.next_tile % kBuffers}
        .again();
  }
  template <class Role, class WithOp>
  static __device__ __forceinline__ void work_on(Role& role, const Plan& plan, uint32_t tile, bool is_last,
                                                 WithOp&& with_op) {
    float d[Role::Config::kTileTokens / 2];
    multiply_parts(role, plan, tile, d, [&] {
      const WarpTile part = part_of(role, plan, tile);
      await_tokens(role, part);
      with_op([&]<class T>(const T& op) {
        if constexpr (requires { GemmOp<T>::add_part(role, op, part, d); })
          GemmOp<T>::add_part(role, op, part, d);
      });
    });
    if (is_last) stamp(role, EventKind::kComputeEnd);
    const WarpTile part = part_of(role, plan, tile);
    await_tokens(role, part);
    with_op([&]<class T>(const T& op) { GemmOp<T>::finish_tile(role, op, part, d); });
  }

  template <class Config>
  static __device__ __forceinline__ bool is_wide(const Plan& plan) {
    if constexpr (!Config::kHasWideTiles) return false;
    return Config::uniform(plan.shape.units == Units::kWidePairs ? 1 : 0) != 0;
  }
  // Code of its own: sums of the other half would leave what finishes other tiles too few registers.
  template <class Role, class WithOp>
  static __device__ __forceinline__ void work_on_wide(Role& role, const Plan& plan, uint32_t tile,
                                                      bool is_last, WithOp&& with_op) {
    using Config = typename Role::Config;
    if constexpr (Config::kHasWideTiles) {
      WideSums<Config> d;
      for (auto& half : d) clear_sums(half);
      const uint32_t slabs = Config::uniform(plan.slabs);
      with_counts_aside(role, kWideHalves * slabs, panels_of<Config>(slabs),
                        [&] { multiply_wide(role, WarpPieces(role, true), slabs, d); });
      if (is_last) stamp(role, EventKind::kComputeEnd);
      WarpTile part = part_of(role, plan, tile);
      await_tokens(role, part);
#pragma unroll 1
      for (; part.tile_half < kWideHalves; ++part.tile_half) {
        with_op([&]<class T>(const T& op) {
          if constexpr (requires { GemmOp<T>::kHasWideTiles; }) GemmOp<T>::finish_tile(role, op, part, d[0]);
        });
#pragma unroll
        for (uint32_t v = 0; v < Config::kTileTokens / 2; ++v) d[0][v] = d[1][v];
      }
    }
  }
  // What the storers look up for the tile is there.
  template <class Role>
  static __device__ __forceinline__ void await_tokens(Role& role, const WarpTile& part) {
    wait_phase(&role.s.tokens_ready[part.buffer], role.next_tile / kBuffers & 1, &role.s.exit);
  }
  // When products begin and end; what follows is finishing the tile.
  template <class Role>
  static __device__ __forceinline__ void stamp(Role& role, EventKind kind) {
    if constexpr (Role::Recorder::kOn) {
      if (ptx::thread_index() == kFirstConsumerWarp * kWarpThreads) role.recorder.stamp(role.record, kind);
    }
  }

  // So many slabs from word `col` of the units on.
  template <class Role>
  static __device__ __forceinline__ void load_slabs(Role& role, const Plan& plan, const Pages& first,
                                                    const Pages& second, uint32_t col, uint32_t slabs) {
    switch (plan.shape.units) {
      case Units::kNeighbours:
        return load_boxes(role, first, col, slabs);
      case Units::kHalf:
        load_twice(role, first, first, col, kSlabWords, slabs / 2);
        if (slabs % 2 != 0) load_half(role, first, col + (slabs - 1) * kSlabWords);
        return;
      case Units::kNeighboursApart:
        return load_twice(role, first, second, col, 0, slabs);
      case Units::kPairs:
        return load_pairs(role, first, col, slabs);
      case Units::kWidePairs:
        if constexpr (Role::Config::kHasWideTiles) load_wide_pairs(role, first, col, slabs);
    }
  }
  template <class Role>
  static __device__ __forceinline__ void load_boxes(Role& role, const Pages& from, uint32_t col,
                                                    uint32_t pages) {
    role.stream(pages, kPageBytes, role.recorder, [&](ptx::SharedAddress to, ptx::SharedAddress landed) {
      ptx::tensor_load(to, from.map, from.unit, col, landed, from.policy);
      col += kSlabWords;
    });
  }
  // Pages of two boxes of 8 units, the second `apart` words behind the first.
  template <class Role>
  static __device__ __forceinline__ void load_twice(Role& role, const Pages& first, const Pages& second,
                                                    uint32_t col, uint32_t apart, uint32_t pages) {
    role.stream(pages, kPageBytes, role.recorder, [&](ptx::SharedAddress to, ptx::SharedAddress landed) {
      ptx::tensor_load(to, first.map, first.unit, col, landed, first.policy);
      ptx::tensor_load(to + kPageBytes / 2, second.map, second.unit, col + apart, landed, first.policy);
      col += kSlabWords + apart;
    });
  }
  template <class Role>
  static __device__ __forceinline__ void load_half(Role& role, const Pages& from, uint32_t col) {
    role.stream(1, kPageBytes / 2, role.recorder, [&](ptx::SharedAddress to, ptx::SharedAddress landed) {
      ptx::tensor_load(to, from.map, from.unit, col, landed, from.policy);
    });
  }
  template <class Role>
  static __device__ __forceinline__ void load_pairs(Role& role, const Pages& from, uint32_t col,
                                                    uint32_t slabs) {
    role.stream(slabs, kPageBytes, role.recorder, [&](ptx::SharedAddress to, ptx::SharedAddress landed) {
      ptx::tensor_load_all(to, from.map, from.unit, col, landed, from.policy);
      col += kSlabWords;
    });
  }
  // Of each slab a page for each half of the tile.
  template <class Role>
  static __device__ __forceinline__ void load_wide_pairs(Role& role, const Pages& from, uint32_t col,
                                                         uint32_t slabs) {
    uint32_t unit = from.unit;
    const auto copy = [&](ptx::SharedAddress to, ptx::SharedAddress landed) {
      ptx::tensor_load_all(to, from.map, unit, col, landed, from.policy);
      col += unit != from.unit ? kSlabWords : 0;
      unit ^= from.unit ^ (from.unit + kPairUnits);
    };
    role.stream(slabs * kWideHalves, kPageBytes, role.recorder, copy);
  }
  // For the sums of a part that is not the last: as many as the tile's residual takes.
  template <class Role>
  static __device__ __forceinline__ void lend_pages(Role& role, const Plan& plan, uint32_t tile) {
    const uint32_t first = plan.shape.first_row + tile * Role::Config::kTileTokens;
    const uint32_t pages = residual_pages(min(plan.shape.end_row - first, Role::Config::kTileTokens));
#pragma unroll 1
    for (uint32_t page = 0; page < pages; ++page) role.lend(role.recorder);
  }
  // `from`: the residual's map, and the first of the tile's columns.
  template <class Role>
  static __device__ __forceinline__ void load_residual(Role& role, const Plan& plan, uint32_t row,
                                                       const Pages& from) {
    role.wait_inputs();
    // Consumers that have given back a page of the last part know that those before are added.
    if (plan.shape.parts > 1) role.wait_given_back(plan.last_part_pages());
    ptx::fence_proxy_async_global();
    const uint32_t end = min(plan.shape.end_row, row + Role::Config::kTileTokens);
    const uint32_t boxes = plan.shape.units == Units::kHalf ? kBoxes / 2 : kBoxes;
#pragma unroll 1
    for (; row < end; row += kPageTokens) {
      role.next(boxes * kBoxBytes, role.recorder, [&](std::byte* to, uint64_t* landed) {
        for (uint32_t box = 0; box < boxes; ++box)
          ptx::tensor_load(to + box * kBoxBytes, from.map, row, from.unit + box * kBoxCols, landed);
      });
    }
  }

  template <class Role>
  static __device__ __forceinline__ void look_up_token(Role& role, const Plan& plan, uint32_t row,
                                                       uint32_t buffer, uint32_t n) {
    auto& work = workspace(role.s);
    work.positions[buffer][n] = kNoToken;
    if (row >= plan.shape.end_row) return;
    const auto* words = reinterpret_cast<const uint4*>(plan.rows + row);
    const uint4 begin = ptx::load_relaxed(words);  // active, wants_logits, slot, token
    const uint32_t position = ptx::load_relaxed(&plan.rows[row].position);
    if (begin.x == 0 || (plan.shape.logits_only != 0 && begin.y == 0)) return;
    work.positions[buffer][n] = position;
    if (plan.shape.block_table != nullptr) {
      const uint32_t block =
          ptx::load_relaxed(plan.shape.block_table + size_t{begin.z} * plan.shape.blocks_of_sequence +
                            position / kKvBlockTokens);
      work.places[buffer][n] = block * plan.shape.kv_heads * kKvBlockTokens + position % kKvBlockTokens;
    }
    if (plan.shape.squares != nullptr) work.scales[buffer][n] = scale_of(plan.shape, row);
  }
  // Read four at a time: one by one, squares would be a fifth of all that an SM reads from L2.
  static __device__ __forceinline__ float scale_of(const Shape& shape, uint32_t row) {
    const uint32_t sums = shape.cols / kSquaresCols;
    const float* squares = shape.squares + size_t{row} * sums;
    float sum = 0;
    if (sums % 4 == 0) {
#pragma unroll 4
      for (uint32_t i = 0; i < sums; i += 4) {
        const uint4 four = ptx::load_relaxed(reinterpret_cast<const uint4*>(squares + i));
        sum += __uint_as_float(four.x);
        sum += __uint_as_float(four.y);
        sum += __uint_as_float(four.z);
        sum += __uint_as_float(four.w);
      }
    } else {
#pragma unroll 8
      for (uint32_t i = 0; i < sums; ++i) sum += ptx::load_relaxed(squares + i);
    }
    return rsqrtf(sum / static_cast<float>(shape.cols) + shape.epsilon);
  }
};

}  // namespace serval::device::gemm

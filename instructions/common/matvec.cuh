// Base of the instructions that multiply streamed weights with the pass's activations: qkv_rope,
// matvec_residual, gate_up_silu, lm_head.
//
// Weights come as page images (vm/layout/page_image.h), one page a warp. A page is the 16-row operand of the
// products; the other operand's 8 columns are 4 rows of the pass, each as two halves of the panel's columns.
// A consumer warp takes its page into registers as soon as it has landed and frees it, and only then waits
// for the activations: eight pages more are under way than the ring holds.
//
// Activations come as images (vm/layout/activation_image.h), by bulk copies. Rows that are to be normalised
// come with the squares of their residual, and what RMS norm divides by is left to the end: each storer adds
// up the squares of the rows that it finishes and multiplies their sums with what follows from it
// (instructions/common/residual.h).
//
// Where the activations of all rows fit in shared memory, units are streamed one after the other, and a
// unit's pages go to different warps ("resident"). Where they do not, a unit set is streamed panel by
// panel, and a panel of activations is dropped after its use; a unit's pages go to different warps if there
// is room for all of their results ("split"), else to one warp. Either way an output is the sum over panels,
// in order, of a sum over the panel's products whose order is fixed.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "instructions/common/footprint.h"
#include "instructions/common/residual.cuh"
#include "vm/device/op.cuh"
#include "vm/device/roles.cuh"
#include "vm/layout/activation_image.h"
#include "vm/layout/page_image.h"
#include "vm/ptx/math.cuh"
#include "vm/ptx/memory.cuh"

namespace serval::device {

namespace matvec {

inline constexpr uint32_t kRowsOfProduct = 4;  // rows of the pass in one 8-column operand
inline constexpr uint32_t kProducts = page_image::kHalfCols / page_image::kProductCols;  // of a whole page
inline constexpr uint32_t kPairBytes = 64;  // of a row's half that two products cover
inline constexpr uint32_t kFloatBytes = sizeof(float);
inline constexpr uint32_t kChains = 4;  // independent sums, so that products overlap

struct Input {
  const std::byte* activations;  // an image
  const float* squares;          // [rows, cols / 8] of the residual, where rows are to be normalised, or null
  float epsilon;                 // with squares
  bool logits_only;              // only rows that want logits have results

  __device__ __forceinline__ bool wants(const PassRow& row) const {
    return contains(computed_rows(logits_only), row);
  }
};

// What an instruction multiplies.
struct Shape {
  Input input;
  uint32_t units;
  uint32_t matrices;
  uint32_t cols;
  uint32_t column_parts = 1;  // in tile order: parts of the columns, each a sum of its own
};

enum class Mode : uint32_t { kResident, kStreamedPages, kStreamedUnits };

// How an instruction is cut up: written once, read by every role.
struct Plan {
  Input input;
  Mode mode;
  uint32_t units;
  uint32_t matrices;  // that a unit has rows of: 1 or 2
  uint32_t panels;    // of columns
  uint32_t cols;
  uint32_t last_half;  // columns of a half of the last panel
  uint32_t unit_pages;
  uint32_t pages;
  uint32_t activation_panels;  // that are brought in
  uint32_t parts;              // partial results of a unit that storers add up, for each matrix
  uint32_t arrivals;           // of warps, until a unit's partial results are in place
  uint32_t buffers;            // units whose partial results have a place
  uint32_t column_parts = 1;   // in tile order, which counts them as matrices

  __device__ __forceinline__ bool resident() const { return mode == Mode::kResident; }
  __device__ __forceinline__ uint32_t half_cols(uint32_t panel) const {
    return panel + 1 < panels ? page_image::kHalfCols : last_half;
  }
  __device__ __forceinline__ uint32_t units_of_set(uint32_t unit_set) const {
    const uint32_t left = units - unit_set * kConsumerWarps;
    return left < kConsumerWarps ? left : kConsumerWarps;
  }
};

// Where a warp has a unit of its own, all units of a unit set must have room: a warp that waited for it would
// hold a page that another needs. 16 rows fill the memory.
template <class Config>
inline constexpr bool kUnitSetHasRoom = kPartialBytes >=
                                        2 * kConsumerWarps* Config::kRows* kUnitRows * sizeof(float);

// Units whose partial results are in shared memory at once: a power of two.
template <class Config>
__device__ __forceinline__ uint32_t partial_buffers(uint32_t matrices, uint32_t parts) {
  const uint32_t fit = kPartialBytes / (matrices * parts * Config::kRows * kUnitRows * sizeof(float));
  return fit == 0 ? 0 : fit < kPartialBuffers ? 1u << (31 - __clz(static_cast<int>(fit))) : kPartialBuffers;
}
template <class Config>
__device__ __forceinline__ Mode mode_of(uint32_t units, uint32_t matrices, uint32_t panels) {
  if (panels <= Config::kPanelBuffers) return Mode::kResident;
  const bool one_set =
      units != 0 && units <= kConsumerWarps && units <= partial_buffers<Config>(matrices, panels);
  return one_set ? Mode::kStreamedPages : Mode::kStreamedUnits;
}
template <class Config>
__device__ __forceinline__ Plan make_plan(const Launch& launch, const Shape& shape) {
  static_assert(kUnitSetHasRoom<Config>, "more rows need more memory for partial results");
  const auto [input, all_units, matrices, cols, column_parts] = shape;
  // After the launch's first pass every active row wants logits.
  const uint32_t units = input.logits_only && launch.logit_bound == 0 ? 0 : all_units;
  const uint32_t panels = page_image::panels(cols), unit_pages = matrices * panels;
  const Mode mode = mode_of<Config>(units, matrices, panels);
  const bool own_unit = mode == Mode::kStreamedUnits;
  const uint32_t parts = own_unit ? 1 : panels;
  const uint32_t unit_sets = own_unit ? (units + kConsumerWarps - 1) / kConsumerWarps : min(units, 1u);
  return {.input = input,
          .mode = mode,
          .units = units,
          .matrices = matrices,
          .panels = panels,
          .cols = cols,
          .last_half = page_image::half_cols(cols, panels - 1),
          .unit_pages = unit_pages,
          .pages = units * unit_pages,
          .activation_panels = unit_sets * panels,
          .parts = parts,
          .arrivals = own_unit ? 1 : unit_pages,
          .buffers = partial_buffers<Config>(matrices, parts)};
}

// The sum of a product's columns: lane l has row l / 4 of the unit for row l % 4 of the product's.
__device__ __forceinline__ float fold(const float (&d)[kChains][4]) {
  return ((d[0][0] + d[1][0]) + (d[2][0] + d[3][0])) + ((d[0][3] + d[1][3]) + (d[2][3] + d[3][3]));
}

// A page that is in registers, with the rows of one product. The activations of the next four products are
// under way while four are computed; the order is pinned, because the compiler would rather save the
// registers.
__device__ __forceinline__ float multiply_registers(const uint4 (&w)[kProducts], uint32_t x) {
  float d[kChains][4] = {};
  uint4 even = ptx::shared_load(x), odd = ptx::shared_load(x + kPairBytes);
#pragma unroll
  for (uint32_t j = 0; j < kProducts; j += kChains) {
    uint4 next_even = even, next_odd = odd;
    if (j + kChains < kProducts) {
      next_even = ptx::shared_load(x + (j / 2 + 2) * kPairBytes);
      next_odd = ptx::shared_load(x + (j / 2 + 3) * kPairBytes);
    }
    ptx::mma_16x8x16_in_order(d[0], w[j], even.x, even.y);
    ptx::mma_16x8x16_in_order(d[1], w[j + 1], even.z, even.w);
    ptx::mma_16x8x16_in_order(d[2], w[j + 2], odd.x, odd.y);
    ptx::mma_16x8x16_in_order(d[3], w[j + 3], odd.z, odd.w);
    even = next_even;
    odd = next_odd;
  }
  return fold(d);
}

// A page of any size, from shared memory, with the rows of one product.
__device__ __forceinline__ float multiply_shared(uint32_t w, uint32_t products, uint32_t x) {
  float d[kChains][4] = {};
  const auto two = [&](uint32_t j, float(&even)[4], float(&odd)[4]) {
    const uint4 pair = ptx::shared_load(x + j / 2 * kPairBytes);
    ptx::mma_16x8x16_in_order(even, ptx::shared_load(w + j * page_image::kProductBytes), pair.x, pair.y);
    ptx::mma_16x8x16_in_order(odd, ptx::shared_load(w + (j + 1) * page_image::kProductBytes), pair.z, pair.w);
  };
#pragma unroll 1
  for (uint32_t j = 0; j < products; j += kChains) {
    two(j, d[0], d[1]);
    if (j + 2 < products) two(j + 2, d[2], d[3]);
  }
  return fold(d);
}

// Calls take(row, product(x)) for every row that may be active, where `x` is the address of this lane's
// column of the product that the row is in.
template <class Role, class Product, class Take>
__device__ __forceinline__ void for_products(const Role& role, uint32_t panel, Product&& product,
                                             Take&& take) {
  const uint32_t rows = row_bound<typename Role::Config>(role.launch);
  const uint32_t column = role.lane / 4;
  const uint32_t lane_columns = panel + column % 2 * activation_image::kHalfStride + role.lane % 4 * 16;
#pragma unroll 1
  for (uint32_t first = 0; first < rows; first += kRowsOfProduct) {
    // Columns without a row repeat the last: what they give is not used.
    const uint32_t row = min(first + column / 2, rows - 1);
    const float value = product(lane_columns + row * kActivationRowBytes);
    if (first + role.lane % 4 < rows) take(first + role.lane % 4, value);
  }
}

// Multiplies page `page` with panel `panel` of the activations, both counted through the launch;
// wait_buffer() returns when results may be taken.
template <class Role, class WaitBuffer, class Take>
__device__ __forceinline__ void multiply_page(Role& role, const Plan& plan, uint32_t page, uint32_t half_cols,
                                              uint32_t panel, uint32_t& panels_seen, WaitBuffer&& wait_buffer,
                                              Take&& take) {
  using Config = typename Role::Config;
  const uint32_t weights = ptx::shared_address(role.s.ring[page % Config::kRingPages]) +
                           role.lane * static_cast<uint32_t>(sizeof(uint4));
  const uint32_t x = ptx::shared_address(role.s.activations) + activation_buffer<Config>(panel);
  const auto wait_activations = [&] {
    wait_buffer();
    // A warp waits once for a panel that stays, and anew for each that is streamed.
    const uint32_t bit = plan.resident() ? 1u << (panel - role.next_panel) : 0;
    if ((panels_seen & bit) == 0) role.wait_panel(panel);
    panels_seen |= bit;
    role.recorder.note();
  };
  role.recorder.timed_if(role.launch.recording.starving, [&] { role.wait_page(page); });
  role.recorder.has_page(page == role.next_page);
  if (half_cols == page_image::kHalfCols) {
    uint4 w[kProducts];
#pragma unroll
    for (uint32_t j = 0; j < kProducts; ++j) w[j] = ptx::shared_load(weights + j * page_image::kProductBytes);
    role.free_page(page);
    wait_activations();
    for_products(
        role, x, [&](uint32_t column) { return multiply_registers(w, column); }, take);
  } else {
    const uint32_t products = half_cols / page_image::kProductCols;
    wait_activations();
    for_products(
        role, x, [&](uint32_t column) { return multiply_shared(weights, products, column); }, take);
    role.free_page(page);
  }
  role.recorder.note_end();
}

// Where in shared memory a lane leaves its results of row 0 in a part of a unit's: parts are [part][row][8].
template <class Role>
__device__ __forceinline__ uint32_t part_address(const Role& role, const Plan& plan, uint32_t unit,
                                                 uint32_t part) {
  const uint32_t buffer = unit & (plan.buffers - 1);
  const uint32_t row = (buffer * plan.matrices * plan.parts + part) * Role::Config::kRows;
  return ptx::shared_address(role.s.partials) + (row * kUnitRows + role.lane / 4) * kFloatBytes;
}

// Returns when the storer no longer needs what lies where the unit's results will go.
template <class Role>
__device__ __forceinline__ void wait_partial_buffer(Role& role, const Plan& plan, uint32_t unit) {
  role.wait_stored(unit < plan.buffers ? role.next_unit : role.next_unit + unit - plan.buffers + 1);
}

// The pages of an instruction that one warp multiplies, in its order.
struct Walk {
  uint32_t page;  // of the instruction's
  uint32_t unit;
  uint32_t part;      // of the unit's pages: panel, or panels + panel for the second matrix
  uint32_t unit_set;  // only where each warp has units of its own

  __device__ __forceinline__ uint32_t panel(const Plan& plan) const {
    return part < plan.panels ? part : part - plan.panels;
  }
  __device__ __forceinline__ uint32_t matrix(const Plan& plan) const { return part < plan.panels ? 0 : 1; }
  __device__ __forceinline__ bool ends_unit(const Plan& plan) const { return part + 1 == plan.unit_pages; }
};

// Resident: the warps take the pages in turn, unit by unit.
template <class Role>
__device__ __forceinline__ uint32_t first_of_warp(const Role& role) {
  return (role.warp - role.next_page) % kConsumerWarps;
}
template <class Role>
__device__ __forceinline__ Walk first_resident(const Role& role, const Plan& plan) {
  const uint32_t page = first_of_warp(role);
  const uint32_t unit = page / plan.unit_pages;
  return {.page = page, .unit = unit, .part = page - unit * plan.unit_pages, .unit_set = 0};
}
__device__ __forceinline__ void next_resident(const Plan& plan, Walk& at) {
  at.page += kConsumerWarps;
  for (at.part += kConsumerWarps; at.part >= plan.unit_pages; at.part -= plan.unit_pages) ++at.unit;
}

// Split: likewise, panel by panel; of a panel matrix by matrix, and of a matrix unit by unit.
__device__ __forceinline__ Walk streamed_page_at(const Plan& plan, uint32_t page) {
  const uint32_t of_panel = plan.units * plan.matrices;
  const uint32_t panel = page / of_panel, n = page - panel * of_panel;
  const bool second = n >= plan.units;
  return {.page = page,
          .unit = second ? n - plan.units : n,
          .part = second ? plan.panels + panel : panel,
          .unit_set = 0};
}

// Otherwise: each warp takes a unit of the unit set, panel by panel, and the matrices of a panel one after
// the other. Pages come in the order in which the warps take them: while inputs are waited for, the first of
// each is in registers, and the ring, whose places are used in turn, holds as many more as it has places.
__device__ __forceinline__ uint32_t page_of_own_unit(const Plan& plan, const Walk& at) {
  const uint32_t in_set = at.unit - at.unit_set * kConsumerWarps;
  return at.unit_set * kConsumerWarps * plan.unit_pages +
         (at.panel(plan) * plan.matrices + at.matrix(plan)) * plan.units_of_set(at.unit_set) + in_set;
}
template <class Role>
__device__ __forceinline__ Walk first_of_own_units(const Role& role, const Plan& plan) {
  Walk at{.page = plan.pages, .unit = role.warp, .part = 0, .unit_set = 0};
  if (at.unit < plan.units) at.page = page_of_own_unit(plan, at);
  return at;
}
__device__ __forceinline__ void next_of_own_units(const Plan& plan, Walk& at) {
  const uint32_t panel = at.panel(plan);
  const bool next_panel = at.matrix(plan) + 1 == plan.matrices;
  if (!next_panel) {
    at.part += plan.panels;
  } else if (panel + 1 < plan.panels) {
    at.part = panel + 1;
  } else {
    at.part = 0;
    ++at.unit_set;
    at.unit += kConsumerWarps;
  }
  at.page = at.unit < plan.units ? page_of_own_unit(plan, at) : plan.pages;
}

template <class Role>
__device__ __forceinline__ Walk first_page(const Role& role, const Plan& plan) {
  if (plan.resident()) return first_resident(role, plan);
  return plan.mode == Mode::kStreamedPages ? streamed_page_at(plan, first_of_warp(role))
                                           : first_of_own_units(role, plan);
}
__device__ __forceinline__ void next_page(const Plan& plan, Walk& at) {
  if (plan.resident()) {
    next_resident(plan, at);
  } else if (plan.mode == Mode::kStreamedPages) {
    at = streamed_page_at(plan, at.page + kConsumerWarps);
  } else {
    next_of_own_units(plan, at);
  }
}

// A page's results become a part of the unit's, or are added to it where one warp has all of them.
template <class Role>
__device__ __forceinline__ void consume_page(Role& role, const Plan& plan, const Walk& at,
                                             uint32_t& panels_seen) {
  const uint32_t panel = at.panel(plan);
  const bool own_unit = plan.mode == Mode::kStreamedUnits;
  const uint32_t to = part_address(role, plan, at.unit, own_unit ? at.matrix(plan) : at.part);
  const bool begins = !own_unit || panel == 0;
  multiply_page(
      role, plan, role.next_page + at.page, plan.half_cols(panel),
      role.next_panel + at.unit_set * plan.panels + panel, panels_seen,
      [&] {
        if (begins) wait_partial_buffer(role, plan, at.unit);
      },
      [&](uint32_t row, float value) {
        const uint32_t at_row = to + row * kUnitRows * kFloatBytes;
        ptx::shared_store(at_row, begins ? value : ptx::shared_load_float(at_row) + value);
      });
}

// A warp is done with all panels before that of its next page.
template <class Role>
__device__ __forceinline__ void release_panels_before(Role& role, const Plan& plan, const Walk& next) {
  const bool none_left = next.page >= plan.pages;
  const uint32_t panels = none_left ? plan.activation_panels : next.unit_set * plan.panels + next.panel(plan);
  role.release_panels(role.next_panel + panels);
}

template <class Role>
__device__ __forceinline__ void consume_pages(Role& role, const Plan& plan) {
  Walk at = first_page(role, plan);
  uint32_t panels_seen = 0;  // a bit for each of the record's
  if (!plan.resident()) release_panels_before(role, plan, at);
  while (at.page < plan.pages) {
    consume_page(role, plan, at, panels_seen);
    if (plan.mode != Mode::kStreamedUnits || at.ends_unit(plan)) role.arrive_unit(role.next_unit + at.unit);
    role.recorder.used_page(role.record, at.page == 0 && role.lane == 0,
                            at.page + 1 == plan.pages && role.lane == 0);
    next_page(plan, at);
    if (!plan.resident()) release_panels_before(role, plan, at);
  }
}

// Storers finish tiles of outputs: of one row, as many units as a warp has lanes for; of more rows, a unit
// for some of them.
template <class Config>
struct TileOfRows {
  static constexpr uint32_t kAtOnce = kWarpThreads / kUnitRows;
  static constexpr uint32_t kRows = Config::kRows < kAtOnce ? Config::kRows : kAtOnce;
  static constexpr uint32_t kUnits = kAtOnce / kRows;
};

// What a lane of a storer finishes: one output.
struct Output {
  uint32_t unit;         // of the instruction's, from its first_unit
  uint32_t row_of_unit;  // 0 to 7
  uint32_t row;          // of the pass
  bool exists;           // the instruction has this unit
  bool wanted;           // the pass has this row, too, and wants the result
};

// A storer waits for all units of a tile: their partial results must have room at the same time.
template <class Config>
inline constexpr bool kTilesHaveRoom = kPartialBytes >= TileOfRows<Config>::kUnits * 2 *
                                                            Config::kActivationRowBuffers* kUnitRows *
                                                            sizeof(float);

// Tiles of a unit: a power of two, so that a storer's tiles are all of the same rows.
template <class Config>
inline constexpr uint32_t kTilesOfUnit = Config::kRows / TileOfRows<Config>::kRows;

// The tiles of an instruction, which its storers take in turn.
template <class Config>
class TileWalk {
  using Tile = TileOfRows<Config>;
  static_assert(kTilesOfUnit<Config> <= kStorerWarps, "a storer steps by whole units");

 public:
  __device__ __forceinline__ explicit TileWalk(const StorerRole<Config>& role)
      : unit_(role.storer_rank / kTilesOfUnit<Config> * Tile::kUnits),
        first_row_(role.storer_rank % kTilesOfUnit<Config> * Tile::kRows) {}

  __device__ __forceinline__ uint32_t unit() const { return unit_; }  // the tile's first
  __device__ __forceinline__ uint32_t first_row() const { return first_row_; }
  __device__ __forceinline__ void next() { unit_ += kStorerWarps / kTilesOfUnit<Config> * Tile::kUnits; }
  __device__ __forceinline__ Output output(const StorerRole<Config>& role, const Plan& plan) const {
    const uint32_t n = role.lane / kUnitRows;
    const uint32_t unit = unit_ + n / Tile::kRows, row = first_row_ + n % Tile::kRows;
    const bool exists = unit < plan.units;
    return {.unit = unit,
            .row_of_unit = role.lane % kUnitRows,
            .row = row,
            .exists = exists,
            .wanted = exists && row < row_bound<Config>(role.launch) && plan.input.wants(role.s.rows[row])};
  }

 private:
  uint32_t unit_;
  uint32_t first_row_;
};

// Sums of storers take this many terms at once, the last ones of which may be none: code that runs straight
// on is fetched ahead, and a storer's next instruction is seldom the one that it ran last.
inline constexpr uint32_t kTermsAtOnce = 4;

// The sum over a unit's panels, in order.
template <class Config>
__device__ __forceinline__ float sum_parts(const StorerRole<Config>& role, const Plan& plan,
                                           const Output& out, uint32_t matrix) {
  const uint32_t buffer = out.unit & (plan.buffers - 1);
  constexpr uint32_t kPartFloats = Config::kRows * kUnitRows;
  const uint32_t row = min(out.row, row_bound<Config>(role.launch) - 1);
  const float* from = role.s.partials + (buffer * plan.matrices + matrix) * plan.parts * kPartFloats +
                      row * kUnitRows + out.row_of_unit;
  const uint32_t parts = plan.parts;
  float sum = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < parts; first += kTermsAtOnce) {
    float terms[kTermsAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kTermsAtOnce; ++i) terms[i] = from[min(first + i, parts - 1) * kPartFloats];
#pragma unroll
    for (uint32_t i = 0; i < kTermsAtOnce; ++i) sum += first + i < parts ? terms[i] : 0.0F;
  }
  return sum;
}

// The squares of a tile's rows, each lane its own pairs in order; rows that the pass does not have repeat the
// last.
template <class Config, uint32_t kRows>
__device__ __forceinline__ void add_squares(const StorerRole<Config>& role, const Plan& plan,
                                            uint32_t first_row, float (&sums)[kRows]) {
  const uint32_t pairs = plan.cols / kUnitRows / 2, last_row = row_bound<Config>(role.launch) - 1;
  const auto* squares = reinterpret_cast<const float2*>(plan.input.squares);
#pragma unroll 1
  for (uint32_t first = role.lane; first < pairs; first += kTermsAtOnce * kWarpThreads) {
    float2 terms[kTermsAtOnce][kRows];
#pragma unroll
    for (uint32_t t = 0; t < kTermsAtOnce; ++t) {
      const uint32_t pair = min(first + t * kWarpThreads, pairs - 1);
#pragma unroll
      for (uint32_t i = 0; i < kRows; ++i)
        terms[t][i] = ptx::load_relaxed(squares + size_t{min(first_row + i, last_row)} * pairs + pair);
    }
#pragma unroll
    for (uint32_t t = 0; t < kTermsAtOnce; ++t) {
      const bool in_range = first + t * kWarpThreads < pairs;
#pragma unroll
      for (uint32_t i = 0; i < kRows; ++i) sums[i] += in_range ? terms[t][i].x + terms[t][i].y : 0.0F;
    }
  }
}

// Of the only row, what scale_of() gives in tile order: squares of 64 columns, added first to last.
template <class Config>
__device__ __forceinline__ float scale_in_tile_order(const StorerRole<Config>& role, const Plan& plan) {
  static_assert(Config::kRows == 1 && kSquareColsOfGemm == 8 * kUnitRows);
  const auto* squares = reinterpret_cast<const uint4*>(plan.input.squares);
  const uint32_t groups = plan.cols / kSquareColsOfGemm;
  float sum = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < groups; first += kTermsAtOnce * kWarpThreads) {
    float terms[kTermsAtOnce];
#pragma unroll
    for (uint32_t t = 0; t < kTermsAtOnce; ++t) {
      const uint32_t group = min(first + t * kWarpThreads + role.lane, groups - 1);
      const uint4 low = ptx::load_relaxed(squares + group * 2),
                  high = ptx::load_relaxed(squares + group * 2 + 1);
      const auto add_four = [](const uint4& four) {
        return (__uint_as_float(four.x) + __uint_as_float(four.y)) +
               (__uint_as_float(four.z) + __uint_as_float(four.w));
      };
      terms[t] = add_four(low) + add_four(high);
    }
#pragma unroll
    for (uint32_t t = 0; t < kTermsAtOnce; ++t) {
      const uint32_t left = groups - min(first + t * kWarpThreads, groups);
      if (left == 0) break;
#pragma unroll 8
      for (uint32_t lane = 0; lane < kWarpThreads; ++lane) {
        const float term = __shfl_sync(kAllLanes, terms[t], lane);
        sum += lane < left ? term : 0.0F;
      }
    }
  }
  return rsqrtf(sum / static_cast<float>(plan.cols) + plan.input.epsilon);
}

// What the sums of the lane's row are multiplied with.
template <class Config>
__device__ __forceinline__ float scale_of(const StorerRole<Config>& role, const Plan& plan,
                                          const TileWalk<Config>& at) {
  constexpr uint32_t kRows = TileOfRows<Config>::kRows;
  if (plan.input.squares == nullptr || plan.units == 0) return 1;
  if constexpr (Config::kTileOrder) return scale_in_tile_order(role, plan);
  float sums[kRows] = {};
  add_squares(role, plan, at.first_row(), sums);
  const float inverse_cols = 1.0F / static_cast<float>(plan.cols);
  float mine = 0;
#pragma unroll
  for (uint32_t i = 0; i < kRows; ++i) {
    const float scale = rsqrtf(residual::warp_sum(sums[i]) * inverse_cols + plan.input.epsilon);
    mine = role.lane / kUnitRows % kRows == i ? scale : mine;
  }
  return mine;
}

// The sums of an output, one for each matrix; in tile order one for each part of the columns, of which there
// may be four.
struct Sums {
  float first;
  float second;
  float third = 0;
  float fourth = 0;
};
// Where each sum of an output lies as it is.
template <class Config>
__device__ __forceinline__ Sums sums_in_tile_order(const StorerRole<Config>& role, const Plan& plan,
                                                   const Output& out, float scale) {
  constexpr uint32_t kPartFloats = Config::kRows * kUnitRows;
  const float* from = role.s.partials + (out.unit & (plan.buffers - 1)) * plan.matrices * kPartFloats +
                      out.row * kUnitRows + out.row_of_unit;
  const auto sum = [&](uint32_t n) { return from[min(n, plan.matrices - 1) * kPartFloats] * scale; };
  return {sum(0), sum(1), sum(2), sum(3)};
}
// value + the sums of `parts` parts of the columns, first to last, as kernels of GEMMs add them: subnormal
// numbers count as 0 but for the last part (add_parts).
__device__ __forceinline__ float add_in_order(float value, const Sums& sums, uint32_t parts) {
  if (parts == 1) return value + sums.first;
  value = ptx::add_flushed(value, sums.first);
  if (parts == 2) return value + sums.second;
  value = ptx::add_flushed(value, sums.second);
  if (parts == 3) return value + sums.third;
  return ptx::add_flushed(value, sums.third) + sums.fourth;
}
template <class Config>
__device__ __forceinline__ Sums sums_of(const StorerRole<Config>& role, const Plan& plan, const Output& out,
                                        float scale) {
  if constexpr (Config::kTileOrder) return sums_in_tile_order(role, plan, out, scale);
  const float first = sum_parts(role, plan, out, 0) * scale;
  return {first, plan.matrices == 1 ? 0.0F : sum_parts(role, plan, out, 1) * scale};
}

// What storing an output needs besides its sums, fetched before they are there: a struct of the instruction's
// own, DeviceOp<Op>::Fetched. One copy of the storer's loop serves all instructions, so it keeps the words.
class Fetched {
 public:
  template <class T>
  __device__ __forceinline__ void set(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(words_));
    memcpy(words_, &value, sizeof(T));
  }
  template <class T>
  __device__ __forceinline__ T as() const {
    T value;
    memcpy(&value, words_, sizeof(T));
    return value;
  }

 private:
  uint64_t words_[3] = {};
};
struct NothingFetched {};

// What all of them share.
struct Stream {
  static constexpr bool kConsumersStore = false;
  using Plan = matvec::Plan;
  using Shape = matvec::Shape;
  using Pages = const std::byte*;
  template <class T>
  using Op = DeviceOp<T>;

  template <class T, class Role>
  static __device__ __forceinline__ Pages pages_of(const Role& role, const T& op, uint32_t unit,
                                                   uint32_t matrix) {
    return DeviceOp<T>::pages_of(*role.buffer, op, unit, matrix);
  }
  template <class Config>
  static __device__ __forceinline__ Plan plan(const Launch& launch, const Shape& shape) {
    return make_plan<Config>(launch, shape);
  }
  static __device__ __forceinline__ uint32_t units(const Plan& plan) { return plan.units; }
  static __device__ __forceinline__ bool has_panels(const Plan& plan) { return plan.activation_panels != 0; }
  // That have something to store, or else to say that there is nothing.
  template <class Config>
  static __device__ __forceinline__ uint32_t storers(const Plan& plan) {
    constexpr uint32_t kUnits = TileOfRows<Config>::kUnits;
    return max(1u, min((plan.units + kUnits - 1) / kUnits * kTilesOfUnit<Config>, kStorerWarps));
  }

  // Resident: unit after unit, all panels of each. Otherwise: unit set after unit set, in a unit set panel
  // after panel, and of a panel matrix after matrix. image(unit, matrix) is where the pages of a unit begin.
  template <class Role, class Image>
  static __device__ __forceinline__ void load(Role& role, const Plan& plan, Image&& image) {
    const uint32_t units_of_set = plan.resident() ? 1 : kConsumerWarps;
    const uint32_t panels_at_once = plan.resident() ? plan.panels : 1;
    const uint32_t unit_matrices = plan.matrices;
#pragma unroll 1
    for (uint32_t first = 0; first < plan.units; first += units_of_set) {
      const uint32_t in_set = min(units_of_set, plan.units - first);
#pragma unroll 1
      for (uint32_t begin = 0; begin < plan.panels; begin += panels_at_once) {
#pragma unroll 1
        for (uint32_t n = 0; n < in_set * unit_matrices; ++n) {
          const bool second = n >= in_set;
          const std::byte* pages = image(first + (second ? n - in_set : n), second ? 1 : 0);
#pragma unroll 1
          for (uint32_t panel = begin; panel < begin + panels_at_once; ++panel) {
            role.page(pages + panel * kPageBytes, page_image::bytes_of_half(plan.half_cols(panel)),
                      role.recorder);
          }
        }
      }
    }
  }

  // Panels come in the order in which the consumers use them: all at once if they are resident, else one at a
  // time, once for every unit set.
  template <class Role>
  static __device__ __forceinline__ void prepare(Role& role, const Plan& plan) {
    const uint32_t at_once = plan.resident() ? plan.panels : 1;
    const uint32_t total = plan.activation_panels;
    if (plan.resident() && total != 0) role.acquire_panels(at_once);
    role.wait_inputs(role.recorder);
    if (role.lane == 0) ptx::fence_proxy_async_global();
    uint32_t panel = 0;
#pragma unroll 1
    for (uint32_t n = 0; n < total; n += at_once) {
      if (!plan.resident()) role.acquire_panels(at_once);
      role.copy_panels(plan.input.activations + size_t{panel} * activation_image::panel_bytes(kTableRows),
                       activation_image::panel_bytes(kTableRows), at_once,
                       row_bound<typename Role::Config>(role.launch) * kActivationRowBytes);
      panel = panel + at_once < plan.panels ? panel + at_once : 0;
    }
  }

  // The storers take the tiles in turn. What the outputs of a tile need besides their sums is on its way
  // while those are waited for; what nothing writes, before the inputs are there. Of many rows, a storer
  // has several tiles whose sums come at about the same time: it fetches for the next one before it waits for
  // the sums of this one. with_op(visit) calls visit.operator()<Op>(op) for the record's instruction: one
  // copy of all the rest serves all of them. stored() is called once the last tile of this warp is stored.
  template <class Role, class WithOp, class Stored>
  static __device__ __forceinline__ void store(Role& role, const Plan& plan, WithOp&& with_op,
                                               Stored&& stored) {
    using Config = typename Role::Config;
    static_assert(kTilesHaveRoom<Config>);
    constexpr bool kFetchesAhead = Config::kRows > 8;       // for fewer, it costs more than it hides
    if (role.buffer->begins_pass != 0) role.wait_inputs();  // which bring the pass's rows
    TileWalk at(role);
    role.own_units_stored(min(at.unit(), plan.units));
    float scale = 1;
    bool begun = false;
    Output out;
    Fetched fetched;
    uint32_t unit = 0;  // the first of the tile that `out` is of
#pragma unroll 1
    for (;;) {
      const Output next = at.output(role, plan);
      Fetched of_next;
      if (!begun || at.unit() < plan.units) {
        with_op([&]<class Op>(const Op& op) { of_next.set(DeviceOp<Op>::fetch_constant(role, op, next)); });
        if (!begun) role.wait_inputs();
        with_op([&]<class Op>(const Op& op) {
          using OfOp = typename DeviceOp<Op>::Fetched;
          if constexpr (requires(OfOp & f) { DeviceOp<Op>::fetch_written(role, op, next, f); }) {
            auto more = of_next.template as<OfOp>();
            DeviceOp<Op>::fetch_written(role, op, next, more);
            of_next.set(more);
          }
        });
      }
      const bool is_first = !begun;
      if (is_first) scale = scale_of(role, plan, at);
      begun = true;
      const auto take_next = [&] {
        out = next, fetched = of_next, unit = at.unit();
        at.next();
      };
      if (!kFetchesAhead || is_first) take_next();
      if (kFetchesAhead && is_first) continue;
      role.wait_partial_buffers(min(unit + TileOfRows<Config>::kUnits, plan.units));
      with_op([&]<class Op>(const Op& op) {
        role.wait_units(out.unit, out.exists, plan.arrivals);
        role.recorder.note();
        const Sums sums = sums_of(role, plan, out, scale);
        DeviceOp<Op>::store_output(role, op, out, sums,
                                   fetched.template as<typename DeviceOp<Op>::Fetched>());
      });
      const bool is_last = at.unit() >= plan.units;
      if (is_last) stored();
      role.tile_stored(out.unit, out.exists && out.row_of_unit == 0 && out.row == at.first_row(),
                       kTilesOfUnit<Config>, min(at.unit(), plan.units));
      if (is_last) break;
      if (kFetchesAhead) take_next();
    }
    role.next_unit += plan.units;
  }

  template <class Role, class WithOp, class Signal>
  static __device__ __forceinline__ void consume(Role& role, const Plan& plan, WithOp&&, Signal&&) {
    consume_pages(role, plan);
    role.next_page += plan.pages;
    role.next_unit += plan.units;
    role.next_panel += plan.activation_panels;
    role.release_panels(role.next_panel);
  }
};

}  // namespace matvec

// `Derived` is DeviceOp<Op> and has
//   kMatrices                                  matrices that a unit has rows of
//   cols(op), units(op)                        columns of the weights; units in all
//   input(buffer, op)                            matvec::Input
//   image(buffer, op, matrix, unit)              the matrix's page image; changes `unit` to the image's
//   Fetched                                    what storing an output needs besides its sums
//   fetch_constant(role, op, output)           Fetched: of what nothing writes while the pass runs
//   fetch_written(role, op, output, fetched)   adds what only the inputs bring; optional
//   store_output(role, op, output, sums, fetched)  called by all lanes, whether the output is wanted or not
// Storers call these one after the other, and wait for the sums when what they fetch is on its way.
template <class Derived>
struct MatvecOp {
  using Fetched = matvec::NothingFetched;
  template <class Role, class Op>
  static __device__ __forceinline__ Fetched fetch_constant(const Role&, const Op&, const matvec::Output&) {
    return {};
  }

  template <class Op>
  static __device__ bool in_range(const Op& op) {
    return op.num_units > 0 && op.first_unit < Derived::units(op) &&
           op.num_units <= Derived::units(op) - op.first_unit;
  }

  template <class Op>
  static __device__ matvec::Shape shape(const RecordBuffer& buffer, const Op& op) {
    matvec::Shape shape{Derived::input(buffer, op), op.num_units, Derived::kMatrices, Derived::cols(op)};
    if constexpr (requires { op.parts; }) shape.column_parts = op.parts;
    return shape;
  }

  // Where the pages of a unit of the instruction begin.
  template <class Op>
  static __device__ __forceinline__ const std::byte* pages_of(const RecordBuffer& buffer, const Op& op,
                                                              uint32_t unit, uint32_t matrix) {
    uint32_t image_unit = op.first_unit + unit;
    const std::byte* image = Derived::image(buffer, op, matrix, image_unit);
    return image + page_image::page_offset(Derived::cols(op), image_unit, 0);
  }
};

}  // namespace serval::device

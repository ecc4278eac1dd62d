// The plan of a vector stream's record, which all roles follow
// (instructions/product/orders/vector_stream.cuh).
#pragma once

#include <cstdint>

#include "instructions/product/operands.cuh"
#include "vm/device/architecture.cuh"
#include "vm/layout/page_image.h"

namespace serval::device::vector_stream {

inline constexpr uint32_t kFloatBytes = sizeof(float);

// A record in the vector stream's terms.
struct Shape {
  ProductInput input;
  uint32_t units;
  uint32_t matrices;
  uint32_t cols;
  uint32_t column_parts = 1;  // in tile order: K splits
  uint32_t format = 0;        // of the weights (formats::FormatSet)
};

enum class Mode : uint32_t { kResident, kStreamedPages, kStreamedUnits };

// Computed once for a record and read by every role.
struct Plan {
  ProductInput input;
  Mode mode;
  uint32_t units;
  uint32_t matrices;  // matrices of which a unit has rows: 1 or 2
  uint32_t panels;    // of columns
  uint32_t cols;
  uint32_t last_half;  // columns of a half of the last panel
  uint32_t unit_pages;
  uint32_t pages;
  uint32_t activation_panels;  // panels that are loaded
  uint32_t parts;              // partial results of a unit that storers add up, for each matrix
  uint32_t arrivals;           // arrivals of warps until a unit's partial results are complete
  uint32_t buffers;            // units whose partial results fit into the buffers
  uint32_t column_parts = 1;   // in tile order, where K splits count as matrices
  uint32_t format = 0;         // of the weights (formats::FormatSet)

  __device__ __forceinline__ bool resident() const { return mode == Mode::kResident; }
  __device__ __forceinline__ uint32_t half_cols(uint32_t panel) const {
    return panel + 1 < panels ? page_image::kHalfCols : last_half;
  }
  __device__ __forceinline__ uint32_t units_of_set(uint32_t unit_set) const {
    const uint32_t left = units - unit_set * kConsumerWarps;
    return left < kConsumerWarps ? left : kConsumerWarps;
  }
};

// In kStreamedUnits all units of a unit set must have room for their results: a warp that waited for room
// would hold a page that another warp needs. 16 rows fill the memory.
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
// matrix_pages: pages of a unit of one matrix.
template <class Config>
__device__ __forceinline__ Plan make_plan(const Launch& launch, const Shape& shape, uint32_t matrix_pages) {
  static_assert(kUnitSetHasRoom<Config>, "more rows need more memory for partial results");
  const auto [input, all_units, matrices, cols, column_parts, format] = shape;
  // After the launch's first pass every active row wants logits.
  const uint32_t units = input.logits_only && launch.logit_bound == 0 ? 0 : all_units;
  const uint32_t panels = page_image::panels(cols);
  const uint32_t unit_pages = matrices * matrix_pages;
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
          .arrivals = own_unit ? 1 : matrices * panels,
          .buffers = partial_buffers<Config>(matrices, parts),
          .format = format};
}

// Shared address of a lane's result for row 0 in a part of a unit's results, whose layout is [part][row][8].
template <class Role>
__device__ __forceinline__ uint32_t part_address(const Role& role, const Plan& plan, uint32_t unit,
                                                 uint32_t part) {
  const uint32_t buffer = unit & (plan.buffers - 1);
  const uint32_t row = (buffer * plan.matrices * plan.parts + part) * Role::Config::kRows;
  return ptx::shared_address(role.s.partials) + (row * kUnitRows + role.lane / 4) * kFloatBytes;
}

// Waits until the storers no longer need the memory that the unit's results will use.
template <class Role>
__device__ __forceinline__ void wait_partial_buffer(Role& role, const Plan& plan, uint32_t unit) {
  role.wait_stored(unit < plan.buffers ? role.next_unit : role.next_unit + unit - plan.buffers + 1);
}

// Pages of a unit of one matrix.
template <class Format>
__device__ __forceinline__ uint32_t matrix_pages(const Plan& plan) {
  return (plan.panels + Format::kPanelsOfPage - 1) / Format::kPanelsOfPage;
}

// The pages of an instruction that one warp multiplies, in its order. If a page has several panels, as many
// warps multiply one each, unless the warp has its own units.
template <class Format>
struct Walk {
  uint32_t page;  // index in the instruction
  uint32_t unit;
  uint32_t part;         // index of the unit's page; those of the second matrix follow the first's
  uint32_t unit_set;     // only if each warp has its own units
  uint32_t in_page = 0;  // index of the panel in the page

  // Index of the page among the matrix's.
  __device__ __forceinline__ uint32_t matrix_page(const Plan& plan) const {
    return part < matrix_pages<Format>(plan) ? part : part - matrix_pages<Format>(plan);
  }
  __device__ __forceinline__ uint32_t panel(const Plan& plan) const {
    return matrix_page(plan) * Format::kPanelsOfPage + in_page;
  }
  // True if the page has a panel of that number: the last page may lack some.
  __device__ __forceinline__ bool has_panel(const Plan& plan) const {
    return Format::kPanelsOfPage == 1 || panel(plan) < plan.panels;
  }
  __device__ __forceinline__ bool ends_page(const Plan& plan) const {
    return Format::kPanelsOfPage == 1 || in_page + 1 == Format::kPanelsOfPage ||
           panel(plan) + 1 == plan.panels;
  }
  // Panels of a whole page that this warp frees when it has read its panel: the last one's warp also frees
  // those that the page lacks.
  __device__ __forceinline__ uint32_t panels_to_free(const Plan& plan) const {
    return ends_page(plan) ? Format::kPanelsOfPage - in_page : 1;
  }
  __device__ __forceinline__ uint32_t matrix(const Plan& plan) const {
    return part < matrix_pages<Format>(plan) ? 0 : 1;
  }
  __device__ __forceinline__ bool ends_unit(const Plan& plan) const {
    return part + 1 == plan.unit_pages && ends_page(plan);
  }
};

// Resident: the warps take turns at the pages, unit by unit.
template <class Format, class Role>
__device__ __forceinline__ Walk<Format> first_of_warp(const Role& role, const Plan& plan) {
  const uint32_t shift = Format::reader_shift(plan.panels);
  const uint32_t first = (role.warp - (role.next_page << shift)) % kConsumerWarps;
  return {
      .page = first >> shift, .unit = 0, .part = 0, .unit_set = 0, .in_page = first & ((1U << shift) - 1)};
}
template <class Format, class Role>
__device__ __forceinline__ Walk<Format> first_resident(const Role& role, const Plan& plan) {
  Walk<Format> at = first_of_warp<Format>(role, plan);
  at.unit = at.page / plan.unit_pages;
  at.part = at.page - at.unit * plan.unit_pages;
  return at;
}
template <class Format>
__device__ __forceinline__ void next_resident(const Plan& plan, Walk<Format>& at) {
  const uint32_t step = kConsumerWarps >> Format::reader_shift(plan.panels);
  at.page += step;
  for (at.part += step; at.part >= plan.unit_pages; at.part -= plan.unit_pages) ++at.unit;
}

// Split: likewise, panel by panel; in a panel matrix by matrix, and in a matrix unit by unit.
template <class Format>
__device__ __forceinline__ Walk<Format> streamed_page_at(const Plan& plan, uint32_t page, uint32_t in_page) {
  const uint32_t at_once = plan.units * plan.matrices;
  const uint32_t matrix_page = page / at_once, n = page - matrix_page * at_once;
  const bool second = n >= plan.units;
  return {.page = page,
          .unit = second ? n - plan.units : n,
          .part = second ? matrix_pages<Format>(plan) + matrix_page : matrix_page,
          .unit_set = 0,
          .in_page = in_page};
}

// Otherwise: each warp has a unit of the unit set, panel by panel, with a panel's matrices one after the
// other. Pages are in the order in which the warps use them: while inputs are not ready, the first page of
// each warp is in registers, and the ring holds as many more as it has buffers.
template <class Format>
__device__ __forceinline__ uint32_t page_of_own_unit(const Plan& plan, const Walk<Format>& at) {
  const uint32_t in_set = at.unit - at.unit_set * kConsumerWarps;
  return at.unit_set * kConsumerWarps * plan.unit_pages +
         (at.matrix_page(plan) * plan.matrices + at.matrix(plan)) * plan.units_of_set(at.unit_set) + in_set;
}
template <class Format, class Role>
__device__ __forceinline__ Walk<Format> first_of_own_units(const Role& role, const Plan& plan) {
  Walk<Format> at{.page = plan.pages, .unit = role.warp, .part = 0, .unit_set = 0};
  if (at.unit < plan.units) at.page = page_of_own_unit(plan, at);
  return at;
}
template <class Format>
__device__ __forceinline__ void next_of_own_units(const Plan& plan, Walk<Format>& at) {
  if (!at.ends_page(plan)) {
    ++at.in_page;
    return;
  }
  at.in_page = 0;
  const uint32_t matrix_page = at.matrix_page(plan);
  const bool next_panel = at.matrix(plan) + 1 == plan.matrices;
  if (!next_panel) {
    at.part += matrix_pages<Format>(plan);
  } else if (matrix_page + 1 < matrix_pages<Format>(plan)) {
    at.part = matrix_page + 1;
  } else {
    at.part = 0;
    ++at.unit_set;
    at.unit += kConsumerWarps;
  }
  at.page = at.unit < plan.units ? page_of_own_unit(plan, at) : plan.pages;
}

template <class Format, class Role>
__device__ __forceinline__ Walk<Format> first_page(const Role& role, const Plan& plan) {
  if (plan.resident()) return first_resident<Format>(role, plan);
  if (plan.mode != Mode::kStreamedPages) return first_of_own_units<Format>(role, plan);
  const Walk<Format> first = first_of_warp<Format>(role, plan);
  return streamed_page_at<Format>(plan, first.page, first.in_page);
}
template <class Format>
__device__ __forceinline__ void next_page(const Plan& plan, Walk<Format>& at) {
  if (plan.resident()) {
    next_resident(plan, at);
  } else if (plan.mode == Mode::kStreamedPages) {
    const uint32_t step = kConsumerWarps >> Format::reader_shift(plan.panels);
    at = streamed_page_at<Format>(plan, at.page + step, at.in_page);
  } else {
    next_of_own_units(plan, at);
  }
}

}  // namespace serval::device::vector_stream

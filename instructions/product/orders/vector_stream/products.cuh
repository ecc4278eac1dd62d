// The products of a vector stream: a page of weights in a warp's registers with the rows of a pass
// (instructions/product/orders/vector_stream.cuh).
#pragma once

#include <cstdint>
#include <type_traits>

#include "instructions/product/formats/format_set.cuh"
#include "instructions/product/orders/vector_stream/group_products.cuh"
#include "instructions/product/orders/vector_stream/plan.cuh"
#include "vm/device/architecture.cuh"
#include "vm/layout/activation_image.h"
#include "vm/layout/page_image.h"
#include "vm/ptx/memory.cuh"
#include "vm/ptx/mma.cuh"

namespace serval::device::vector_stream {

inline constexpr uint32_t kChains = 4;  // independent sums, so that products overlap

// Adds up the four chains and the two halves. Lane l then has row l / 4 of the unit for row l % 4 of the
// product.
__device__ __forceinline__ float fold(const float (&d)[kChains][4]) {
  return ((d[0][0] + d[1][0]) + (d[2][0] + d[3][0])) + ((d[0][3] + d[1][3]) + (d[2][3] + d[3][3]));
}

// Multiplies a page in registers with the rows of one product. The activations of the next four products are
// loaded while four are computed. The order is pinned, since the compiler would rather save the registers.
template <class Format>
__device__ __forceinline__ float multiply_registers(const typename Format::Page& w, uint32_t x) {
  float d[kChains][4] = {};
  uint4 even = ptx::shared_load(x), odd = ptx::shared_load(x + kPairBytes);
#pragma unroll
  for (uint32_t j = 0; j < Format::kProducts; j += kChains) {
    uint4 next_even = even, next_odd = odd;
    if (j + kChains < Format::kProducts) {
      next_even = ptx::shared_load(x + (j / 2 + 2) * kPairBytes);
      next_odd = ptx::shared_load(x + (j / 2 + 3) * kPairBytes);
    }
    Format::multiply(d[0], Format::operand(w[j]), even.x, even.y);
    Format::multiply(d[1], Format::operand(w[j + 1]), even.z, even.w);
    Format::multiply(d[2], Format::operand(w[j + 2]), odd.x, odd.y);
    Format::multiply(d[3], Format::operand(w[j + 3]), odd.z, odd.w);
    even = next_even;
    odd = next_odd;
  }
  return fold(d);
}

// Multiplies a page of any size, from shared memory, with the rows of one product.
template <class Format>
__device__ __forceinline__ float multiply_shared(const Format& format, const typename Format::Place& w,
                                                 uint32_t products, uint32_t x) {
  float d[kChains][4] = {};
  const auto two = [&](uint32_t j, float(&even)[4], float(&odd)[4]) {
    const uint4 pair = ptx::shared_load(x + j / 2 * kPairBytes);
    Format::multiply(even, format.load_product(w, j), pair.x, pair.y);
    Format::multiply(odd, format.load_product(w, j + 1), pair.z, pair.w);
  };
#pragma unroll 1
  for (uint32_t j = 0; j < products; j += kChains) {
    two(j, d[0], d[1]);
    if (j + 2 < products) two(j + 2, d[2], d[3]);
  }
  return fold(d);
}

// Calls take(row, product(x)) for every row that may be active; `x`: address of this lane's column of the
// product that the row belongs to.
template <class Role, class Product, class Take>
__device__ __forceinline__ void for_products(const Role& role, uint32_t panel, Product&& product,
                                             Take&& take) {
  const uint32_t rows = row_bound<typename Role::Config>(role.launch);
  const uint32_t column = role.lane / 4;
  const uint32_t lane_columns = panel + column % 2 * activation_image::kHalfStride + role.lane % 4 * 16;
#pragma unroll 1
  for (uint32_t first = 0; first < rows; first += kRowsOfProduct) {
    // Columns without a row repeat the last row; their results are not used.
    const uint32_t row = min(first + column / 2, rows - 1);
    const float value = product(lane_columns + row * kActivationRowBytes);
    if (first + role.lane % 4 < rows) take(first + role.lane % 4, value);
  }
}

// Waits until the activations of panel `panel`, numbered through the launch, are in shared memory.
template <class Role>
__device__ __forceinline__ void wait_activations(Role& role, const Plan& plan, uint32_t panel,
                                                 uint32_t& panels_seen) {
  // A warp waits once for a resident panel, and again for each streamed one.
  const uint32_t bit = plan.resident() ? 1u << (panel - role.next_panel) : 0;
  if ((panels_seen & bit) == 0) role.wait_panel(panel);
  panels_seen |= bit;
}

// Multiplies a panel of a page with its activations at shared address `x`; `weights`: the lane's place.
// free() frees the panel's part of the page; wait() returns when activations and the memory for results are
// ready.
template <class Format, class Role, class Free, class Wait, class Take>
__device__ __forceinline__ void multiply_panel(Role& role, const Format& format,
                                               const typename Format::Place& weights, uint32_t half_cols,
                                               uint32_t x, Free&& free, Wait&& wait, Take&& take) {
  if constexpr (Format::kScalesGroups) {
    multiply_groups(role, format, weights, half_cols, x, free, wait, take);
  } else if (half_cols == page_image::kHalfCols) {
    typename Format::Page w;
    format.load(w, weights);
    free();
    wait();
    for_products(
        role, x, [&](uint32_t column) { return multiply_registers<Format>(w, column); }, take);
  } else {
    const uint32_t products = half_cols / page_image::kProductCols;
    wait();
    for_products(
        role, x, [&](uint32_t column) { return multiply_shared(format, weights, products, column); }, take);
    free();
  }
}

// The panel of the page at shared address `page`.
template <class Format>
__device__ __forceinline__ formats::PanelOfPage panel_of_page(const Plan& plan, const Walk<Format>& at,
                                                              uint32_t page) {
  const uint32_t first = at.matrix_page(plan) * Format::kPanelsOfPage;
  const uint32_t panels = min(Format::kPanelsOfPage, plan.panels - first);
  return {.page = page,
          .index = at.in_page,
          .half_cols = plan.half_cols(first + at.in_page),
          .panels = panels,
          .last_half = plan.half_cols(first + panels - 1)};
}

// Multiplies a panel of a page and stores the results as a part of the unit's results, or adds them if one
// warp has all pages of the unit.
template <class Format, class Role>
__device__ __forceinline__ void consume_page(Role& role, const Plan& plan, const Format& format,
                                             const Walk<Format>& at, uint32_t& panels_seen) {
  using Config = typename Role::Config;
  const uint32_t page = role.next_page + at.page, panel = at.panel(plan);
  const uint32_t of_launch = role.next_panel + at.unit_set * plan.panels + panel;
  const bool own_unit = plan.mode == Mode::kStreamedUnits;
  const uint32_t of_panel = Format::kPanelsOfPage == 1 ? at.part : at.matrix(plan) * plan.panels + panel;
  const uint32_t to = part_address(role, plan, at.unit, own_unit ? at.matrix(plan) : of_panel);
  const bool begins = !own_unit || panel == 0;
  const uint32_t in_ring = ptx::shared_address(role.s.ring[page % Config::kRingPages]);
  role.recorder.timed_if(role.launch.recording.starving, [&] { role.wait_page(page); });
  role.recorder.has_page(page == role.next_page && at.in_page == 0);
  const formats::PanelOfPage of_page = panel_of_page(plan, at, in_ring);
  float scale = 1;
  if constexpr (Format::kHasScales) scale = format.scale(of_page, role.lane);
  multiply_panel(
      role, format, format.place(of_page, role.lane), of_page.half_cols,
      ptx::shared_address(role.s.activations) + activation_buffer<Config>(of_launch),
      [&] {
        if constexpr (Format::kPanelsOfPage == 1) {
          role.free_page(page);
        } else if (!own_unit || at.ends_page(plan)) {
          role.free_panels(page, own_unit ? Format::kPanelsOfPage : at.panels_to_free(plan),
                           Format::kPanelsOfPage);
        }
      },
      [&] {
        if (begins) wait_partial_buffer(role, plan, at.unit);
        // A warp waits once for a resident panel, and again for each streamed one.
        const uint32_t bit = plan.resident() ? 1u << (of_launch - role.next_panel) : 0;
        if ((panels_seen & bit) == 0) role.wait_panel(of_launch);
        panels_seen |= bit;
        role.recorder.note();
      },
      [&](uint32_t row, float value) {
        if constexpr (Format::kHasScales) value *= scale;
        const uint32_t at_row = to + row * kUnitRows * kFloatBytes;
        ptx::shared_store(at_row, begins ? value : ptx::shared_load_float(at_row) + value);
      });
  role.recorder.note_end();
}

// This warp no longer needs the panels before that of its next page.
template <class Format, class Role>
__device__ __forceinline__ void release_panels_before(Role& role, const Plan& plan,
                                                      const Walk<Format>& next) {
  const bool none_left = next.page >= plan.pages;
  // A page's second matrix is multiplied after all panels of the first.
  const uint32_t panels = none_left
                              ? plan.activation_panels
                              : next.unit_set * plan.panels + next.matrix_page(plan) * Format::kPanelsOfPage;
  role.release_panels(role.next_panel + panels);
}

// `of_record`: in shared memory. Codes leave room for the plan in registers: each time that something is
// awaited, the compiler would load it again, one field after the other.
template <class Format, class Role>
__device__ __forceinline__ void consume_pages(Role& role, const Plan& of_record, const Format& format) {
  std::conditional_t<Format::kScalesGroups, const Plan, const Plan&> plan = of_record;
  auto at = first_page<Format>(role, plan);
  uint32_t panels_seen = 0;  // one bit for each panel of the record
  if (!plan.resident()) release_panels_before(role, plan, at);
  while (at.page < plan.pages) {
    if (at.has_panel(plan)) {
      consume_page(role, plan, format, at, panels_seen);
      if (plan.mode != Mode::kStreamedUnits || at.ends_unit(plan)) role.arrive_unit(role.next_unit + at.unit);
      role.recorder.used_page(role.record, at.page == 0 && at.in_page == 0 && role.lane == 0,
                              at.page + 1 == plan.pages && at.ends_page(plan) && role.lane == 0);
    }
    next_page(plan, at);
    if (!plan.resident()) release_panels_before(role, plan, at);
  }
}

}  // namespace serval::device::vector_stream

// The products of a vector stream: a page of weights in a warp's registers with the rows of a pass
// (instructions/product/orders/vector_stream.cuh).
#pragma once

#include <cstdint>

#include "instructions/product/orders/vector_stream/plan.cuh"
#include "vm/device/architecture.cuh"
#include "vm/layout/activation_image.h"
#include "vm/layout/page_image.h"
#include "vm/ptx/memory.cuh"
#include "vm/ptx/mma.cuh"

namespace serval::device::vector_stream {

inline constexpr uint32_t kRowsOfProduct = 4;  // rows of the pass in one 8-column operand
inline constexpr uint32_t kPairBytes = 64;     // bytes of a row's half that two products cover
inline constexpr uint32_t kChains = 4;         // independent sums, so that products overlap

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
    ptx::mma_16x8x16_in_order(d[0], Format::operand(w[j]), even.x, even.y);
    ptx::mma_16x8x16_in_order(d[1], Format::operand(w[j + 1]), even.z, even.w);
    ptx::mma_16x8x16_in_order(d[2], Format::operand(w[j + 2]), odd.x, odd.y);
    ptx::mma_16x8x16_in_order(d[3], Format::operand(w[j + 3]), odd.z, odd.w);
    even = next_even;
    odd = next_odd;
  }
  return fold(d);
}

// Multiplies a page of any size, from shared memory, with the rows of one product.
template <class Format>
__device__ __forceinline__ float multiply_shared(uint32_t w, uint32_t products, uint32_t x) {
  float d[kChains][4] = {};
  const auto two = [&](uint32_t j, float(&even)[4], float(&odd)[4]) {
    const uint4 pair = ptx::shared_load(x + j / 2 * kPairBytes);
    ptx::mma_16x8x16_in_order(even, Format::load_product(w, j), pair.x, pair.y);
    ptx::mma_16x8x16_in_order(odd, Format::load_product(w, j + 1), pair.z, pair.w);
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

// Multiplies page `page` with panel `panel` of the activations, both numbered through the launch;
// wait_buffer() returns when results may be stored.
template <class Format, class Role, class WaitBuffer, class Take>
__device__ __forceinline__ void multiply_page(Role& role, const Plan& plan, uint32_t page, uint32_t half_cols,
                                              uint32_t panel, uint32_t& panels_seen, WaitBuffer&& wait_buffer,
                                              Take&& take) {
  using Config = typename Role::Config;
  const uint32_t weights =
      Format::lane_address(ptx::shared_address(role.s.ring[page % Config::kRingPages]), role.lane);
  const uint32_t x = ptx::shared_address(role.s.activations) + activation_buffer<Config>(panel);
  const auto wait_activations = [&] {
    wait_buffer();
    // A warp waits once for a resident panel, and again for each streamed one.
    const uint32_t bit = plan.resident() ? 1u << (panel - role.next_panel) : 0;
    if ((panels_seen & bit) == 0) role.wait_panel(panel);
    panels_seen |= bit;
    role.recorder.note();
  };
  role.recorder.timed_if(role.launch.recording.starving, [&] { role.wait_page(page); });
  role.recorder.has_page(page == role.next_page);
  if (half_cols == page_image::kHalfCols) {
    typename Format::Page w;
    Format::load(w, weights);
    role.free_page(page);
    wait_activations();
    for_products(
        role, x, [&](uint32_t column) { return multiply_registers<Format>(w, column); }, take);
  } else {
    const uint32_t products = half_cols / page_image::kProductCols;
    wait_activations();
    for_products(
        role, x, [&](uint32_t column) { return multiply_shared<Format>(weights, products, column); }, take);
    role.free_page(page);
  }
  role.recorder.note_end();
}

// Stores a page's results as a part of the unit's results, or adds them if one warp has all pages of the
// unit.
template <class Format, class Role>
__device__ __forceinline__ void consume_page(Role& role, const Plan& plan, const Walk& at,
                                             uint32_t& panels_seen) {
  const uint32_t panel = at.panel(plan);
  const bool own_unit = plan.mode == Mode::kStreamedUnits;
  const uint32_t to = part_address(role, plan, at.unit, own_unit ? at.matrix(plan) : at.part);
  const bool begins = !own_unit || panel == 0;
  multiply_page<Format>(
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

// This warp no longer needs the panels before that of its next page.
template <class Role>
__device__ __forceinline__ void release_panels_before(Role& role, const Plan& plan, const Walk& next) {
  const bool none_left = next.page >= plan.pages;
  const uint32_t panels = none_left ? plan.activation_panels : next.unit_set * plan.panels + next.panel(plan);
  role.release_panels(role.next_panel + panels);
}

template <class Format, class Role>
__device__ __forceinline__ void consume_pages(Role& role, const Plan& plan) {
  Walk at = first_page(role, plan);
  uint32_t panels_seen = 0;  // one bit for each panel of the record
  if (!plan.resident()) release_panels_before(role, plan, at);
  while (at.page < plan.pages) {
    consume_page<Format>(role, plan, at, panels_seen);
    if (plan.mode != Mode::kStreamedUnits || at.ends_unit(plan)) role.arrive_unit(role.next_unit + at.unit);
    role.recorder.used_page(role.record, at.page == 0 && role.lane == 0,
                            at.page + 1 == plan.pages && role.lane == 0);
    next_page(plan, at);
    if (!plan.resident()) release_panels_before(role, plan, at);
  }
}

}  // namespace serval::device::vector_stream

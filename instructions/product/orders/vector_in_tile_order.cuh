// Vector stream in tile order: streamed weights for a single row, as in vector_stream.cuh, with the sums of
// tile_stream.cuh, bit for bit. A sum is one chain of products over a part of the columns, slab after slab.
//
// A page is the upper half of a product's 16 rows; all 8 columns of the other operand are the row. The
// products of a chain depend on each other, so each warp has its own chain: a unit of one matrix, or of one K
// split. A set of chains, one for each consumer warp, is streamed panel by panel. A warp holds a page in
// registers while it waits for the activations, as in vector_stream.cuh. All panels of the row are in shared
// memory at once.
//
// Activations are slab images, in which a panel of one row is contiguous.
#pragma once

#include <cstdint>

#include "instructions/common/column_parts.h"
#include "instructions/product/formats/bf16/operands.cuh"
#include "instructions/product/orders/vector_stream.cuh"
#include "vm/layout/slab_image.h"
#include "vm/ptx/mma.cuh"

namespace serval::device::tile_order {

using vector_stream::Plan;

inline constexpr uint32_t kProductsOfSlab = page_image::kPairCols / page_image::kProductCols;

// A chain of products: a unit, with one matrix or one K split.
struct Chain {
  uint32_t unit;
  uint32_t matrix;  // or K split: as numbered in Plan
  uint32_t first_panel;
  uint32_t panels;

  __device__ __forceinline__ Chain(const Plan& plan, uint32_t n)
      : unit(n / plan.matrices), matrix(n - unit * plan.matrices), first_panel(0), panels(plan.panels) {
    if (plan.column_parts == 1) return;
    first_panel = plan.panels * matrix / plan.column_parts;
    panels = plan.panels * (matrix + 1) / plan.column_parts - first_panel;
  }
};

// Chains that are streamed together, panel by panel. K splits differ by one panel at most.
struct Set {
  uint32_t first;   // chain
  uint32_t chains;  // at most one a warp
  uint32_t least;   // panels of the shortest chain

  __device__ __forceinline__ Set(const Plan& plan, uint32_t first_chain)
      : first(first_chain),
        chains(min(plan.units * plan.matrices - first_chain, kConsumerWarps)),
        least(plan.panels / plan.column_parts) {}

  // Number of chains among the set's first `count` that have one panel more than the others.
  __device__ __forceinline__ uint32_t longer(const Plan& plan, uint32_t count) const {
    if (least * plan.column_parts == plan.panels) return 0;
    uint32_t longer = 0;
    for (uint32_t i = 0; i < count; ++i) longer += Chain(plan, first + i).panels - least;
    return longer;
  }
  __device__ __forceinline__ uint32_t pages(const Plan& plan) const {
    return least * chains + longer(plan, chains);
  }
  // Index in the set of the page of chain `i` for its `panel`-th panel.
  __device__ __forceinline__ uint32_t page(const Plan& plan, uint32_t i, uint32_t panel) const {
    return panel < least ? panel * chains + i : least * chains + longer(plan, i);
  }
};

// Loads the terms of a slab's products from a row of activations, for one half of the columns: two registers
// for each of the two products. `row`: the lane's address.
__device__ __forceinline__ void load_half(uint32_t (&terms)[4], uint32_t row, uint32_t half) {
  ptx::load_matrices<false>(terms, row + half * slab_image::kPiecesOfHalf * slab_image::kPieceBytes);
}
// d += the products of a slab, in wgmma's order of terms. The upper 8 of the operand's 16 rows are the unit's
// rows: at the first half of the columns as a page has them, then at the second half. The sums of the lower 8
// rows are not used.
template <class Format>
__device__ __forceinline__ void multiply_slab(float (&d)[4], const uint4& low, const uint4& high,
                                              const uint32_t (&first)[4], const uint32_t (&second)[4]) {
  ptx::mma_16x8x16_in_order(d, Format::operand(low), first[0], first[1]);
  ptx::mma_16x8x16_in_order(d, Format::second_half(low), second[0], second[1]);
  ptx::mma_16x8x16_in_order(d, Format::operand(high), first[2], first[3]);
  ptx::mma_16x8x16_in_order(d, Format::second_half(high), second[2], second[3]);
}
// Multiplies a page in registers. The next slab's terms are loaded while one is multiplied.
template <class Format>
__device__ __forceinline__ void multiply_registers(float (&d)[4], const typename Format::Page& w,
                                                   uint32_t row) {
  constexpr uint32_t kSlabs = Format::kProducts / kProductsOfSlab;
  uint32_t first[4], second[4];
  load_half(first, row, 0);
  load_half(second, row, 1);
#pragma unroll
  for (uint32_t slab = 0; slab < kSlabs; ++slab) {
    uint32_t next_first[4] = {}, next_second[4] = {};
    if (slab + 1 < kSlabs) {
      load_half(next_first, row + (slab + 1) * slab_image::kRowBytes, 0);
      load_half(next_second, row + (slab + 1) * slab_image::kRowBytes, 1);
    }
    multiply_slab<Format>(d, w[slab * 2], w[slab * 2 + 1], first, second);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) first[i] = next_first[i], second[i] = next_second[i];
  }
}
// Multiplies a page of `slabs` slabs from shared memory.
template <class Format>
__device__ __forceinline__ void multiply_shared(float (&d)[4], uint32_t w, uint32_t slabs, uint32_t row) {
#pragma unroll 1
  for (uint32_t slab = 0; slab < slabs; ++slab) {
    uint32_t first[4], second[4];
    load_half(first, row + slab * slab_image::kRowBytes, 0);
    load_half(second, row + slab * slab_image::kRowBytes, 1);
    const uint32_t product = slab * kProductsOfSlab;
    multiply_slab<Format>(d, Format::load_product(w, product), Format::load_product(w, product + 1), first,
                          second);
  }
}

template <class Format>
struct Stream : vector_stream::Stream<Format> {
  using Shape = vector_stream::Shape;

  template <class Config>
  static __device__ __forceinline__ Plan plan(const Launch& launch, const Shape& shape) {
    const uint32_t panels = page_image::panels(shape.cols);
    // After the launch's first pass every active row wants logits.
    const uint32_t units = shape.input.logits_only && launch.logit_bound == 0 ? 0 : shape.units;
    const uint32_t parts = min(max(shape.column_parts, 1u), min(kMaxColumnParts, panels));
    const uint32_t sums = shape.matrices * parts;  // of an output; one factor is 1
    return {.input = shape.input,
            .mode = vector_stream::Mode::kStreamedUnits,
            .units = units,
            .matrices = sums,
            .panels = panels,
            .cols = shape.cols,
            .last_half = page_image::half_cols(shape.cols, panels - 1),
            .unit_pages = shape.matrices * panels,
            .pages = units * shape.matrices * panels,
            .activation_panels = units > 0 ? panels : 0,
            .parts = 1,
            .arrivals = sums,
            .buffers = vector_stream::partial_buffers<Config>(sums, 1),
            .column_parts = parts};
  }

  // find(unit, matrix): Pages.
  template <class Role, class Find>
  static __device__ __forceinline__ void load(Role& role, const Plan& plan, Find&& find) {
    const uint32_t chains = plan.units * plan.matrices;
    const uint32_t last_panel = plan.panels - 1, last_bytes = page_image::bytes_of_half(plan.last_half);
#pragma unroll 1
    for (uint32_t first = 0; first < chains; first += kConsumerWarps) {
      const Set set(plan, first);
      // Looked up once for all panels: a lookup for each page would take longer than the page.
#pragma unroll 1
      for (uint32_t i = 0; i < set.chains; ++i) {
        const Chain chain(plan, first + i);
        const std::byte* pages = find(chain.unit, plan.column_parts > 1 ? 0 : chain.matrix).first;
        role.s.chains[i] = {pages + chain.first_panel * kPageBytes, chain.first_panel, chain.panels};
      }
#pragma unroll 1
      for (uint32_t panel = 0; panel <= set.least; ++panel) {
#pragma unroll 1
        for (uint32_t i = 0; i < set.chains; ++i) {
          const ChainPages chain = role.s.chains[i];
          if (panel >= chain.panels) continue;
          const bool is_last = chain.first_panel + panel == last_panel;
          role.page(chain.first + panel * kPageBytes, is_last ? last_bytes : kPageBytes, role.recorder);
        }
      }
    }
  }

  // Loads all panels at once.
  template <class Role>
  static __device__ __forceinline__ void prepare(Role& role, const Plan& plan) {
    const uint32_t panels = plan.activation_panels;
    if (panels != 0) role.acquire_panels(panels);
    role.wait_inputs(role.recorder);
    if (role.lane == 0) ptx::fence_proxy_async_global();
    if (panels == 0) return;
    constexpr uint32_t kBytes = slab_image::kSlabsOfPanel * slab_image::kRowBytes;
    role.copy_panels(plan.input.activations, kBytes, panels - 1, kBytes);
    role.copy_panels(plan.input.activations + size_t{panels - 1} * kBytes, kBytes, 1,
                     plan.last_half / page_image::kPairCols * slab_image::kRowBytes);
  }

  template <class Role, class WithOp, class Signal>
  static __device__ __forceinline__ void consume(Role& role, const Plan& plan, WithOp&&, Signal&&) {
    const uint32_t chains = plan.units * plan.matrices;
    uint32_t panels_seen = 0;  // one bit for each panel of the record
#pragma unroll 1
    for (uint32_t first = 0; first < chains; first += kConsumerWarps) {
      const Set set(plan, first);
      if (role.warp < set.chains) multiply_chain(role, plan, set, panels_seen);
      role.next_page += set.pages(plan);
    }
    role.next_unit += plan.units;
    role.next_panel += plan.activation_panels;
    role.release_panels(role.next_panel);
  }

 private:
  // Multiplies the warp's chain of a set, whose pages begin with the role's next one.
  template <class Role>
  static __device__ __forceinline__ void multiply_chain(Role& role, const Plan& plan, const Set& set,
                                                        uint32_t& panels_seen) {
    using Config = typename Role::Config;
    const Chain chain(plan, set.first + role.warp);
    float d[4] = {};
#pragma unroll 1
    for (uint32_t n = 0; n < chain.panels; ++n) {
      const uint32_t page = role.next_page + set.page(plan, role.warp, n), panel = chain.first_panel + n;
      const uint32_t weights =
          Format::lane_address(ptx::shared_address(role.s.ring[page % Config::kRingPages]), role.lane);
      // Lane l gives the address of a row of piece l / 8; there is only one row.
      const uint32_t row = ptx::shared_address(role.s.activations) +
                           activation_buffer<Config>(role.next_panel + panel) +
                           role.lane / 8 * slab_image::kPieceBytes;
      const auto wait_activations = [&] {
        if (n == 0) vector_stream::wait_partial_buffer(role, plan, chain.unit);
        if ((panels_seen >> panel & 1) == 0) role.wait_panel(role.next_panel + panel);
        panels_seen |= 1u << panel;
        role.recorder.note();
      };
      role.recorder.timed_if(role.launch.recording.starving, [&] { role.wait_page(page); });
      const bool is_first = set.first == 0 && n == 0 && role.warp == 0;
      role.recorder.has_page(is_first);
      const uint32_t half_cols = plan.half_cols(panel);
      if (half_cols == page_image::kHalfCols) {
        typename Format::Page w;
        Format::load(w, weights);
        role.free_page(page);
        wait_activations();
        multiply_registers<Format>(d, w, row);
      } else {
        wait_activations();
        multiply_shared<Format>(d, weights, half_cols / page_image::kPairCols, row);
        role.free_page(page);
      }
      role.recorder.note_end();
      const bool is_last = set.first + role.warp + 1 == plan.units * plan.matrices && n + 1 == chain.panels;
      if (n + 1 == chain.panels) put_sum(role, plan, chain, d[0]);
      role.recorder.used_page(role.record, is_first && role.lane == 0, is_last && role.lane == 0);
    }
  }
  // Lane 4 r has the sum of row r of the unit.
  template <class Role>
  static __device__ __forceinline__ void put_sum(Role& role, const Plan& plan, const Chain& chain,
                                                 float sum) {
    if (role.lane % 4 == 0)
      ptx::shared_store(vector_stream::part_address(role, plan, chain.unit, chain.matrix), sum);
    role.arrive_unit(role.next_unit + chain.unit);
  }
};

}  // namespace serval::device::tile_order

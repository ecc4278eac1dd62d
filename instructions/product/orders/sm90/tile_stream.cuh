// Tile stream: the order in which products of many rows multiply their weights. wgmma multiplies tiles of
// rows with the same page images that a vector stream reads.
//
// A record multiplies a tile of up to 16 units (128 weight rows) with its rows of the pass, one token tile
// after the other. A step multiplies a slab: 64 columns in the page image's order (vm/layout/slab_image.h).
//   - Weights: a page of 16 pieces of 1 KiB, one for each unit. They go to the tensor cores through
//     registers; two units are a warp's 16 rows. In a tile of 8 units a page has two slabs.
//   - Activations: the rows of the token tile, 128 bytes each, which all warps read from shared memory. A
//     panel is loaded at a time: one slab or, with few tokens, two (Config::kPanelSlabs).
// An output is one chain of products of 16 columns, slab after slab, in the order first, third, second,
// fourth within a slab (load_terms()); or one such chain for each K split (common/column_parts.h). The order
// does not depend on the tile.
//
// If weights and activations are both e4m3, a product has 32 columns and a step two slabs: a page has both,
// and a panel has both in the bytes of one (vm/layout/e4m3_slab_image.h). Sums are multiplied with the scale
// of their row of weights, then with that of their token.
//
// 4-bit weights have a page of two slabs, with the words of their groups (formats/int4/tiles.cuh).
//
// A wide tile has 32 units and two pages a slab, which are multiplied with the same panel. Tiles of few
// tokens have registers for twice the sums. Panels are then read half as often, and the load of the SMs is
// more even, because there are fewer tiles.
//
// Consumers run the epilogue on the sums in their registers (finish_tile()); meanwhile storers look up what
// it needs for the tokens. An epilogue runs once for many products, so its instructions are fetched slowly,
// from beyond the instruction cache: it is fast if it has few instructions and uses no local memory.
//
// Files in sm90/tile_stream/: the sources of pages (pages.cuh), the loops of products (products.cuh) and the
// residual's pages (residual_pages.cuh). This file has the work of each role. Files in tile_stream/ are
// shared with other architectures: the shape of a record (shape.cuh), and the way from registers to rows
// (staging.cuh).
#pragma once

#include <cstdint>

#include "instructions/product/formats/format_set.cuh"
#include "instructions/product/operands.cuh"
#include "instructions/product/orders/sm90/tile_stream/pages.cuh"
#include "instructions/product/orders/sm90/tile_stream/products.cuh"
#include "instructions/product/orders/sm90/tile_stream/residual_pages.cuh"
#include "instructions/product/orders/tile_stream/shape.cuh"
#include "instructions/product/orders/tile_stream/staging.cuh"
#include "vm/device/op.cuh"
#include "vm/device/sm90/roles.cuh"
#include "vm/layout/e4m3_slab_image.h"
#include "vm/layout/int4_image.h"
#include "vm/layout/kv_cache.h"
#include "vm/layout/slab_image.h"

namespace serval::device::tile_stream {

// How a product's record runs on the tile stream, if its epilogue finishes tiles.
template <class Op>
struct ProductOfRecord {};
template <HasProduct Op>
struct ProductOfRecord<Op> {
  template <class Config>
  static __device__ bool in_range(const Op& op, const ProgramShape& program) {
    const uint32_t all = product(op, program).units;
    bool good = units_in_range(op.first_unit, op.num_units, most_units<Config, Op>(), all) &&
                rows_in_range(op, program);
    if constexpr (requires { ProductOp<Op>::tile_in_range(op, program); })
      good = good && ProductOp<Op>::tile_in_range(op, program);
    return good;
  }
  static __device__ Shape shape(const RecordBuffer& buffer, const Op& op, const ProgramShape& program) {
    return shape_of(buffer, op, program);
  }
};

// The functions that vm/device/op.cuh requires of a stream.
template <class... Formats>
struct Stream {
  using FormatSet = formats::FormatSet<Formats...>;
  static constexpr bool kConsumersStore = true;
  using Plan = tile_stream::Plan;
  using Shape = tile_stream::Shape;
  using Pages = tile_stream::Pages;
  template <class T>
  using Op = ProductOfRecord<T>;

  // Pages of a tile's first (part 0) and second (part 1) 8 units or, with Shape::adds, of the residual's
  // columns (kResidualPart).
  template <class T, class Role>
  static __device__ __forceinline__ Pages pages_of(const Role& role, const T& op, uint32_t part, uint32_t) {
    if constexpr (requires { T::kAddsTo; }) {
      if (part == kResidualPart)
        return {tensor_map(role.launch.program, op.*T::kAddsTo), op.first_unit * kUnitRows};
    }
    return weight_pages(role.launch.program, role.s.shape, op, part);
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

  // Loads slab after slab for each token tile: one piece of each unit, side by side in the page.
  template <class Role, class PagesOf>
  static __device__ __forceinline__ void load(Role& role, const Plan& plan, PagesOf&& pages_of) {
    if (plan.tiles == 0) return;
    const bool apart = plan.shape.units == Units::kNeighboursApart;
    Pages first = pages_of(0, 0);
    const Pages second = apart ? pages_of(1, 0) : first;
    // A pass of one token tile reads each weight once, so weights need not stay in L2.
    const bool once = role.launch.row_bound <= Role::Config::kTileTokens;
    first.policy = once ? ptx::read_once_policy() : ptx::usual_policy();
#pragma unroll 1
    for (uint32_t tile = 0; tile < plan.tiles; ++tile) {
#pragma unroll 1
      for (uint32_t part = 0; part < plan.shape.parts; ++part) {
        const uint32_t begin = plan.part_begin(part), end = plan.part_begin(part + 1);
        FormatSet::with(plan.shape.format, [&](auto format) {
          using Format = decltype(format);
          const uint32_t slab = plan.shape.first_slab + begin;
          if constexpr (Format::kMayHaveGroups) {
            if (format.has_groups()) return load_blocks(role, plan, format, first, second, slab, end - begin);
            load_slabs<formats::E4M3>(role, plan, first, second, slab, end - begin);
          } else if constexpr (Format::kSlabsOfStep == 2) {
            load_steps<Format>(role, plan, first, second, slab, end - begin);
          } else {
            load_slabs<Format>(role, plan, first, second, slab, end - begin);
          }
        });
        if (part + 1 < plan.shape.parts) issue_empty_pages(role, plan, tile);
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
    const size_t slab_bytes = size_t{role.s.shape.limits.rows} * slab_image::kRowBytes;
    const uint32_t of_step = FormatSet::slabs_of_step(plan.shape.format);
#pragma unroll 1
    for (uint32_t tile = 0; tile < plan.tiles; ++tile) {
      const uint32_t row = plan.shape.first_row + tile * Config::kTileTokens;
      const uint32_t rows = plan.template tokens<Config>(tile);
      const std::byte* from = plan.shape.activations + plan.shape.first_slab / of_step * slab_bytes +
                              size_t{row} * slab_image::kRowBytes;
      role.stream_panels(from, slab_bytes, plan.slabs / of_step, rows * slab_image::kRowBytes);
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

  // Run by the storers, one tile ahead of the consumers: finds out which tokens are computed, where their K
  // and V are stored, and their scales; and the scales of the tile's rows of weights.
  template <class Role, class WithOp>
  static __device__ __forceinline__ void look_up(Role& role, const Plan& plan, WithOp&& with_op) {
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
      if constexpr (FormatSet::kHasScales) {
        if (plan.shape.format != 0)
          with_op([&]<class T>(const T& op) { look_up_row_scales(role, op, plan.shape.format, buffer); });
      }
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
        .reread_thread();
  }
  template <class Role, class WithOp>
  static __device__ __forceinline__ void work_on(Role& role, const Plan& plan, uint32_t tile, bool is_last,
                                                 WithOp&& with_op) {
    float d[Role::Config::kTileTokens / 2];
    multiply_parts<FormatSet>(role, plan, tile, d, [&] {
      const WarpTile part = part_of(role, plan, tile);
      await_tokens(role, part);
      scale_rows(role, plan, part, d);
      with_op([&]<class T>(const T& op) {
        if constexpr (requires { ProductOp<T>::epilogue(role, op).add_part(role, part, d); })
          ProductOp<T>::epilogue(role, op).add_part(role, part, d);
      });
    });
    if (is_last) stamp(role, EventKind::kComputeEnd);
    const WarpTile part = part_of(role, plan, tile);
    await_tokens(role, part);
    scale_rows(role, plan, part, d);
    with_op([&]<class T>(const T& op) { ProductOp<T>::epilogue(role, op).finish_tile(role, part, d); });
  }
  // Multiplies the sums with the scales of their rows of weights, and of their tokens if these have scales.
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void scale_rows(Role& role, const Plan& plan, const WarpTile& part,
                                                    float (&d)[kValues]) {
    if constexpr (FormatSet::kHasScales) {
      if (plan.shape.format == 0) return;
      const bool pairs = plan.shape.units == Units::kPairs || plan.shape.units == Units::kWidePairs;
      const uint32_t unit = pairs ? part.unit() / kWarpUnits : part.unit();
      const float* scales = workspace(role.s).row_scales[part.buffer] + part.row_of_unit() +
                            (part.tile_half * kTileUnits + unit) * kUnitRows;
      const float first = scales[0], second = scales[(pairs ? kPairUnits : 1) * kUnitRows];
#pragma unroll
      for (uint32_t v = 0; v < kValues; ++v) d[v] *= v / 2 % 2 == 0 ? first : second;
    }
    if constexpr (FormatSet::kHasInputScales) {
      const auto* scales =
          reinterpret_cast<const float2*>(workspace(role.s).token_scales[part.buffer] + part.token(0, 0));
#pragma unroll
      for (uint32_t eight = 0; eight < kValues / 4; ++eight) {
        const float2 two = scales[eight * 4];
        d[4 * eight] *= two.x, d[4 * eight + 1] *= two.y;
        d[4 * eight + 2] *= two.x, d[4 * eight + 3] *= two.y;
      }
    }
  }

  template <class Config>
  static __device__ __forceinline__ bool is_wide(const Plan& plan) {
    if constexpr (!Config::kHasWideTiles) return false;
    return Config::uniform(plan.shape.units == Units::kWidePairs ? 1 : 0) != 0;
  }
  // Separate from work_on(): the sums of the second half would leave too few registers to the epilogues of
  // other tiles.
  template <class Role, class WithOp>
  static __device__ __forceinline__ void work_on_wide(Role& role, const Plan& plan, uint32_t tile,
                                                      bool is_last, WithOp&& with_op) {
    using Config = typename Role::Config;
    if constexpr (Config::kHasWideTiles) {
      WideSums<Config> d;
      for (auto& half : d) clear_sums(half);
      const uint32_t slabs = Config::uniform(plan.slabs);
      const uint32_t format = format_of<FormatSet, Config>(plan);
      with_counts_saved(role, kWideHalves * slabs, panels_of<Config>(slabs), [&] {
        FormatSet::with(format, [&]<class Format>(const Format& of_weights) {
          multiply_wide(role, WarpPieces<Format>(role, of_weights, true), slabs, d);
        });
      });
      if (is_last) stamp(role, EventKind::kComputeEnd);
      WarpTile part = part_of(role, plan, tile);
      await_tokens(role, part);
#pragma unroll 1
      for (; part.tile_half < kWideHalves; ++part.tile_half) {
        scale_rows(role, plan, part, d[0]);
        with_op([&]<class T>(const T& op) {
          using Epilogue = decltype(ProductOp<T>::epilogue(role, op));
          if constexpr (requires { Epilogue::kHasWideTiles; })
            ProductOp<T>::epilogue(role, op).finish_tile(role, part, d[0]);
        });
#pragma unroll
        for (uint32_t v = 0; v < Config::kTileTokens / 2; ++v) d[0][v] = d[1][v];
      }
    }
  }
  // Waits until the storers have looked up the tile's tokens.
  template <class Role>
  static __device__ __forceinline__ void await_tokens(Role& role, const WarpTile& part) {
    wait_phase(&role.s.tokens_ready[part.buffer], role.next_tile / kBuffers & 1, &role.s.exit);
  }
  // Records when products begin and end; the epilogue follows.
  template <class Role>
  static __device__ __forceinline__ void stamp(Role& role, EventKind kind) {
    if constexpr (Role::Recorder::kOn) {
      if (ptx::thread_index() == kFirstConsumerWarp * kWarpThreads) role.recorder.stamp(role.record, kind);
    }
  }

  // Loads `slabs` slabs, the first of which is the units' slab number `slab`.
  template <class Format, class Role>
  static __device__ __forceinline__ void load_slabs(Role& role, const Plan& plan, const Pages& first,
                                                    const Pages& second, uint32_t slab, uint32_t slabs) {
    switch (plan.shape.units) {
      case Units::kNeighbours:
        return load_boxes<Format>(role, first, slab, slabs);
      case Units::kHalf:
        load_twice<Format>(role, first, first, slab, 1, slabs / 2);
        if (slabs % 2 != 0) load_half<Format>(role, first, slab + slabs - 1);
        return;
      case Units::kNeighboursApart:
        return load_twice<Format>(role, first, second, slab, 0, slabs);
      case Units::kPairs:
        return load_pairs<Format>(role, first, slab, slabs);
      case Units::kWidePairs:
        if constexpr (Role::Config::kHasWideTiles) load_wide_pairs<Format>(role, first, slab, slabs);
    }
  }
  template <class Format, class Role>
  static __device__ __forceinline__ void load_boxes(Role& role, const Pages& from, uint32_t slab,
                                                    uint32_t pages) {
    const auto copy = [&](ptx::SharedAddress to, ptx::SharedAddress landed) {
      ptx::tensor_load(to, from.map, from.unit, Format::word_of_slab(slab), landed, from.policy);
      ++slab;
    };
    role.stream(pages, kWholePageBytes<Format>, role.recorder, copy);
  }
  // Loads pages of two boxes of 8 units; the second box is `apart` slabs further on.
  template <class Format, class Role>
  static __device__ __forceinline__ void load_twice(Role& role, const Pages& first, const Pages& second,
                                                    uint32_t slab, uint32_t apart, uint32_t pages) {
    const auto copy = [&](ptx::SharedAddress to, ptx::SharedAddress landed) {
      ptx::tensor_load(to, first.map, first.unit, Format::word_of_slab(slab), landed, first.policy);
      ptx::tensor_load(to + kHalfPageBytes<Format>, second.map, second.unit,
                       Format::word_of_slab(slab + apart), landed, first.policy);
      slab += 1 + apart;
    };
    role.stream(pages, kWholePageBytes<Format>, role.recorder, copy);
  }
  template <class Format, class Role>
  static __device__ __forceinline__ void load_half(Role& role, const Pages& from, uint32_t slab) {
    const auto copy = [&](ptx::SharedAddress to, ptx::SharedAddress landed) {
      ptx::tensor_load(to, from.map, from.unit, Format::word_of_slab(slab), landed, from.policy);
    };
    role.stream(1, kHalfPageBytes<Format>, role.recorder, copy);
  }
  template <class Format, class Role>
  static __device__ __forceinline__ void load_pairs(Role& role, const Pages& from, uint32_t slab,
                                                    uint32_t slabs) {
    const auto copy = [&](ptx::SharedAddress to, ptx::SharedAddress landed) {
      ptx::tensor_load_all(to, from.map, from.unit, Format::word_of_slab(slab), landed, from.policy);
      ++slab;
    };
    role.stream(slabs, kWholePageBytes<Format>, role.recorder, copy);
  }
  // Loads one page of each slab for each half of the tile.
  template <class Format, class Role>
  static __device__ __forceinline__ void load_wide_pairs(Role& role, const Pages& from, uint32_t slab,
                                                         uint32_t slabs) {
    uint32_t unit = from.unit;
    const auto copy = [&](ptx::SharedAddress to, ptx::SharedAddress landed) {
      ptx::tensor_load_all(to, from.map, unit, Format::word_of_slab(slab), landed, from.policy);
      slab += unit != from.unit ? 1 : 0;
      unit ^= from.unit ^ (from.unit + kPairUnits);
    };
    role.stream(slabs * kWideHalves, kWholePageBytes<Format>, role.recorder, copy);
  }
  // Loads the pages of operands of 8 bits: the two slabs of a step side by side, each a page of fewer bytes.
  template <class Format, class Role>
  static __device__ __forceinline__ void load_steps(Role& role, const Plan& plan, const Pages& first,
                                                    const Pages& second, uint32_t slab, uint32_t slabs) {
    const Units units = plan.shape.units;
    const auto copy = [&](ptx::SharedAddress to, ptx::SharedAddress landed) {
#pragma unroll 1
      for (const uint32_t end = slab + Format::kSlabsOfStep; slab < end;
           ++slab, to = to + Format::kHighTerms) {
        const uint32_t word = Format::word_of_slab(slab);
        if (units == Units::kPairs) {
          ptx::tensor_load_all(to, first.map, first.unit, word, landed, first.policy);
          continue;
        }
        ptx::tensor_load(to, first.map, first.unit, word, landed, first.policy);
        if (units == Units::kNeighboursApart)
          ptx::tensor_load(to + kHalfPageBytes<Format>, second.map, second.unit, word, landed, first.policy);
      }
    };
    const uint32_t slab_bytes = units == Units::kHalf ? kHalfPageBytes<Format> : kWholePageBytes<Format>;
    role.stream(slabs / Format::kSlabsOfStep, Format::kSlabsOfStep * slab_bytes, role.recorder, copy);
  }
  // Loads pages of two slabs with the words of their groups (formats/int4/tiles.cuh); `slab` is even.
  template <class Format, class Role>
  static __device__ __forceinline__ void load_blocks(Role& role, const Plan& plan, const Format& format,
                                                     const Pages& first, const Pages& second, uint32_t slab,
                                                     uint32_t slabs) {
    constexpr uint32_t kWord = sizeof(uint32_t), kGroupWords = int4_image::kGroupBytes / kWord;
    constexpr uint32_t kSlabs = slab_image::kSlabsOfPanel;
    const BoundProgram& bound = role.launch.program;
    const Units units = plan.shape.units;
    const auto copy_box = [&](ptx::SharedAddress to, uint32_t second_at, const std::byte* map,
                              const std::byte* second_map, uint32_t word, ptx::SharedAddress landed) {
      if (units == Units::kPairs) {
        ptx::tensor_load_all(to, map, first.unit, word, landed, first.policy);
        return;
      }
      ptx::tensor_load(to, map, first.unit, word, landed, first.policy);
      if (units == Units::kNeighboursApart)
        ptx::tensor_load(to + second_at, second_map, second.unit, word, landed, first.policy);
    };
    const std::byte *words = map_of_words(bound, first.map), *second_words = map_of_words(bound, second.map);
    uint32_t panel = 0, in_panel = kSlabs, half_slabs = 0, panel_words = 0;
    const auto copy = [&](ptx::SharedAddress to, ptx::SharedAddress landed) {
      if (in_panel == kSlabs) {
        panel = slab / kSlabs, in_panel = slab % kSlabs;
        half_slabs = page_image::half_cols(plan.shape.cols, panel) / page_image::kPairCols;
        panel_words = int4_image::panel_words_offset(plan.shape.cols, format.group(), panel) / kWord;
      }
      copy_box(to, kHalfPageBytes<Format>, first.map, second.map,
               int4_image::slab_offset(format.group(), slab) / kWord, landed);
#pragma unroll 1
      for (uint32_t box = 0; box < Format::kBoxes; ++box) {
        const uint32_t col = in_panel + box / 2 + box % 2 * half_slabs;  // of 32
        copy_box(to + Format::kWordsOffset + box * Format::kWordBoxBytes, Format::kWordBoxBytes / 2, words,
                 second_words, panel_words + (col >> format.group_index()) * kGroupWords, landed);
      }
      slab += 2, in_panel += 2;
    };
    const uint32_t units_of_page = units == Units::kHalf ? kTileUnits / 2 : kTileUnits;
    role.stream((slabs + 1) / 2, units_of_page * Format::kBytesOfUnit, role.recorder, copy);
  }
  // Issues empty pages for the sums of a K split that is not the last: as many as the tile's residual needs.
  template <class Role>
  static __device__ __forceinline__ void issue_empty_pages(Role& role, const Plan& plan, uint32_t tile) {
    const uint32_t first = plan.shape.first_row + tile * Role::Config::kTileTokens;
    const uint32_t pages = residual_pages(min(plan.shape.end_row - first, Role::Config::kTileTokens));
#pragma unroll 1
    for (uint32_t page = 0; page < pages; ++page) role.issue_empty(role.recorder);
  }
  // `from`: the residual's map and the tile's first column.
  template <class Role>
  static __device__ __forceinline__ void load_residual(Role& role, const Plan& plan, uint32_t row,
                                                       const Pages& from) {
    role.wait_inputs();
    // Consumers free a page of the last K split only after the sums of all earlier splits have been added.
    if (plan.shape.parts > 1) role.wait_released(plan.template last_part_pages<FormatSet>());
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

  // Scales of the record's rows, in the order of the pages of a tile: a matrix's units side by side, or half
  // a page of each of two matrices.
  template <class Role, class T>
  static __device__ __forceinline__ void look_up_row_scales(Role& role, const T& op, uint32_t format,
                                                            uint32_t buffer) {
    auto& scales = workspace(role.s).row_scales[buffer];
    constexpr uint32_t kHalfUnits = matrices_of<T>() == 2 ? kPairUnits : kTileUnits;
#pragma unroll 1
    for (uint32_t n = role.warp * kWarpThreads + role.lane; n < sizeof(scales) / sizeof(float);
         n += kStorerWarps * kWarpThreads) {
      const uint32_t in_page = n / kUnitRows, half = in_page / kTileUnits;
      const uint32_t matrix = in_page % kTileUnits / kHalfUnits;
      const uint32_t unit = half * kHalfUnits + in_page % kHalfUnits;
      if (unit >= op.num_units) continue;
      const WeightUnit at = find_weights(op, role.s.shape, op.first_unit + unit, matrix);
      const std::byte* images = without_weight_type(typed_weights<T>(*role.buffer, at.tensor));
      const uint32_t cols = product(op, role.s.shape).cols;
      const uint64_t offset = FormatSet::with(format, [&]<class Format>(const Format& f) -> uint64_t {
        if constexpr (!Format::kHasScales)
          return 0;
        else
          return f.scale_offset(cols, at.index, n % kUnitRows);
      });
      scales[n] = ptx::load_constant(reinterpret_cast<const float*>(images + offset));
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
      const ProgramShape& program = role.s.shape;
      const size_t first = size_t{begin.z} * blocks_for_tokens(program.limits.max_context);
      const uint32_t block = ptx::load_relaxed(plan.shape.block_table + first + position / kKvBlockTokens);
      work.places[buffer][n] = block * program.heads.kv_heads * kKvBlockTokens + position % kKvBlockTokens;
    }
    if (plan.shape.squares != nullptr) work.scales[buffer][n] = scale_of(plan.shape, row);
    if constexpr (FormatSet::kHasInputScales) {
      if (plan.shape.format != 0) {
        const uint32_t image_rows = role.s.shape.limits.rows;
        work.token_scales[buffer][n] = ptx::load_relaxed(reinterpret_cast<const float*>(
            plan.shape.activations + e4m3_slab_image::scale_offset(image_rows, plan.shape.cols, row)));
      }
    }
  }
  // Reads four squares at a time. Single reads would be a fifth of all that an SM reads from L2.
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

}  // namespace serval::device::tile_stream

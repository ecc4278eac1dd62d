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
//
// In instructions/common/gemm: what a record works on (shape.cuh), the loops of products (products.cuh), the
// way from registers to rows (staging.cuh), and what finishes a tile (residual_tile.cuh, output_tile.cuh).
// Here, the stream: which role does what.
#pragma once

#include <cstdint>

#include "instructions/common/gemm/output_tile.cuh"
#include "instructions/common/gemm/products.cuh"
#include "instructions/common/gemm/residual_tile.cuh"
#include "instructions/common/gemm/shape.cuh"
#include "instructions/common/gemm/staging.cuh"
#include "vm/device/op.cuh"
#include "vm/device/roles.cuh"
#include "vm/layout/kv_cache.h"
#include "vm/layout/slab_image.h"

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

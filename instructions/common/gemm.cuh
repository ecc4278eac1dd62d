// How a GEMM kernel multiplies streamed weights with the rows of a pass: the stream of the instructions that
// instructions/common/matvec.cuh multiplies for few rows, from the same page images.
//
// A record works on a tile of up to 16 units (128 weight rows) and, token tile after token tile, on the rows
// that it is given. A step takes a slab: 64 columns of the page image's order (vm/layout/slab_image.h). Of
// the weights it is a page of 16 pieces of 1 KiB, one of each unit, which go to the tensor cores through
// registers: two units are a warp's 16 rows. Of the activations it is a chunk: the rows of the token tile,
// 128 bytes each, read from shared memory by all warps. An output is one chain of products over the columns,
// in the order of the image, whatever the tile and its neighbours.
//
// Consumers finish the tile themselves, from their registers (DeviceOp<Op>::finish_tile); what they need of
// the tokens is looked up by the storers meanwhile.
#pragma once

#include <cstdint>

#include "instructions/common/residual.cuh"
#include "vm/device/op.cuh"
#include "vm/device/roles.cuh"
#include "vm/layout/slab_image.h"

namespace serval::device::gemm {

inline constexpr uint32_t kTileUnits = 16;
inline constexpr uint32_t kWarpUnits = 2;
inline constexpr uint32_t kWarpgroups = kConsumerWarps / kWarpsOfGroup;
inline constexpr uint32_t kPieceBytes = kPageBytes / kTileUnits;  // of a unit in a slab
// Squares of the residual are added up for as many columns as a warpgroup finishes.
inline constexpr uint32_t kSquaresCols = kWarpsOfGroup * kWarpUnits * kUnitRows;
// Results leave through shared memory, of so many tokens at a time: each thread of a warpgroup then finishes
// a piece of a slab's row.
inline constexpr uint32_t kStagedTokens = 16;
inline constexpr uint32_t kStagedValues = kStagedTokens / 2;  // of a lane
inline constexpr uint32_t kStagedRowFloats = kWarpsOfGroup * kWarpUnits * kUnitRows;
inline constexpr uint32_t kBuffers = 2;

// What an instruction multiplies.
struct Shape {
  const std::byte* activations;  // a slab image of image_rows rows
  const float* squares;  // [image_rows, cols / 64] of the residual, where rows are to be normalised, or null
  float epsilon;         // with squares
  uint32_t image_rows;
  uint32_t first_row;
  uint32_t end_row;
  uint32_t first_unit;
  uint32_t matrices;  // 2: 8 units of each of two, else 16 of one
  uint32_t cols;
};

// How a record is cut up: written once, read by every role.
struct Plan {
  Shape shape;
  uint32_t tiles;  // of tokens
  uint32_t slabs;
};

// Behind the sums of few rows' kernels: what leaves the registers of a GEMM's consumers, and what comes from
// storers.
template <class Config>
struct Workspace {
  float staged[kWarpgroups][kBuffers][kStagedTokens * kStagedRowFloats];
  float scales[kBuffers][Config::kTileTokens];
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
  uint32_t warpgroup;
  uint32_t warp;  // of the warpgroup
  uint32_t lane;
  uint32_t first_token;  // of the tile, a row of the pass
  uint32_t end_token;
  uint32_t buffer;  // of what storers looked up

  __device__ __forceinline__ uint32_t row_of_unit() const { return lane / 4; }
  // Of the instruction's units: the first of the two.
  __device__ __forceinline__ uint32_t unit() const { return (warpgroup * kWarpsOfGroup + warp) * kWarpUnits; }
  // In the tile; with `eight` b.
  __device__ __forceinline__ uint32_t token(uint32_t eight, uint32_t i) const {
    return eight * 8 + lane % 4 * 2 + i;
  }
};

// A warp's register operands of a step: four products, four registers each.
using Terms = uint32_t[4][4];

// The warp's operands of a page: product j has terms[j]. `second`: from the piece of the first unit to the
// other's.
__device__ __forceinline__ void load_terms(Terms& terms, uint32_t address, uint32_t second) {
  const uint4 first0 = ptx::shared_load(address), first1 = ptx::shared_load(address + kPieceBytes / 2);
  const uint4 second0 = ptx::shared_load(address + second);
  const uint4 second1 = ptx::shared_load(address + second + kPieceBytes / 2);
  const auto set = [](uint32_t(&a)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3) {
    a[0] = a0;
    a[1] = a1;
    a[2] = a2;
    a[3] = a3;
  };
  set(terms[0], first0.x, second0.x, first0.z, second0.z);
  set(terms[1], first1.x, second1.x, first1.z, second1.z);
  set(terms[2], first0.y, second0.y, first0.w, second0.w);
  set(terms[3], first1.y, second1.y, first1.w, second1.w);
}

// Where a lane's operands lie in a page: of one matrix, a warp has neighbouring units; of two, the same unit
// of each.
struct WarpPieces {
  uint32_t first;
  uint32_t second;  // from the first unit's piece

  template <class Role>
  __device__ __forceinline__ WarpPieces(const Role& role, uint32_t matrices)
      : first(role.warp * (matrices == 2 ? 1 : kWarpUnits) * kPieceBytes +
              role.lane * static_cast<uint32_t>(sizeof(uint4))),
        second(matrices == 2 ? kPageBytes / 2 : kPieceBytes) {}
};

// An instruction takes 128 tokens at most: a kernel of 512 threads has too few registers for one of 256.
template <class Config>
struct Sums {
  static constexpr uint32_t kInstructions = Config::kTileTokens > 128 ? Config::kTileTokens / 128 : 1;
  static constexpr uint32_t kValues = Config::kTileTokens / kInstructions / 2;
};

template <class Role>
__device__ __forceinline__ void begin_step(Role& role, const WarpPieces& pieces, Terms& terms,
                                           float (&d)[Role::Config::kTileTokens / 2], bool first) {
  using Config = typename Role::Config;
  role.wait_next_page(role.next_page);
  load_terms(terms, ptx::shared_address(role.s.ring[role.next_page % Config::kRingPages]) + pieces.first,
             pieces.second);
  role.free_page(role.next_page++);
  role.wait_next_chunk(role.next_chunk);
  const uint64_t rows =
      ptx::wgmma_operand(ptx::shared_address(role.s.activations) + activation_slot<Config>(role.next_chunk));
  ptx::wgmma_fence();
  constexpr uint32_t kValues = Sums<Config>::kValues;
#pragma unroll
  for (uint32_t j = 0; j < 4; ++j) {
#pragma unroll
    for (uint32_t h = 0; h < Sums<Config>::kInstructions; ++h)
      ptx::wgmma_bf16<kValues * 2>(
          reinterpret_cast<float(&)[kValues]>(d[h * kValues]), terms[j],
          rows + h * (kValues * 2 * slab_image::kRowBytes / 16) + j * ptx::kWgmmaNextTerms, j != 0 || !first);
  }
  ptx::wgmma_commit();
  ++role.next_chunk;
  ptx::wgmma_wait<1>();  // the step before is complete
  role.multiplied_chunks(role.next_chunk - 1);
}

template <class Role>
__device__ __forceinline__ void multiply(Role& role, const Plan& plan,
                                         float (&d)[Role::Config::kTileTokens / 2]) {
  using Config = typename Role::Config;
  const WarpPieces pieces(role, Config::uniform(plan.shape.matrices));
  Terms even, odd;
  const uint32_t slabs = Config::uniform(plan.slabs);
  // A step's operands stay in registers while the next one's are loaded: two steps at a time, so that the
  // compiler sees that they are not the same.
#pragma unroll 1
  for (uint32_t slab = 0; slab + 1 < slabs; slab += 2) {
    begin_step(role, pieces, even, d, slab == 0);
    begin_step(role, pieces, odd, d, false);
  }
  if (slabs % 2 != 0) begin_step(role, pieces, even, d, slabs == 1);
  ptx::wgmma_wait<0>();
  leave_if_asked(&role.s.exit);
  role.multiplied_chunks(role.next_chunk);
}

// --- from registers to pieces

// What a thread finishes of kStagedTokens tokens: piece `piece` of half a slab's row, which has rows 2 piece
// and the next of 4 neighbouring units, of token `token`.
struct PieceOfRow {
  uint32_t token;  // 0 to kStagedTokens - 1
  uint32_t group;  // of 4 units, of the warpgroup's 8
  uint32_t piece;

  __device__ __forceinline__ explicit PieceOfRow(const WarpTile& part) {
    const uint32_t thread = part.warp * kWarpThreads + part.lane;
    token = thread / 8;
    group = thread / slab_image::kPiecesOfHalf % 2;
    piece = thread % slab_image::kPiecesOfHalf;
  }
};
// Of the float of unit `unit` (of the warpgroup's 8) and row `row` in a staged token's row: units of 4 are
// moved about, so that a warp's accesses use all banks.
__device__ __forceinline__ uint32_t staged_float(uint32_t token, uint32_t unit, uint32_t row) {
  return token * kStagedRowFloats + (unit ^ (token / 2 & 3)) * kUnitRows + row;
}
// A lane's sums of tokens [16 block, 16 block + 16) of a tile to shared memory.
template <uint32_t kValues>
__device__ __forceinline__ void put_block(float* staged, const WarpTile& part, const float (&d)[kValues],
                                          uint32_t block) {
  const uint32_t unit = part.warp * kWarpUnits;
  float* first = staged + staged_float(part.token(0, 0), unit, part.row_of_unit());
  float* second = staged + staged_float(part.token(0, 0), unit + 1, part.row_of_unit());
  const auto put = [&]<uint32_t kBlock>() {
    if constexpr (kBlock * kStagedValues < kValues) {
#pragma unroll
      for (uint32_t v = 0; v < kStagedValues; ++v) {
        const uint32_t token = v / 4 * 8 + v % 2;
        (v / 2 % 2 == 0 ? first : second)[token * kStagedRowFloats] = d[kBlock * kStagedValues + v];
      }
    }
  };
  // One jump: registers have no index.
  switch (block) {
    case 0:
      return put.template operator()<0>();
    case 1:
      return put.template operator()<1>();
    case 2:
      return put.template operator()<2>();
    case 3:
      return put.template operator()<3>();
    case 4:
      return put.template operator()<4>();
    case 5:
      return put.template operator()<5>();
    case 6:
      return put.template operator()<6>();
    case 7:
      return put.template operator()<7>();
    case 8:
      return put.template operator()<8>();
    case 9:
      return put.template operator()<9>();
    case 10:
      return put.template operator()<10>();
    case 11:
      return put.template operator()<11>();
    case 12:
      return put.template operator()<12>();
    case 13:
      return put.template operator()<13>();
    case 14:
      return put.template operator()<14>();
    default:
      return put.template operator()<15>();
  }
}
// Calls finish(block, staged, exists) for every 16 tokens of a tile, when a warpgroup's sums of them are in
// shared memory.
template <class Role, uint32_t kValues, class Finish>
__device__ __forceinline__ void for_staged(Role& role, const WarpTile& part, const float (&d)[kValues],
                                           const PieceOfRow& mine, Finish&& finish) {
  auto& work = workspace(role.s);
#pragma unroll 1
  for (uint32_t block = 0; block < kValues / kStagedValues; ++block) {
    const uint32_t first_token = part.first_token + block * kStagedTokens;
    if (first_token >= part.end_token) break;
    float* staged = work.staged[part.warpgroup][block % kBuffers];
    put_block(staged, part, d, block);
    role.sync_warpgroup();
    finish(block, staged, first_token + mine.token < part.end_token);
  }
}
__device__ __forceinline__ float2 load_pair(const float* staged, const PieceOfRow& mine, uint32_t unit) {
  return *reinterpret_cast<const float2*>(staged + staged_float(mine.token, unit, mine.piece * 2));
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

// residual += d, with what its next readers need. first_unit: of the tile, in the matrix. What the residual
// holds of the next tokens is on its way while those before are finished.
template <class Role, uint32_t kValues>
__device__ __forceinline__ void add_to_residual(Role& role, const WarpTile& part, const ResidualPlace& to,
                                                uint32_t first_unit, const float (&d)[kValues]) {
  constexpr uint32_t kUnits = 4;  // of a piece
  const PieceOfRow mine(part);
  const uint32_t group_col =
      (first_unit + part.warpgroup * kWarpsOfGroup * kWarpUnits + mine.group * kUnits) * kUnitRows;
  const uint32_t col = group_col + mine.piece * 2;
  uint32_t norms[kUnits];
#pragma unroll
  for (uint32_t u = 0; u < kUnits; ++u)
    norms[u] = ptx::load_constant(reinterpret_cast<const uint32_t*>(to.norm + col + u * kUnitRows));
  const auto at = slab_image::place(to.cols, group_col);
  const uint32_t first_row = part.first_token + mine.token;
  float* row = to.residual + size_t{first_row} * to.cols + col;
  std::byte* weighted =
      to.weighted + slab_image::piece_offset(to.image_rows, first_row, at.slab, at.piece + mine.piece);
  float* squares = to.squares + size_t{first_row} * (to.cols / kSquaresCols) + group_col / kSquaresCols;
  float2 next[kUnits] = {};
  const auto load = [&](const float* from, bool exists) {
    if (!exists) return;
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u)
      next[u] = ptx::load_relaxed(reinterpret_cast<const float2*>(from + u * kUnitRows));
  };
  load(row, first_row < part.end_token);
  for_staged(role, part, d, mine, [&](uint32_t block, const float* staged, bool exists) {
    float2 values[kUnits];
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u) values[u] = next[u];
    float* here = row;
    row += size_t{kStagedTokens} * to.cols;
    load(row, first_row + (block + 1) * kStagedTokens < part.end_token);
    float sum = 0;
    uint32_t words[kUnits];
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u) {
      const float2 added = load_pair(staged, mine, mine.group * kUnits + u);
      values[u].x += added.x;
      values[u].y += added.y;
      sum += __fmul_rn(values[u].x, values[u].x) + __fmul_rn(values[u].y, values[u].y);
      words[u] =
          ptx::pack_bf16(values[u].x * ptx::bf16_low(norms[u]), values[u].y * ptx::bf16_high(norms[u]));
    }
    sum = residual::add_neighbours<8>(sum, kAllLanes);  // the lanes of a token
    if (exists) {
#pragma unroll
      for (uint32_t u = 0; u < kUnits; ++u)
        ptx::store_relaxed(reinterpret_cast<float2*>(here + u * kUnitRows), values[u]);
      *reinterpret_cast<uint4*>(weighted) = {words[0], words[1], words[2], words[3]};
      if (part.lane % 8 == 0) ptx::store_relaxed(squares, sum);
    }
    weighted += kStagedTokens * slab_image::kRowBytes;
    squares += kStagedTokens * (to.cols / kSquaresCols);
  });
}

// output = silu(gate) × up, both scaled by the tokens' scales; units of gate and up lie in turn. first_unit:
// of the tile, in each matrix.
template <class Role, uint32_t kValues>
__device__ __forceinline__ void store_silu(Role& role, const WarpTile& part, std::byte* output,
                                           uint32_t image_rows, uint32_t cols, uint32_t first_unit,
                                           const float (&d)[kValues]) {
  const PieceOfRow mine(part);
  // Two threads share a piece: each has two of its four units.
  const uint32_t first_col = (first_unit + part.warpgroup * kWarpsOfGroup) * kUnitRows;
  const auto at = slab_image::place(cols, first_col);
  std::byte* to =
      output +
      slab_image::piece_offset(image_rows, part.first_token + mine.token, at.slab, at.piece + mine.piece) +
      mine.group * 8;
  const float* scales = workspace(role.s).scales[part.buffer] + mine.token;
  for_staged(role, part, d, mine, [&](uint32_t block, const float* staged, bool exists) {
    const float scale = scales[block * kStagedTokens];
    uint32_t words[2];
#pragma unroll
    for (uint32_t u = 0; u < 2; ++u) {
      const uint32_t unit = (mine.group * 2 + u) * 2;
      const float2 gate = load_pair(staged, mine, unit), up = load_pair(staged, mine, unit + 1);
      const auto silu = [](float g, float x) { return g / (1.0F + __expf(-g)) * x; };
      words[u] = ptx::pack_bf16(silu(gate.x * scale, up.x * scale), silu(gate.y * scale, up.y * scale));
    }
    if (exists) *reinterpret_cast<uint2*>(to) = {words[0], words[1]};
    to += kStagedTokens * slab_image::kRowBytes;
  });
}

// --- the stream

struct Stream {
  static constexpr bool kConsumersStore = true;
  using Plan = gemm::Plan;
  using Shape = gemm::Shape;

  template <class Config>
  static __device__ __forceinline__ Plan plan(const Launch& launch, const Shape& shape) {
    Plan made{.shape = shape, .tiles = 0, .slabs = slab_image::slabs(shape.cols)};
    made.shape.end_row = min(shape.end_row, launch.row_bound);
    if (made.shape.first_row < made.shape.end_row)
      made.tiles =
          (made.shape.end_row - made.shape.first_row + Config::kTileTokens - 1) / Config::kTileTokens;
    return made;
  }
  static __device__ __forceinline__ bool has_chunks(const Plan& plan) { return plan.tiles != 0; }
  static __device__ __forceinline__ bool looks_up(const Plan& plan) { return plan.shape.squares != nullptr; }

  // For each tile of tokens slab after slab: a piece of each unit, which lie one after the other. map(matrix)
  // is the matrix's tensor map: a row of words for each unit.
  template <class Role, class Map>
  static __device__ __forceinline__ void load(Role& role, const Plan& plan, Map&& map) {
    if (plan.tiles == 0) return;
    const uint32_t matrices = plan.shape.matrices, first_unit = plan.shape.first_unit;
    const std::byte *first = map(0, 0), *second = matrices == 2 ? map(0, 1) : nullptr;
#pragma unroll 1
    for (uint32_t tile = 0; tile < plan.tiles; ++tile) {
#pragma unroll 1
      for (uint32_t slab = 0; slab < plan.slabs; ++slab) {
        role.next(kPageBytes, role.recorder, [&](std::byte* to, uint64_t* landed) {
          const uint32_t col = slab * (kPieceBytes / sizeof(uint32_t));
          ptx::tensor_load(to, first, first_unit, col, landed);
          if (matrices == 2) ptx::tensor_load(to + kPageBytes / 2, second, first_unit, col, landed);
        });
      }
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
      const uint32_t rows = min(plan.shape.end_row - row, Config::kTileTokens);
      const std::byte* from = plan.shape.activations + size_t{row} * slab_image::kRowBytes;
#pragma unroll 1
      for (uint32_t slab = 0; slab < plan.slabs; ++slab, from += slab_bytes) {
        role.acquire_chunks(1);
        role.copy_chunks(from, 0, 1, rows * slab_image::kRowBytes);
      }
    }
  }

  template <class Role, class WithOp, class Signal>
  static __device__ __forceinline__ void consume(Role& role, const Plan& plan, WithOp&& with_op,
                                                 Signal&& signal) {
    using Config = typename Role::Config;
    role.wait_unit_slot(role.next_unit);
    const uint32_t tiles = Config::uniform(plan.tiles);
    role.next_page = Config::uniform(role.next_page);
    role.next_chunk = Config::uniform(role.next_chunk);
#pragma unroll 1
    for (uint32_t tile = 0; tile < tiles; ++tile) {
      float d[Config::kTileTokens / 2];
      multiply(role, plan, d);
      const uint32_t first = plan.shape.first_row + tile * Config::kTileTokens;
      const uint32_t thread = ptx::thread_index();  // anew: addresses are not kept in registers meanwhile
      const WarpTile part{
          .warpgroup = thread / kWarpThreads / kWarpsOfGroup - kFirstConsumerWarp / kWarpsOfGroup,
          .warp = thread / kWarpThreads % kWarpsOfGroup,
          .lane = thread % kWarpThreads,
          .first_token = first,
          .end_token = min(plan.shape.end_row, first + Config::kTileTokens),
          .buffer = role.next_tile % kBuffers};
      if (looks_up(plan))
        wait_phase(&role.s.tokens_ready[part.buffer], role.next_tile / kBuffers & 1, &role.s.exit);
      with_op([&]<class Op>(const Op& op) { DeviceOp<Op>::finish_tile(role, op, part, d); });
      if (looks_up(plan)) role.used_tiles(++role.next_tile);
    }
    signal();
  }

  // Storers: what the scales of the tokens are, a tile ahead of the consumers.
  template <class Role>
  static __device__ __forceinline__ void look_up(Role& role, const Plan& plan) {
    using Config = typename Role::Config;
    if (!looks_up(plan)) return;
    if (plan.tiles != 0) role.wait_inputs();
    const uint32_t sums = plan.shape.cols / kSquaresCols;
    const float inverse_cols = 1.0F / static_cast<float>(plan.shape.cols);
#pragma unroll 1
    for (uint32_t tile = 0; tile < plan.tiles; ++tile, ++role.next_tile) {
      const uint32_t buffer = role.next_tile % kBuffers;
      wait_counts(role.s.tiles_used, role.lane, role.next_tile + 1 - kBuffers, &role.s.exit);
      float* scales = workspace(role.s).scales[buffer];
      for (uint32_t n = role.warp * kWarpThreads + role.lane; n < Config::kTileTokens;
           n += kStorerWarps * kWarpThreads) {
        const uint32_t row =
            min(plan.shape.first_row + tile * Config::kTileTokens + n, plan.shape.end_row - 1);
        const float* squares = plan.shape.squares + size_t{row} * sums;
        float sum = 0;
#pragma unroll 4
        for (uint32_t i = 0; i < sums; ++i) sum += ptx::load_relaxed(squares + i);
        scales[n] = rsqrtf(sum * inverse_cols + plan.shape.epsilon);
      }
      __syncwarp();
      if (role.lane == 0) ptx::mbarrier_arrive(&role.s.tokens_ready[buffer]);
    }
  }
};

}  // namespace serval::device::gemm

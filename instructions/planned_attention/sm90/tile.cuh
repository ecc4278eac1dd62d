// A warpgroup's work on a stream, block by block, for any form of tile:
//
//   scores  = queries × keysᵀ
//   weights = exp2(score - the query's largest score)
//   output += weights × values
//
// Tokens that a query does not see have weight 0, and values after the stream's last token are cleared, so
// that a query's result does not depend on its neighbours.
//
// A form is a class derived from Tile. It defines:
//
//   tile_row(i), query_of(n)    the tile rows of the lane's queries; the query that sum n belongs to
//   multiply(stream, blocks)    the products, block by block; calls begin_weights() and weight() for each
//                               query and block, begin_leaf() and end_leaf() for each leaf, and finish()
//   add_lanes(total)            adds up the lanes' totals of each query
//   write_sums(to, i, sums)     writes the lane's part of query i
//   write_output(stream, sums, total)
//
// Both forms give a query the same bits: the same chains of products and sums (sums.h and below).
#pragma once

#include "instructions/planned_attention/sm90/streams.cuh"
#include "instructions/planned_attention/sums.h"
#include "vm/device/typed_address.cuh"
#include "vm/layout/slab_image.h"

namespace serval::device::planned {

inline constexpr uint32_t kQuadLanes = 4;
// Visible tokens of a query without a row: all, so that it forces no mask on its warp. Its result is not
// stored.
inline constexpr uint32_t kEverything = 0xffffffff;

// Per lane: values of its two queries.
using PerQuery = float[2];

template <class Form, class Config, uint32_t kHeadDim, uint32_t kScoresOf, uint32_t kSumsOf>
class Tile {
 public:
  using Memory = PlacesOf<Config, kHeadDim>;
  using Stream = typename Memory::Stream;
  using Op = PlannedAttention;

  __device__ __forceinline__ Tile(const Op& op, const Group& group)
      : group_(group),
        memory_(*reinterpret_cast<Memory*>(group.scratch)),
        heads_(memory_.heads),
        warpgroup_(Config::uniform(group.warp / kWarpgroupWarps)),
        warp_(Config::uniform(group.warp % kWarpgroupWarps)),
        scale_(op.scale * kLog2OfE) {}

  // Runs the warpgroup's part of the record's n-th stream, whose first page is `first_page`.
  __device__ __forceinline__ void run(const Stream& stream, uint32_t n, uint32_t first_page) {
    first_page_ = first_page;
    const uint32_t blocks = Config::uniform(stream.blocks);
    // The warpgroups take turns at streams of one tile.
    const bool one_tile = stream.item.rows - stream.first_row <= heads_.rows_of_tile();
    tile_ = Config::uniform(one_tile ? (warpgroup_ + n) % kWarpgroups : warpgroup_);
    if (find_rows(stream)) {
      form().multiply(stream, blocks);
    } else {
      skip_units(2 * blocks);
    }
  }

 protected:
  static constexpr uint32_t kScores = kScoresOf, kSums = kSumsOf;  // of a lane
  static constexpr uint32_t kSteps = kKvBlockTokens / 16;          // steps of 16 tokens
  static constexpr uint32_t kPartSteps = kPartChannels / 16;       // steps of 16 channels in a part

  // Values that are used once a leaf are kept in the thread's local memory, because products leave few
  // registers. They stay there because `zero_` is opaque to the compiler. After the sums: largest scores and
  // totals of both queries, first of the merged leaves, then of the last leaf.
  using LeafMemory = float4[kSums / 4 + 2];
  class Leaves {
   public:
    __device__ __forceinline__ explicit Leaves(LeafMemory& memory) : memory_(memory) {
      constexpr uint32_t kFewSums = 8;  // these stay in registers
      zero_ = 0;
      if constexpr (kSums > kFewSums) asm volatile("mov.u32 %0, 0;" : "=r"(zero_));
    }
    __device__ __forceinline__ float4& o(uint32_t four) { return memory_[four + zero_]; }
    __device__ __forceinline__ float4& merged() { return memory_[kSums / 4 + zero_]; }
    __device__ __forceinline__ float4& ended() { return memory_[kSums / 4 + 1 + zero_]; }

   private:
    LeafMemory& memory_;
    uint32_t zero_;
  };

  __device__ __forceinline__ Form& form() { return static_cast<Form&>(*this); }
  __device__ __forceinline__ const Form& form() const { return static_cast<const Form&>(*this); }
  __device__ __forceinline__ uint32_t warpgroup_thread() const { return warp_ * kWarpThreads + group_.lane; }

  // --- the tile's rows

  // A row of the tile: a query head of one of the item's rows.
  struct Query {
    uint32_t row;   // of the item's
    uint32_t head;  // of the group's
  };
  __device__ __forceinline__ Query query(const Stream& stream, uint32_t tile_row) const {
    if constexpr (Memory::kSingleRows) return {stream.first_row, tile_row};  // of up to two heads' groups
    const uint32_t row = heads_.row_of(tile_row);
    return {stream.first_row + tile_ * heads_.rows_of_tile() + row, tile_row - row * heads_.count};
  }
  __device__ __forceinline__ bool exists(const Stream& stream, uint32_t tile_row) const {
    return heads_.row_of(tile_row) < heads_.rows_of_tile() && query(stream, tile_row).row < stream.item.rows;
  }
  // Finds the tokens that the lane's queries see. Returns false if the tile has no rows at all.
  __device__ __forceinline__ bool find_rows(const Stream& stream) {
    if (stream.first_row + tile_ * heads_.rows_of_tile() >= stream.item.rows) return false;
    uint32_t least = kEverything;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      visible_[i] = 0;
      if (exists(stream, form().tile_row(i)))
        visible_[i] = stream.visible[query(stream, form().tile_row(i)).row - stream.first_row];
      writes_[i] = visible_[i] != 0;
      if (!writes_[i]) visible_[i] = kEverything;
      least = min(least, visible_[i]);
    }
    least_visible_ = __reduce_min_sync(kAllLanes, least);
    return true;
  }

  // The warpgroup's KV head; in kernels of single rows, the first.
  __device__ __forceinline__ uint32_t head(const Stream& stream) const {
    if constexpr (Memory::kSingleRows) return head_;
    return stream.head;
  }
  // Address of a query's channels, or null if there is no query.
  __device__ __forceinline__ const uint16_t* query_at(const Stream& stream, uint32_t tile_row) const {
    if (!exists(stream, tile_row)) return nullptr;
    const Query of = query(stream, tile_row);
    const size_t vector = size_t{stream.item.first_row + of.row} * group_.shape.heads.q_heads +
                          head(stream) * heads_.count + of.head;
    return memory_.tensors.q + vector * kHeadDim;
  }
  // Copies queries to shared memory, 16 bytes of a row a thread; zeros where there is no query.
  template <uint32_t kRows, uint32_t kParts>
  __device__ __forceinline__ void share_queries(const Stream& stream, std::byte* queries) {
    constexpr uint32_t kPieces = kParts * kRowBytes / 16, kThreads = kWarpgroupWarps * kWarpThreads;
    constexpr uint32_t kRowsTogether = kThreads / kPieces;
    constexpr uint32_t kRounds = kRows > kRowsTogether ? kRows / kRowsTogether : 1;
    const uint32_t thread = warpgroup_thread(), piece = thread % kPieces;
    sync_warpgroup();  // all are done with the previous queries
    uint4 values[kRounds];
#pragma unroll
    for (uint32_t n = 0; n < kRounds; ++n) {
      const uint16_t* from = query_at(stream, thread / kPieces + n * kRowsTogether);
      values[n] = {0, 0, 0, 0};
      if (from != nullptr) values[n] = ptx::load_relaxed(reinterpret_cast<const uint4*>(from) + piece);
    }
    const uint32_t to = ptx::shared_address(queries) + piece / 8 * (kRows * kRowBytes);
#pragma unroll
    for (uint32_t n = 0; n < kRounds; ++n) {
      const uint32_t r = thread / kPieces + n * kRowsTogether;
      if (kRows < kRowsTogether && r >= kRows) break;
      ptx::shared_store(to + r * kRowBytes + ((piece ^ r) % 8) * 16, values[n]);
    }
    ptx::fence_proxy_async_shared();  // the tensor cores will read what this thread has written
    sync_warpgroup();
  }

  // --- pages

  // Position of the record's n-th page, uniform in the warp.
  __device__ __forceinline__ Place place_of(uint32_t page) const {
    return {Config::uniform(page % Memory::kPages), Config::uniform(page / Memory::kPages)};
  }
  // While products are in flight a warp must not leave: if an exit is requested, the page has arbitrary
  // contents.
  __device__ __forceinline__ void wait_page(const Place& page) const {
    wait_phase_or_exit(&memory_.landed[page.at], page.lap & 1, group_.exit);
  }
  __device__ __forceinline__ bool has_landed(const Place& page) const {
    return ptx::mbarrier_test_wait(&memory_.landed[page.at], page.lap & 1);
  }
  // Products read operands from uniform registers; the compiler computes an address there if it knows that
  // the address is uniform in the warp.
  __device__ __forceinline__ uint32_t address_at(uint32_t place) const {
    return Config::uniform(ptx::shared_address(memory_.page[place]));
  }
  __device__ __forceinline__ void free_page(const Place& page) const {
    __syncwarp();
    if (group_.lane == 0) ptx::mbarrier_arrive(&memory_.free[page.at]);
  }
  __device__ __forceinline__ void skip_units(uint32_t pages) const {
    Place page = place_of(first_page_);
#pragma unroll 1
    for (uint32_t p = 0; p < pages; ++p) {
      wait_page(page);
      free_page(page);
      page.advance(Memory::kPages);
    }
  }
  __device__ __forceinline__ void sync_warpgroup() {
    uint64_t* barrier = &memory_.together[Form::kForm][warpgroup_];
    __syncwarp();
    if (group_.lane == 0) ptx::mbarrier_arrive(barrier);
    wait_phase_or_exit(barrier, form().together_parity(), group_.exit);
    form().together_parity() ^= 1;
  }
  // Clears the values of tokens from `tokens` on: they were never written, or belong to another sequence. The
  // warpgroup must synchronise before the tensor cores read the page.
  __device__ __forceinline__ void clear_values(uint32_t values, uint32_t tokens) const {
    constexpr uint32_t kThreads = kWarpgroupWarps * kWarpThreads, kRowPieces = kRowBytes / 16;
    const uint32_t thread = warpgroup_thread();
#pragma unroll
    for (uint32_t p = 0; p < Memory::kParts; ++p) {
      for (uint32_t n = tokens * kRowPieces; n < kKvBlockTokens * kRowPieces; n += kThreads) {
        if (n + thread < kKvBlockTokens * kRowPieces)
          ptx::shared_store(values + p * kPartBytes + (n + thread) * 16, uint4{0, 0, 0, 0});
      }
    }
    ptx::fence_proxy_async_shared();
  }

  // --- weights

  // `most`: the largest score of query i in the block. Returns the value to subtract from scaled scores.
  __device__ __forceinline__ float begin_weights(uint32_t i, float most, PerQuery& shrink) {
    const float largest = fmaxf(largest_[i], __fmul_rn(most, scale_));
    // For a query that has seen no token yet, all weights are 0.
    const float base = largest == -INFINITY ? 0 : largest;
    shrink[i] = ptx::exp2(largest_[i] - base);
    largest_[i] = largest;
    return base;
  }
  __device__ __forceinline__ float weight(float score, float base) const {
    return ptx::exp2(__fmaf_rn(score, scale_, -base));
  }

  // --- leaves

  // Keeps the previous leaf's scalars until its last values have been multiplied.
  __device__ __forceinline__ void begin_leaf(Leaves& leaves) {
    begin_leaf_if(true, leaves);
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) total_[i] = 0;
  }
  // For use before a block: `shrink` of its first weights multiplies the totals by 0.
  __device__ __forceinline__ void begin_leaf_if(bool begins, Leaves& leaves) {
    if (begins) leaves.ended() = {largest_[0], largest_[1], total_[0], total_[1]};
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) largest_[i] = begins ? -INFINITY : largest_[i];
  }
  // Leaf `leaf` of the sequence is complete: merges it, or writes it to its place.
  __device__ __forceinline__ void end_leaf(const Stream& stream, uint32_t leaf, const float (&o)[kSums],
                                           Leaves& leaves) {
    const float4 ended = leaves.ended();
    const PerQuery largest = {ended.x, ended.y};
    PerQuery total = {ended.z, ended.w};
    form().add_lanes(total);
    if (stream.item.first_leaf != 0) {
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        if (writes_[i] && visible_[i] > leaf * kPlannedLeafTokens)
          write_place(stream, i, leaf - stream.item.first_leaf, o, largest[i], total[i]);
      }
    } else if (leaf == 0) {
      leaves.merged() = {largest[0], largest[1], total[0], total[1]};
#pragma unroll
      for (uint32_t n = 0; n < kSums / 4; ++n)
        leaves.o(n) = {o[4 * n], o[4 * n + 1], o[4 * n + 2], o[4 * n + 3]};
    } else {
      merge(leaf, o, largest, total, leaves);
    }
  }

  __device__ __forceinline__ void merge(uint32_t leaf, const float (&o)[kSums], const PerQuery& leaf_largest,
                                        const PerQuery& leaf_total, Leaves& leaves) const {
    const float4 before = leaves.merged();
    PerQuery largest = {before.x, before.y}, total = {before.z, before.w};
    PerQuery a, b;  // factors of both sides; a query that does not see the leaf is unchanged
    bool sees[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      sees[i] = visible_[i] > leaf * kPlannedLeafTokens;
      const float larger = fmaxf(largest[i], leaf_largest[i]);
      a[i] = ptx::exp2(largest[i] - larger);
      b[i] = ptx::exp2(leaf_largest[i] - larger);
      if (!sees[i]) continue;
      largest[i] = larger;
      total[i] = __fmaf_rn(leaf_total[i], b[i], __fmul_rn(total[i], a[i]));
    }
    leaves.merged() = {largest[0], largest[1], total[0], total[1]};
    const auto add = [&](uint32_t i, float to, float leaf_o) {
      return sees[i] ? __fmaf_rn(leaf_o, b[i], __fmul_rn(to, a[i])) : to;
    };
    constexpr uint32_t kTogether = kSums / 4 < 4 ? kSums / 4 : 4;
#pragma unroll
    for (uint32_t first = 0; first < kSums / 4; first += kTogether) {
      float4 sums[kTogether];
#pragma unroll
      for (uint32_t n = 0; n < kTogether; ++n) sums[n] = leaves.o(first + n);
#pragma unroll
      for (uint32_t n = 0; n < kTogether; ++n) {
        const uint32_t at = 4 * (first + n);
        leaves.o(first + n) = {
            add(Form::query_of(0), sums[n].x, o[at]), add(Form::query_of(1), sums[n].y, o[at + 1]),
            add(Form::query_of(2), sums[n].z, o[at + 2]), add(Form::query_of(3), sums[n].w, o[at + 3])};
      }
    }
  }

  // `only_leaf`: nothing was merged; `o` has the result.
  __device__ __forceinline__ void finish(const Stream& stream, bool only_leaf, const float (&o)[kSums],
                                         Leaves& leaves) const {
    float sums[kSums];
#pragma unroll
    for (uint32_t n = 0; n < kSums; ++n) sums[n] = o[n];
    if (!only_leaf) {
#pragma unroll
      for (uint32_t n = 0; n < kSums / 4; ++n) {
        const float4 four = leaves.o(n);
        sums[4 * n] = four.x;
        sums[4 * n + 1] = four.y;
        sums[4 * n + 2] = four.z;
        sums[4 * n + 3] = four.w;
      }
    }
    const float4 merged = leaves.merged();
    const PerQuery largest = {merged.x, merged.y}, total = {merged.z, merged.w};
    if (stream.item.first_place == kNoPlace) return form().write_output(stream, sums, total);
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      if (writes_[i]) write_place(stream, i, 0, sums, largest[i], total[i]);
    }
  }
  // Writes the lane's part of query i to the `next`-th of its row's places.
  __device__ __forceinline__ void write_place(const Stream& stream, uint32_t i, uint32_t next,
                                              const float (&sums)[kSums], float largest, float total) const {
    const PlaceLayout layout{heads_.count, kHeadDim};
    const Query of = query(stream, form().tile_row(i));
    float* to = memory_.tensors.partial + size_t{place_of_row(stream.item, of.row) + next} * layout.cols() +
                of.head * layout.head_cols();
    if (form().write_sums(to, i, sums))
      ptx::store_relaxed(reinterpret_cast<float2*>(to + kHeadDim), float2{largest, total});
  }
  // Address in the output, a slab image, of quad lane q's piece of query i's 32 channels from `first` on.
  __device__ __forceinline__ std::byte* output_piece(const Stream& stream, uint32_t i, uint32_t first,
                                                     uint32_t quad_lane) const {
    const Query of = query(stream, form().tile_row(i));
    const uint32_t first_col = (head(stream) * heads_.count + of.head) * kHeadDim;
    const auto at = slab_image::place(group_.shape.heads.q_heads * kHeadDim, first_col + first);
    return without_type(memory_.tensors.output) + slab_image::piece_offset(group_.shape.limits.rows,
                                                                           stream.item.first_row + of.row,
                                                                           at.slab, at.piece + quad_lane);
  }
  // Two neighbouring outputs in the output's type.
  __device__ __forceinline__ uint32_t pack_output(float low, float high) const {
    return pack_for<Config>(memory_.tensors.output, low, high);
  }

  const Group& group_;
  Memory& memory_;
  const GroupHeads& heads_;
  const uint32_t warpgroup_, warp_;
  const float scale_;  // of scores in units of ln 2
  uint32_t tile_ = 0;  // index of its tile, of the stream's two
  uint32_t first_page_ = 0;
  uint32_t head_ = 0;           // kernels of single rows: the warpgroup's first KV head
  uint32_t visible_[2];         // tokens that the lane's queries see
  bool writes_[2];              // the queries exist
  uint32_t least_visible_ = 0;  // of the warp's queries
  // Scalars of the current leaf; totals are the lane's own.
  PerQuery largest_, total_;
};

}  // namespace serval::device::planned

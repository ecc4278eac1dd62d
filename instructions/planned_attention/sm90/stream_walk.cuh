// Iterates over a record's streams: its items in the pass's list, divided into what the consumers process at
// a time. Called by the preparer's whole warp.
#pragma once

#include "instructions/planned_attention/sm90/streams.cuh"
#include "vm/device/op.cuh"

namespace serval::device::planned {

// Uses few registers: the data of a stream is kept in shared memory.
template <class Role, uint32_t kHeadDim>
class StreamWalk {
 public:
  using Op = PlannedAttention;
  using Memory = PlacesOf<typename Role::Config, kHeadDim>;
  using Stream = typename Memory::Stream;

  __device__ __forceinline__ StreamWalk(Role& role, const Op& op, Memory& memory)
      : role_(role), op_(op), memory_(memory) {}

  // The pass's rows and its list must be readable.
  __device__ __forceinline__ void begin() {
    if (role_.lane == 0) {
      memory_.cursor = {};
      memory_.heads = GroupHeads(role_.s.shape.heads.group_heads());
      memory_.tensors = {.q = tensor<&Op::q, const uint16_t>(*role_.buffer),
                         .partial = tensor<&Op::partial, float>(*role_.buffer),
                         .output = tensor<&Op::output, std::byte>(*role_.buffer)};
      if (ptx::load_constant(&list()->records) == op_.records) {
        memory_.cursor.item = ptx::load_constant(&list()->begin[op_.record]);
        memory_.cursor.end_item = min(ptx::load_constant(&list()->begin[op_.record + 1]),
                                      attention_items(role_.s.shape.limits.rows));
      }
    }
    __syncwarp();
  }

  // Copies the stream in slot `before` with the item's next head, if that is the next stream: then nothing
  // has to be looked up. Returns false otherwise.
  __device__ __forceinline__ bool repeat(Stream& stream, uint32_t before) {
    const Cursor cursor = memory_.cursor;
    if (cursor.head == 0 || !described_) return false;
    constexpr uint32_t kPieces = sizeof(Stream) / sizeof(uint4);
    static_assert(sizeof(Stream) % sizeof(uint4) == 0);
    const auto* from = reinterpret_cast<const uint4*>(&memory_.streams[before]);
    for (uint32_t piece = role_.lane; piece < kPieces; piece += kWarpThreads)
      reinterpret_cast<uint4*>(&stream)[piece] = from[piece];
    __syncwarp();
    if (role_.lane == 0) {
      stream.head = stream.item.first_head + cursor.head;
      stream.heads = heads_from(stream.item, cursor.head);
      advance_cursor(stream.item, true);
    }
    __syncwarp();
    return true;
  }
  // Finds the next stream with work; returns false if there is none.
  __device__ __forceinline__ bool find(Stream& stream) {
    for (;;) {
      const Cursor cursor = memory_.cursor;
      if (cursor.item >= cursor.end_item) return false;
      constexpr uint32_t kPieces = sizeof(AttentionItem) / sizeof(uint4);
      const auto* item = reinterpret_cast<const AttentionItem*>(list() + 1) + cursor.item;
      if (role_.lane < kPieces)
        reinterpret_cast<uint4*>(&stream.item)[role_.lane] =
            ptx::load_constant(reinterpret_cast<const uint4*>(item) + role_.lane);
      __syncwarp();
      const bool good = in_bounds(op_, role_.s.shape, stream.item);
      if (role_.lane == 0) advance_cursor(stream.item, good);
      __syncwarp();
      described_ = good && describe(stream, cursor.first_row,
                                    min(stream.item.rows - cursor.first_row, stream_rows()), cursor.head);
      if (described_) return true;
    }
  }

  // Loads the ids of 32 of the item's blocks from its `first`-th on, one a lane, up to the sequence's
  // possible blocks.
  __device__ __forceinline__ void find_blocks(const AttentionItem& item, uint32_t first) {
    const uint32_t most = blocks_for_tokens(role_.s.shape.limits.max_context);
    const uint32_t block = item.first_leaf * kLeafBlocks + first + role_.lane;
    const auto* table = tensor<&Op::block_table, const uint32_t>(*role_.buffer) + size_t{item.slot} * most;
    if (block < most) ids_ = ptx::load_constant(table + block);
  }
  // Id of the item's b-th block, which must be among the last 32 loaded.
  __device__ __forceinline__ uint32_t block(uint32_t b) const {
    return __shfl_sync(kAllLanes, ids_, b % kWarpThreads);
  }

 private:
  static constexpr bool kSingleRows = Memory::kSingleRows;

  __device__ __forceinline__ const AttentionList* list() const {
    return tensor<&Op::items, const AttentionList>(*role_.buffer);
  }
  // Advances past a stream of the item. Called by one lane.
  __device__ __forceinline__ void advance_cursor(const AttentionItem& item, bool good) {
    Cursor& next = memory_.cursor;
    next.head += heads_from(item, next.head);
    if (next.head < item.heads && good) return;
    next.head = 0;
    next.first_row += stream_rows();
    if (next.first_row < item.rows && good) return;
    next.first_row = 0;
    ++next.item;
  }
  // Rows of a stream: 1 in kernels of single rows, computed such that it is no compile-time constant; with a
  // constant, ptxas serialises products (C7513).
  __device__ __forceinline__ uint32_t stream_rows() const {
    return kSingleRows ? memory_.heads.row_of(memory_.heads.count)
                       : kWarpgroups * memory_.heads.rows_of_tile();
  }
  // KV heads of a stream that begins with the item's `head`-th head.
  __device__ __forceinline__ uint32_t heads_from(const AttentionItem& item, uint32_t head) const {
    return kSingleRows ? min(item.heads - head, kWarpgroups * heads_of_tile(memory_.heads)) : 1;
  }

  // Fills in the stream besides its item; returns false if there is no work. `head`: index in the item.
  __device__ __forceinline__ bool describe(Stream& stream, uint32_t first_row, uint32_t rows, uint32_t head) {
    const auto* pass_rows =
        tensor<&Op::rows, const PassRow>(*role_.buffer) + stream.item.first_row + first_row;
    find_blocks(stream.item, 0);  // in flight together with the rows
    uint32_t tokens = 0;
    for (uint32_t r = role_.lane; r < rows; r += kWarpThreads) {
      const uint32_t visible = visible_tokens(stream.item, pass_rows + r);
      stream.visible[r] = visible;
      tokens = max(tokens, visible);
    }
    tokens = __reduce_max_sync(kAllLanes, tokens);
    if (tokens == 0) return false;
    if (role_.lane == 0) {
      stream.head = stream.item.first_head + head;
      stream.heads = heads_from(stream.item, head);
      stream.first_row = first_row;
      stream.tokens = tokens;
      stream.first_block = stream.item.first_leaf * kLeafBlocks;
      stream.blocks = blocks_for_tokens(tokens) - stream.first_block;
    }
    __syncwarp();
    return true;
  }

  Role& role_;
  const Op& op_;
  Memory& memory_;
  bool described_ = false;  // the previous stream belongs to the item and has the same rows
  uint32_t ids_ = 0;        // ids of 32 of the stream's blocks, one a lane
};

}  // namespace serval::device::planned

// The preparer's part of attention: it finds the record's streams and brings their pages, as far ahead as
// there is room, while the consumers are at those before.
#pragma once

#include "instructions/common/gemm.cuh"
#include "instructions/planned_attention/streams.cuh"
#include "vm/device/isa.h"

namespace serval::device::planned {

// Few registers: what belongs to a stream is kept in shared memory.
template <class Role, uint32_t kHeadDim>
class Copies {
 public:
  using Op = PlannedAttention;
  using Memory = PlacesOf<typename Role::Config, kHeadDim>;
  using Stream = typename Memory::Stream;
  static constexpr bool kSingleRows = Memory::kSingleRows;
  static constexpr uint32_t kStreamSlots = Memory::kStreamSlots;

  __device__ __forceinline__ Copies(Role& role, const Op& op)
      : role_(role), op_(op), memory_(*reinterpret_cast<Memory*>(role.s.activations)) {
    static_assert(sizeof(Memory) <= Role::Config::kScratchBytes && kQueriesOfBox == kNarrowRows);
  }

  // The scratch memory is the instruction's.
  __device__ __forceinline__ void init_barriers() {
    if (role_.lane == 0) {
      memory_.issued = 0;
      memory_.preparer_left = 0;
      for (Attendance& warpgroup : memory_.attendance) warpgroup.init();
      for (uint64_t& barrier : memory_.landed) ptx::mbarrier_init(&barrier, 1);
      constexpr uint32_t kPageReaders = kSingleRows ? kWarpgroupWarps : kConsumerWarps;
      for (uint64_t& barrier : memory_.free) ptx::mbarrier_init(&barrier, kPageReaders);
      for (uint64_t& barrier : memory_.stream_ready) ptx::mbarrier_init(&barrier, 1);
      for (uint64_t& barrier : memory_.stream_free) ptx::mbarrier_init(&barrier, kConsumerWarps);
      for (auto& barriers : memory_.together) {
        for (uint64_t& barrier : barriers) ptx::mbarrier_init(&barrier, kWarpgroupWarps);
      }
      ptx::fence_mbarrier_init();
    }
    __syncwarp();
  }

  // The pass's rows may be read; the instruction's inputs need not be there yet.
  __device__ __forceinline__ void find_first_stream() {
    begin();
    more_ = find_stream(take_slot());
  }

  // Called again and again while the record's inputs are not there: asks for some more of what earlier passes
  // have left of the first stream's blocks, as far as there is room. Those are all blocks but the last, which
  // this pass's token belongs to. A few pages each time: what tells that the inputs are there would come
  // behind more. In kernels of single rows.
  __device__ __forceinline__ void while_waiting() {
    leave_if_requested();
    if constexpr (!kSingleRows) return;
    if (!more_ || early_ == Memory::kPages) return;
    const Stream& stream = memory_.streams[stream_.at];
    const uint32_t pages = 2 * stream.heads, b = early_ / pages;
    if (b + 1 >= stream.blocks) return;
    if (early_ == 0) ptx::fence_proxy_async_global();
    const uint32_t begin = early_ % pages;
    const uint32_t most = begin + min(kEarlyTogether, Memory::kPages - early_);
    early_ += bring_block<true>(stream, b, find_row(stream, b), begin, most) - begin;
  }

  // The inputs may be read.
  __device__ __forceinline__ void run() {
    ptx::fence_proxy_async_global();
    __syncwarp();
    for (bool again = false;; again = find_next_stream()) {
      Stream& stream = memory_.streams[stream_.at];
      if (!more_) {
        await_pages();  // behind the hand-over this warp may be asked to leave where nothing waits for them
        if (role_.lane == 0) stream.blocks = 0;
      }
      hand_over();
      if (!more_) return;
      bring_pages(stream, again);
    }
  }

 private:
  static constexpr uint32_t kEarlyBytes = 32 * 1024;  // asked for at once
  static constexpr uint32_t kEarlyTogether = kEarlyBytes / Memory::kPageBytes;
  static_assert(kEarlyTogether >= 2, "pages of two heads are asked for together");

  __device__ __forceinline__ const AttentionList* list() const {
    return tensor<&Op::items, const AttentionList>(*role_.buffer);
  }
  __device__ __forceinline__ void begin() {
    if (role_.lane == 0) {
      memory_.cursor = {};
      memory_.heads = GroupHeads(op_.q_heads / op_.kv_heads);
      if (ptx::load_constant(&list()->records) == op_.records) {
        memory_.cursor.item = ptx::load_constant(&list()->begin[op_.record]);
        memory_.cursor.end_item =
            min(ptx::load_constant(&list()->begin[op_.record + 1]), attention_items(op_.max_rows));
      }
    }
    __syncwarp();
  }

  // True if it is of the same rows and blocks as the one before.
  __device__ __forceinline__ bool find_next_stream() {
    Stream& stream = take_slot();
    const bool again = repeat_stream(stream);
    more_ = again || find_stream(stream);
    return again;
  }

  // The stream before with the item's next head, if that is what comes next: nothing has to be looked up.
  __device__ __forceinline__ bool repeat_stream(Stream& stream) {
    const Cursor cursor = memory_.cursor;
    if (cursor.head == 0 || !described_) return false;
    constexpr uint32_t kPieces = sizeof(Stream) / sizeof(uint4);
    static_assert(sizeof(Stream) % sizeof(uint4) == 0);
    const auto* before =
        reinterpret_cast<const uint4*>(&memory_.streams[(stream_.at + kStreamSlots - 1) % kStreamSlots]);
    for (uint32_t piece = role_.lane; piece < kPieces; piece += kWarpThreads)
      reinterpret_cast<uint4*>(&stream)[piece] = before[piece];
    __syncwarp();
    if (role_.lane == 0) {
      stream.head = stream.item.first_head + cursor.head;
      stream.heads = heads_from(stream.item, cursor.head);
      advance_cursor(stream.item, true);
    }
    __syncwarp();
    return true;
  }
  // Behind a stream of the item. By one lane.
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
  // One in kernels of single rows, of which the compiler does not know: else ptxas serialises products
  // (C7513).
  __device__ __forceinline__ uint32_t stream_rows() const {
    return kSingleRows ? memory_.heads.row_of(memory_.heads.count)
                       : kWarpgroups * memory_.heads.rows_of_tile();
  }
  // Of a stream that begins with the item's `head`-th.
  __device__ __forceinline__ uint32_t heads_from(const AttentionItem& item, uint32_t head) const {
    return kSingleRows ? min(item.heads - head, kWarpgroups * heads_of_tile(memory_.heads)) : 1;
  }

  // The next stream that has something to do; false if there is none.
  __device__ __forceinline__ bool find_stream(Stream& stream) {
    for (;;) {
      const Cursor cursor = memory_.cursor;
      if (cursor.item >= cursor.end_item) return false;
      constexpr uint32_t kPieces = sizeof(AttentionItem) / sizeof(uint4);
      const auto* item = reinterpret_cast<const AttentionItem*>(list() + 1) + cursor.item;
      if (role_.lane < kPieces)
        reinterpret_cast<uint4*>(&stream.item)[role_.lane] =
            ptx::load_constant(reinterpret_cast<const uint4*>(item) + role_.lane);
      __syncwarp();
      const bool good = in_bounds(op_, stream.item);
      if (role_.lane == 0) advance_cursor(stream.item, good);
      __syncwarp();
      described_ = good && describe(stream, cursor.first_row,
                                    min(stream.item.rows - cursor.first_row, stream_rows()), cursor.head);
      if (described_) return true;
    }
  }

  // What is known of the stream beside its item; false if there is nothing to do. `head`: of the item's.
  __device__ __forceinline__ bool describe(Stream& stream, uint32_t first_row, uint32_t rows, uint32_t head) {
    const auto* pass_rows =
        tensor<&Op::rows, const PassRow>(*role_.buffer) + stream.item.first_row + first_row;
    find_blocks(stream.item, 0);  // on its way together with the rows
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

  // Of the item's blocks, 32 from the first-th on, one a lane, as far as the sequence may have any.
  __device__ __forceinline__ void find_blocks(const AttentionItem& item, uint32_t first) {
    const uint32_t most = blocks_for_tokens(op_.max_context);
    const uint32_t block = item.first_leaf * kLeafBlocks + first + role_.lane;
    const auto* table = tensor<&Op::block_table, const uint32_t>(*role_.buffer) + size_t{item.slot} * most;
    if (block < most) ids_ = ptx::load_constant(table + block);
  }

  // `again`: of the same blocks as the stream before.
  __device__ __forceinline__ void bring_pages(const Stream& stream, bool again) {
    if (again && stream.blocks > kWarpThreads) find_blocks(stream.item, 0);
    if constexpr (kSingleRows) {
      bring_heads(stream);
    } else {
      bring_ahead(stream);
    }
  }
  // Where the stream's b-th block of its first head is, in rows of the cache; called for each b in turn.
  __device__ __forceinline__ uint32_t find_row(const Stream& stream, uint32_t b) {
    if (b % kWarpThreads == 0 && b > 0) find_blocks(stream.item, b);
    return (__shfl_sync(kAllLanes, ids_, b % kWarpThreads) * op_.kv_heads + stream.head) * kKvBlockTokens;
  }
  // Keys a block ahead of values.
  __device__ __forceinline__ void bring_ahead(const Stream& stream) {
    const uint32_t blocks = stream.blocks;
    uint32_t before = 0;  // whose values are still to come
#pragma unroll 1
    for (uint32_t b = 0; b <= blocks; ++b) {
      uint32_t row = 0;
      if (b < blocks) {
        row = find_row(stream, b);
        bring(op_.k_cache, row);
      }
      if (b > 0) bring(op_.v_cache, before);
      before = row;
    }
  }
  // Keys and values of block after block, of the stream's heads in turn; behind those that came early.
  __device__ __forceinline__ void bring_heads(const Stream& stream) {
    const uint32_t blocks = stream.blocks, pages = 2 * stream.heads;
    if (is_early_with_queries()) {
      const Page page(*this, stream, 0, 0);
      ptx::mbarrier_arrive_expect_bytes(&memory_.landed[role_.lane], kQueriesBytes);
      ask_for_queries(page, &memory_.landed[role_.lane]);
    }
    __syncwarp();
    uint32_t asked = early_ % pages, b = early_ / pages;
    early_ = 0;
#pragma unroll 1
    for (; b < blocks; ++b, asked = 0) bring_block<false>(stream, b, find_row(stream, b), asked, pages);
  }
  // The lane's page of the first stream came early, and queries will come with it. Pages of a record are
  // counted from 0.
  __device__ __forceinline__ bool is_early_with_queries() const {
    if (role_.lane >= early_) return false;
    const uint32_t heads = memory_.streams[0].heads;
    return role_.lane < heads && (heads <= kWarpgroups || role_.lane % 2 == 0);
  }
  // The block's pages from the `asked`-th on, up to `most`; returns up to which. A page a lane: a lone thread
  // would take longer to ask for a page of 8 KiB than the page takes to come.
  template <bool kEarly>
  __device__ __forceinline__ uint32_t bring_block(const Stream& stream, uint32_t b, uint32_t row,
                                                  uint32_t asked, uint32_t most) {
    const uint32_t pages = 2 * stream.heads;
    const Page page(*this, stream, b, row);
    const uint32_t seconds = __ballot_sync(kAllLanes, page.is_second && role_.lane < pages);
    uint32_t end = min(pages, most);
    end -= seconds >> end & 1;
    const uint32_t count = page_.lap * Memory::kPages + page_.at - asked + role_.lane;
    const Place place = {count % Memory::kPages, count / Memory::kPages};
    const uint32_t first_at = page.is_second ? (place.at == 0 ? Memory::kPages - 1 : place.at - 1) : place.at;
    while (asked < end) {
      const bool room =
          role_.lane < end && ptx::mbarrier_try_wait(&memory_.free[place.at], (place.lap & 1) ^ 1);
      // One after the other, since consumers go by how many have been asked for; pages of two heads together.
      uint32_t next = __ffs(static_cast<int>(~__ballot_sync(kAllLanes, room || role_.lane < asked))) - 1;
      next -= seconds >> next & 1;
      // Consumers that leave give pages back that have not landed. Behind the vote, which waits for what
      // try_wait finds: a look at the flag beside it may come first. Early, there is room at once.
      if (!kEarly) leave_if_requested();
      if (role_.lane >= asked && role_.lane < next) {
        ask_for<kEarly>(page, memory_.page[place.at], &memory_.landed[first_at]);
        if (page.is_second) ptx::mbarrier_arrive(&memory_.landed[place.at]);
      }
      __syncwarp();
      page_ = page_.template ahead<Memory::kPages>(next - asked);
      asked = next;
      if (role_.lane == 0) ptx::shared_store_release(&memory_.issued, page_.lap * Memory::kPages + page_.at);
    }
    return end;
  }
  // A lane's page of a block: keys of each head, then values of each. What a warpgroup has two heads of lands
  // as one, on the barrier of the first head's page.
  struct Page {
    bool is_keys, has_second, is_second;
    TensorId cache;
    uint32_t row;          // of the cache
    uint32_t boxes;        // of kKvBoxTokens tokens that are wanted
    std::byte* queries;    // where those of the tile come to, with its first keys; or null
    uint32_t first_query;  // of the pass's vectors

    __device__ __forceinline__ Page(const Copies& c, const Stream& stream, uint32_t b, uint32_t block_row) {
      const uint32_t heads = stream.heads, lane = c.role_.lane;
      is_keys = lane < heads;
      const uint32_t head = is_keys ? lane : lane - heads;
      const bool by_two = heads > kWarpgroups;  // HeadShare
      is_second = by_two && head % 2 == 1;
      has_second = by_two && head % 2 == 0 && head + 1 < heads;
      cache = is_keys ? c.op_.k_cache : c.op_.v_cache;
      row = block_row + head * kKvBlockTokens;
      const uint32_t tokens = stream.tokens - (stream.first_block + b) * kKvBlockTokens;
      boxes = (min(tokens, kKvBlockTokens) + kKvBoxTokens - 1) / kKvBoxTokens;
      queries = nullptr;
      if (b > 0 || !is_keys || is_second) return;
      const auto slot = static_cast<uint32_t>(&stream - c.memory_.streams);
      queries = c.memory_.narrow_operands[by_two ? head / 2 : head].queries[slot][0];
      first_query = (stream.item.first_row + stream.first_row) * c.op_.q_heads +
                    (stream.head + head) * c.memory_.heads.count;
    }
  };
  static constexpr uint32_t kQueriesBytes = Memory::kParts * Memory::kNarrowPartBytes;
  __device__ __forceinline__ void ask_for_queries(const Page& page, uint64_t* landed) {
    const std::byte* map = gemm::tensor_map(role_.launch.program, op_.q);
#pragma unroll
    for (uint32_t p = 0; p < Memory::kParts; ++p)
      ptx::tensor_load(page.queries + p * Memory::kNarrowPartBytes, map, page.first_query, p * kPartChannels,
                       landed);
  }
  // Queries of a page that comes early are asked for later.
  template <bool kEarly>
  __device__ __forceinline__ void ask_for(const Page& page, std::byte* to, uint64_t* landed) {
    constexpr uint32_t kBoxes = kKvBlockTokens / kKvBoxTokens, kBoxBytes = kKvBoxTokens * kRowBytes;
    constexpr uint32_t kBeyond = 0x7fff0000;  // a row that no cache has: zeros come
    // Values of tokens that are not there are multiplied with 0, which takes numbers.
    const uint32_t boxes = page.is_keys ? page.boxes : kBoxes;
    const bool has_queries = page.queries != nullptr;
    if (!page.is_second) {
      const uint32_t bytes = Memory::kParts * boxes * kBoxBytes * (page.has_second ? 2 : 1);
      if (kEarly && has_queries) {
        ptx::mbarrier_expect_bytes(landed, bytes);
      } else {
        ptx::mbarrier_arrive_expect_bytes(landed, bytes + (has_queries ? kQueriesBytes : 0));
      }
    }
    if (!kEarly && has_queries) ask_for_queries(page, landed);
    const bool whole = page.boxes == kBoxes;
    const std::byte* map = gemm::tensor_map(role_.launch.program, page.cache, !whole);
#pragma unroll
    for (uint32_t p = 0; p < Memory::kParts; ++p) {
#pragma unroll 1
      for (uint32_t n = 0; n < (whole ? 1 : boxes); ++n)
        ptx::tensor_load(to + p * kPartBytes + n * kBoxBytes, map,
                         n < page.boxes ? page.row + n * kKvBoxTokens : kBeyond, p * kPartChannels, landed);
    }
  }
  __device__ __forceinline__ void bring(TensorId cache, uint32_t row) {
    const std::byte* map = gemm::tensor_map(role_.launch.program, cache);
    wait(&memory_.free[page_.at], page_.lap);
    if (role_.lane == 0) {
      uint64_t* landed = &memory_.landed[page_.at];
      ptx::mbarrier_arrive_expect_bytes(landed, Memory::kPageBytes);
#pragma unroll
      for (uint32_t p = 0; p < Memory::kParts; ++p)
        ptx::tensor_load(memory_.page[page_.at] + p * kPartBytes, map, row, p * kPartChannels, landed);
    }
    page_.advance(Memory::kPages);
  }

  __device__ __forceinline__ Stream& take_slot() {
    wait(&memory_.stream_free[stream_.at], stream_.lap);
    return memory_.streams[stream_.at];
  }
  __device__ __forceinline__ void hand_over() {
    __syncwarp();
    if (role_.lane == 0) ptx::mbarrier_arrive(&memory_.stream_ready[stream_.at]);
    stream_.advance(kStreamSlots);
  }

  // Until what had the place in the lap before is done with.
  __device__ __forceinline__ void wait(uint64_t* free, uint32_t lap) {
    while (!__all_sync(kAllLanes, ptx::mbarrier_try_wait(free, (lap & 1) ^ 1))) leave_if_requested();
    leave_if_requested();  // consumers that leave give pages back that have not landed
  }
  // A block does not leave before its copies have landed. Lanes that have come from different branches may
  // read the flag at different times, and leave together nevertheless.
  __device__ __forceinline__ void leave_if_requested() {
    if (!__any_sync(kAllLanes, exit_requested(&role_.s.exit))) return;
    if constexpr (kSingleRows) {
      if (is_early_with_queries()) ptx::mbarrier_arrive(&memory_.landed[role_.lane]);  // none come any more
      __syncwarp();
    }
    if (role_.lane == 0) ptx::shared_store_release(&memory_.preparer_left, 1);
    await_pages();
    ptx::exit_thread();
  }
  __device__ __forceinline__ void await_pages() {
    await_copies(memory_.landed, page_.lap * Memory::kPages + page_.at);
  }

  Role& role_;
  const Op& op_;
  Memory& memory_;
  Place page_, stream_;     // the next ones
  bool described_ = false;  // the stream before is the item's, of the same rows
  bool more_ = false;       // there is a next stream
  uint32_t early_ = 0;      // pages of the first stream that came before the inputs
  uint32_t ids_ = 0;        // of 32 of the stream's blocks, one a lane
};

}  // namespace serval::device::planned

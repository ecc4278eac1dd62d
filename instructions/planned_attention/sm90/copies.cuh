// The preparer's part of attention: it loads the pages of the record's streams, as far ahead as buffers
// allow, while the consumers work on earlier pages.
#pragma once

#include "instructions/common/operands.cuh"
#include "instructions/planned_attention/sm90/stream_walk.cuh"
#include "instructions/planned_attention/sm90/streams.cuh"
#include "vm/device/sm90/boxes.h"

namespace serval::device::planned {

template <class Role, uint32_t kHeadDim>
class Copies {
 public:
  using Walk = StreamWalk<Role, kHeadDim>;
  using Op = typename Walk::Op;
  using Memory = typename Walk::Memory;
  using Stream = typename Walk::Stream;
  static constexpr bool kSingleRows = Memory::kSingleRows;
  static constexpr uint32_t kStreamSlots = Memory::kStreamSlots;

  __device__ __forceinline__ Copies(Role& role, const Op& op)
      : role_(role),
        op_(op),
        memory_(*reinterpret_cast<Memory*>(role.s.activations)),
        walk_(role, op, memory_) {
    static_assert(sizeof(Memory) <= Role::Config::kScratchBytes && kQueriesOfBox == kNarrowRows);
  }

  // The scratch memory must belong to the instruction.
  __device__ __forceinline__ void init_barriers() {
    if (role_.lane == 0) memory_.init_barriers();
    __syncwarp();
  }

  // The pass's rows must be readable; the instruction's inputs need not be ready.
  __device__ __forceinline__ void find_first_stream() {
    walk_.begin();
    more_ = walk_.find(take_slot());
  }

  // Called repeatedly while the record's inputs are not ready: issues loads of some more pages of the first
  // stream, as far as buffers are free. These hold blocks that earlier passes wrote: all but the last block,
  // to which this pass's token belongs. Few pages at a time, because the polls for the inputs
  // queue up after their loads. Only in kernels of single rows.
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
    early_ += load_block<true>(stream, b, find_row(stream, b), begin, most) - begin;
  }

  // The inputs may be read.
  __device__ __forceinline__ void run() {
    ptx::fence_proxy_async_global();
    __syncwarp();
    for (bool same_blocks = false;; same_blocks = find_next_stream()) {
      Stream& stream = memory_.streams[stream_.at];
      if (!more_) {
        // Wait before the slot is published: after that, this warp may leave in code that does not wait for
        // the pages.
        await_pages();
        if (role_.lane == 0) stream.blocks = 0;
      }
      publish_stream();
      if (!more_) return;
      load_pages(stream, same_blocks);
    }
  }

 private:
  static constexpr uint32_t kEarlyBytes = 32 * 1024;  // issued at once
  static constexpr uint32_t kEarlyTogether = kEarlyBytes / Memory::kPageBytes;
  static_assert(kEarlyTogether >= 2, "pages of two heads are requested together");

  // Returns true if it has the same rows and blocks as the previous stream.
  __device__ __forceinline__ bool find_next_stream() {
    Stream& stream = take_slot();
    const bool same_blocks = walk_.repeat(stream, (stream_.at + kStreamSlots - 1) % kStreamSlots);
    more_ = same_blocks || walk_.find(stream);
    return same_blocks;
  }

  // `same_blocks`: the blocks are those of the previous stream.
  __device__ __forceinline__ void load_pages(const Stream& stream, bool same_blocks) {
    if (same_blocks && stream.blocks > kWarpThreads) walk_.find_blocks(stream.item, 0);
    if constexpr (kSingleRows) {
      load_heads(stream);
    } else {
      load_keys_ahead(stream);
    }
  }
  // Row in the cache of the stream's b-th block of its first head; called for each b in order.
  __device__ __forceinline__ uint32_t find_row(const Stream& stream, uint32_t b) {
    if (b % kWarpThreads == 0 && b > 0) walk_.find_blocks(stream.item, b);
    return (walk_.block(b) * role_.s.shape.heads.kv_heads + stream.head) * kKvBlockTokens;
  }
  // Loads keys one block ahead of values.
  __device__ __forceinline__ void load_keys_ahead(const Stream& stream) {
    const uint32_t blocks = stream.blocks;
    uint32_t before = 0;  // block whose values are still to be loaded
#pragma unroll 1
    for (uint32_t b = 0; b <= blocks; ++b) {
      uint32_t row = 0;
      if (b < blocks) {
        row = find_row(stream, b);
        load_page(op_.k_cache, row);
      }
      if (b > 0) load_page(op_.v_cache, before);
      before = row;
    }
  }
  // Loads keys and values block by block, heads in turn, after the pages that were loaded early.
  __device__ __forceinline__ void load_heads(const Stream& stream) {
    const uint32_t blocks = stream.blocks, pages = 2 * stream.heads;
    if (is_early_with_queries()) {
      const Page page(*this, stream, 0, 0);
      ptx::mbarrier_arrive_expect_bytes(&memory_.landed[role_.lane], kQueriesBytes);
      issue_queries(page, &memory_.landed[role_.lane]);
    }
    __syncwarp();
    uint32_t begin = early_ % pages, b = early_ / pages;
    early_ = 0;
#pragma unroll 1
    for (; b < blocks; ++b, begin = 0) load_block<false>(stream, b, find_row(stream, b), begin, pages);
  }
  // True if the lane's page was loaded early and queries land on the same barrier. The record's pages are
  // numbered from 0.
  __device__ __forceinline__ bool is_early_with_queries() const {
    if (role_.lane >= early_) return false;
    const uint32_t heads = memory_.streams[0].heads;
    return role_.lane < heads && (heads <= kWarpgroups || role_.lane % 2 == 0);
  }
  // Issues loads of the block's pages from the `begin`-th up to `most`, one a lane; returns the end of those
  // issued. (A single thread would take longer to issue the load of an 8 KiB page than the load takes.)
  template <bool kEarly>
  __device__ __forceinline__ uint32_t load_block(const Stream& stream, uint32_t b, uint32_t row,
                                                 uint32_t begin, uint32_t most) {
    const uint32_t pages = 2 * stream.heads;
    const Page page(*this, stream, b, row);
    const uint32_t seconds = __ballot_sync(kAllLanes, page.is_second && role_.lane < pages);
    uint32_t end = min(pages, most);
    end -= seconds >> end & 1;
    const uint32_t count = page_.lap * Memory::kPages + page_.at - begin + role_.lane;
    const Place place = {count % Memory::kPages, count / Memory::kPages};
    const uint32_t first_at = page.is_second ? (place.at == 0 ? Memory::kPages - 1 : place.at - 1) : place.at;
    while (begin < end) {
      const bool room =
          role_.lane < end && ptx::mbarrier_try_wait(&memory_.free[place.at], (place.lap & 1) ^ 1);
      // In order, since consumers rely on the count of issued pages; pages of two heads together.
      uint32_t next = __ffs(static_cast<int>(~__ballot_sync(kAllLanes, room || role_.lane < begin))) - 1;
      next -= seconds >> next & 1;
      // Consumers that leave free pages that have not landed. Checked after the vote, which depends on
      // try_wait: otherwise the flag might be read before. Early pages find free buffers at once.
      if (!kEarly) leave_if_requested();
      if (role_.lane >= begin && role_.lane < next) {
        issue_page<kEarly>(page, memory_.page[place.at], &memory_.landed[first_at]);
        if (page.is_second) ptx::mbarrier_arrive(&memory_.landed[place.at]);
      }
      __syncwarp();
      page_ = page_.template ahead<Memory::kPages>(next - begin);
      begin = next;
      if (role_.lane == 0) ptx::shared_store_release(&memory_.issued, page_.lap * Memory::kPages + page_.at);
    }
    return end;
  }
  // A lane's page of a block: the lanes have the keys of each head, then the values of each. If a warpgroup
  // has two heads, their pages land together, on the barrier of the first head's page.
  struct Page {
    bool is_keys, has_second, is_second;
    TensorId cache;
    uint32_t row;          // in the cache
    uint32_t boxes;        // boxes of kKvBoxTokens tokens that are needed
    std::byte* queries;    // destination of the tile's queries, which are loaded with its first keys; or null
    uint32_t first_query;  // index among the pass's vectors

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
      first_query = (stream.item.first_row + stream.first_row) * c.role_.s.shape.heads.q_heads +
                    (stream.head + head) * c.memory_.heads.count;
    }
  };
  static constexpr uint32_t kQueriesBytes = Memory::kParts * Memory::kNarrowPartBytes;
  __device__ __forceinline__ void issue_queries(const Page& page, uint64_t* landed) {
    const std::byte* map = tensor_map(role_.launch.program, op_.q);
#pragma unroll
    for (uint32_t p = 0; p < Memory::kParts; ++p)
      ptx::tensor_load(page.queries + p * Memory::kNarrowPartBytes, map, page.first_query, p * kPartChannels,
                       landed);
  }
  // The queries of a page that is loaded early are loaded later.
  template <bool kEarly>
  __device__ __forceinline__ void issue_page(const Page& page, std::byte* to, uint64_t* landed) {
    constexpr uint32_t kBoxes = kKvBlockTokens / kKvBoxTokens, kBoxBytes = kKvBoxTokens * kRowBytes;
    constexpr uint32_t kBeyond = 0x7fff0000;  // a row beyond every cache: loads zeros
    // Missing tokens' values are multiplied by 0, so they must be finite numbers.
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
    if (!kEarly && has_queries) issue_queries(page, landed);
    const bool whole = page.boxes == kBoxes;
    const std::byte* map = tensor_map(role_.launch.program, page.cache, !whole);
#pragma unroll
    for (uint32_t p = 0; p < Memory::kParts; ++p) {
#pragma unroll 1
      for (uint32_t n = 0; n < (whole ? 1 : boxes); ++n)
        ptx::tensor_load(to + p * kPartBytes + n * kBoxBytes, map,
                         n < page.boxes ? page.row + n * kKvBoxTokens : kBeyond, p * kPartChannels, landed);
    }
  }
  __device__ __forceinline__ void load_page(TensorId cache, uint32_t row) {
    const std::byte* map = tensor_map(role_.launch.program, cache);
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
  __device__ __forceinline__ void publish_stream() {
    __syncwarp();
    if (role_.lane == 0) ptx::mbarrier_arrive(&memory_.stream_ready[stream_.at]);
    stream_.advance(kStreamSlots);
  }

  // Waits until the previous lap's entry has been released.
  __device__ __forceinline__ void wait(uint64_t* free, uint32_t lap) {
    while (!__all_sync(kAllLanes, ptx::mbarrier_try_wait(free, (lap & 1) ^ 1))) leave_if_requested();
    leave_if_requested();  // consumers that leave free pages that have not landed
  }
  // Leaves if an exit is requested, after the block's copies have landed. Lanes from different branches may
  // read the flag at different times, so they vote.
  __device__ __forceinline__ void leave_if_requested() {
    if (!__any_sync(kAllLanes, exit_requested(&role_.s.exit))) return;
    if constexpr (kSingleRows) {
      if (is_early_with_queries()) ptx::mbarrier_arrive(&memory_.landed[role_.lane]);  // no copy follows
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
  Walk walk_;
  Place page_, stream_;  // the next ones
  bool more_ = false;    // there is another stream
  uint32_t early_ = 0;   // pages of the first stream that were loaded before the inputs were ready
};

}  // namespace serval::device::planned

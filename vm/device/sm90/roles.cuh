// The four roles as instructions see them: what a warp of each role may do, and how the roles are ordered.
//
// Every role walks the SM's instructions on its own and derives the same numbers: pages, units of results and
// panels of activations are numbered from the launch's first instruction to its last, so that roles need not
// tell each other their position. All waits are on mbarriers that are at most one phase ahead, or on counts
// that only grow.
#pragma once

#include <cstdint>

#include "vm/device/counts.cuh"
#include "vm/device/sm90/shared.cuh"
#include "vm/events.h"
#include "vm/tiles/sm90/ring.cuh"

namespace serval::device {

// Rows of the pass from this one on are not active.
template <class Config>
__device__ __forceinline__ uint32_t row_bound(const Launch& launch) {
  return Config::kRows == 1 ? 1 : launch.row_bound;
}

// Offset of a panel's buffer in Shared::activations.
template <class Config>
__device__ __forceinline__ uint32_t activation_buffer(uint32_t panel) {
  return panel % Config::kPanelBuffers * Config::kPanelBytes;
}

using tiles::RingPlace;

// Publishes how many pages or panels have been issued. Consumers of a kernel of tiles do not read it; in that
// kernel only the block's last warp does, ordered by the last barrier.
template <class Config>
__device__ __forceinline__ void publish_issued(uint32_t* count, uint32_t issued) {
  if constexpr (Config::kMultipliesTiles) {
    *const_cast<volatile uint32_t*>(count) = issued;
  } else {
    ptx::shared_store_release(count, issued);
  }
}

// --- loader: one thread

template <class ConfigOf>
struct LoaderRole {
  using Config = ConfigOf;

  Shared<Config>& s;
  const Launch& launch;
  const RecordBuffer* buffer = nullptr;
  uint32_t record = 0;  // index in the launch
  uint32_t next_page = 0;

  __device__ __forceinline__ void wait_inputs() const {
    wait_phase(&s.inputs_ready[record % kRecordBuffers], record / kRecordBuffers & 1, &s.exit);
  }
  // Copies the next page of the ring from global memory, as soon as a buffer is free and the limit of pages
  // in flight allows it. Address and size are multiples of 16.
  template <class Recorder>
  __device__ __forceinline__ void page(const std::byte* from, uint32_t bytes, Recorder& recorder) {
    next(bytes, recorder,
         [&](std::byte* to, uint64_t* landed) { ptx::bulk_load_once(to, from, bytes, landed); });
  }
  // Copies the next `pages` pages of a kernel of tiles, of `bytes` each, as buffers become free: copy(to,
  // landed) issues the copies of one page. Few instructions a page: with few tokens in a tile, products wait
  // for this loop.
  template <class Recorder, class Copy>
  __device__ __forceinline__ void stream(uint32_t pages, uint32_t bytes, Recorder& recorder, Copy&& copy) {
    static_assert(Config::kMultipliesTiles && Config::kPagesInFlightBeforeInputs >= Config::kRingPages,
                  "the ring's room is all that bounds pages in flight");
    ptx::SharedAddress ring(s.ring), landed(s.page_landed), free(s.page_free), issued(&s.pages_issued);
    RingPlace<Config::kRingPages> page(next_page);
#pragma unroll 1
    for (const uint32_t end = next_page + pages; next_page != end; page.advance()) {
      const uint32_t barrier = page.at * sizeof(uint64_t);
      const auto is_free = [&] { return ptx::mbarrier_try_wait(free + barrier, page.parity ^ 1); };
      const auto wait_for_room = [&] {
        while (!is_free()) exit_if_requested(&s.exit);
      };
      if constexpr (Recorder::kOn) {
        if (!is_free()) recorder.timed(wait_for_room);
      } else {
        wait_for_room();
      }
      exit_if_requested(&s.exit);  // consumers that leave free pages that have not landed
      ptx::mbarrier_arrive_expect_bytes(landed + barrier, bytes);
      copy(ring + page.at * kPageBytes, landed + barrier);
      recorder.page(bytes);
      ptx::shared_store_volatile(issued, ++next_page);
    }
  }
  // Returns when consumers have freed the first of the last `pages` pages; with `pages` beyond the ring's
  // size, the oldest page in the ring.
  __device__ __forceinline__ void wait_released(uint32_t pages) {
    wait(s.page_free, next_page - min(pages, Config::kRingPages));
  }
  // Gives consumers the next page of the ring, without contents, as soon as it is free.
  template <class Recorder>
  __device__ __forceinline__ void issue_empty(Recorder& recorder) {
    next(0, recorder, [](std::byte*, uint64_t*) {});
  }
  // The next page of the ring, loaded in pieces: copy(to, landed) issues the copies of all `bytes`.
  template <class Recorder, class Copy>
  __device__ __forceinline__ void next(uint32_t bytes, Recorder& recorder, Copy&& copy) {
    const uint32_t p = next_page, at = p % Config::kRingPages;
    const uint32_t in_flight =
        min(inputs_ready_seen() ? kPagesInFlight : Config::kPagesInFlightBeforeInputs, Config::kRingPages);
    if (p >= in_flight) wait(s.page_landed, p - in_flight);
    if (p >= Config::kRingPages) {
      if constexpr (Recorder::kOn) {
        if (!done(s.page_free, p - Config::kRingPages))
          recorder.timed([&] { wait(s.page_free, p - Config::kRingPages); });
      } else {
        wait(s.page_free, p - Config::kRingPages);
      }
    }
    ptx::mbarrier_arrive_expect_bytes(&s.page_landed[at], bytes);
    copy(s.ring[at], &s.page_landed[at]);
    recorder.page(bytes);
    next_page = p + 1;
    publish_issued<Config>(&s.pages_issued, next_page);
  }

 private:
  // Inputs of the record whose pages these are.
  __device__ __forceinline__ bool inputs_ready_seen() const {
    return reached(*const_cast<const volatile uint32_t*>(&s.records_waited), record + 1);
  }
  static __device__ __forceinline__ bool done(uint64_t* barriers, uint32_t page) {
    return ptx::mbarrier_try_wait(&barriers[page % Config::kRingPages], page / Config::kRingPages & 1);
  }
  __device__ __forceinline__ void wait(uint64_t* barriers, uint32_t page) {
    wait_phase(&barriers[page % Config::kRingPages], page / Config::kRingPages & 1, &s.exit);
  }
};

// In kernels of tiles, a panel is freed through an mbarrier of its buffer: between products an arrival is
// cheaper than a store with release. Returns when the panel is free.
template <class Config>
__device__ __forceinline__ void wait_panel_free(Shared<Config>& s, uint32_t panel) {
  wait_phase(&s.panel_free[panel % Config::kPanelBuffers], panel / Config::kPanelBuffers & 1, &s.exit);
}
template <class Config>
__device__ __forceinline__ void wait_all_panels_free(Shared<Config>& s, uint32_t next_panel) {
#pragma unroll 1
  for (uint32_t back = min(Config::kPanelBuffers, next_panel); back > 0; --back)
    wait_panel_free(s, next_panel - back);
}

// --- preparer: one warp
template <class ConfigOf>
struct PreparerRole {
  using Config = ConfigOf;

  Shared<Config>& s;
  const Launch& launch;
  uint32_t lane;
  const RecordBuffer* buffer = nullptr;
  uint32_t record = 0;                 // index in the launch
  uint32_t next_panel = 0;             // of activations
  uint32_t panel_floor = 0;            // panels that must be released before any buffer is written again
  uint32_t late_counter = kNoCounter;  // the last counter that was reached; only where events are recorded

  // Returns when the instruction's inputs may be read. The first record of a pass also loads the pass's rows.
  template <class Recorder>
  __device__ __forceinline__ void wait_inputs(Recorder& recorder) {
    wait_inputs(recorder, [&] { exit_if_requested(&s.exit); });
  }
  // Calls meanwhile() in each iteration of the wait; meanwhile() must leave the kernel if an exit is
  // requested.
  template <class Recorder, class Meanwhile>
  __device__ __forceinline__ void wait_inputs(Recorder& recorder, Meanwhile&& meanwhile);
  // Waits for the end of the pass before. Leaves if that was the last pass; otherwise loads the pass's rows.
  __device__ __forceinline__ void pass_gate();
  // For the recorder: the times and counters that wait_inputs() noted.
  template <class Recorder>
  __device__ __forceinline__ void stamp_inputs(Recorder& recorder) const {
    if (lane != 0) return;
    recorder.stamp_at(record, EventKind::kWaitBegin, recorder.noted_ticks());
    recorder.stamp_at(record, EventKind::kInputsReady, recorder.end_ticks());
    recorder.times(record).first_counter = first_counter();
    recorder.times(record).last_counter = late_counter;
  }
  // Returns when bulk copies may write the buffers of the next `panels` panels.
  __device__ __forceinline__ void acquire_panels(uint32_t panels) const {
    const uint32_t needed = next_panel + panels - Config::kPanelBuffers;
    wait_used(static_cast<int32_t>(needed - panel_floor) > 0 ? needed : panel_floor);
  }
  // Issues bulk copies of the next `panels` panels of activations to their buffers: `bytes` each, `stride`
  // apart, the first at `from`.
  __device__ __forceinline__ void copy_panels(const std::byte* from, uint32_t stride, uint32_t panels,
                                              uint32_t bytes);
  // Issues the copies of the next `slabs` slabs of a kernel of tiles, `stride` apart, as panel buffers become
  // free. Few instructions a panel: with few tokens in a tile, products wait for this loop.
  __device__ __forceinline__ void stream_panels(const std::byte* from, size_t stride, uint32_t slabs,
                                                uint32_t bytes);
  // Claims the memory of all buffers as scratch for a group instruction. It counts as one panel, which lands
  // when the instruction's inputs may be read.
  __device__ __forceinline__ void claim_scratch() const {
    if constexpr (Config::kMultipliesTiles) return wait_all_panels_free(s, next_panel);
    wait_used(next_panel);
  }
  __device__ __forceinline__ void publish_scratch() {
    if (lane == 0) {
      ptx::mbarrier_arrive(landed(next_panel));
      publish_issued<Config>(&s.panels_issued, next_panel + 1);
    }
    panel_floor = ++next_panel;
  }

 private:
  __device__ __forceinline__ uint64_t* landed(uint32_t panel) const {
    return &s.panel_landed[panel % Config::kActivationRowBuffers];
  }
  __device__ __forceinline__ void wait_used(uint32_t panels) const {
    wait_counts(s.panels_released, lane, panels, &s.exit);
  }
  // True if the launch ends before the pass of the current record.
  __device__ __forceinline__ bool ends_before_this_pass() const {
    const uint32_t* last_pass = &launch.program.control->last_pass;
    return (Config::kHasPeers ? ptx::load_relaxed_system(last_pass) : ptx::load_relaxed(last_pass)) <
           buffer->pass;
  }
  __device__ __forceinline__ void leave() const {
    request_exit(&s.exit);
    exit_if_requested(&s.exit);
  }
  __device__ __forceinline__ uint32_t first_counter() const {
    if (buffer->begins_pass != 0) return launch.program.gate_counter;
    return buffer->record.wait_count == 0 ? kNoCounter : target_of(0).counter;
  }
  __device__ __forceinline__ CounterTarget target_of(uint32_t wait) const {
    if (wait < kFetchedWaits) return buffer->waits[wait];
    const BoundWait w = launch.program.waits[buffer->record.wait_begin + wait];
    return {w.counter, w.target(launch.epoch + buffer->pass)};
  }
};

template <class Config>
__device__ __forceinline__ void PreparerRole<Config>::copy_panels(const std::byte* from, uint32_t stride,
                                                                  uint32_t panels, uint32_t bytes) {
  if (lane == 0) {
    for (uint32_t c = next_panel; c < next_panel + panels; ++c, from += stride) {
      ptx::mbarrier_arrive_expect_bytes(landed(c), bytes);
      ptx::bulk_load(s.activations + activation_buffer<Config>(c), from, bytes, landed(c));
    }
    publish_issued<Config>(&s.panels_issued, next_panel + panels);
  }
  next_panel += panels;
}

template <class Config>
__device__ __forceinline__ void PreparerRole<Config>::stream_panels(const std::byte* from, size_t stride,
                                                                    uint32_t slabs, uint32_t bytes) {
  static_assert(Config::kPanelSlabs <= 2 && slab_image::kSlabsOfPanel % Config::kPanelSlabs == 0,
                "no panel has slabs of two parts of the columns");
  if (slabs == 0) return;
  // Scratch memory covered all buffers: wait for its release, too.
  if (panel_floor > 0 && next_panel - panel_floor < Config::kPanelBuffers - 1)
    wait_panel_free(s, panel_floor - 1);
  ptx::SharedAddress landed(s.panel_landed), free(s.panel_free), to(s.activations), issued(&s.panels_issued);
  RingPlace<Config::kPanelBuffers> panel(next_panel);
#pragma unroll 1
  for (uint32_t slab = 0; slab < slabs;
       slab += Config::kPanelSlabs, from += Config::kPanelSlabs * stride, panel.advance()) {
    const uint32_t barrier = panel.at * sizeof(uint64_t);
    while (!ptx::mbarrier_try_wait(free + barrier, panel.parity ^ 1)) exit_if_requested(&s.exit);
    exit_if_requested(&s.exit);  // as for pages
    ++next_panel;
    if (lane != 0) continue;
    const bool one = Config::kPanelSlabs == 1 || slab + 1 == slabs;
    const ptx::SharedAddress buffer = to + panel.at * Config::kPanelBytes;
    ptx::mbarrier_arrive_expect_bytes(landed + barrier, one ? bytes : 2 * bytes);
    ptx::bulk_load(buffer, from, bytes, landed + barrier);
    if (!one) ptx::bulk_load(buffer + Config::kSlabBytes, from + stride, bytes, landed + barrier);
    ptx::shared_store_volatile(issued, next_panel);
  }
  __syncwarp();
}

template <class Config>
__device__ __forceinline__ void PreparerRole<Config>::pass_gate() {
  const BoundProgram& program = launch.program;
  if (buffer->pass > 0) {
    const uint32_t target = (launch.epoch + buffer->pass) * program.gate_per_pass;
    const uint32_t* gate = counter_of(program, program.gate_counter);
    for (;;) {
      const bool ends = ends_before_this_pass();  // loaded together with the counter
      if (reached(load_counter<Config>(gate), target)) break;
      // With a global queue, an SM may have taken a record of a pass after the launch's last. It may leave
      // once its earlier records are done.
      if (ends && ptx::shared_load_acquire(&s.records_stored) == record) leave();
      exit_if_requested(&s.exit);
    }
  }
  if constexpr (Config::kSharedRows == 0) {
    if (buffer->pass > 0 && ends_before_this_pass()) leave();
    return;
  }
  static_assert(Config::kSharedRows == 0 || sizeof(s.rows) == kWarpThreads * sizeof(uint4),
                "16 bytes a lane");
  const auto* from = reinterpret_cast<const uint4*>(program.rows);
  const uint4 row = ptx::load_relaxed(from + lane);
  // Loaded together with the rows. The gate is open, so all records have signalled: a storer that is told to
  // exit now can only miss a count that no role reads any more, or the host's count of passes, which the host
  // does not rely on.
  if (buffer->pass > 0 && ends_before_this_pass()) leave();
  reinterpret_cast<uint4*>(s.rows)[lane] = row;
  __syncwarp();
}

template <class Config>
template <class Recorder, class Meanwhile>
__device__ __forceinline__ void PreparerRole<Config>::wait_inputs(Recorder& recorder, Meanwhile&& meanwhile) {
  recorder.note();
  if constexpr (Recorder::kOn) late_counter = kNoCounter;
  if (buffer->begins_pass != 0) pass_gate();
  const uint32_t count = buffer->record.wait_count;
  for (uint32_t first = 0; first < count; first += kWarpThreads) {
    // Lanes without a wait of their own repeat the last one, so that the warp stays converged.
    const CounterTarget wait = target_of(min(first + lane, count - 1));
    const uint32_t* counter = counter_of(launch.program, wait.counter);
    const auto is_reached = [&] { return reached(load_counter<Config>(counter), wait.target); };
    if constexpr (Recorder::kOn) {
      uint32_t missing = 0;
      while (const uint32_t now = __ballot_sync(~0u, !is_reached())) {
        missing = now;
        meanwhile();
      }
      if (missing != 0) late_counter = __shfl_sync(~0u, wait.counter, __ffs(static_cast<int>(missing)) - 1);
    } else {
      while (!__all_sync(~0u, is_reached())) meanwhile();
    }
    __syncwarp();  // each lane's acquire is the whole warp's
  }
  if (lane == 0) {
    ptx::mbarrier_arrive(&s.inputs_ready[record % kRecordBuffers]);
    s.records_waited = record + 1;
  }
  recorder.note_end();  // after the arrival: no role waits for the recorder
}

// Arrivals at the unit of a group instruction: one a warp, and a second one of the last warp after it has
// signalled.
inline constexpr uint32_t kGroupArrivals = kConsumerWarps + 1;

// --- consumers: kConsumerWarps warps, each at its own page
template <class ConfigOf>
struct ConsumerRole {
  using Config = ConfigOf;

  Shared<Config>& s;
  const Launch& launch;
  // Set again for each record (ptx::thread_index()).
  uint32_t warp = 0;  // index among the consumers
  uint32_t lane = 0;
  const RecordBuffer* buffer = nullptr;
  uint32_t record = 0;
  uint32_t next_page = 0;
  uint32_t next_unit = 0;
  uint32_t next_panel = 0;
  uint32_t stored_seen = 0;  // units before this one are known to be stored
  uint32_t parity = 0;
  uint32_t warpgroup_parity = 0;
  uint32_t next_tile = 0;  // tiles of tokens for which storers look something up

  // An instruction of a kernel of tiles needs most registers. The compiler would spill the role's counts to
  // local memory, and because shared memory leaves no room in L1, each access would go to L2. So the counts
  // are saved to shared memory. For whole warps, whose lanes have the same counts.
  __device__ __forceinline__ void save_counts() const {
    if constexpr (Config::kMultipliesTiles) {
      __syncwarp();
      const uint32_t to = ptx::shared_address(&s.consumer_counts[warp]);
      if (lane == 0) {
        ptx::shared_store(to, uint4{record, next_page, next_unit, next_panel});
        ptx::shared_store(to + sizeof(uint4), uint4{stored_seen, parity, warpgroup_parity, next_tile});
      }
      __syncwarp();
    }
  }
  // Between save_counts() and restore_counts(), in a kernel of tiles: finds the record's buffer by the saved
  // counts, so that no register holds its address outside the caller.
  __device__ __forceinline__ void find_buffer() {
    if constexpr (Config::kMultipliesTiles) {
      const uint4 first = ptx::shared_load(ptx::shared_address(&s.consumer_counts[warp]));
      buffer = &s.records[first.x % kRecordBuffers];
    }
  }
  __device__ __forceinline__ void restore_counts() {
    if constexpr (Config::kMultipliesTiles) {
      find_thread();
      const uint32_t from = ptx::shared_address(&s.consumer_counts[warp]);
      const uint4 first = ptx::shared_load(from), second = ptx::shared_load(from + sizeof(uint4));
      record = first.x, next_page = first.y, next_unit = first.z, next_panel = first.w;
      stored_seen = second.x, parity = second.y, warpgroup_parity = second.z, next_tile = second.w;
      buffer = &s.records[record % kRecordBuffers];
    }
  }
  __device__ __forceinline__ void find_thread() {
    lane = ptx::thread_index() % kWarpThreads;
    warp = ptx::thread_index() / kWarpThreads - kFirstConsumerWarp;
  }

  // Returns when all four warps of the warpgroup are ready to multiply.
  __device__ __forceinline__ void start_products() const {
    const uint32_t thread = ptx::thread_index();
    s.products[(thread / kWarpThreads - kFirstConsumerWarp) / kWarpgroupWarps].begin(thread % kWarpThreads,
                                                                                     &s.exit);
  }

  // Barrier of the threads of the warp's warpgroup; orders their accesses to shared memory.
  __device__ __forceinline__ void sync_warpgroup() {
    uint64_t* barrier = &s.warpgroup_barrier[warp / kWarpgroupWarps];
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(barrier);
    wait_phase(barrier, warpgroup_parity, &s.exit);
    warpgroup_parity ^= 1;
  }

  // True for one fixed thread of the warp's warpgroup.
  __device__ __forceinline__ bool leads_warpgroup() const { return warp % kWarpgroupWarps == 0 && lane == 0; }

  // Copies do not land in order: the previous page in this buffer, possibly another warp's, may still be in
  // flight. Once `page` has been issued, the previous one has landed and been freed. Warps of a kernel of
  // tiles wait for every page in order, so they need no such check.
  __device__ __forceinline__ void wait_page(uint32_t page) {
    if constexpr (!Config::kMultipliesTiles) wait_count(&s.pages_issued, page + 1, &s.exit);
    wait_phase(&s.page_landed[page % Config::kRingPages], page / Config::kRingPages & 1, &s.exit);
  }
  // wait_page() between products, for a warp that waits for every page in order.
  __device__ __forceinline__ void wait_next_page(uint32_t page) {
    wait_phase_or_exit(&s.page_landed[page % Config::kRingPages], page / Config::kRingPages & 1, &s.exit);
  }
  __device__ __forceinline__ void free_page(uint32_t page) { free_page(page, lane); }
  // Frees `panels` of the `all` panels of a page, which this warp has read or which the page lacks.
  __device__ __forceinline__ void free_panels(uint32_t page, uint32_t panels, uint32_t all) {
    free_page_at(page % Config::kRingPages, lane, panels * (Config::kPageReaders / all));
  }
  // For a caller that knows its lane.
  __device__ __forceinline__ void free_page(uint32_t page, uint32_t lane_in_warp) {
    free_page_at(page % Config::kRingPages, lane_in_warp);
  }
  // For a caller that also knows the page's buffer.
  __device__ __forceinline__ void free_page_at(uint32_t place, uint32_t lane_in_warp,
                                               uint32_t arrivals = Config::kPageReaders) {
    ptx::fence_proxy_async_shared();  // a bulk copy will write what this thread has read
    __syncwarp();
    if (lane_in_warp != 0) return;
    if constexpr (!Config::kMultipliesTiles && Config::kPageReaders > 1) {
      ptx::mbarrier_arrive(&s.page_free[place], arrivals);
    } else {
      ptx::mbarrier_arrive(&s.page_free[place]);
    }
  }
  // Like wait_page(): once `panel` has been issued, the previous panels in its buffer have landed, because
  // the warps that released them had waited for them.
  __device__ __forceinline__ void wait_panel(uint32_t panel) {
    if constexpr (!Config::kMultipliesTiles) wait_count(&s.panels_issued, panel + 1, &s.exit);
    wait_phase(&s.panel_landed[panel % Config::kActivationRowBuffers],
               panel / Config::kActivationRowBuffers & 1, &s.exit);
  }
  // wait_panel() between products, for a warp that waits for every panel in order.
  __device__ __forceinline__ void wait_next_panel(uint32_t panel) {
    wait_phase_or_exit(&s.panel_landed[panel % Config::kActivationRowBuffers],
                       panel / Config::kActivationRowBuffers & 1, &s.exit);
  }
  __device__ __forceinline__ uint64_t* inputs_ready() const {
    return &s.inputs_ready[record % kRecordBuffers];
  }
  __device__ __forceinline__ uint32_t inputs_parity() const { return record / kRecordBuffers & 1; }
  __device__ __forceinline__ void wait_inputs() const {
    wait_phase(inputs_ready(), inputs_parity(), &s.exit);
  }
  // Returns when the memory of all buffers is free to be used as scratch: no warp needs its former contents.
  // The preparer waits for the same.
  __device__ __forceinline__ void wait_scratch() const {
    if constexpr (Config::kMultipliesTiles) return wait_all_panels_free(s, next_panel);
    wait_counts(s.panels_released, lane, next_panel, &s.exit);
  }
  // This warp no longer needs panels before `panel`.
  __device__ __forceinline__ void release_panels(uint32_t panel) {
    ptx::fence_proxy_async_shared();  // bulk copies will write what this thread has read
    __syncwarp();
    if (lane == 0) ptx::shared_store_release(&s.panels_released[warp], panel);
  }
  // This warp no longer needs a panel of a kernel of tiles that only the tensor cores have read. They read
  // through the async proxy, as the copies write, so no fence is needed.
  __device__ __forceinline__ void free_panel(uint32_t panel, uint32_t lane_in_warp) {
    free_panel_at(panel % Config::kPanelBuffers, lane_in_warp);
  }
  __device__ __forceinline__ void free_panel_at(uint32_t place, uint32_t lane_in_warp) {
    __syncwarp();
    if (lane_in_warp == 0) ptx::mbarrier_arrive(&s.panel_free[place]);
  }
  // This warp no longer needs the scratch memory, which counts as a panel.
  __device__ __forceinline__ void release_scratch() {
    if constexpr (Config::kMultipliesTiles) {
      ptx::fence_proxy_async_shared();  // bulk copies will write what this thread has written
      free_panel(next_panel++, lane);
    } else {
      release_panels(++next_panel);
    }
  }
  // This warp no longer needs what storers looked up for tiles before `tile`.
  __device__ __forceinline__ void used_tiles(uint32_t tile) {
    __syncwarp();
    if (lane == 0) ptx::shared_store_release(&s.tiles_used[warp], tile);
  }
  // Returns when the storers have stored all units before `unit`. For whole warps.
  __device__ __forceinline__ void wait_stored(uint32_t unit) {
    if (reached(stored_seen, unit)) return;
    wait_counts(s.units_stored, lane, unit, &s.exit);
    stored_seen = unit;
  }
  // Returns when the unit's buffer, one of kPartialBuffers, is free.
  __device__ __forceinline__ void wait_partial_buffer(uint32_t unit) {
    wait_stored(unit + 1 - kPartialBuffers);
  }
  // This warp's partial results of the unit have been written.
  __device__ __forceinline__ void arrive_unit(uint32_t unit) {
    __syncwarp();
    if (lane == 0) ptx::shared_add_release(&s.unit_arrivals[unit % kPartialBuffers], 1);
  }
  // arrive_unit() of a group instruction. True for the last warp, to which the stores of the others are then
  // visible.
  __device__ __forceinline__ bool last_to_arrive(uint32_t unit) {
    __syncwarp();
    uint32_t before = 0;
    if (lane == 0)
      before = ptx::shared_fetch_add_acquire_release(&s.unit_arrivals[unit % kPartialBuffers], 1);
    return __shfl_sync(~0u, before, 0) == kConsumerWarps - 1;
  }
};

// --- storers: kStorerWarps warps; each stores its own tiles of the instruction's units
template <class ConfigOf>
struct StorerRole {
  using Config = ConfigOf;

  Shared<Config>& s;
  const Launch& launch;
  // Set again for each record (ptx::thread_index()).
  uint32_t warp = 0;  // index among the storers
  uint32_t lane = 0;
  // Its number among the record's storers. Number 0 moves from record to record, so that a storer that stores
  // a record alone is not still busy with the record before.
  uint32_t storer_rank = 0;
  const RecordBuffer* buffer = nullptr;
  uint32_t record = 0;
  uint32_t next_unit = 0;
  uint32_t next_tile = 0;  // tiles of tokens for which it looks something up

  __device__ __forceinline__ void wait_inputs() {
    wait_phase(&s.inputs_ready[record % kRecordBuffers], record / kRecordBuffers & 1, &s.exit);
  }
  // Other storers store this record's `units` units. Waits until the pass's rows are complete if the record
  // begins the pass: the next records read them.
  __device__ __forceinline__ void skip_units(uint32_t units) {
    if (buffer->begins_pass != 0) wait_inputs();
    own_units_stored(units);
    next_unit += units;
  }
  // Returns when all storers have finished the units that used the buffers of the record's units before
  // `end`.
  __device__ __forceinline__ void wait_partial_buffers(uint32_t end) {
    wait_counts(s.units_stored, lane, next_unit + end - kPartialBuffers, &s.exit);
  }
  // Call it after wait_partial_buffers(). Returns when `arrivals` parts of each lane's unit have been
  // written; a lane without a unit waits with the others.
  __device__ __forceinline__ void wait_units(uint32_t unit, bool exists, uint32_t arrivals) {
    const uint32_t* count = &s.unit_arrivals[(next_unit + unit) % kPartialBuffers];
    while (!__all_sync(~0u, !exists || ptx::shared_load_acquire(count) == arrivals))
      exit_if_requested(&s.exit);
  }
  // This warp has stored one of the `tiles` tiles of each lane's unit (lanes with the same tile count it
  // once), and all of its own tiles in units before `next`. After its last tile, `next` is the number of the
  // instruction's units.
  __device__ __forceinline__ void tile_stored(uint32_t unit, bool counts_tile, uint32_t tiles,
                                              uint32_t next) {
    __syncwarp();
    const uint32_t at = (next_unit + unit) % kPartialBuffers;
    if (counts_tile &&
        (tiles == 1 || ptx::shared_fetch_add_acquire_release(&s.tiles_stored[at], 1) == tiles - 1)) {
      if (tiles != 1) s.tiles_stored[at] = 0;
      s.unit_arrivals[at] = 0;
    }
    own_units_stored(next);
  }
  // This warp has stored all of its own tiles in the instruction's units before `next`.
  __device__ __forceinline__ void own_units_stored(uint32_t next) {
    __syncwarp();
    if (lane == 0) ptx::shared_store_release(&s.units_stored[warp], next_unit + next);
  }
  // True for the last of the record's storers that calls it; the stores of the others are then visible to it.
  __device__ __forceinline__ bool last_to_store(uint32_t storers) {
    __syncwarp();
    uint32_t before = 0;
    if (lane == 0)
      before = ptx::shared_fetch_add_acquire_release(&s.storers_done[record % kRecordBuffers], 1);
    return __shfl_sync(~0u, before, 0) == storers - 1;
  }
};

// --- the block's last warp

// Returns when all copies to a ring have landed; `issued`: copies issued in the launch.
template <uint32_t kPlaces>
__device__ __forceinline__ void await_copies(uint64_t (&landed)[kPlaces], uint32_t issued) {
  for (uint32_t n = issued > kPlaces ? issued - kPlaces : 0; n < issued; ++n) {
    while (!ptx::mbarrier_try_wait(&landed[n % kPlaces], n / kPlaces & 1)) {
    }
  }
}
// Leaves the kernel after all other warps have left, so that no more copies are issued, and after every copy
// in flight has landed: none may write to a block that has ended. No other code waits for the last copies of
// the loader and the preparer; an instruction with copies of its own waits for them in any case.
template <class Config>
__device__ __forceinline__ void exit_last(Shared<Config>& s, uint32_t lane) {
  if (lane != 0) ptx::exit_thread();
  ptx::wait_for_others_to_exit();
  await_copies(s.page_landed, ptx::shared_load_acquire(&s.pages_issued));
  await_copies(s.panel_landed, ptx::shared_load_acquire(&s.panels_issued));
  ptx::exit_thread();
}

}  // namespace serval::device

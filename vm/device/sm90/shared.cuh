// Shared memory of a thread block, and the block's warps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/device/group.cuh"
#include "vm/device/record.cuh"
#include "vm/device/sm90/warpgroup.cuh"
#include "vm/layout/activation_image.h"
#include "vm/layout/e4m3_image.h"
#include "vm/layout/int4_image.h"
#include "vm/layout/slab_image.h"
#include "vm/machine.h"
#include "vm/program_shape.h"
#include "vm/state/rows.h"

namespace serval::device {

// Warpgroup 0: controller, loader, preparer, and a warp that leaves last and otherwise works only where
// events are recorded. Warpgroup 1: storers. Then the consumers. Warps that issue copies need few registers;
// each consumer holds a page in registers.
inline constexpr uint32_t kControllerWarp = 0;
inline constexpr uint32_t kLoaderWarp = 1;
inline constexpr uint32_t kPreparerWarp = 2;
inline constexpr uint32_t kFirstStorerWarp = 4;
inline constexpr uint32_t kStorerWarps = 4;
inline constexpr uint32_t kFirstConsumerWarp = 8;
inline constexpr uint32_t kBlockThreads = (kFirstConsumerWarp + kConsumerWarps) * kWarpThreads;
// 4 warps of 40 registers, 4 of 80 and 8 of 192: 40 + 80 + 2 × 192 = 504 registers for a thread of each
// warpgroup.
inline constexpr uint32_t kServiceRegisters = 40;
inline constexpr uint32_t kStorerRegisters = 80;
inline constexpr uint32_t kConsumerRegisters = 192;
inline constexpr uint32_t kPartialBytes = 8 * 1024;

// Configuration of a compiled kernel: the largest number of rows of a pass (a power of two), for which shared
// memory is laid out, and the sizes of the buffers.
template <uint32_t kRowsOf, uint32_t kRingPagesOf, uint32_t kScratchKib, uint32_t kActivationRows>
struct KernelConfig {
  static constexpr bool kMultipliesTiles = false;
  static constexpr bool kTileOrder = false;  // adds up products in the order of kernels that multiply tiles
  static constexpr bool kHasPeers = false;   // for programs of several devices
  static constexpr bool kHasE4M3 = false;    // also has code for weights in codes, and so for fp16
  // Limit of pages in flight while the SM waits for counters: each page lengthens the queue in which the SM's
  // polls and activations wait.
  static constexpr uint32_t kPagesInFlightBeforeInputs = 3;
  static constexpr uint32_t kRows = kRowsOf;
  static constexpr uint32_t kRingPages = kRingPagesOf;
  static constexpr uint32_t kRingPageBytes = kPageBytes;
  static constexpr uint32_t kPageReaders = 1;                    // consumer warps that read each page
  static constexpr uint32_t kScratchBytes = kScratchKib * 1024;  // for group instructions
  static constexpr uint32_t kActivationRowBuffers =
      kActivationRows;  // the same memory as kScratchBytes, in units of one row of a panel
  // A panel buffer holds one panel of every row that may be active. The number of buffers is a power of two,
  // so that indexing needs no division.
  static constexpr uint32_t kPanelBuffers = kActivationRowBuffers / kRows;
  static constexpr uint32_t kPanelBytes = kRows * activation_image::kRowBytes;
  static constexpr uint32_t kPartialBytes = device::kPartialBytes;  // results that storers finish
  static constexpr uint32_t kSharedRows = kTableRows;  // rows of the pass that are kept in shared memory
  static constexpr uint32_t kStorerRegisters = device::kStorerRegisters;
  static constexpr uint32_t kConsumerRegisters = device::kConsumerRegisters;

  static __device__ __forceinline__ uint32_t uniform(uint32_t value) { return value; }
};
// Ring pages begin at lines of 128 bytes: copies to other places take longer.
constexpr uint32_t whole_lines(uint32_t bytes) {
  return (bytes + 127) / 128 * 128;
}
// A kernel of vectors that also has code for weights in e4m3. Its pages have room for scales. Two warps may
// read a page, a half each; one that reads a page alone arrives twice.
template <class Base, uint32_t kRingPagesOf>
struct E4M3Config : Base {
  static constexpr bool kHasE4M3 = true;
  static constexpr uint32_t kRingPages = kRingPagesOf;
  static constexpr uint32_t kRingPageBytes = whole_lines(e4m3_image::kPageBytes);
  static constexpr uint32_t kPageReaders = 2;
};
// … in e4m3 and in 4-bit integers, of which a page has four panels for up to four warps. The panels of
// activations that a page's products need fit into shared memory together; where only two do, a page has two.
template <class Base, uint32_t kRingPagesOf>
struct Int4Config : Base {
  static constexpr bool kHasE4M3 = true;
  static constexpr uint32_t kPanelsOfPage = Base::kPanelBuffers >= 4 ? 4 : 2;
  static constexpr uint32_t kLargestInt4Page =
      kPanelsOfPage / int4_image::kPanelsOfPart * int4_image::whole_part_bytes(int4_image::kSmallestGroup);
  static constexpr uint32_t kRingPages = kRingPagesOf;
  static constexpr uint32_t kRingPageBytes =
      whole_lines(kLargestInt4Page > e4m3_image::kPageBytes ? kLargestInt4Page : e4m3_image::kPageBytes);
  static constexpr uint32_t kPageReaders = kPanelsOfPage;
};
// Broadcasts the first lane's value. The compiler then knows that it is uniform in the warp; otherwise ptxas
// would serialise a warpgroup's wgmma products.
__device__ __forceinline__ uint32_t uniform_value(uint32_t value) {
  return __shfl_sync(kAllLanes, value, 0);
}
// A kernel for one row that adds up in the order of kernels of tiles
// (instructions/product/orders/vector_in_tile_order.cuh) and has their attention.
template <uint32_t kRingPages, uint32_t kScratchKib, uint32_t kActivationRows>
struct TileOrderConfig : KernelConfig<1, kRingPages, kScratchKib, kActivationRows> {
  static constexpr bool kTileOrder = true;
  static constexpr bool kHasNarrowTiles = true;
  static constexpr bool kHasFullTiles = false;

  static __device__ __forceinline__ uint32_t uniform(uint32_t value) { return uniform_value(value); }
};
// A kernel whose products are GEMMs: buffers hold the tokens of a tile instead of the rows of a pass.
template <uint32_t kRowsOf, uint32_t kTileTokensOf, uint32_t kRingPagesOf, uint32_t kScratchKib>
struct TileConfig {
  static constexpr bool kMultipliesTiles = true;
  static constexpr bool kTileOrder = true;
  static constexpr bool kHasPeers = false;
  static constexpr bool kHasE4M3 = false;
  static constexpr bool kHasInputScales = false;  // also has code for activations in e4m3
  static constexpr bool kHasWideTiles =
      false;  // wide tiles, of two matrices (instructions/product/orders/sm90/tile_stream.cuh)
  // The whole ring: a stage of many rows takes so long that slower polls do not matter.
  static constexpr uint32_t kPagesInFlightBeforeInputs = kRingPagesOf;
  static constexpr uint32_t kRows = kRowsOf;
  static constexpr uint32_t kTileTokens = kTileTokensOf;
  static constexpr uint32_t kRingPages = kRingPagesOf;
  static constexpr uint32_t kRingPageBytes = kPageBytes;
  static constexpr uint32_t kPageReaders = kConsumerWarps;
  static constexpr uint32_t kScratchBytes = kScratchKib * 1024;
  // Slabs of activations that are loaded together: multiplying one slab by few tokens takes less time than
  // waiting for it.
  static constexpr uint32_t kPanelSlabs = kTileTokens <= 64 ? 2 : 1;
  // Attention of few rows has its own code. Kernels with large tiles do not include it, because it would slow
  // down the attention of prompts.
  static constexpr bool kHasNarrowTiles = kTileTokens <= 64;
  static constexpr bool kHasFullTiles = true;
  // Skips the second half of a tile's tokens where it is empty: twice as fast, but its extra code would leave
  // the attention of prompts too few registers.
  static constexpr bool kLeavesOutTokens = false;
  static constexpr uint32_t kSlabBytes = kTileTokens * slab_image::kRowBytes;
  static constexpr uint32_t kPanelBytes = kPanelSlabs * kSlabBytes;
  static constexpr uint32_t kPanelBuffers = kScratchBytes / kPanelBytes;
  static constexpr uint32_t kActivationRowBuffers = kPanelBuffers;
  static constexpr uint32_t kPartialBytes = 24 * 1024;
  static constexpr uint32_t kSharedRows = 0;  // all rows stay in GPU memory
  static constexpr uint32_t kStorerRegisters = 40;
  static constexpr uint32_t kConsumerRegisters = 216;

  static __device__ __forceinline__ uint32_t uniform(uint32_t value) { return uniform_value(value); }
};
// Limit of pages in flight once the record's inputs are ready: from then on the memory system may be kept
// full.
inline constexpr uint32_t kPagesInFlight = 6;

inline constexpr uint32_t kRecordBuffers = 8;
inline constexpr uint32_t kRecordReaders = 2 + kConsumerWarps + kStorerWarps;
inline constexpr uint32_t kActivationRowBytes = activation_image::kRowBytes;
inline constexpr uint32_t kPartialBuffers = 16;

// Counts of a consumer warp of a kernel of tiles, kept from record to record (ConsumerRole::save_counts()).
struct alignas(16) ConsumerCounts {
  uint32_t record, page, unit, panel, stored_seen, parity, warpgroup_parity, tile;
};

// Location of a chain's pages, in kernels in tile order. The loader has one for each chain that it streams at
// the same time.
struct alignas(16) ChainPages {
  const std::byte* first;  // first page
  uint32_t first_panel;
  uint32_t panels;
};

// Units of a record whose pages are contiguous, of one matrix. The loader of vectors keeps them here because
// it has no registers left.
struct alignas(16) PageRun {
  const std::byte* first;  // of unit `begin`
  uint32_t begin;
  uint32_t units;
};

template <class ConfigOf>
struct Shared {
  using Config = ConfigOf;
  static_assert(Config::kScratchBytes >= kScratchBytes,
                "every instruction may rely on this much scratch memory");
  static_assert(Config::kPanelBuffers * Config::kPanelBytes <= Config::kScratchBytes);
  static_assert(Config::kSharedRows == 0 || Config::kRows <= Config::kSharedRows,
                "the table of rows holds a pass");

  alignas(kScratchAlignment) std::byte ring[Config::kRingPages][Config::kRingPageBytes];
  // Panels of activations, or the scratch memory of a group instruction.
  alignas(kScratchAlignment) std::byte activations[Config::kScratchBytes];
  alignas(16) float partials[Config::kPartialBytes / sizeof(float)];
  RecordBuffer records[kRecordBuffers];
  PassRow rows[Config::kSharedRows == 0 ? 1 : Config::kSharedRows];  // of the current pass
  ConsumerCounts consumer_counts[Config::kMultipliesTiles ? kConsumerWarps : 1];
  uint64_t record_ready[kRecordBuffers];
  uint64_t record_free[kRecordBuffers];
  uint64_t inputs_ready[kRecordBuffers];                 // all waits of the record are over
  uint64_t panel_landed[Config::kActivationRowBuffers];  // of activations, by count of panels
  uint64_t
      panel_free[Config::kMultipliesTiles ? Config::kPanelBuffers : 1];  // of a kernel of tiles, likewise
  uint64_t page_landed[Config::kRingPages];
  uint64_t page_free[Config::kRingPages];
  uint64_t consumer_barrier;
  uint64_t warpgroup_barrier[kConsumerWarps / kWarpgroupWarps];
  uint64_t tokens_ready[2];  // kernels of tiles: the storers have looked up a tile's tokens; indexed by the
                             // count of tiles
  uint32_t storers_done[kRecordBuffers];  // storers that have finished a record, if it has several
  // Counts that only grow within a launch, so that no two laps of a ring are confused. Exceptions: storers
  // reset the last two.
  uint32_t pages_issued;
  uint32_t panels_issued;
  uint32_t panels_released[kConsumerWarps];  // by consumer warp: panels that it no longer needs
  uint32_t tiles_used[kConsumerWarps];       // by consumer warp: tiles whose look-ups it no longer needs
  uint32_t units_stored[kStorerWarps];      // by storer: it has stored its share of all units before this one
  uint32_t records_waited;                  // records whose waits are over
  uint32_t records_stored;                  // records whose signals have been sent
  uint32_t unit_arrivals[kPartialBuffers];  // partial results of a unit that have been written
  uint32_t tiles_stored[kPartialBuffers];   // tiles of a unit's rows that have been stored
  // The program's, copied from the kernel's argument. The compiler would keep what it derives from an
  // argument in registers from record to record; what lies in shared memory it reads again.
  ProgramShape shape;
  ExitFlag exit;
  JointStart products[kConsumerWarps / kWarpgroupWarps];  // one for each warpgroup, in kernels of tiles
  PageRun page_runs[Config::kMultipliesTiles || Config::kTileOrder ? 1 : 2];  // for each matrix
  ChainPages chains[Config::kTileOrder && !Config::kMultipliesTiles ? kConsumerWarps : 1];
};
inline constexpr size_t kMaxSharedBytes = 227 * 1024;  // limit of a block, on Hopper

}  // namespace serval::device

// A block's shared memory and the shape of a block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/device/group.cuh"
#include "vm/device/launch.h"
#include "vm/instruction.h"
#include "vm/layout/activation_image.h"
#include "vm/layout/slab_image.h"
#include "vm/machine.h"
#include "vm/state/rows.h"

namespace serval::device {

// Warpgroup 0: controller, loader, preparer, and one warp that leaves last and has other work only where
// events are recorded; warpgroup 1: storers; then consumers. The copy engine's users need few registers, and
// consumers hold a page each.
inline constexpr uint32_t kControllerWarp = 0;
inline constexpr uint32_t kLoaderWarp = 1;
inline constexpr uint32_t kPreparerWarp = 2;
inline constexpr uint32_t kFirstStorerWarp = 4;
inline constexpr uint32_t kStorerWarps = 4;
inline constexpr uint32_t kFirstConsumerWarp = 8;
inline constexpr uint32_t kBlockThreads = (kFirstConsumerWarp + kConsumerWarps) * kWarpThreads;
// 4 warps of each kind: 40 + 80 + 2 × 192 registers make 504.
inline constexpr uint32_t kServiceRegisters = 40;
inline constexpr uint32_t kStorerRegisters = 80;
inline constexpr uint32_t kConsumerRegisters = 192;
inline constexpr uint32_t kPartialBytes = 8 * 1024;

// What a kernel is compiled for: the most rows that a pass may have, a power of two, which memory is laid out
// for; and how a block's memory is divided.
template <uint32_t kRowsOf, uint32_t kRingPagesOf, uint32_t kScratchKib, uint32_t kActivationRows>
struct KernelConfig {
  static constexpr bool kMultipliesTiles = false;
  static constexpr bool kTileOrder = false;  // products are added up as in kernels that multiply tiles
  static constexpr bool kHasPeers = false;   // for programs of several devices
  // Pages issued and not landed while the SM waits for counters: every one lengthens the queue that its polls
  // and its activations wait in.
  static constexpr uint32_t kPagesInFlightBeforeInputs = 3;
  static constexpr uint32_t kRows = kRowsOf;
  static constexpr uint32_t kRingPages = kRingPagesOf;
  static constexpr uint32_t kPageReaders = 1;                    // consumer warps that read a page
  static constexpr uint32_t kScratchBytes = kScratchKib * 1024;  // for instructions that run as a group
  static constexpr uint32_t kActivationRowBuffers =
      kActivationRows;  // the same memory, a row of a panel each
  // Panels of activations lie in buffers; a buffer holds one panel of every row that may be active. Their
  // number is a power of two, so that finding one takes no division.
  static constexpr uint32_t kPanelBuffers = kActivationRowBuffers / kRows;
  static constexpr uint32_t kPanelBytes = kRows * activation_image::kRowBytes;
  static constexpr uint32_t kPartialBytes = device::kPartialBytes;  // for results that storers will finish
  static constexpr uint32_t kSharedRows = kTableRows;               // of the pass, in shared memory
  static constexpr uint32_t kStorerRegisters = device::kStorerRegisters;
  static constexpr uint32_t kConsumerRegisters = device::kConsumerRegisters;

  static __device__ __forceinline__ uint32_t uniform(uint32_t value) { return value; }
};
// The value of the warp's first lane, for all: the compiler then knows that the warp stays together, without
// which it would not let a warpgroup's products overlap.
__device__ __forceinline__ uint32_t uniform_value(uint32_t value) {
  return __shfl_sync(kAllLanes, value, 0);
}
// The same of a kernel for one row that adds up as kernels of GEMMs do
// (instructions/product/orders/vector_in_tile_order.cuh), and has their attention.
template <uint32_t kRingPages, uint32_t kScratchKib, uint32_t kActivationRows>
struct TileOrderConfig : KernelConfig<1, kRingPages, kScratchKib, kActivationRows> {
  static constexpr bool kTileOrder = true;
  static constexpr bool kHasNarrowTiles = true;
  static constexpr bool kHasFullTiles = false;

  static __device__ __forceinline__ uint32_t uniform(uint32_t value) { return uniform_value(value); }
};
// The same of a kernel whose products are GEMMs: the tokens of a tile take the place of a pass's rows.
template <uint32_t kRowsOf, uint32_t kTileTokensOf, uint32_t kRingPagesOf, uint32_t kScratchKib>
struct GemmConfig {
  static constexpr bool kMultipliesTiles = true;
  static constexpr bool kTileOrder = true;
  static constexpr bool kHasPeers = false;
  static constexpr bool kHasWideTiles =
      false;  // of two matrices (instructions/product/orders/tile_stream.cuh)
  // All that there is room for: a stage of many rows takes so long that slower polls do not matter.
  static constexpr uint32_t kPagesInFlightBeforeInputs = kRingPagesOf;
  static constexpr uint32_t kRows = kRowsOf;
  static constexpr uint32_t kTileTokens = kTileTokensOf;
  static constexpr uint32_t kRingPages = kRingPagesOf;
  static constexpr uint32_t kPageReaders = kConsumerWarps;
  static constexpr uint32_t kScratchBytes = kScratchKib * 1024;
  // Slabs of activations that come together: products of few tokens take less time than waiting for one.
  static constexpr uint32_t kPanelSlabs = kTileTokens <= 64 ? 2 : 1;
  // Attention of few rows has code of its own: not beside that of prompts in large tiles, which it slows
  // down.
  static constexpr bool kHasNarrowTiles = kTileTokens <= 64;
  static constexpr bool kHasFullTiles = true;
  // Tiles of half as many tokens take half as long, by code of their own, which leaves the attention of
  // prompts too few registers.
  static constexpr bool kLeavesOutTokens = false;
  static constexpr uint32_t kSlabBytes = kTileTokens * slab_image::kRowBytes;
  static constexpr uint32_t kPanelBytes = kPanelSlabs * kSlabBytes;
  static constexpr uint32_t kPanelBuffers = kScratchBytes / kPanelBytes;
  static constexpr uint32_t kActivationRowBuffers = kPanelBuffers;
  static constexpr uint32_t kPartialBytes = 24 * 1024;
  static constexpr uint32_t kSharedRows = 0;  // they stay in GPU memory
  static constexpr uint32_t kStorerRegisters = 40;
  static constexpr uint32_t kConsumerRegisters = 216;

  static __device__ __forceinline__ uint32_t uniform(uint32_t value) { return uniform_value(value); }
};
// Pages issued and not landed, once the record's inputs are there: the memory system may be kept full then.
inline constexpr uint32_t kPagesInFlight = 6;

inline constexpr uint32_t kRecordBuffers = 8;
inline constexpr uint32_t kRecordReaders = 2 + kConsumerWarps + kStorerWarps;
inline constexpr uint32_t kFetchedWaits = 16;  // further ones are read from global memory
inline constexpr uint32_t kFetchedSignals = 8;
inline constexpr uint32_t kActivationRowBytes = activation_image::kRowBytes;
inline constexpr uint32_t kPartialBuffers = 16;

inline constexpr uint32_t kStreamPlanBytes = 96;

// What a consumer warp of a GEMM kernel counts from record to record (ConsumerRole::save_counts()).
struct alignas(16) ConsumerCounts {
  uint32_t record, page, unit, panel, stored_seen, parity, warpgroup_parity, tile;
};

// Where a chain of products finds its pages, in a kernel in tile order: of the chains that are streamed
// together, the loader's own.
struct alignas(16) ChainPages {
  const std::byte* first;  // page
  uint32_t first_panel;
  uint32_t panels;
};

struct ResolvedTarget {
  uint32_t counter;
  uint32_t target;
};

// RecordBuffer::stream of a group instruction; streams are counted from 1.
inline constexpr uint32_t kNoStream = 0;

// A fetched and checked instruction.
struct alignas(16) RecordBuffer {
  Instruction record;
  void* operands[kMaxTensorOperands];
  ResolvedTarget waits[kFetchedWaits];
  Signal signals[kFetchedSignals];
  alignas(16) std::byte plan[kStreamPlanBytes];  // the stream's Plan, of a streaming instruction
  uint32_t stream;        // kNoStream, or which of the instruction set's streams runs it
  uint32_t starts_early;  // 1: a group instruction that waits for its inputs itself
  uint32_t pc;
  uint32_t pass;
  uint32_t begins_pass;     // 1: the first of its pass on this SM
  uint32_t ends_launch;     // 1: no record; the gate of its pass is the end
  uint32_t passes_gate_on;  // 1: consumers that are done with it know that the gate of its pass is open
};

template <class ConfigOf>
struct Shared {
  using Config = ConfigOf;
  static_assert(Config::kScratchBytes >= kScratchBytes, "what every instruction may rely on");
  static_assert(Config::kPanelBuffers * Config::kPanelBytes <= Config::kScratchBytes);
  static_assert(Config::kSharedRows == 0 || Config::kRows <= Config::kSharedRows,
                "the table of rows holds a pass");

  alignas(kScratchAlignment) std::byte ring[Config::kRingPages][kPageBytes];
  // Activations, or the scratch memory of an instruction that runs as a group.
  alignas(kScratchAlignment) std::byte activations[Config::kScratchBytes];
  alignas(16) float partials[Config::kPartialBytes / sizeof(float)];
  RecordBuffer records[kRecordBuffers];
  PassRow rows[Config::kSharedRows == 0 ? 1 : Config::kSharedRows];  // of the pass whose instructions run
  ConsumerCounts consumer_counts[Config::kMultipliesTiles ? kConsumerWarps : 1];
  uint64_t record_ready[kRecordBuffers];
  uint64_t record_free[kRecordBuffers];
  uint64_t inputs_ready[kRecordBuffers];                 // the record's waits are over
  uint64_t panel_landed[Config::kActivationRowBuffers];  // of activations, by count of panels
  uint64_t panel_free[Config::kMultipliesTiles ? Config::kPanelBuffers : 1];  // of a GEMM kernel, likewise
  uint64_t page_landed[Config::kRingPages];
  uint64_t page_free[Config::kRingPages];
  uint64_t consumer_barrier;
  uint64_t warpgroup_barrier[kConsumerWarps / kWarpgroupWarps];
  uint64_t tokens_ready[2];  // what storers look up for a GEMM's consumers is there, by count of tiles
  uint32_t storers_done[kRecordBuffers];  // of a record's storers, if it has several
  // Monotonic within a launch, so that no lap is mistaken for another; except the last two, which
  // storers set back.
  uint32_t pages_issued;
  uint32_t panels_issued;
  uint32_t panels_released[kConsumerWarps];  // panels that a consumer warp is done with
  uint32_t tiles_used[kConsumerWarps];       // of what storers looked up, by a consumer warp
  uint32_t units_stored[kStorerWarps];       // a storer's own units before this one are stored
  uint32_t records_waited;                   // records whose waits are over
  uint32_t records_stored;                   // how many records' signals are out
  uint32_t unit_arrivals[kPartialBuffers];   // partial results of a unit that are in place
  uint32_t tiles_stored[kPartialBuffers];    // tiles of a unit's rows that are stored
  ExitFlag exit;
  JointStart products[kConsumerWarps / kWarpgroupWarps];  // of each warpgroup, in kernels of tiles
  ChainPages chains[Config::kTileOrder && !Config::kMultipliesTiles ? kConsumerWarps : 1];
};
inline constexpr size_t kMaxSharedBytes = 227 * 1024;  // of a block, on Hopper

}  // namespace serval::device

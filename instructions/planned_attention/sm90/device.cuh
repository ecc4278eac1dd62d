#pragma once

#include "instructions/planned_attention/sm90/copies.cuh"
#include "instructions/planned_attention/sm90/full_tile.cuh"
#include "instructions/planned_attention/sm90/narrow_tile.cuh"

namespace serval::device {

template <>
struct DeviceOp<PlannedAttention> : GroupOp {
  using Op = PlannedAttention;

  // A kernel has code for one head size.
  template <class Config>
  static __device__ bool in_range(const Op& op, const ProgramShape& program) {
    constexpr uint32_t kMostHeads = Config::kHasFullTiles ? planned::kTileRows : planned::kNarrowRows;
    return op.record < op.records && op.records <= kMaxSms && program.heads.group_heads() <= kMostHeads &&
           program.heads.head_dim == Config::kHeadDim;
  }

  // Replaces the preparer's work for other group instructions (vm/device/sm90/kernel.cuh).
  template <class Role>
  static __device__ __forceinline__ void prepare(Role& role, const Op& op) {
    planned::Copies<Role, Role::Config::kHeadDim> copies(role, op);
    copies.init_barriers();
    // The SM's first record of a pass can read the pass's rows only after waiting.
    const bool knows_rows = role.buffer->begins_pass == 0;
    if (knows_rows) copies.find_first_stream();
    role.wait_inputs(role.recorder, [&] { copies.while_waiting(); });
    role.publish_scratch();
    if (!knows_rows) copies.find_first_stream();
    copies.run();
  }

  template <class Config>
  static __device__ __forceinline__ void run(const Op& op, const Group& group) {
    using Memory = planned::PlacesOf<Config, Config::kHeadDim>;
    Group mine = group;
    asm volatile("" : "+r"(mine.lane));  // keeps address arithmetic here
    auto& memory = *reinterpret_cast<Memory*>(mine.scratch);
    planned::JointRun& joint_run = memory.joint_runs[mine.warp / kWarpgroupWarps];
    joint_run.start.begin(mine.lane, mine.exit);
    work<Config>(op, mine);
    joint_run.end(mine.lane);
    mine.sync();  // all warps are done with the barriers
    if (mine.thread == 0) memory.invalidate_barriers();
  }

 private:
  template <class Config>
  using StreamIn = typename planned::PlacesOf<Config, Config::kHeadDim>::Stream;

  // Runs the warp's part of all streams of the record.
  template <class Config>
  static __device__ __forceinline__ void work(const Op& op, const Group& group) {
    using Memory = planned::PlacesOf<Config, Config::kHeadDim>;
    uint32_t narrow_parity = 0;
    if constexpr (Config::kHasFullTiles) {
      planned::FullTile<Config, Config::kHeadDim> tile(op, group);
      for_streams<Config>(
          group, [&](const Memory& memory, const StreamIn<Config>& stream, uint32_t n, uint32_t page) {
            if (is_narrow<Config>((stream.item.rows - stream.first_row) * memory.heads.count)) {
              work_narrow<Config>(op, group, stream, n, page, narrow_parity);
            } else {
              tile.run(stream, n, page);
            }
          });
    } else {
      for_streams<Config>(group,
                          [&](const Memory&, const StreamIn<Config>& stream, uint32_t n, uint32_t page) {
                            work_narrow<Config>(op, group, stream, n, page, narrow_parity);
                          });
    }
  }
  // Calls work(memory, stream, its number, its first page) for each stream.
  template <class Config, class Work>
  static __device__ __forceinline__ void for_streams(const Group& group, Work&& work) {
    using Memory = planned::PlacesOf<Config, Config::kHeadDim>;
    auto& memory = *reinterpret_cast<Memory*>(group.scratch);
    uint32_t page = 0;
#pragma unroll 1
    for (uint32_t n = 0;; ++n) {
      const uint32_t at = n % Memory::kStreamSlots;
      const uint32_t parity = n / Memory::kStreamSlots & 1;
      if (!planned::wait_unless_left(&memory.stream_ready[at], parity, &memory.preparer_left)) {
        memory.joint_runs[group.warp / kWarpgroupWarps].end(group.lane);
        ptx::exit_thread();
      }
      const StreamIn<Config>& stream = memory.streams[at];
      const uint32_t blocks = Config::uniform(stream.blocks);
      if (blocks == 0) return;
      work(memory, stream, n, page);
      page += 2 * blocks * (Memory::kSingleRows ? Config::uniform(stream.heads) : 1);
      __syncwarp();
      if (group.lane == 0) ptx::mbarrier_arrive(&memory.stream_free[at]);
    }
  }
  template <class Config>
  static __device__ __forceinline__ bool is_narrow(uint32_t queries) {
    if constexpr (!Config::kHasNarrowTiles) return false;
    return Config::uniform(queries) <= planned::kNarrowRows;
  }
  // Computes its addresses again: during a full tile there are no registers for them.
  template <class Config>
  static __device__ __forceinline__ void work_narrow(const Op& op, const Group& group,
                                                     const StreamIn<Config>& stream, uint32_t n,
                                                     uint32_t page, uint32_t& parity) {
    if constexpr (Config::kHasNarrowTiles) {
      Group mine = group;
      asm volatile("" : "+r"(mine.lane));
      planned::NarrowTile<Config, Config::kHeadDim> tile(op, mine, parity);
      if constexpr (Config::kHasFullTiles) {
        tile.run(stream, n, page);
      } else {
        tile.run_single(stream, n, page);
      }
    }
  }
};

}  // namespace serval::device

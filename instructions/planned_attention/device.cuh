#pragma once

#include "instructions/planned_attention/copies.cuh"
#include "instructions/planned_attention/tile.cuh"

namespace serval::device {

template <>
struct DeviceOp<PlannedAttention> : GroupOp {
  using Op = PlannedAttention;

  // A kernel has the code for one size of heads.
  template <class Config>
  static __device__ bool in_range(const Op& op) {
    return op.record < op.records && op.records <= kMaxSms && op.kv_heads != 0 &&
           op.q_heads / op.kv_heads <= planned::kTileRows && op.q_heads % op.kv_heads == 0 &&
           op.q_heads >= op.kv_heads && op.head_dim == Config::kHeadDim;
  }

  // The preparer's: instead of what it does for other group instructions (vm/device/kernel.cuh).
  template <class Role>
  static __device__ __forceinline__ void prepare(Role& role, const Op& op) {
    planned::Copies<Role, Role::Config::kHeadDim> copies(role, op);
    copies.init_barriers();
    // The first record of a pass on an SM does not know the pass's rows before it waits.
    const bool knows_rows = role.buffer->begins_pass == 0;
    if (knows_rows) copies.find_first_stream();
    role.wait_inputs(role.recorder);
    role.hand_over_scratch();
    if (!knows_rows) copies.find_first_stream();
    copies.run();
  }

  template <class Config>
  static __device__ __forceinline__ void run(const Op& op, const Group& group) {
    using Tile = planned::Tile<Config, Config::kHeadDim>;
    Group mine = group;
    asm volatile("" : "+r"(mine.lane));  // address arithmetic stays in here
    Tile(op, mine).run();
    mine.sync();  // all are done with the barriers
    if (mine.thread != 0) return;
    auto& memory = *reinterpret_cast<typename Tile::Memory*>(mine.scratch);
    for (uint64_t& barrier : memory.landed) ptx::mbarrier_invalidate(&barrier);
    for (uint64_t& barrier : memory.free) ptx::mbarrier_invalidate(&barrier);
    for (uint64_t& barrier : memory.stream_ready) ptx::mbarrier_invalidate(&barrier);
    for (uint64_t& barrier : memory.stream_free) ptx::mbarrier_invalidate(&barrier);
    for (uint64_t& barrier : memory.together) ptx::mbarrier_invalidate(&barrier);
  }
};

}  // namespace serval::device

#pragma once

#include "instructions/attention/leaves.cuh"
#include "vm/device/op.cuh"

namespace serval::device {

template <>
struct DeviceOp<Attention> : GroupOp {
  static constexpr bool kStartsEarly = true;

  static __device__ bool in_range(const Attention& op, const ProgramShape& program) {
    // Token counts may reach beyond the end of the last leaf by one round of splits.
    constexpr uint64_t kMaxLeaves = (uint64_t{1} << 32) / kLeafTokens;
    return op.kv_head < program.heads.kv_heads && op.split < op.splits &&
           uint64_t{leaves_for_tokens(program.limits.max_context)} + op.splits < kMaxLeaves;
  }

  template <class Config>
  static __device__ __forceinline__ void run(const Attention& op, const Group& group) {
    // Makes the lane opaque to the compiler: address arithmetic stays here instead of occupying registers
    // while other instructions run.
    Group mine = group;
    asm volatile("" : "+r"(mine.lane));
    if constexpr (Config::kHeadDim == 0) {
      group.shape.heads.head_dim == 64 ? run_head_dim<Config, 64>(op, mine)
                                       : run_head_dim<Config, 128>(op, mine);
    } else {
      run_head_dim<Config, Config::kHeadDim>(op, mine);
    }
  }

 private:
  template <class Config, uint32_t kHeadDim>
  static __device__ __forceinline__ void run_head_dim(const Attention& op, const Group& group) {
    using namespace attention;
    using Few = FewQueries<Config, kHeadDim>;
    if constexpr (Config::kRows == 1) {
      Few(op, group).run();
    } else if (Queries(group).end(most_rows_of_a_slot(group)) <= Few::kQueries) {
      Few(op, group).run();
    } else {
      ManyQueries<Config, kHeadDim>(op, group).run();
    }
  }
};

}  // namespace serval::device

#pragma once

#include "instructions/attention/leaves.cuh"
#include "vm/device/op.cuh"

namespace serval::device {

template <>
struct DeviceOp<Attention> : GroupOp {
  static constexpr bool kStartsEarly = true;

  static __device__ bool in_range(const Attention& op) {
    // Tokens are counted to the end of the last leaf and a round of lanes further.
    constexpr uint64_t kMaxLeaves = (uint64_t{1} << 32) / kLeafTokens;
    return op.kv_head < op.kv_heads && op.lane < op.lanes &&
           uint64_t{leaves_for_tokens(op.max_context)} + op.lanes < kMaxLeaves;
  }

  static __device__ __forceinline__ void run(const Attention& op, const Group& group) {
    using namespace attention;
    // A lane that the compiler knows nothing of: address arithmetic stays in here, instead of holding
    // registers while other instructions run.
    Group mine = group;
    asm volatile("" : "+r"(mine.lane));
    const bool few = Queries(op).end(most_rows_of_a_slot(mine)) <= FewQueries<64>::kQueries;
    if (op.head_dim == 64) {
      if (few) {
        FewQueries<64>(op, mine).run();
      } else {
        ManyQueries<64>(op, mine).run();
      }
    } else if (few) {
      FewQueries<128>(op, mine).run();
    } else {
      ManyQueries<128>(op, mine).run();
    }
  }
};

}  // namespace serval::device

// How an instruction runs on the GPU: the specialisation DeviceOp<Op> in its folder's device.cuh. There are
// two kinds.
//
// A group instruction is one function of all consumer threads, called once its inputs may be read:
//
//   run(op, group)             vm/device/group.cuh
//
// A streaming instruction works on pages that wait for nobody, such as weights. Four roles work on different
// instructions at the same time; what differs from one streaming instruction to another is
//
//   plan(launch, slot, op)     numbers and addresses that preparers and consumers work by
//   pages_of(slot, op, unit, matrix)  where its pages are
//   store(role, op)            storer: results to global memory; the signals follow
//
// and what they share is the instruction set's Stream (instructions/common/matvec.cuh): `Plan`, and the
// functions load(LoaderRole&, const Plan&, pages_of), prepare(PreparerRole&, const Plan&) and
// consume(ConsumerRole&, const Plan&). One copy of these in
// the kernel serves all of them, which keeps the kernel small enough for the instruction cache.
//
// Both kinds have in_range(op): every index that is derived from the operands is inside its tensor.
#pragma once

#include "vm/device/roles.cuh"

namespace serval::device {

template <class Op>
struct DeviceOp;

template <class Op>
concept StreamingOp = requires(const Op& op, const Launch& launch, const RecordSlot& slot) {
  DeviceOp<Op>::plan(launch, slot, op);
};

// Defaults of group instructions.
struct GroupOp {
  template <class Op>
  static __device__ bool in_range(const Op&) {
    return true;
  }
};

}  // namespace serval::device

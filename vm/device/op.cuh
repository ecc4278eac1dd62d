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
//   shape(slot, op)            what it works on: a Stream::Shape
//   pages_of(slot, op, unit, matrix)  where its pages are
//
// and whatever storing its results takes. What they share is the instruction set's Stream
// (instructions/common/matvec.cuh): `Plan`, which all
// roles work by, and the functions plan(const Launch&, const Shape&), load(LoaderRole&, const Plan&,
// pages_of), prepare(PreparerRole&, const Plan&), consume(ConsumerRole&, const Plan&) and store(StorerRole&,
// const Plan&, with_op), whose results are in global memory when it returns; the signals follow.
// with_op(visit) calls visit(op) for the record's instruction. One copy of these in the kernel serves all of
// them, which keeps the kernel small enough for the instruction cache.
//
// Both kinds have in_range(op): every index that is derived from the operands is inside its tensor.
#pragma once

#include "vm/device/roles.cuh"

namespace serval::device {

template <class Op>
struct DeviceOp;

template <class Op>
concept StreamingOp = requires(const Op& op, const RecordSlot& slot) {
  DeviceOp<Op>::shape(slot, op);
};

// Defaults of group instructions.
struct GroupOp {
  // True if `run` calls group.wait_inputs() itself, before it reads or writes what other instructions of the
  // pass do.
  static constexpr bool kStartsEarly = false;
  // True if it does so even as its SM's first of a pass, and reads nothing but weights and constants before,
  // the pass's rows not either.
  static constexpr bool kStartsBeforeGate = false;

  template <class Op>
  static __device__ bool in_range(const Op&) {
    return true;
  }
};

}  // namespace serval::device

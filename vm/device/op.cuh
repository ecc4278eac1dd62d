// How an instruction runs on the GPU: the specialisation DeviceOp<Op> in its folder's device.cuh. There are
// two kinds.
//
// A group instruction is one function of all consumer threads, called once its inputs may be read:
//
//   run(op, group)             vm/device/group.cuh; or run<Config>(op, group), where it depends on what the
//                              kernel is compiled for (vm/device/shared.cuh)
//
// It may bring its inputs by bulk copies of its own: prepare(role, op) is then called by the preparer's warp
// when the scratch memory is free. It calls role.wait_inputs(role.recorder), then role.hand_over_scratch(),
// and before it lets a warp leave, it waits for its copies.
//
// A streaming instruction works on pages that need no wait, such as weights. Four roles work on different
// instructions at the same time; what differs from one streaming instruction to another is
//
//   shape(buffer, op)            what it works on: the stream's Shape
//
// and whatever finding its pages and storing its results takes. A stream is a way in which pages meet
// activations, such as instructions/product/orders/vector_stream.cuh. An instruction set names the streams
// that its kernels have; an instruction runs on the first of them whose Shape it gives. A stream is a struct
// with `Op<T>`, what instruction T says in the stream's terms (DeviceOp<T>, or a template of the stream's
// own), `Plan`, which all roles work by, `Pages`, and the functions
//
//   pages_of(role, op, unit, matrix)    where its pages are: Pages
//   plan<Config>(launch, shape)         the Plan
//   has_panels(plan)                    of activations: its consumers wait for them, and so for its inputs
//   load(role, plan, pages_of), prepare(role, plan), consume(role, plan, with_op, signal)
//
// With kConsumersStore, consumers store what they have computed and call signal(), upon which a storer
// signals; storers only help:
//
//   look_up(role, plan)                 called by all storers
//
// Without, consumers leave their results for the storers:
//
//   units(plan)                         units of results
//   storers<Config>(plan)               storers that have something to store: 1 to kStorerWarps
//   store(role, plan, with_op, stored)  calls stored() once this warp has stored all of its own: a record's
//                                       only storer signals there, of several the last one does later
//
// with_op(visit) calls visit(op) for the record's instruction. One copy of these in the kernel serves all of
// them, which keeps the kernel small enough for the instruction cache.
//
// Both kinds have in_range(op): every index that is derived from the operands is inside its tensor; or
// in_range<Config>(op), where it depends on what the kernel is compiled for.
#pragma once

#include <concepts>

#include "vm/device/roles.cuh"

namespace serval::device {

template <class Op>
struct DeviceOp;

// The stream can run the instruction, which says what it works on in the stream's terms.
template <class Stream, class Op>
concept Streams = requires(const Op& op, const RecordBuffer& buffer) {
  { Stream::template Op<Op>::shape(buffer, op) } -> std::same_as<typename Stream::Shape>;
};

// Runs a group instruction, in a kernel that is compiled for Config.
template <class Config, class Op>
__device__ __forceinline__ void run_group(const Op& op, const Group& group) {
  if constexpr (requires { DeviceOp<Op>::template run<Config>(op, group); }) {
    DeviceOp<Op>::template run<Config>(op, group);
  } else {
    DeviceOp<Op>::run(op, group);
  }
}

// Whether an instruction's operands are in range, in a kernel that is compiled for Config. OnDevice: what
// runs it, DeviceOp<Op> or its stream's Op<Op>.
template <class Config, class OnDevice, class Op>
__device__ __forceinline__ bool in_range_for(const Op& op) {
  if constexpr (requires { OnDevice::template in_range<Config>(op); }) {
    return OnDevice::template in_range<Config>(op);
  } else {
    return OnDevice::in_range(op);
  }
}

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

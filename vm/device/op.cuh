// How an instruction runs on the GPU: the specialisation DeviceOp<Op> in its folder's device.cuh. There are
// two kinds.
//
// A group instruction is one function of all consumer threads, called once its inputs may be read:
//
//   run(op, group)             vm/device/group.cuh; or run<Config>(op, group), where it depends on what the
//                              kernel is compiled for (vm/device/sm90/shared.cuh)
//
// It may load its inputs by its own bulk copies: the preparer's warp then calls prepare(role, op) when the
// scratch memory is free. prepare() calls role.wait_inputs(role.recorder), then role.publish_scratch().
// Before it lets a warp leave the kernel, it waits for its copies.
//
// A streaming instruction works on pages that need no wait, such as weights. Four roles work on different
// instructions at the same time. A streaming instruction defines
//
//   shape(buffer, op, program)   what it works on: the stream's Shape. `program` is the program's shape
//
// and whatever the stream needs to find its pages and to store its results. A stream is a way in which pages
// meet activations, such as instructions/product/orders/vector_stream.cuh. An instruction set lists the
// streams of its kernels; an instruction runs on the first of them for which it defines a shape. A stream is
// a struct with `Op<T>`, which describes instruction T to the stream (DeviceOp<T>, or a template of the
// stream's own), `Plan`, which all roles follow, `Pages`, and the functions
//
//   pages_of(role, op, unit, matrix)    where its pages are: Pages
//   plan<Config>(launch, shape)         the Plan
//   has_panels(plan)                    true: consumers wait for panels of activations, and so for the inputs
//   load(role, plan, pages_of), prepare(role, plan), consume(role, plan, with_op, signal)
//
// With kConsumersStore, consumers store their results and call signal(); then a storer signals. Storers only
// help:
//
//   look_up(role, plan, with_op)        called by all storers
//
// Without it, consumers leave their results to the storers:
//
//   units(plan)                         units of results
//   storers<Config>(plan)               storers that have something to store: 1 to kStorerWarps
//   store(role, plan, with_op, stored)  calls stored() once this warp has stored all of its own: the only
//                                       storer of a record signals there; the last of several signals later
//
// with_op(visit) calls visit(op) for the record's instruction. The kernel has one copy of the stream's
// functions for all instructions, which keeps it small enough for the instruction cache.
//
// Both kinds have in_range(op, program), which is true if every index derived from the operands and the
// program's shape is inside its tensor; or in_range<Config>(op, program), where it depends on what the kernel
// is compiled for.
#pragma once

#include <concepts>

#include "vm/device/group.cuh"
#include "vm/device/record.cuh"

namespace serval::device {

template <class Op>
struct DeviceOp;

// True if `Stream` can run `Op`, because `Op` has a shape in the stream's terms.
template <class Stream, class Op>
concept Streams = requires(const Op& op, const RecordBuffer& buffer, const ProgramShape& program) {
  { Stream::template Op<Op>::shape(buffer, op, program) } -> std::same_as<typename Stream::Shape>;
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

// True if an instruction's operands are in range, in a kernel that is compiled for Config. OnDevice: what
// runs it, DeviceOp<Op> or its stream's Op<Op>.
template <class Config, class OnDevice, class Op>
__device__ __forceinline__ bool in_range_for(const Op& op, const ProgramShape& program) {
  if constexpr (requires { OnDevice::template in_range<Config>(op, program); }) {
    return OnDevice::template in_range<Config>(op, program);
  } else {
    return OnDevice::in_range(op, program);
  }
}

// Defaults of group instructions.
struct GroupOp {
  // True if `run` calls group.wait_inputs() itself, before it touches anything that other instructions of the
  // pass read or write.
  static constexpr bool kStartsEarly = false;
  // True if it may start early even as its SM's first record of a pass: before wait_inputs() it reads only
  // weights and constants, and not the pass's rows.
  static constexpr bool kStartsBeforeGate = false;

  template <class Op>
  static __device__ bool in_range(const Op&, const ProgramShape&) {
    return true;
  }
};

}  // namespace serval::device
